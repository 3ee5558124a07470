"""Every model of ours passes the contract of models: the adapters over real SDKs, the wrappers, and the script."""

import asyncio

from harness.wires.replying import Replying

from minideep import ModelError
from minideep.models import FallbackModel, RateLimiter, ScriptedModel
from minideep.testing import ModelContract


class OverAWire(ModelContract):
    """A model behind an SDK and a server on loopback."""

    kind = ""
    provider = None

    def make(self, answer, folder):
        self.provider = Replying(self.kind, answer)
        self.provider.__enter__()
        return self.provider.model()

    async def aclose(self, model):
        await self.provider.close_clients()

    def close(self, model):
        self.provider.__exit__()


class TestAnthropic(OverAWire):
    kind = "anthropic"


class TestOpenAI(OverAWire):
    kind = "openai"


class TestOpenAIChat(OverAWire):
    kind = "openai-chat"


def scripted(answer):
    async def reply(request):
        said = answer(request.messages[-1].text)
        return said if said is not None else await asyncio.Event().wait()

    return ScriptedModel(reply)


class TestScripted(ModelContract):
    def make(self, answer, folder):
        return scripted(answer)


class TestFallback(ModelContract):
    """The first model never works; the contract holds for what the second one does."""

    def make(self, answer, folder):
        def broken(request):
            error = ModelError("out of order")
            error.transient = True
            return error

        return FallbackModel([ScriptedModel(broken), scripted(answer)])


class TestRateLimiter(ModelContract):
    def make(self, answer, folder):
        return RateLimiter(scripted(answer), 4, initial_backoff=0.001, max_backoff=0.002)


class TestRateLimitedFallbackOverAWire(OverAWire):
    kind = "openai-chat"

    def make(self, answer, folder):
        return RateLimiter(FallbackModel([super().make(answer, folder)]), 4, initial_backoff=0.001, max_backoff=0.002)
