"""Where Claude's prompt cache is written: breakpoints in a request, at most four."""

from collections.abc import Iterator
from typing import Any, cast

Wire = dict[str, Any]

MOST = 4
"""Breakpoints that a request may have."""
WINDOW = 20
"""Blocks, beginning with its own, at which a breakpoint finds what an earlier request has written."""
MARKABLE = frozenset({"text", "image", "document", "tool_use", "tool_result"})
"""The types of block that take a breakpoint; thinking does not."""


def mark(body: Wire, ttl: str, ends: list[int]) -> None:
    """Put breakpoints into *body*: after tools and prompt, after the memory behind it, and on messages.

    *ends* are how many blocks of messages are worth keeping, and how many earlier requests had, the last one first:
    what those wrote ends there. Breakpoints that the user set stay, and count. Lists are copied or belong to *body*;
    blocks, which others hold too, are not changed.

    https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    """
    control: Wire = {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}
    free = MOST - sum("cache_control" in block for block in _blocks(body))
    head, first = ("system", 0) if "system" in body else ("tools", -1)  # A prompt's breakpoint covers the tools too.
    if isinstance(given := body.get(head), list):
        body[head] = marked = [*cast(list[Wire], given)]
        for at in range(len(marked))[first:][: max(0, free - 1)]:
            marked[at] = {"cache_control": control} | marked[at]
            free -= 1
    _mark_messages(body["messages"], places(ends, free), control)


def places(ends: list[int], most: int) -> list[int]:
    """Where at most *most* breakpoints stand: the numbers of blocks up to each, the last one first.

    They lead from the first of *ends* back to the others, no further apart than a breakpoint sees; where that does not
    reach the second of *ends*, the last breakpoint stands right there.
    """
    if most < 1:
        return []
    found = [ends[0]]
    for end in ends[1:]:
        while len(found) < most and found[-1] > end:
            found.append(max(end, found[-1] - WINDOW))
    if len(found) > 1 and found[-1] - ends[1] >= WINDOW:
        found[-1] = ends[1]
    return found


def _blocks(body: Wire) -> Iterator[Wire]:
    yield from body.get("tools", ())
    yield from body.get("system", ())
    for message in body["messages"]:
        yield from message["content"]


def _mark_messages(messages: list[Wire], wanted: list[int], control: Wire) -> None:
    """Mark the block at each of the *wanted* places, or the next one before it that takes a breakpoint."""
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
