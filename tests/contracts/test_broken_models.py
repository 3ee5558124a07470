"""The contract of a model fails on models that break it, each in the test that asks for what it breaks."""

import asyncio

import pytest
from msgspec import structs

from minideep import AssistantMessage, ModelError, Reply, Text, ToolCall, ToolMessage, Usage, UserMessage
from minideep.events import TextDelta
from minideep.testing import ModelContract


class Plain:
    """A model that keeps every promise, and streams in two pieces. Those below break one each."""

    name = "plain"

    def __init__(self, answer):
        self.answer = answer

    async def complete(self, request, emit):
        said = self.answer(request.messages[-1].text)
        if said is None:
            await asyncio.Event().wait()
        if isinstance(said, ModelError):
            raise said
        return await self.give(said, emit)

    async def give(self, reply, emit):
        text = reply.message.text
        for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
            await asyncio.sleep(0)
            if emit and piece:
                emit(TextDelta(piece))
        return reply


class HasNoName(Plain):
    name = ""


class PromisesPrices(Plain):
    states_cost = True


class Tidies(Plain):
    """Takes white space for noise."""

    async def give(self, reply, emit):
        text = Text(reply.message.text.strip())
        return structs.replace(await super().give(reply, emit), message=AssistantMessage((text, *reply.message.calls)))


class SaysNothingMeanwhile(Plain):
    async def give(self, reply, emit):
        return await super().give(reply, None)


class RepeatsItself(Plain):
    """Streams again after a connection broke, and does not withdraw what was heard."""

    async def give(self, reply, emit):
        if emit:
            emit(TextDelta("h"))
        return await super().give(reply, emit)


class EmitsItsOwn(Plain):
    """Passes the provider's events on."""

    async def give(self, reply, emit):
        if emit:
            emit({"type": "message_start"})
        return await super().give(reply, emit)


class HasNoIds(Plain):
    """As some servers do."""

    def renamed(self, call, number):
        return ToolCall(call.name, call.args, "")

    async def give(self, reply, emit):
        calls = [self.renamed(call, number) for number, call in enumerate(reply.message.calls)]
        said = AssistantMessage((Text(reply.message.text or "-"), *calls))
        return structs.replace(await super().give(reply, emit), message=said if calls else reply.message)


class HasOneId(HasNoIds):
    def renamed(self, call, number):
        return ToolCall(call.name, call.args, "call_0")


class FlattensArguments(HasNoIds):
    def renamed(self, call, number):
        return ToolCall(call.name, {name: str(value) for name, value in call.args.items()}, call.id)


class TurnsCallsAround(Plain):
    async def give(self, reply, emit):
        said = AssistantMessage((Text(reply.message.text), *reply.message.calls[::-1]))
        return structs.replace(await super().give(reply, emit), message=said if reply.message.calls else reply.message)


class CountsNothing(Plain):
    """Says 0 for what it does not know."""

    async def give(self, reply, emit):
        return structs.replace(await super().give(reply, emit), usage=Usage())


class AddsToTheRequest(Plain):
    """Uses the list it was given."""

    async def complete(self, request, emit):
        reply = await super().complete(request, emit)
        request.messages.append(UserMessage("cached"))
        return reply


class ReadsTextOnly(Plain):
    """Never saw the result of a tool."""

    async def complete(self, request, emit):
        if isinstance(request.messages[-1], ToolMessage):
            raise ModelError("unknown role 'tool'")
        return await super().complete(request, emit)


class LetsErrorsOut(Plain):
    """Raises what its SDK raises."""

    async def complete(self, request, emit):
        try:
            return await super().complete(request, emit)
        except ModelError as exc:
            raise RuntimeError(str(exc)) from None


class HasOneError(Plain):
    """Has one error for everything."""

    async def complete(self, request, emit):
        try:
            return await super().complete(request, emit)
        except ModelError as exc:
            raise ModelError(str(exc)) from None


