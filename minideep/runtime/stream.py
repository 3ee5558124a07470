"""A turn as it happens: its events, one by one, and then what it handed back."""

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

PIECES = (TextDelta, ThinkingDelta, ArgsDelta)
PIECE = 4096
"""Characters up to which pieces of a text that nobody has taken yet are joined."""


class Stream:
    """What happens in a turn, while it happens: `async for event in stream`.

    Events are those that are recorded (`minideep.events`), and `TextDelta`, `ThinkingDelta`, `ArgsDelta`,
    `Restarted`, `ToolStarted` and `ToolEnded`; each has a `path`, the keys of the calls from the main agent down.
    Those of one run come in their order. After the last one `stream.turn` is the `Turn`.

    The turn does not wait for its listener: who is slow gets the pieces of a text in larger ones, so that what waits
    is never much more than what the turn itself keeps. What a reply took stands in its `ModelReplied`, what the turn
    took in `stream.turn.costs`.

    The turn begins when it is first listened to. `aclose`, the end of `async with`, cancelling who waits for the next
    event, or nobody holding the stream any more cancels it, which leaves a thread that loads and can go on. All but
    the last wait until it is saved; so who may leave in the middle does it in an `async with`.
    """

    _task: "asyncio.Task[Turn] | None" = None

    @checked
    def __init__(self, start: Callable[[Emit], Coroutine[Any, Any, Turn]]) -> None:
        self.turn: Turn | None = None
        self._start = start
        self._told = _Waiting()

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> StreamEvent:
        if self._task is None:
            self._task = asyncio.ensure_future(self._start(self._told.put))
            self._task.add_done_callback(self._told.end)  # Not of this object, which the task must not keep alive.
        try:
            event = await self._told.get()
        except asyncio.CancelledError:
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
        """Cancel the turn, if it is not over, and wait until it is saved."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    def __del__(self) -> None:
        if self._task is not None and not self._task.done() and not self._task.get_loop().is_closed():
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)


class _Waiting:
    """Events that nobody has taken yet."""

    def __init__(self) -> None:
        self._events: deque[list[StreamEvent]] = deque()
        self._last: dict[Path, list[StreamEvent]] = {}
        """The last one of each run, in a list of its own, where a longer piece may take its place."""
        self._over = False
        self._there = asyncio.Event()

    def put(self, event: StreamEvent) -> None:
        last = self._last.get(event.path)
        if last and isinstance(event, PIECES) and (joined := _joined(last[0], event)):
            last[0] = joined
            return
        self._last[event.path] = last = [event]
        self._events.append(last)
        self._there.set()

    def end(self, task: "asyncio.Task[Turn]") -> None:
        """Nothing comes after this. What *task* has raised is known here, so that nobody is warned of it."""
        if not task.cancelled():
            task.exception()
        self._over = True
        self._there.set()

    async def get(self) -> StreamEvent | None:
        """The next event, or None after the last one."""
        while not self._events:
            if self._over:
                return None
            self._there.clear()
            await self._there.wait()
        taken = self._events.popleft()
        event = taken[0]
        if self._last.get(event.path) is taken:
            del self._last[event.path]
        return event


def _joined(piece: Any, more: Any) -> StreamEvent | None:
    """Two pieces of one text as one, unless they are too long for that, or none."""
    if _text(piece) != _text(more) or len(piece.text) + len(more.text) > PIECE:
        return None
    return with_path(structs.replace(piece, text=piece.text + more.text), piece.path)


def _text(piece: Any) -> Any:
    """What a piece is a piece of."""
    return piece.__class__, getattr(piece, "index", 0), getattr(piece, "name", "")
