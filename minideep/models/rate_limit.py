"""A gate before a model: only so many agents ask at once, and when one is rate limited all of them wait."""

import asyncio
import random
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

from ..checks import checked
from ..errors import RateLimited
from ..kinds import Positive, Seconds
from ..ports import Emit, Model, Reply, Request
from .adapter import Listener
from .registry import resolve

TRIES = 5
"""How often a request is asked that is rate limited each time."""


class RateLimiter:
    """*model*, for many agents at once: `RateGate("anthropic:claude-sonnet-4-6")`, given to an agent and its subagents.

    At most *at_once* requests are under way; others wait their turn, first come, first served. When one is rate
    limited, after the SDK's own retries, no new one begins for *first* seconds, or, if that happened not long before,
    for twice as long as then, at most *longest*; and for up to half of that less, so that several programs do not come
    back at one moment. Then it is asked again, before those that came later; limited a fifth time, it fails.

    Everything else is *model*'s. Each event loop has a queue of its own.

    Raises:
        ConfigError: *at_once* is no whole number above 0.
    """

    @checked
    def __init__(
        self,
        model: str | Model,
        at_once: Positive = 8,
        *,
        first: Seconds = 1.0,
        longest: Seconds = 60.0,
    ) -> None:
        self.model = resolve(model)
        self.name: str = self.model.name
        self._at_once = at_once
        self._first = first
        self._longest = longest
        self._queues: dict[asyncio.AbstractEventLoop, _Queue] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Asked for by `copy` before there is a model.
            raise AttributeError(name)
        return getattr(self.model, name)

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request*, once it is its turn.

        Raises:
            RateLimited: it was, each time.
        """
        queue, listener = self._queue(), Listener(emit) if emit else None
        ticket = queue.ticket()
        for _ in range(TRIES - 1):
            try:
                return await self._asked(queue, ticket, request, listener)
            except RateLimited:
                if listener:
                    listener.take_back()
        return await self._asked(queue, ticket, request, emit)

    async def _asked(self, queue: "_Queue", ticket: int, request: Request, emit: Emit | None) -> Reply:
        await queue.enter(ticket)
        asked = queue.now()
        try:
            return await self.model.complete(request, emit)
        except RateLimited:
            queue.limited(asked)
            raise
        finally:
            queue.leave()

    def _queue(self) -> "_Queue":
        """That of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._queues:
            for closed in [other for other in list(self._queues) if other.is_closed()]:
                self._queues.pop(closed, None)
            self._queues[loop] = _Queue(loop, self._at_once, self._first, self._longest)
        return self._queues[loop]


class _Queue:
    """Who may ask now, and who waits, on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, free: int, first: float, longest: float) -> None:
        self._loop = loop
        self._free = free
        self._first = first
        self._longest = longest
        self._tickets = count()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._opening: asyncio.TimerHandle | None = None
        """What opens the gate again; None: it is open."""
        self._wait = 0.0
        """Seconds of the last wait, of which up to half were spared."""
        self._shut = self._opens = -inf
        """When that began, and ended or will end."""

    def now(self) -> float:
        return self._loop.time()

    def ticket(self) -> int:
        """A place in the queue, behind all others."""
        return next(self._tickets)

    async def enter(self, ticket: int) -> None:
        """Wait until who has *ticket* may ask. Who was let in must `leave`."""
        if self._free and self._opening is None:
            self._free -= 1
            return
        future = self._loop.create_future()
        heappush(self._waiting, (ticket, future))
        self._let_in()
        try:
            await future
        except asyncio.CancelledError:
            if not future.cancelled():  # It was let in at the same moment.
                self.leave()
            raise

    def leave(self) -> None:
        """Make room for the next."""
        self._free += 1
        self._let_in()

    def limited(self, asked: float) -> None:
        """Let nobody in for a while, because of a request that began at *asked*; once for all that began before."""
        if asked <= self._shut:
            return
        again = asked - self._opens <= self._wait
        self._wait = min(2 * self._wait if again else self._first, self._longest)
        seconds = self._wait * random.uniform(0.5, 1)
        self._shut = self.now()
        self._opens = self._shut + seconds
        self._opening = self._loop.call_later(seconds, self._open)

    def _open(self) -> None:
        self._opening = None
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._free and self._opening is None:
            future = heappop(self._waiting)[1]
            if not future.done():  # Else it was cancelled.
                self._free -= 1
                future.set_result(None)
