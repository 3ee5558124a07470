"""Messages, tools and the prompt in the words of the Messages API."""

import re
from base64 import b64encode
from collections.abc import Iterable
from itertools import groupby

from ... import messages as ours
from ...ports import Request
from ...tools import Tool
from ..adapter import Wire, hashed_id, own_json, sendable, sent_name
from ..body import Part, encode
from . import breakpoints

PROVIDER = "anthropic"
THOUGHTS = ("thinking", "redacted_thinking")

EMPTY: Wire = {"type": "text", "text": "(empty)"}
"""Replaces content that would be empty or blank, which the API rejects."""


class Blocks(Part, frozen=True, gc=False):
    """A message as blocks."""

    role: str
    kinds: list[str]
    """The types of the blocks."""
    marks: int = 0
    """How many breakpoints the user has put into it."""


def declaration(tool: Tool) -> Part:
    return Part([encode({"name": tool.name, "description": tool.description, "input_schema": tool.schema})])


def prompt_blocks(request: Request) -> list[bytes]:
    """Return the prompt, split from the memory behind it if they are cached apart; the API rejects blank text."""
    cut = request.stable if request.cache and request.stable is not None else len(request.system)
    parts = request.system[:cut], request.system[cut:]
    parts = parts if all(part.strip() for part in parts) else (request.system,)
    return [encode({"type": "text", "text": part}) for part in parts if part.strip()]


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


def as_json(turn: Blocks) -> bytes:
    return b'{"role":"%b","content":[%b]}' % (turn.role.encode(), b",".join(turn.parts))


def blocks_of(message: ours.Message) -> Blocks:
    role, blocks = _to_wire(message)
    marks = sum("cache_control" in block for block in blocks)
    return Blocks([encode(block) for block in blocks], role, [block["type"] for block in blocks], marks)


def _to_wire(message: ours.Message) -> tuple[str, list[Wire]]:
    """Return role and blocks. Only an assistant's message may have none, if all of it is another provider's."""
    blocks = [wired for block in message.blocks if (wired := _block(block, message.role))]
    if isinstance(message, ours.AssistantMessage):
        # The API rejects thinking as the last block, which it is in a reply that was truncated while the model thought.
        return "assistant", [*blocks, EMPTY] if blocks and blocks[-1]["type"] in THOUGHTS else blocks
    if not isinstance(message, ours.ToolMessage):
        return "user", blocks or [EMPTY]
    result: Wire = {"type": "tool_result", "tool_use_id": _id(message.call_id), "content": blocks or [EMPTY]}
    return "user", [result | {"is_error": True} if message.is_error else result]


def _block(block: ours.AnyBlock, role: str) -> Wire | None:
    """Return the block in the API's words; None for blank text and for what the API does not accept from *role*."""
    match block:
        case ours.Text(text):
            return {"type": "text", "text": text} if text.strip() else None
        case ours.ToolCall():
            arguments: Wire = {} if block.malformed else sendable(block.raw)
            return {"type": "tool_use", "id": _id(block.id), "name": sent_name(block.name, 128), "input": arguments}
        case ours.Image() | ours.Document() if role == "assistant":
            return None
        case ours.Image(data, media_type):
            return {"type": "image", "source": _base64(data, media_type)}
        case ours.Document():
            return _document(block)
        case _:
            return own_json(block, PROVIDER)


def _document(block: ours.Document) -> Wire:
    """Return a PDF as base64 and text as text, the only form in which the API accepts it."""
    source = _base64(block.data, block.media_type)
    if block.media_type.startswith("text/"):
        source = {"type": "text", "media_type": "text/plain", "data": block.data.decode(errors="replace")}
    return {"type": "document", "source": source} | ({"title": block.name} if block.name else {})


def _base64(data: bytes, media_type: str) -> Wire:
    return {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}


def _id(call_id: str) -> str:
    """Return *call_id*, or its hash if another provider put characters into it that the API rejects."""
    return call_id if re.fullmatch(r"[a-zA-Z0-9_-]+", call_id) else hashed_id(call_id)
