"""A reply of the Messages API that grows with the events of its stream."""

from typing import Any, cast

from ...events import ArgsDelta, StreamEvent, TextDelta, ThinkingDelta
from ...messages import clean
from ...plain_json import from_json, parse_arguments, to_json
from ...ports import Emit
from ..adapter import Wire

GROWING = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "input"),
}
"""Kinds of deltas, with their field and the field of the block that they add to."""


class Streamed:
    """A message that grows with the events of its stream. Listeners receive its deltas at once.

    Gateways leave out starts of blocks, or give all blocks one index: a delta that its block cannot take begins a new
    one.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._stop: str | None = None
        self._is_over = False
        self._usage: Wire = {}
        self._container: Any = None
        self._blocks: list[Wire] = []
        self._at: dict[Any, int] = {}
        """The places of the blocks that grow, by their indices."""
        self._parts: dict[tuple[int, str], list[str]] = {}

    def add(self, event: Any) -> None:
        """Add one event. Unknown kinds are ignored, as the API asks of its clients."""
        match event:
            case {"type": "message_start", "message": {**message}}:
                self._note(message)
                # Counts only the little that is written by then; the total comes at the end.
                self._usage.pop("output_tokens", None)
            case {"type": "content_block_start", "content_block": {**block}}:
                self._begin(_index(event), block)
            case {"type": "content_block_delta", "delta": {"type": str(kind), **delta}}:
                self._grow(_index(event), kind, delta)
            case {"type": "message_delta", "delta": {**delta}}:
                self._stop = delta.get("stop_reason") or self._stop
                self._note(delta | {"usage": event.get("usage")})
            case {"type": "message_stop"}:
                self._is_over = True
            case _:
                pass

    def whole(self, done: bool) -> Wire | None:
        """Return the message in the form that the API sends without streaming, or None if it is not complete.

        It is at a reason to stop, or at a closing event; *done* is True if the server has said `[DONE]`.
        """
        if not (self._stop or self._is_over or done):
            return None
        for (at, field), parts in self._parts.items():
            block, text = self._blocks[at], "".join(parts)
            block[field] = from_json(parse_arguments(text)) if field == "input" else _text(block.get(field)) + text
        whole = {"content": self._blocks, "stop_reason": self._stop, "usage": self._usage}
        return whole | {"container": self._container}

    def _note(self, message: Wire) -> None:
        """Keep what is said of the message as a whole."""
        self._container = message.get("container") or self._container
        # Counts are totals so far. A null, a 0 or no usage at all must not erase an earlier count.
        usage = message.get("usage")
        said = cast(Wire, usage) if isinstance(usage, dict) else {}
        self._usage |= {name: count for name, count in said.items() if count or not self._usage.get(name)}

    def _begin(self, index: Any, block: Wire) -> int:
        self._at[index] = len(self._blocks)
        self._blocks.append(block)
        return self._at[index]

    def _grow(self, index: Any, kind: str, delta: Wire) -> None:
        said, field = GROWING.get(kind, ("", ""))
        if (at := self._place(index, field)) is None:
            return
        if field:
            self._write(at, field, delta.get(said))
        elif kind == "citations_delta":
            self._blocks[at]["citations"] = [*(self._blocks[at].get("citations") or ()), delta.get("citation")]
        else:
            # A signature, or a delta of a later version: its fields are complete.
            self._blocks[at] |= delta

    def _place(self, index: Any, field: str) -> int | None:
        """Return the place of the block at *index* that grows by *field*; None if there is none, and none can begin."""
        at = self._at.get(index)
        if field not in ("text", "thinking"):
            return at
        block = self._blocks[at] if at is not None else {}
        fits = block.get("type") == field or field in block
        return at if fits else self._begin(index, {"type": field, field: ""})

    def _write(self, at: int, field: str, said: Any) -> None:
        if not said:
            return
        text = said if isinstance(said, str) else to_json(said).decode()
        self._parts.setdefault((at, field), []).append(text)
        if event := self._event(at, field, text):
            self._emit(event)

    def _event(self, at: int, field: str, text: str) -> StreamEvent | None:
        """Return what listeners receive; None for part of the input of a tool that the provider itself runs."""
        if field != "input":
            return TextDelta(clean(text)) if field == "text" else ThinkingDelta(clean(text))
        calls = [place for place, block in enumerate(self._blocks) if block.get("type") == "tool_use"]
        if at not in calls:
            return None
        block = self._blocks[at]
        return ArgsDelta(calls.index(at), block.get("name") or "", text, block.get("id") or "")


def _index(event: Wire) -> int | None:
    """Return the index of the block that *event* belongs to; None if it does not say."""
    return index if isinstance(index := event.get("index"), int) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
