"""Breakpoints, at most four in a request, at which Claude's prompt cache is written and read."""

from collections.abc import Sequence
from typing import Protocol

from ...plain_json import from_json
from ..amounts import nested

MAX_BREAKPOINTS = 4
LOOKBACK = 20
"""Blocks, counted back from its own, among which a breakpoint finds what an earlier request has written."""
MARKABLE = frozenset({"text", "image", "document", "tool_use", "tool_result"})
"""The types of block that accept a breakpoint; thinking does not."""


class Turn(Protocol):
    """A message as encoded blocks, and their types."""

    @property
    def parts(self) -> list[bytes]: ...
    @property
    def kinds(self) -> list[str]: ...


def lifetime(block: bytes) -> str:
    """Return how long the cache is kept that is written at the breakpoint of an encoded block; empty without one."""
    # Decoded only where the word stands: it may also be an argument of a call, or a parameter of a tool.
    control = nested(from_json(block), "cache_control") if b'"cache_control":' in block else None
    return str(nested(control, "ttl") or "5m") if control else ""


def mark(
    tools: list[bytes], system: list[bytes], turns: Sequence[Turn], ttl: str, ends: list[int], users: Sequence[str]
) -> None:
    """Put breakpoints after tools and prompt, after the memory behind it, and on messages.

    The encoded blocks are replaced in their lists. *ends* is how many blocks of messages the next request starts with,
    followed by how many earlier requests had, the latest first: each of them wrote the cache up to there. *users* are
    the lifetimes of the breakpoints that the user has set. Since long ones must come before short ones, ours then have
    the same lifetime, and where the user's differ there are none of ours.

    https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    """
    if len({*users}) > 1:
        return
    ttl = users[0] if users else ttl
    control = b'{"cache_control":{"type":"ephemeral"%b},' % (b"" if ttl == "5m" else b',"ttl":"%b"' % ttl.encode())
    free = MAX_BREAKPOINTS - len(users)
    # A breakpoint on the prompt covers the tools too, which come before it.
    head, first = (system, 0) if system else (tools, -1)
    for at in range(len(head))[first:][: max(0, free - 1)]:
        if not lifetime(head[at]):
            head[at] = control + head[at][1:]
            free -= 1
    _mark_messages(turns, places(ends, free), control)


def places(ends: list[int], most: int) -> list[int]:
    """Return the places of at most *most* breakpoints, as numbers of blocks up to each, the last place first.

    They lead from the first of *ends* back to the others, no further apart than the lookback. If they cannot reach the
    second of *ends* that way, the last breakpoint is placed exactly there.
    """
    if most < 1:
        return []
    found = [ends[0]]
    for end in ends[1:]:
        while len(found) < most and found[-1] > end:
            found.append(max(end, found[-1] - LOOKBACK))
    if len(found) > 1 and found[-1] - ends[1] >= LOOKBACK:
        found[-1] = ends[1]
    return found


def _mark_messages(turns: Sequence[Turn], wanted: list[int], control: bytes) -> None:
    """Mark the block at each of the *wanted* places, or the closest one before it that accepts a breakpoint."""
    number = sum(len(turn.parts) for turn in turns)
    for turn in reversed(turns):
        for at in reversed(range(len(turn.parts))):
            if not wanted:
                return
            if number <= wanted[0] and turn.kinds[at] in MARKABLE:
                if not lifetime(turn.parts[at]):
                    turn.parts[at] = control + turn.parts[at][1:]
                wanted = [place for place in wanted if place < number]
            number -= 1
