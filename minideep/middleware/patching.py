"""Patching: repair pairs of calls and results that earlier hooks have broken, because providers refuse them."""

from collections.abc import Sequence

from msgspec import structs

from ..context import ToolContext
from ..core import NOT_COMPLETED
from ..messages import AssistantMessage, Message, Messages, ToolCall, ToolMessage
from ..ports import Middleware, Request
from .known import Known


class PatchToolCallsMiddleware(Middleware):
    """Shows exactly one result for each call, directly after its reply and in the order of the calls.

    A call without a result gets one that says that it did not complete. A result without a call, or a second one for
    the same call, is left out. A thread's own messages are always in order, even after an interruption: this is for
    earlier hooks that drop or insert messages. It changes what is shown, never what is stored.
    """

    def __init__(self) -> None:
        self._known = Known(Patches)

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        messages = request.messages
        if messages is ctx.state.messages:
            return request  # Nobody has changed what is shown.
        patches: Patches = ctx.scratch.get(self._known) or self._known.of(ctx)
        shown = patches.applied(messages)
        return request if shown is messages else structs.replace(request, messages=shown)


class Patches:
    """Repairs the messages of one run, step after step and turn after turn; *before* is what the turn before knew.
    Messages before the last reply are looked at once.
    """

    def __init__(self, before: "Patches | None" = None) -> None:
        self._given: Sequence[Message] = before._given if before else ()
        self._done = before._done if before else 0
        """How many of the given messages need not be looked at again."""
        self._repaired: list[Message] | None = before._repaired and before._repaired.copy() if before else None
        """What is shown instead of those; None if nothing was wrong with them."""

    def applied(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return *messages*, repaired; the same object if nothing is wrong."""
        if not self._continues(messages):
            self._done, self._repaired = 0, None
        self._given = messages if type(messages) is Messages else list(messages)  # A hook may change its list later.
        *whole, last = _parts(messages[self._done :])
        for part in whole:
            self._add(part)
        repaired = _repaired(last)
        if self._repaired is None and repaired is last:
            return messages
        return [*(messages[: self._done] if self._repaired is None else self._repaired), *repaired]

    def _continues(self, messages: Sequence[Message]) -> bool:
        """Return whether *messages* begin with those already looked at, and the reply after them."""
        given, end = self._given, self._done + 1
        if type(given) is Messages and given.same_list(messages):
            return len(messages) >= end  # The same history: comparing its messages would cost more with every step.
        return messages[:end] == given[:end]

    def _add(self, part: list[Message]) -> None:
        repaired = _repaired(part)
        if self._repaired is None and repaired is not part:
            self._repaired = list(self._given[: self._done])
        if self._repaired is not None:
            self._repaired += repaired
        self._done += len(part)


def _parts(messages: Sequence[Message]) -> list[list[Message]]:
    """Split *messages* before each reply; there is always at least one part."""
    parts: list[list[Message]] = [[]]
    for message in messages:
        if type(message) is AssistantMessage and parts[-1]:
            parts.append([])
        parts[-1].append(message)
    return parts


def _repaired(part: list[Message]) -> list[Message]:
    """Return a reply and the messages after it, with the results in their places; *part* itself if they already are."""
    calls = part[0].calls if part and type(part[0]) is AssistantMessage else ()
    results = [message for message in part if type(message) is ToolMessage]
    if len(calls) == len(results) and all(map(_answers, part[1:], calls)):
        return part
    first = {result.call_id: result for result in reversed(results)}
    answers = [first.get(call.id) or _not_completed(call) for call in calls]
    others = [message for message in part if type(message) is not ToolMessage]
    return [*others[:1], *answers, *others[1:]] if calls else others


def _answers(message: Message, call: ToolCall) -> bool:
    return type(message) is ToolMessage and message.call_id == call.id


def _not_completed(call: ToolCall) -> ToolMessage:
    return ToolMessage(NOT_COMPLETED.content, call.id, call.name, is_error=True)
