"""Breakpoints, at most four in a request, at which Claude's prompt cache is written and read."""

from collections.abc import Iterator
from typing import cast

from ..adapter import Wire

MAX_BREAKPOINTS = 4
LOOKBACK = 20
"""Blocks, counted back from its own, among which a breakpoint finds what an earlier request has written."""
MARKABLE = frozenset({"text", "image", "document", "tool_use", "tool_result"})
"""The types of block that accept a breakpoint; thinking does not."""


def mark(body: Wire, ttl: str, ends: list[int]) -> None:
    """Put breakpoints into *body*: after tools and prompt, after the memory behind it, and on messages.

    *ends* is how many blocks of messages the next request starts with, followed by how many earlier requests had, the
    latest first: each of them wrote the cache up to there. Breakpoints that the user set stay, and count. The lists of
    *body* are copied or belong to it alone; its blocks are shared with other requests, and are replaced, never changed.

    https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    """
    control: Wire = {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}
    free = MAX_BREAKPOINTS - sum("cache_control" in block for block in _blocks(body))
    # A breakpoint on the prompt covers the tools too, which come before it.
    head, first = ("system", 0) if "system" in body else ("tools", -1)
    if isinstance(given := body.get(head), list):
        body[head] = marked = [*cast(list[Wire], given)]
        for at in range(len(marked))[first:][: max(0, free - 1)]:
            marked[at] = {"cache_control": control} | marked[at]
            free -= 1
    _mark_messages(body["messages"], places(ends, free), control)


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


def _blocks(body: Wire) -> Iterator[Wire]:
    yield from body.get("tools", ())
    yield from body.get("system", ())
    for message in body["messages"]:
        yield from message["content"]


def _mark_messages(messages: list[Wire], wanted: list[int], control: Wire) -> None:
    """Mark the block at each of the *wanted* places, or the closest one before it that accepts a breakpoint."""
    number = sum(len(message["content"]) for message in messages)
    for message in reversed(messages):
        content: list[Wire] = message["content"]
        for at in reversed(range(len(content))):
            if not wanted:
                return
            if number <= wanted[0] and content[at]["type"] in MARKABLE:
                content[at] = {"cache_control": control} | content[at]
                wanted = [place for place in wanted if place < number]
            number -= 1