class KeepsFailing(Plain):
    """Does not recover."""

    failed = None

    async def complete(self, request, emit):
        try:
            return await super().complete(request, emit)
        except ModelError as exc:
            self.failed = exc
            raise
        finally:
            if self.failed and not request.messages[-1].text.isdigit():
                raise self.failed


class IgnoresCancels(Plain):
    """Takes a cancel for one of its own failures."""

    async def complete(self, request, emit):
        try:
            return await super().complete(request, emit)
        except asyncio.CancelledError:
            return Reply(AssistantMessage(""))


class KeepsItsPlace(Plain):
    """Counts its requests, and a cancelled one for ever."""

    free = 1

    async def complete(self, request, emit):
        while not self.free:
            await asyncio.sleep(0.001)
        self.free -= 1
        reply = await super().complete(request, emit)
        self.free += 1
        return reply


class HasOneListener(Plain):
    """Keeps the listener of its last request."""

    async def complete(self, request, emit):
        self.emit = emit
        return await super().complete(request, lambda event: self.emit and self.emit(event))


class HasOneLoop(Plain):
    """Has a connection that belongs to the loop that opened it."""

    loop = None

    async def complete(self, request, emit):
        self.loop = self.loop or asyncio.get_running_loop()
        future = self.loop.create_future()
        self.loop.call_soon(future.set_result, None)
        await future
        return await super().complete(request, emit)


BROKEN = [
    (HasNoName, "it_has_a_name_and_says_what_it_promises"),
    (PromisesPrices, "it_has_a_name_and_says_what_it_promises"),
    (Tidies, "text_comes_back_as_it_was_said_whole_or_streamed"),
    (SaysNothingMeanwhile, "the_deltas_of_a_stream_join_to_the_text_of_its_reply"),
    (RepeatsItself, "the_deltas_of_a_stream_join_to_the_text_of_its_reply"),
    (EmitsItsOwn, "the_deltas_of_a_stream_join_to_the_text_of_its_reply"),
    (HasNoIds, "calls_come_back_in_order_with_ids_of_their_own_and_their_arguments"),
    (HasOneId, "calls_come_back_in_order_with_ids_of_their_own_and_their_arguments"),
    (FlattensArguments, "calls_come_back_in_order_with_ids_of_their_own_and_their_arguments"),
    (TurnsCallsAround, "calls_come_back_in_order_with_ids_of_their_own_and_their_arguments"),
    (CountsNothing, "the_tokens_of_a_reply_are_known_or_said_to_be_unknown"),
    (AddsToTheRequest, "a_request_is_not_changed"),
    (ReadsTextOnly, "an_agent_runs_a_whole_turn_on_it"),
    (LetsErrorsOut, "an_error_is_a_model_error_of_its_kind_and_the_next_request_is_answered"),
    (HasOneError, "an_error_is_a_model_error_of_its_kind_and_the_next_request_is_answered"),
    (KeepsFailing, "an_error_is_a_model_error_of_its_kind_and_the_next_request_is_answered"),
    (IgnoresCancels, "a_cancel_ends_a_request_at_once_and_the_model_still_answers"),
    (KeepsItsPlace, "a_cancel_ends_a_request_at_once_and_the_model_still_answers"),
    (HasOneListener, "requests_at_the_same_time_get_the_reply_and_the_deltas_of_their_own"),
    (HasOneLoop, "one_model_serves_one_event_loop_after_another"),
]


class TestPlain(ModelContract):
    """The model from which the broken ones are made is not broken itself."""

    def make(self, answer, folder):
        return Plain(answer)


@pytest.mark.parametrize(("kind", "name"), BROKEN, ids=[f"{kind.__name__}-{name[:30]}" for kind, name in BROKEN])
def test_a_model_that_breaks_a_promise_fails_the_test_that_asks_for_it(tmp_path, kind, name):
    class Contract(ModelContract):
        seconds = 0.5

        def make(self, answer, folder):
            return kind(answer)

    with pytest.raises((AssertionError, ModelError, RuntimeError)):
        getattr(Contract(), f"test_{name}")(tmp_path)
