"""A turn as it happens: an iterator over its events, and then its result."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, TypeVar

from ..checks import checked
from ..errors import ConfigError
from ..events import StreamEvent
from ..tools import R
from ..turn import Turn
from .feed import Reader
from .live import LiveTurn

T = TypeVar("T")
MIXED = "one stream is read both with `await` and without: in a coroutine use `async with` and `async for` only"


class Stream(Generic[R]):
    """The events of a turn, while it runs: `async for event in stream`. After the last one `stream.turn` is the `Turn`.

    The events are those that are recorded (`minideep.events`), and `TextDelta`, `ThinkingDelta`, `ArgsDelta`,
    `Restarted`, `ToolStarted` and `ToolEnded`. Each has a `path`: the keys of the children that lead from the main run
    to the run that it belongs to; its `number` in the thread, or 0; `at`, in seconds since 1970; and an `id`. The
    events of one run arrive in order. The cost of a reply is in its `ModelReplied`, that of the turn in
    `stream.turn.costs`. The input arrives once it is saved, and so does the end of the turn.

    The turn does not wait for its listener. A slow listener receives fewer, larger deltas, so that waiting events never
    take much more memory than the turn itself.

    Synchronous code reads it with `for event in stream`.

    The turn begins with the first event that is read. It is cancelled by `aclose`, by the end of an `async with`, by
    cancelling the task that waits for the next event, by leaving a plain `for`, and by dropping the stream. The thread
    is then saved and can be resumed. Dropping the stream does not wait for that, the other ways do: if you may break
    out early, use `async with`. To leave a turn that should go on, use `Agent.start` and `Agent.follow`.
    """

    _task: "asyncio.Task[Turn[R]] | None" = None

    @checked
    def __init__(self, start: Callable[[Callable[[LiveTurn], None]], Coroutine[Any, Any, Turn[R]]]) -> None:
        self._turn: Turn[R] | None = None
        self._start = start
        self._beginning = _Beginning()

    def __repr__(self) -> str:
        if self._turn is not None:
            return f"<Stream, over: {self._turn!r}>"
        return f"<Stream, {'not begun' if self._task is None else 'running'}>"

    @property
    def turn(self) -> Turn[R]:
        """The turn, once the stream is over.

        Raises:
            ConfigError: it is not over, or it was left before its end.
        """
        if self._turn is None:
            raise ConfigError("the stream has no turn yet: read it to its end; one that was left early has none")
        return self._turn

    def __aiter__(self) -> "Stream[R]":
        return self

    async def __anext__(self) -> StreamEvent:
        if self._task is None:
            # Not a method of ours: a task that held this object would keep a dropped stream running.
            self._task = asyncio.ensure_future(self._start(self._beginning.begun))
            self._task.add_done_callback(self._beginning.end)
        elif self._task.get_loop() is not asyncio.get_running_loop():
            raise ConfigError(MIXED)
        try:
            await self._beginning.over.wait()
            event = await self._beginning.next()
            if event is None:
                await asyncio.wait([self._task])
        except asyncio.CancelledError:  # Without its listener the turn would run on unseen.
            await self.aclose()
            raise
        if event is not None:
            return event
        if not self._task.cancelled():
            self._turn = self._task.result()
        raise StopAsyncIteration

    def __iter__(self) -> Iterator[StreamEvent]:
        """Iterate in synchronous code, on the event loop of `run_sync`. Leaving the `for` early cancels the turn."""
        try:
            while (event := self._waited(self._next())) is not None:
                yield event
        finally:
            self._waited(self.aclose())

    def __enter__(self) -> "Stream[R]":
        return self

    def __exit__(self, *exc: object) -> None:
        self._waited(self.aclose())

    def _waited(self, work: Coroutine[Any, Any, T]) -> T:
        from .sync import run_sync

        task = self._task
        if task is not None and not task.done() and task.get_loop() is asyncio._get_running_loop():
            work.close()  # It would wait for this very code.
            task.cancel()
            raise ConfigError(MIXED)
        return run_sync(work)

    async def _next(self) -> StreamEvent | None:
        return await anext(self, None)

    async def __aenter__(self) -> "Stream[R]":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel the turn if it is still running, and wait until it is saved."""
        if self._task is not None and not self._task.done():
            if (loop := self._task.get_loop()) is not asyncio.get_running_loop():  # A plain `for` has begun it.
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.aclose(), loop))
                return
            self._task.cancel()
            # Not `await self._task`, which would raise what ended the turn.
            await asyncio.wait([self._task])

    def __del__(self) -> None:
        if self._task is not None and not self._task.done() and not self._task.get_loop().is_closed():
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)  # Any thread may collect garbage.


class _Beginning:
    """Waits for the turn of a stream to begin, or to be refused."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.live: LiveTurn | None = None
        self.reader: Reader | None = None

    async def next(self) -> StreamEvent | None:
        """Return the next event of the turn, without the history that its input came with; None after the last one."""
        while self.reader and self.live and (event := await self.reader.get()):
            if not 0 < event.number <= self.live.number:
                return event
        return None

    def begun(self, live: LiveTurn) -> None:
        self.live = live
        self.reader = live.feed(private=True).reader()
        self.over.set()

    def end(self, task: "asyncio.Task[Any]") -> None:
        if not task.cancelled():
            task.exception()  # Or asyncio warns of the exception when the listener has left and never reads it.
        self.over.set()
