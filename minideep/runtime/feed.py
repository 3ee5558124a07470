"""The events of a running turn, kept once for all who follow it: each follower has a place in one list, and no queue.

A follower that does not read costs nothing and slows nobody. Pieces of text are joined while they wait.
"""

import asyncio
import contextlib
import time
from typing import Any

from msgspec import structs

from ..checkpoint import Journal, Pending, decode_recorded, number_of
from ..errors import CheckpointError
from ..events import (
    AnyEvent,
    ArgsDelta,
    Restarted,
    Rewound,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    with_path,
)
from ..state import Path

DELTAS = (TextDelta, ThinkingDelta, ArgsDelta)
MAX_DELTA = 4096
"""The maximum length, in characters, of a delta that is joined from deltas waiting for a follower."""
Position = tuple[int, int]
"""How far a follower is: the number of a recorded event, and how many tools that started or ended after it."""


def position(after: int | str) -> Position:
    """Return the position after an event, given its number or its id.

    Raises:
        ValueError: it is no id of an event.
    """
    if isinstance(after, int):
        return after, 0
    number, _, mark = after.partition(".")
    if not (f"0{number}{mark}".isascii() and f"0{number}{mark}".isdigit()):
        raise ValueError(f"{after!r} is no id of an event")
    return int(number or 0), int(mark or 0)


class Part:
    """Deltas of one text, or of the arguments of one call, joined."""

    __slots__ = ("delta", "text")

    def __init__(self, delta: Any) -> None:
        self.delta: Any = delta
        self.text: str = delta.text

    def joins(self, delta: Any) -> bool:
        """Return whether *delta* continues this one, and both together are not too long."""
        first = self.delta
        if type(delta) is not type(first) or len(self.text) + len(delta.text) > MAX_DELTA:
            return False
        return type(delta) is not ArgsDelta or _call(delta) == _call(first)


class Text:
    """The deltas of one run between two other events of it."""

    __slots__ = ("closed", "parts", "path")

    def __init__(self, path: Path) -> None:
        self.path: Path = path
        self.parts: list[Part] = []
        self.closed: bool = False
        """True if another event of the run has followed."""

    def add(self, delta: Any) -> None:
        if self.parts and (last := self.parts[-1]).joins(delta):
            last.text += delta.text
        else:
            self.parts.append(Part(delta))


class _Place:
    """A follower's place in a text."""

    __slots__ = ("offset", "part", "text")

    def __init__(self, text: Text) -> None:
        self.text, self.part, self.offset = text, 0, 0

    def has_more(self) -> bool:
        """Return whether `take` has something."""
        parts = self.text.parts
        return self.part < len(parts) - 1 or (self.part < len(parts) and self.offset < len(parts[self.part].text))

    def take(self) -> StreamEvent | None:
        """Return what came since the last time, up to the end of a part; None if nothing did."""
        parts = self.text.parts
        while (count := len(parts)) > self.part:
            part, offset = parts[self.part], self.offset
            if (size := len(text := part.text)) > offset:
                self.offset = size
                return with_path(structs.replace(part.delta, text=text[offset:]), self.text.path, 0, time.time())
            if self.part == count - 1:  # Only the last part grows.
                return None
            self.part, self.offset = self.part + 1, 0
        return None


