"""Pacing: work of very many tasks at the same moment is spread over several rounds of their event loop.

A loop runs everything that is ready before it looks at its clock and its sockets again. 10,000 appends of 0.4 ms that
are all ready would make everything else wait for 4 seconds.
"""

import asyncio
from collections import deque
from typing import Any
from weakref import WeakKeyDictionary

PER_ROUND = 16
"""Tasks that pass in one round: a few milliseconds of work."""


class _Pace:
    """Lets the tasks of one loop pass in the order of their coming."""

    def __init__(self) -> None:
        self._passed = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def ticket(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[None] | None":
        """Return None if a task may pass in this round; otherwise a future that is done once it may."""
        if self._passed < PER_ROUND:
            if not self._passed:
                loop.call_soon(self._next_round, loop)
            self._passed += 1
            return None
        future = loop.create_future()
        self._waiting.append(future)
        return future

    def _next_round(self, loop: asyncio.AbstractEventLoop) -> None:
        self._passed = 0
        while self._waiting and self._passed < PER_ROUND:
            future = self._waiting.popleft()
            if not future.done():  # Otherwise its task was cancelled.
                future.set_result(None)
                self._passed += 1
        if self._passed:  # A loop in which nobody passes any more is left alone.
            loop.call_soon(self._next_round, loop)


_paces: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Pace]" = WeakKeyDictionary()


def _ticket() -> "asyncio.Future[None] | None":
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None  # The loop of this turn has ended: it is being closed, and saves what it can.
    if (pace := _paces.get(loop)) is None:
        pace = _paces[loop] = _Pace()
    return pace.ticket(loop)


async def wait() -> None:
    """Return at once, or in a later round of the loop if many tasks have passed in this one."""
    if (ticket := _ticket()) is not None:
        await ticket


async def shielded() -> None:
    """`wait`, even if the task is cancelled; then deliver the cancel."""
    if (ticket := _ticket()) is None:
        return
    try:
        await ticket  # Much cheaper than `through`, and hardly ever cancelled.
    except asyncio.CancelledError:
        if (ticket := _ticket()) is not None:
            await through(ticket)
        _cancel_again()


async def through(work: "asyncio.Future[Any]") -> None:
    """Wait until *work* is done, even if the task is cancelled; then deliver the cancel."""
    cancels = 0
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            cancels += 1
    if cancels:
        _cancel_again()


def _cancel_again() -> None:
    """Deliver a cancel that was caught at the next point where this task waits."""
    if (me := asyncio.current_task()) is not None:
        # First, so that the count of cancels is what the canceller left.
        me.uncancel()
        me.cancel()
