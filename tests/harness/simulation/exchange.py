"""Questions between simulated processes: an `Exchange` whose connections break when either side dies."""

import asyncio
from collections import deque
from contextlib import aclosing

from harness.simulation.loop import WORLD


class Exchange:
    """The exchange of one process."""

    def __init__(self, server, process) -> None:
        self.server, self.process = server, process

    def announce(self, thread, answer):
        self.server.announced[thread] = (self.process, answer)

    def withdraw(self, thread):
        if self.server.announced.get(thread, (None,))[0] is self.process:
            del self.server.announced[thread]

    def ask(self, thread, question):
        if thread not in self.server.announced:
            return None
        owner, answer = self.server.announced[thread]
        connection = Connection(self.server, self.process, owner, answer(question))
        self.server.connections.append(connection)
        return connection


class Connection:
    """The answers to one question. The next one is worked out once there is room for it."""

    def __init__(self, server, asker, owner, answers) -> None:
        self.server, self.asker, self.owner = server, asker, owner
        self._answers, self._items, self._state, self._pump = answers, deque(), "open", None
        self._more: list[asyncio.Future] = []
        self._room: asyncio.Future | None = None

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self._pump is None:
            self._pump = self.owner.spawn(self._work())
        while not self._items:
            if self._state == "ended":
                raise StopAsyncIteration
            if self._state == "broken":
                raise ConnectionError("the runner is gone")
            self._more.append(more := asyncio.get_running_loop().create_future())
            await more
        item = self._items.popleft()
        if self._room is not None and not self._room.done():
            self.server.loop.call_soon(_settle, self._room, context=self.owner.context.copy())
        return item

    async def aclose(self):
        self._state = "ended"
        if self._pump is not None and not self.owner.dead:
            self.server.loop.call_soon(self._pump.cancel, context=self.owner.context.copy())

    def broke(self) -> None:
        """One side has died."""
        if self.asker.dead:
            if self._pump is not None and not self.owner.dead:
                self.server.loop.call_soon(self._pump.cancel, context=self.owner.context.copy())
        elif self._state == "open":
            self._end("broken")

    async def _work(self):
        state = "broken"
        try:
            async with aclosing(self._answers) as answers:
                async for one in answers:
                    await asyncio.sleep(self.server.latency())
                    self._items.append(one)
                    self._tell()
                    while len(self._items) > 1:
                        self._room = asyncio.get_running_loop().create_future()
                        await self._room
            state = "ended"
        except (Exception, asyncio.CancelledError):
            pass
        finally:
            if self._state == "open" and not self.owner.dead:
                self._end(state)

    def _end(self, state: str) -> None:
        self._state = state
        self._tell()

    def _tell(self) -> None:
        more, self._more = self._more, []
        for one in more:
            self.server.loop.call_later(self.server.latency(), _settle, one, context=WORLD.copy())


def _settle(future) -> None:
    if not future.done():
        future.set_result(None)