class Feed:
    """The events of one turn since the first one that the store does not have, in the order in which they happened.

    It is written on the loop of the turn; `reader` may be used on any.
    """

    def __init__(self, journal: Journal) -> None:
        self.items: list[StreamEvent | Text] = []
        self.visible: int = 0
        """How many items followers may see: an input or a boundary waits until it is saved."""
        self.over: bool = False
        self.first: int = 0
        """The number of the first event; those before it are in the store."""
        self._journal = journal
        self._number, self._marks = 0, 0
        self._open: dict[Path, Text] = {}
        self._waiting: list[asyncio.Future[None]] = []

    def fill(self) -> None:
        """Begin with the events that no append has saved yet."""
        pending = self._journal.pending
        self.first = number_of(pending[0][1]) if pending else self._journal.number + 1
        self._number = self.first - 1
        self._catch_up()

    def record(self, path: Path, event: AnyEvent) -> None:
        """Add an event that was just recorded."""
        journal = self._journal
        self._add(path, journal.number, event, journal.base + decode_recorded(journal.pending[-1][1]).ms)

    def emit(self, path: Path, event: Any) -> bool:
        """Add an event that is not recorded. Return whether that made a new item."""
        if type(event) in DELTAS:
            if not event.text:
                return False
            if (text := self._open.get(path)) is not None:
                text.add(event)
                if self._waiting:
                    self._wake()
                return False
            self._open[path] = text = Text(path)
            text.add(event)
            self.items.append(text)
            return True
        self._close_text(path)
        event_id = ""
        if isinstance(event, ToolStarted | ToolEnded):
            self._marks += 1
            event_id = f"{self._number}.{self._marks}"
        self.items.append(with_path(event, path, 0, time.time(), event_id))
        if isinstance(event, Restarted):  # The text begins now: who comes before its first piece must start anew too.
            self._open[path] = text = Text(path)
            self.items.append(text)
        return True

    def rewind(self, to: int) -> None:
        """Tell followers that what came after event *to* did not last, instead of what they were not shown yet."""
        del self.items[self.visible :]
        self.items.append(with_path(Rewound(to), (), 0, time.time(), str(to)))
        self.visible = len(self.items)

    def show(self) -> None:
        """Let followers see all that has happened."""
        self.visible = len(self.items)
        if self._waiting:
            self._wake()

    def close(self, *, shown: bool) -> None:
        """End the feed; if not *shown*, without what was not shown yet."""
        for text in self._open.values():
            text.closed = True
        if shown:
            self.visible = len(self.items)
        self.over = True
        self._wake()

    def reader(self, after: Position | None = None) -> "Reader":
        """Return a reader of the events after a position, or, if it is None, of all events, deltas included."""
        return Reader(self, after)

    def has(self, number: int) -> bool:
        """Return whether the recorded event of that number is among those that may be seen."""
        # Not that of an event that is not recorded, which has the number 0.
        seen = self.items[: self.visible] if number >= self.first else []
        return any(isinstance(item, StreamEvent) and item.number == number for item in seen)

    def _add(self, path: Path, number: int, event: AnyEvent, ms: int) -> None:
        self._number, self._marks = number, 0
        self._close_text(path)
        self.items.append(with_path(event, path, number, ms / 1000, str(number)))

    def _catch_up(self) -> None:
        """Add the events that are not saved and that the feed does not have."""
        fresh: list[Pending] = []
        for pending in reversed(self._unsaved()):
            if number_of(pending[1]) <= self._number:
                break
            fresh.append(pending)
        for path, data, _ in reversed(fresh):
            recorded = decode_recorded(data)
            self._add(path, recorded.number, recorded.event, self._journal.base + recorded.ms)

    def _unsaved(self) -> list[Pending]:
        return self._journal.pending

    def _close_text(self, path: Path) -> None:
        if (text := self._open.pop(path, None)) is not None:
            text.closed = True

    # ---- waiting for more

    def wait(self) -> "asyncio.Future[None]":
        """Return a future that is done with the next event, or when the feed ends."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        return waiter

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:  # The loop of the turn was closed under it.
            here = None
        for waiter in waiting:
            if (loop := waiter.get_loop()) is here:
                _set(waiter)
            else:
                with contextlib.suppress(RuntimeError):  # That loop is closed, and nobody waits any more.
                    loop.call_soon_threadsafe(_set, waiter)


class RedactedFeed(Feed):
    """The events as `redact` leaves them, which are those that are saved. Text is not shown before its reply is."""

    def record(self, path: Path, event: AnyEvent) -> None:
        self._catch_up()

    def emit(self, path: Path, event: Any) -> bool:
        if isinstance(event, ToolStarted):
            redaction = self._journal.redaction
            state = redaction.states.get(path) if redaction else None
            entry = state.open.get(event.call.id) if state else None
            event = ToolStarted(structs.replace(event.call, raw=entry.call.raw if entry else b"{}"))
        # A piece of text, or an event of a tool's own, cannot be redacted.
        return isinstance(event, ToolStarted | ToolEnded) and super().emit(path, event)

    def _unsaved(self) -> list[Pending]:
        try:
            return self._journal.as_saved()
        except CheckpointError:  # `redact` has failed: the event is not saved either. The next one asks again.
            return []


class Reader:
    """A follower's place in a feed."""

    def __init__(self, feed: Feed, after: Position | None) -> None:
        self.after: Position = after or (0, 0)
        """Where the follower is."""
        self._feed = feed
        self._at = 0
        self._caught_up = len(feed.items) if after is not None else 0
        """Items up to here happened before the follower came."""
        self._texts: list[_Place] = []

    async def get(self) -> StreamEvent | None:
        """Wait for the next event and return it, or None after the last one."""
        while (event := self.take()) is None:
            if not await self.more():
                return None
        return event

    async def more(self) -> bool:
        """Wait until `take` may have another event. Return False after the last one."""
        waiter = self._feed.wait()
        # Asked after that: on another event loop something may have happened since `take`.
        if self._feed.over or self._at < self._feed.visible or any(place.has_more() for place in self._texts):
            waiter.cancel()
            return not self._over()
        await waiter
        return True

    def _over(self) -> bool:
        at_end = self._at >= self._feed.visible and not any(place.has_more() for place in self._texts)
        return self._feed.over and at_end

    def take(self) -> StreamEvent | None:
        """Return the next event if there is one."""
        while True:
            visible = self._feed.visible  # Before the texts: on another event loop more may happen meanwhile.
            # Texts first: what a run says comes before the event that ends it.
            if self._texts and (delta := self._take_text()) is not None:
                return delta
            if self._at >= visible:
                return None
            item = self._feed.items[self._at]
            self._at += 1
            late = self._at <= self._caught_up
            if isinstance(item, Text):
                if late and item.closed:
                    continue  # Its reply is among the recorded events.
                self._texts.append(_Place(item))
                if late:  # The follower may have seen a part of it.
                    return with_path(Restarted(), item.path, 0, time.time())
            elif not late or (item.id and position(item.id) > self.after):
                return item

    def _take_text(self) -> StreamEvent | None:
        for place in list(self._texts):
            closed = place.text.closed
            if (delta := place.take()) is not None:
                return delta
            if closed:
                self._texts.remove(place)
        return None


def _call(delta: ArgsDelta) -> tuple[int, str, str]:
    return delta.index, delta.name, delta.call_id


def _set(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
