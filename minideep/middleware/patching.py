"""Calls and results belong together: what other hooks show is mended, so that a provider takes it."""

from collections.abc import Sequence

from msgspec import structs

from ..context import ToolContext
from ..core import NOT_COMPLETED
from ..messages import AssistantMessage, Message, Messages, ToolCall, ToolMessage
from ..ports import Middleware, Request


class PatchToolCallsMiddleware(Middleware):
    """Shows exactly one result for each call, right behind its reply and in the order of the calls.

    A call without a result is answered that it did not complete; a result without a call, or a second one, is left out.
    What a thread keeps is like this by itself, after an interruption too: this is for hooks before it that leave
    messages out or put others in. It changes what is shown, never what is kept.
    """

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        messages = request.messages
        if ctx.state.messages.same_list(messages):
            return request
        patched = ctx.scratch.get(self)
        if patched is None:
            patched = ctx.scratch[self] = Patched()
        shown = patched(messages)
        return request if shown is messages else structs.replace(request, messages=shown)


class Patched:
    """Mends the messages of one run from step to step, of which those before the last reply are looked at once."""

    __slots__ = ("_done", "_given", "_mended")

    def __init__(self) -> None:
        self._given: Sequence[Message] = ()
        self._done = 0
        """How many of the given messages need not be looked at again."""
        self._mended: list[Message] | None = None
        """What is shown of them; None: they themselves."""

    def __call__(self, messages: Sequence[Message]) -> Sequence[Message]:
        """*messages* as they can be shown: the same object, if nothing is wrong with them."""
        if not self._goes_on(messages):
            self._done, self._mended = 0, None
        self._given = messages if type(messages) is Messages else list(messages)  # A hook may change its list.
        *whole, last = _parts(messages[self._done :])
        for part in whole:
            self._add(part)
        mended = _patched(last)
        if self._mended is None and mended is last:
            return messages
        return [*(messages[: self._done] if self._mended is None else self._mended), *mended]

    def _goes_on(self, messages: Sequence[Message]) -> bool:
        """Whether *messages* begin with what was looked at, and with the reply that ended it."""
        given, end = self._given, self._done + 1
        if type(given) is Messages and given.same_list(messages):
            return len(messages) >= end
        return messages[:end] == given[:end]

    def _add(self, part: list[Message]) -> None:
        mended = _patched(part)
        if self._mended is None and mended is not part:
            self._mended = list(self._given[: self._done])
        if self._mended is not None:
            self._mended += mended
        self._done += len(part)


def _parts(messages: Sequence[Message]) -> list[list[Message]]:
    """*messages*, cut before each reply; at least one part."""
    parts: list[list[Message]] = [[]]
    for message in messages:
        if type(message) is AssistantMessage and parts[-1]:
            parts.append([])
        parts[-1].append(message)
    return parts


def _patched(part: list[Message]) -> list[Message]:
    """A reply and what follows it, with its results in their places; *part* itself, if they are."""
    calls = part[0].calls if part and type(part[0]) is AssistantMessage else ()
    results = [message for message in part if type(message) is ToolMessage]
    if len(calls) == len(results) and all(map(_answers, part[1:], calls)):
        return part
    first = {result.call_id: result for result in reversed(results)}
    answers = [first.get(call.id) or _lost(call) for call in calls]
    said = [message for message in part if type(message) is not ToolMessage]
    return [*said[:1], *answers, *said[1:]] if calls else said


def _answers(message: Message, call: ToolCall) -> bool:
    return type(message) is ToolMessage and message.call_id == call.id


def _lost(call: ToolCall) -> ToolMessage:
    return ToolMessage(NOT_COMPLETED.content, call.id, call.name, is_error=True)
