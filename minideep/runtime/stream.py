"""A turn as it happens: an iterator over its events, and then its result."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import structs

from ..checks import checked
from ..events import ArgsDelta, StreamEvent, TextDelta, ThinkingDelta, with_path
from ..ports import Emit
from ..state import Path
from ..turn import Turn

DELTAS = (TextDelta, ThinkingDelta, ArgsDelta)
MAX_DELTA = 4096
"""The maximum length, in characters, of a delta that is joined from deltas waiting for the listener."""


class Stream:
    """The events of a turn, while it runs: `async for event in stream`. After the last one `stream.turn` is the `Turn`.

    The events are those that are recorded (`minideep.events`), and `TextDelta`, `ThinkingDelta`, `ArgsDelta`,
    `Restarted`, `ToolStarted` and `ToolEnded`. Each has a `path`: the keys of the children that lead from the main run
    to the run that it belongs to. The events of one run arrive in order. The cost of a reply is in its `ModelReplied`,
    that of the turn in `stream.turn.costs`.

    The turn does not wait for its listener. A slow listener receives fewer, larger deltas, so that waiting events never
    take much more memory than the turn itself.

    The turn begins with the first `async for`. It is cancelled by `aclose`, by the end of an `async with`, by
    cancelling the task that waits for the next event, and by dropping the stream. The thread is then saved and can be
    resumed. Dropping the stream does not wait for that, the other ways do: if you may break out early, use `async
    with`.
    """

    _task: "asyncio.Task[Turn] | None" = None

    @checked
    def __init__(self, start: Callable[[Emit], Coroutine[Any, Any, Turn]]) -> None:
        self.turn: Turn | None = None
        self._start = start
        self._waiting = _EventQueue()

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> StreamEvent:
        if self._task is None:
            self._task = asyncio.ensure_future(self._start(self._waiting.put))
            # The queue's methods, not ours: a task that held this object would keep a dropped stream running.
            self._task.add_done_callback(self._waiting.end)
        try:
            event = await self._waiting.get()
        except asyncio.CancelledError:  # Without its listener the turn would run on unseen.
            await self.aclose()
            raise
        if event is not None:
            return event
        if not self._task.cancelled():
            self.turn = self._task.result()
        raise StopAsyncIteration

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel the turn if it is still running, and wait until it is saved."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            # Not `await self._task`, which would raise what ended the turn.
            await asyncio.wait([self._task])

    def __del__(self) -> None:
        if self._task is not None and not self._task.done() and not self._task.get_loop().is_closed():
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)  # Any thread may collect garbage.


class _EventQueue:
    """The events that the listener has not taken yet."""

    # Deltas are joined while they wait. Kept one by one, those of a fast model would pile up before a slow listener.

    def __init__(self) -> None:
        self._events: deque[list[StreamEvent]] = deque()
        self._last: dict[Path, list[StreamEvent]] = {}
        """The last event of each run, in a list of its own, where a longer delta may take its place."""
        self._over = False
        self._changed = asyncio.Event()

    def put(self, event: StreamEvent) -> None:
        last = self._last.get(event.path)
        if last and isinstance(event, DELTAS) and (joined := _joined(last[0], event)):
            last[0] = joined
            return
        self._last[event.path] = last = [event]
        self._events.append(last)
        self._changed.set()

    def end(self, task: "asyncio.Task[Turn]") -> None:
        """End the queue: *task* is done."""
        if not task.cancelled():
            task.exception()  # Or asyncio warns of the exception when the listener has left and never reads it.
        self._over = True
        self._changed.set()

    async def get(self) -> StreamEvent | None:
        """Wait for the next event and return it, or None after the last one."""
        while not self._events:
            if self._over:
                return None
            self._changed.clear()
            await self._changed.wait()
        taken = self._events.popleft()
        event = taken[0]
        if self._last.get(event.path) is taken:
            del self._last[event.path]  # The listener has it: what would still be joined to it would be lost.
        return event


def _joined(delta: Any, more: Any) -> StreamEvent | None:
    """Return two deltas as one; None if they are not of one text, or together too long."""
    if _source(delta) != _source(more) or len(delta.text) + len(more.text) > MAX_DELTA:
        return None
    return with_path(structs.replace(delta, text=delta.text + more.text), delta.path)


def _source(event: Any) -> Any:
    """Return the text that a delta is a part of, which for arguments is that of one call."""
    return event.__class__, getattr(event, "index", 0), getattr(event, "name", "")
