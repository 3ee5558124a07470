"""A limit on concurrent requests to a model, and a backoff that all of its agents share."""

import asyncio
import random
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf

from ..checks import checked
from ..errors import RateLimited
from ..kinds import Positive, Seconds
from ..ports import Emit, Model, Reply, Request
from .attempts import first_reply
from .clients import PerLoop
from .resolving import resolve
from .wrapper import ModelWrapper

MAX_ATTEMPTS = 5


class RateLimiter(ModelWrapper):
    """*model* for many agents at once: `RateLimiter("anthropic:claude-sonnet-4-6")`, shared by an agent and subagents.

    At most *max_concurrency* requests run at a time; the others wait, first come, first served. When one is rate
    limited, after the SDK's own retries, no request starts for *initial_backoff* seconds. If that happened shortly
    before, the wait doubles, up to *max_backoff*. Each wait is shortened by up to half at random, so that several
    programs do not return at the same moment, but never below what the provider asks for (`RateLimited.retry_after`).
    Then the limited request is repeated, ahead of those that came later. It fails the fifth time that it is limited,
    and at once if the provider asks to wait longer than *max_backoff*.

    Otherwise it behaves like *model*. Each event loop has its own queue.

    Raises:
        ConfigError: *max_concurrency* is not a whole number above 0, or *model* is not a model.
    """

    @checked
    def __init__(
        self,
        model: str | Model,
        max_concurrency: Positive = 8,
        *,
        initial_backoff: Seconds = 1.0,
        max_backoff: Seconds = 60.0,
    ) -> None:
        super().__init__([resolve(model)])
        self.model: Model = self.models[0]
        self._limits = max_concurrency, initial_backoff, max_backoff
        self._queues = PerLoop[_Queue]()

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request* when it reaches the head of the queue.

        Raises:
            RateLimited: each of the attempts was rate limited, or the provider asks to wait longer than `max_backoff`.
        """
        queue = self._queues.get() or self._queues.put(_Queue(asyncio.get_running_loop(), *self._limits))
        attempt = partial(self._ask, queue, queue.ticket(), request)
        return await first_reply([attempt] * MAX_ATTEMPTS, emit, RateLimited, patience=self._limits[2])

    async def _ask(self, queue: "_Queue", ticket: int, request: Request, emit: Emit | None) -> Reply:
        await queue.enter(ticket)
        started = queue.now()
        try:
            return await self.model.complete(request, emit)
        except RateLimited as exc:
            queue.back_off(started, exc.retry_after or 0.0)
            raise
        finally:
            queue.leave()


class _Queue:
    """The requests of one event loop: those that run, and those that wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop, free: int, initial_backoff: float, max_backoff: float) -> None:
        self._loop = loop
        self._free = free
        self._initial_backoff = initial_backoff
        self._max_backoff = max_backoff
        self._tickets = count()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None
        """Ends the current backoff; None: requests may start."""
        self._backoff = 0.0
        """Seconds of the last backoff, before it was shortened at random."""
        self._backoff_start = self._backoff_end = -inf

    def now(self) -> float:
        return self._loop.time()

    def ticket(self) -> int:
        """Return a place behind all others."""
        return next(self._tickets)

    async def enter(self, ticket: int) -> None:
        """Wait until the request with *ticket* may start. After it, `leave` must be called."""
        if self._free and self._timer is None:
            self._free -= 1
            return
        future = self._loop.create_future()
        heappush(self._waiting, (ticket, future))
        self._start_next()
        try:
            await future
        except asyncio.CancelledError:
            # It was let in and cancelled at the same moment: without this its place would be lost.
            if not future.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Free a place for the next request."""
        self._free += 1
        self._start_next()

    def back_off(self, started: float, asked: float) -> None:
        """Start no request for a while, since one that began at *started* was rate limited.

        *asked* is how many seconds the provider asks to wait. If they are more than the longest backoff, the request
        fails, and the others are not held up for it.
        """
        seconds = asked if asked <= self._max_backoff else 0.0
        # One limit often hits a whole burst: requests that began before the backoff make it no longer by themselves.
        if started > self._backoff_start:
            again = started - self._backoff_end <= self._backoff
            self._backoff = min(2 * self._backoff if again else self._initial_backoff, self._max_backoff)
            self._backoff_start = self.now()
            seconds = max(seconds, self._backoff * random.uniform(0.5, 1))
        self._hold(self.now() + seconds)

    def _hold(self, end: float) -> None:
        if end <= self._backoff_end:
            return
        self._backoff_end = end
        if self._timer:
            self._timer.cancel()
        self._timer = self._loop.call_at(end, self._resume)

    def _resume(self) -> None:
        self._timer = None
        self._start_next()

    def _start_next(self) -> None:
        while self._waiting and self._free and self._timer is None:
            future = heappop(self._waiting)[1]
            # A cancelled one stays in the heap until its turn comes.
            if not future.done():
                self._free -= 1
                future.set_result(None)
