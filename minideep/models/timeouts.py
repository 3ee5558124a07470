"""How long a model may take to answer, and the clocks that end a request which takes longer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Literal

from ..checks import UserWritten, check_fields
from ..kinds import Seconds


class Timeouts(UserWritten, frozen=True):
    """How many seconds a model may take: `Timeouts(first_byte=60, total=600)`. None is no limit.

    A limit that is reached is a transient `ModelError` that names it. The request is not made again then, except that
    the SDK tries to connect as often as it retries.
    """

    connect: Seconds | None = 5.0
    """Until the server accepts the connection, for each attempt."""
    first_byte: Seconds | None = 600.0
    """From the request until the answer begins, the SDK's retries included. A reply that is not streamed comes whole,
    so that this is the time in which it must be written.
    """
    between: Seconds | None = 600.0
    """Of silence in the middle of a stream. Comments and pings, with which servers keep a connection alive, end it."""
    total: Seconds | None = None
    """For the whole reply, with every attempt that is made at it."""

    def __post_init__(self) -> None:
        check_fields(self)


UNLIMITED = Timeouts(None, None, None)


class TimedOut(Exception):
    """A limit of `Timeouts` was reached."""

    def __init__(self, what: str, limit: str, seconds: float | None) -> None:
        super().__init__(f"{what} within {seconds:g} s; set timeout=Timeouts({limit}=...) to wait longer")


@asynccontextmanager
async def within(total: float | None) -> AsyncGenerator[None]:
    """Limit what runs inside to *total* seconds. Raises `TimedOut`."""
    clock = asyncio.timeout(total)
    try:
        async with clock:
            yield
    except TimeoutError:
        if not clock.expired():
            raise
        raise TimedOut("the reply was not complete", "total", total) from None


class Silence:
    """Limits how long a server may be silent: `async with Silence(timeouts) as silence`.

    It begins with the request; `heard` ends it. Raises `TimedOut`.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._phase: Literal["first_byte", "between"] = "first_byte"
        self._clock = asyncio.timeout(None)
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> "Silence":
        await self._clock.__aenter__()
        self._watch()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer:
            self._timer.cancel()
        try:
            await self._clock.__aexit__(kind, exc, trace)
        except TimeoutError:
            what = "no answer began" if self._phase == "first_byte" else "nothing more came"
            raise TimedOut(what, self._phase, self._limit) from None

    def heard(self) -> None:
        """Note that the server has sent something."""
        self._since = self._loop.time()
        if self._phase == "first_byte":
            self._phase = "between"
            if self._timer:
                self._timer.cancel()
            self._watch()

    @property
    def _limit(self) -> float | None:
        return self._timeouts.first_byte if self._phase == "first_byte" else self._timeouts.between

    def _watch(self) -> None:
        # One timer, which looks when it fires how long it is silent already: a timer for each event would cost more
        # than the event.
        self._timer = None
        if (limit := self._limit) is None:
            return
        if (until := self._since + limit) <= self._loop.time():
            self._clock.reschedule(until)
        else:
            self._timer = self._loop.call_at(until, self._watch)
