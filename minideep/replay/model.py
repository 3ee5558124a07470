"""`RecordedModel`: the replies of a recorded thread as a model."""

from typing import Any

from msgspec import structs

from ..context import DRIVEN
from ..errors import ConfigError, ModelError
from ..events import TextDelta, ThinkingDelta
from ..messages import Text, Thinking, Usage
from ..ports import Emit, Reply, Request
from .recording import RecordedReply
from .script import Script


class RecordedModel:
    """Answers each request with the reply that was recorded at its place: in the same run, turn and step.

    Replies cost and take the tokens that they did, and name the model that gave them. A request at any other place
    fails: the error says which one.
    """

    name = "recorded"
    states_cost = True

    def __init__(self, script: Script) -> None:
        self._script = script
        self.requests: list[Request] = []
        """What it was asked."""
        self._given: set[int] = set()
        """The numbers of the replies that were given: asked for again, they cost nothing."""

    def __repr__(self) -> str:
        return f"<RecordedModel of {self._script.recording.thread_id!r}>"

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request*.

        Raises:
            ModelError: nothing is recorded here; or the recorded request failed, in the same way.
            ConfigError: it is not asked by a run.
        """
        run = DRIVEN.get()
        if run is None:
            raise ConfigError("a recorded model answers the runs of an agent only; run an agent with it")
        self.requests.append(request)
        if _is_beside(request, run):
            raise ModelError("a request beside the run's own, such as one for a summary, is not recorded")
        found = self._script.reply(run.path, run.view)
        if found is None or self._script.is_later(found.input_index):
            raise await self._script.end(run.path, run.view, f"reply for step {run.view.step + 1}")
        return self._give(found, emit)

    def _give(self, found: RecordedReply, emit: Emit | None) -> Reply:
        event = found.event
        reply = Reply(event.message, event.usage, event.stop, event.cost, event.model)
        if event.number in self._given:
            reply = structs.replace(reply, usage=Usage(), cost=0.0)
        self._given.add(event.number)
        if emit is not None:
            for block in event.message.blocks:
                if isinstance(block, Text | Thinking) and block.text:
                    emit(TextDelta(block.text) if isinstance(block, Text) else ThinkingDelta(block.text))
        return reply


def _is_beside(request: Request, run: Any) -> bool:
    """Return whether a request is not for the next reply of *run*. A summarizer's has neither its tools, nor its
    prompt, nor its last message.
    """
    if request.tools or (run.spec.system and request.system.startswith(run.spec.system)):
        return False
    return not request.messages or request.messages[-1] != run.view.messages[-1]
