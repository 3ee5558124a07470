"""A turn as it happens: its events, one by one, and then what it handed back."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from .events import Happened
from .ports import Emit
from .turn import Turn


class Stream:
    """What happens in a turn, while it happens: `async for event in stream`.

    Events are those that are recorded (`minideep.events`), and `TextDelta`, `ThinkingDelta`, `ArgsDelta`,
    `Restarted`, `ToolStarted` and `ToolEnded`; each has a `path`, the keys of the calls from the main agent down.
    After the last one `stream.turn` is the `Turn`. Who stops early cancels the turn, which leaves a loadable thread.
    """

    def __init__(self, start: Callable[[Emit], Coroutine[Any, Any, Turn]]) -> None:
        self.turn: Turn | None = None
        self._events = self._listen(start)

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Happened:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Cancel the turn, if it is not over, and wait until it is saved."""
        await self._events.aclose()

    async def _listen(self, start: Callable[[Emit], Coroutine[Any, Any, Turn]]) -> AsyncGenerator[Happened]:
        told: asyncio.Queue[Happened | None] = asyncio.Queue()
        task = asyncio.create_task(start(told.put_nowait))
        task.add_done_callback(lambda _: told.put_nowait(None))
        try:
            while (event := await told.get()) is not None:
                yield event
            self.turn = task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
