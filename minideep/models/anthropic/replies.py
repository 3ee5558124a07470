"""Replies of the Messages API, whole or streamed, as blocks and usage."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from ... import messages as ours
from ...events import ArgsDelta, StreamEvent, TextDelta, ThinkingDelta
from ...messages import clean, from_json, parse_arguments, to_json
from ...ports import Emit, Reply
from ..adapter import Wire
from ..catalog import Tariff
from ..failures import BadReply, StreamBroke
from .requests import PROVIDER, THOUGHTS
from .usage import cost_of, usage_of

STOPS: Mapping[str | None, ours.StopReason] = {
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "refusal": "refused",
    "pause_turn": "continue",
    "compaction": "continue",
}
"""Every other reason is `done`: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons"""


class _Answer(Struct):
    content: list[Wire]
    stop_reason: str | None = None
    usage: Any = None
    """Not checked: a reply that is paid for must not be lost because its usage has an odd form."""


def reply_of(answer: Any, tariff: Tariff) -> Reply:
    checked = msgspec.convert(answer, _Answer)
    content = tuple(map(_from_wire, checked.content))
    stop = STOPS.get(checked.stop_reason, "done")
    return Reply(ours.AssistantMessage(content), usage_of(checked.usage), stop, cost_of(checked.usage, tariff))


def _from_wire(block: Wire) -> ours.AnyBlock:
    """Convert a block; thinking and blocks that only the provider understands keep its JSON."""
    match block:
        case {"type": "text", "text": text}:
            return ours.Text(clean(text))
        case {"type": "tool_use", "name": name}:
            return ours.ToolCall(name, to_json(block.get("input") or {}), block.get("id"))
        case {"type": kind} if kind in THOUGHTS:
            return ours.Thinking(clean(block.get("thinking") or ""), PROVIDER, to_json(block))
        case _:
            return ours.ProviderBlock(PROVIDER, to_json(block))


# ---- a stream


class Streamed:
    """A message that grows with the events of its stream. Listeners receive its deltas at once."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._stop: str | None = None
        self._usage: Wire = {}
        self._blocks: dict[int, Wire] = {}
        self._parts: dict[tuple[int, str], list[str]] = {}

    def add(self, event: Any) -> None:
        """Add one event. Unknown kinds are ignored, as the API asks of its clients. Raises `BadReply` for an error."""
        match event:
            case {"type": "error", "error": {**error}}:
                raise BadReply(str(error.get("message", error)), error)
            case {"type": "message_start", "message": message}:
                self._count(message.get("usage"))
                # Counts only the little that is written by then; the total comes at the end.
                self._usage.pop("output_tokens", None)
            case {"type": "content_block_start", "index": index, "content_block": block}:
                self._blocks[index] = block
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                self._grow(index, self._blocks[index], delta)
            case {"type": "message_delta", "delta": delta}:
                self._stop = delta.get("stop_reason") or self._stop
                self._count(event.get("usage"))
            case _:
                pass

    def whole(self) -> Wire:
        """Return the message in the form that the API sends without streaming.

        Raises:
            StreamBroke: the events ended before a stop reason.
        """
        if self._stop is None:
            raise StreamBroke("the stream ended before the reply did")
        for (index, field), parts in self._parts.items():
            block, text = self._blocks[index], "".join(parts)
            block[field] = from_json(parse_arguments(text)) if field == "input" else block[field] + text
        return {"content": list(self._blocks.values()), "stop_reason": self._stop, "usage": self._usage}

    def _count(self, usage: Any) -> None:
        # Counts are totals so far. A null, or no usage at all, must not erase an earlier count.
        said = cast(Wire, usage) if isinstance(usage, dict) else {}
        self._usage |= {name: count for name, count in said.items() if count is not None}

    def _grow(self, index: int, block: Wire, delta: Wire) -> None:
        match delta:
            case {"type": "text_delta", "text": text}:
                self._write(index, "text", text, TextDelta(clean(text)))
            case {"type": "thinking_delta", "thinking": text}:
                self._write(index, "thinking", text, ThinkingDelta(clean(text)))
            case {"type": "input_json_delta", "partial_json": text}:
                self._write(index, "input", text, self._args(index, block, text))
            case {"type": "citations_delta", "citation": citation}:
                block["citations"] = [*(block.get("citations") or ()), citation]
            case _:
                # A signature, or a delta of a later version: its fields are complete.
                block |= {name: value for name, value in delta.items() if name != "type"}

    def _write(self, index: int, field: str, text: str, event: StreamEvent | None) -> None:
        self._parts.setdefault((index, field), []).append(text)
        if text and event:
            self._emit(event)

    def _args(self, index: int, block: Wire, text: str) -> ArgsDelta | None:
        """Return the event for part of a call's arguments; None for a tool that the provider itself runs."""
        calls = [other for other, block in self._blocks.items() if block["type"] == "tool_use"]
        return ArgsDelta(calls.index(index), block["name"], text, block.get("id", "")) if index in calls else None
