"""A turn as it happens: its events, one by one, and then what it handed back."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .events import Happened
from .ports import Emit
from .turn import Turn


class Stream:
    """What happens in a turn, while it happens: `async for event in stream`.

    Events are those that are recorded (`minideep.events`), and `TextDelta`, `ThinkingDelta`, `ArgsDelta`,
    `Restarted`, `ToolStarted` and `ToolEnded`; each has a `path`, the keys of the calls from the main agent down.
    After the last one `stream.turn` is the `Turn`.

    The turn begins when it is first listened to. `aclose`, the end of `async with`, or nobody holding the stream any
    more cancels it, which leaves a thread that loads.
    """

    def __init__(self, start: Callable[[Emit], Coroutine[Any, Any, Turn]]) -> None:
        self.turn: Turn | None = None
        self._start = start
        self._told: asyncio.Queue[Happened | None] = asyncio.Queue()
        self._task: asyncio.Task[Turn] | None = None

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Happened:
        if self._task is None:
            self._task = asyncio.ensure_future(self._start(self._told.put_nowait))
            told = self._told  # Not this object, which the task must not keep alive.
            self._task.add_done_callback(lambda _: told.put_nowait(None))
        event = await self._told.get()
        if event is not None:
            return event
        self._told.put_nowait(None)  # For whoever asks again.
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
