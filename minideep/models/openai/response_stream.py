"""A response of the Responses API that grows with the events of its stream."""

from collections.abc import Iterator

from ...events import ArgsDelta, TextDelta, ThinkingDelta
from ...messages import clean
from ...ports import Emit
from ..adapter import Wire
from . import client_calls, sdk

ENDS = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
"""The events that end a response, with the status that it then has, if it does not say one."""

TEXTS = {
    "response.output_text": ("message", "content", "output_text"),
    "response.refusal": ("message", "content", "refusal"),
    "response.reasoning_text": ("reasoning", "content", "reasoning_text"),
    "response.reasoning_summary_text": ("reasoning", "summary", "summary_text"),
}
"""Events with a text: the type of its item, the field of that item with the parts, and the type of the part."""

ARGUMENTS = "response.function_call_arguments"


class Streamed:
    """A response that grows with the events of its stream. Listeners receive its deltas at once."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._items: list[_Item] = []
        self._current: dict[int | None, _Item] = {}
        self._calls = 0
        self._response: Wire | None = None

    def add(self, event: Wire) -> None:
        """Add one event. Unknown kinds are ignored."""
        kind = event.get("type")
        if not isinstance(kind, str):
            return
        if kind.endswith(".delta"):
            if isinstance(delta := event.get("delta"), str):
                self._grow(event, kind[:-6], clean(delta))
            return
        match event:
            case {"item": item} if kind == "response.output_item.added" and sdk.is_object(item):
                self._begin(event, item)
            case {"item": item} if kind == "response.output_item.done" and sdk.is_object(item):
                self._end(event, item)
            case {"response": response} if kind in ENDS and sdk.is_object(response):
                said = response.get("status") not in (None, "", "in_progress")
                self._response = response if said else response | {"status": ENDS[kind]}
            case {"summary_index": part} if kind == "response.reasoning_summary_part.added" and part:
                self._emit(ThinkingDelta("\n\n"))
            case _ if kind.endswith(".done"):
                self._replace(event, kind[:-5])
            case _:
                pass

    def whole(self, done: bool) -> Wire | None:
        """Return the response after a closing event. Some servers send its items only in the events before, and some
        only say `[DONE]` at the end.
        """
        if self._response is None and not (done and self._items):
            return None
        response = self._response or {}
        return response | {"output": response.get("output") or [*self._output()]}

    def _output(self) -> Iterator[Wire]:
        return (item.whole or item.pieced() for item in sorted(self._items, key=lambda item: item.index))

    def _begin(self, event: Wire, begun: Wire) -> "_Item":
        at = _number(event, "output_index")
        item = _Item(len(self._items) if at is None else at, begun)
        # Some servers give all items one index: the latest one that began there is meant.
        self._current[at] = item
        self._items.append(item)
        if begun.get("type") == "function_call" or client_calls.call_in(begun):
            item.call = self._calls
            self._calls += 1
        return item

    def _at(self, event: Wire) -> "_Item":
        """Return the item that *event* belongs to."""
        return self._current.get(_number(event, "output_index")) or self._begin(event, {})

    def _end(self, event: Wire, whole: Wire) -> None:
        item = self._current.get(_number(event, "output_index"))
        if item is None or item.whole:
            item = self._begin(event, whole)
        item.whole = whole

    def _grow(self, event: Wire, name: str, delta: str) -> None:
        if name in TEXTS:
            self._at(event).texts(name, event).append(delta)
            self._emit(ThinkingDelta(delta) if TEXTS[name][0] == "reasoning" else TextDelta(delta))
        elif name == ARGUMENTS:
            item = self._at(event)
            item.arguments.append(delta)
            if item.call is not None:
                begun = item.begun
                self._emit(ArgsDelta(item.call, begun.get("name") or "", delta, begun.get("call_id") or ""))

    def _replace(self, event: Wire, name: str) -> None:
        """Take what is sent whole after its deltas, or without any."""
        match event:
            case {"text": str(whole)} | {"refusal": str(whole)} if name in TEXTS:
                self._at(event).texts(name, event)[:] = [whole]
            case {"arguments": whole} if name == ARGUMENTS:
                self._at(event).arguments = [sdk.json_text(whole)]
            case _:
                pass


class _Item:
    """An item as its events tell it; servers may never send it whole."""

    def __init__(self, index: int, begun: Wire) -> None:
        self.index = index
        self.begun = begun
        self.whole: Wire | None = None
        self.call: int | None = None
        """Its place among the calls of the response, if it is one."""
        self.arguments: list[str] = []
        self._texts: dict[tuple[str, int], list[str]] = {}

    def texts(self, name: str, event: Wire) -> list[str]:
        """Return the pieces of the text that *event* is about; *name* is one of `TEXTS`."""
        part = name, _number(event, "content_index") or _number(event, "summary_index") or 0
        if part not in self._texts:
            self._texts[part] = []
        return self._texts[part]

    def pieced(self) -> Wire:
        """Return the item as its pieces make it."""
        item = dict(self.begun)
        if self.arguments:
            item = {"type": "function_call"} | item | {"arguments": "".join(self.arguments)}
        fields: dict[str, list[Wire]] = {}
        for (name, _), pieces in self._texts.items():
            kind, field, part = TEXTS[name]
            item.setdefault("type", kind)
            said = {"type": part, "refusal" if part == "refusal" else "text": "".join(pieces)}
            fields.setdefault(field, []).append(said)
        return item | fields


def _number(event: Wire, name: str) -> int | None:
    """Return the place that *event* names; None if it does not, or not by a number."""
    return place if isinstance(place := event.get(name), int) else None
