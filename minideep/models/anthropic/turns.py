"""The messages of a request: encoded messages joined to turns that user and assistant take by turns."""

from collections.abc import Iterable
from itertools import groupby

from ..adapter import Wire
from ..body import encode
from . import breakpoints
from .blocks import THOUGHTS, Blocks

OPENED = {role: b'{"role":"%b","content":[' % role.encode() for role in ("user", "assistant")}

GO_ON: Wire = {"type": "text", "text": "(go on)"}


def turns_of(messages: Iterable[Blocks]) -> list[Blocks]:
    """Join adjacent messages of one role and drop empty ones. The API requires that tool results come first."""
    turns: list[Blocks] = []
    for role, group in groupby((message for message in messages if message.parts), lambda message: message.role):
        first, *others = group
        # A new message, since breakpoints are put into it.
        turn = Blocks([*first.parts], role, [*first.kinds])
        for message in others:
            turn.parts.extend(message.parts)
            turn.kinds.extend(message.kinds)
        turns.append(_results_first(turn) if others else turn)
    return turns


def _results_first(turn: Blocks) -> Blocks:
    order = sorted(range(len(turn.parts)), key=lambda at: turn.kinds[at] != "tool_result")
    return Blocks([turn.parts[at] for at in order], turn.role, [turn.kinds[at] for at in order])


def user_last(turns: list[Blocks]) -> list[Blocks]:
    """Return *turns* so that the user speaks last if the assistant has paused at another server.

    Models since Claude 4.6 reject a text of the assistant that they should complete:
    https://github.com/cortexkit/magic-context/issues/512
    """
    if turns and turns[-1].role == "assistant" and {"text", *THOUGHTS}.issuperset(turns[-1].kinds):
        return [*turns, Blocks([encode(GO_ON)], "user", [GO_ON["type"]])]
    return turns


def as_json(turn: Blocks) -> bytes:
    return OPENED[turn.role] + b",".join(turn.parts) + b"]}"


def ends_of(messages: list[Blocks], stable_prefix: int | None) -> list[int]:
    """Return how many blocks of messages the next request starts with, and how many earlier ones had, latest first.

    An earlier request ended where a message of the assistant begins.
    """
    kept = messages[:stable_prefix]
    ends = [sum(len(message.parts) for message in kept)]
    behind = 0
    for message in reversed(kept):
        behind += len(message.parts)
        if message.role == "assistant" and message.parts:
            ends.append(ends[0] - behind)
        if len(ends) == breakpoints.MAX_BREAKPOINTS:
            break
    return ends


def goes_on_without_thinking(turns: list[Blocks]) -> bool:
    """Return True if the last turn answers calls before which the model did not think.

    With a budget of thinking the API refuses that, as of calls that another model has made:
    https://github.com/anthropics/claude-code/issues/11978
    """
    match turns:
        case [*_, Blocks(kinds=[first, *_]), Blocks(kinds=kinds)]:
            return "tool_result" in kinds and first not in THOUGHTS
        case _:
            return False
