"""The bounds of a process: turns at once, and calls on threads at once."""

import asyncio
import contextvars
import os
import threading
from collections import OrderedDict
from typing import Any

from ..checks import checked
from ..kinds import Positive
from ..loops import MAX_THREADS


@checked
def configure_process(max_turns: Positive | None = None, max_tool_threads: Positive | None = MAX_THREADS) -> None:
    """Bound what all agents of this process do at once. It holds for what begins from now on; None: no bound.

    *max_turns* bounds turns; more wait, first come, first served, and hold nothing meanwhile. Subagents are part of
    their turn. A turn that a tool begins inside another turn does not wait.

    *max_tool_threads* bounds plain functions that run on threads: tools, and the file access of backends. More wait.
    A call that was left behind, after its timeout or a cancel, no longer counts. What a tool itself sets going with
    `run_sync` does not wait, unless it does so from a thread that it has started itself.

    Raises:
        ConfigError: a bound is not a whole number above 0.
    """
    from ..workers import POOL  # Loaded by the first plain function, or here.

    TURNS.set_max_turns(max_turns)
    POOL.set_max_threads(max_tool_threads)


class Turns:
    """The turns that run, and the queue of those that wait; for all event loops of the process."""

    def __init__(self) -> None:
        self.max_turns: int | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all turns: those of a process that was forked go on in its parent."""
        # Reentrant: the garbage collector may end a turn, whose loop is gone, while this thread holds the lock.
        self._lock = threading.RLock()
        self.running: set[TurnSlot] = set()
        self._waiting: OrderedDict[TurnSlot, asyncio.Future[None]] = OrderedDict()

    def set_max_turns(self, max_turns: int | None) -> None:
        with self._lock:
            self.max_turns = max_turns
            self._admit()

    def enter(self, slot: "TurnSlot") -> "asyncio.Future[None] | None":
        """Let a turn begin, or have it wait for the future that is returned."""
        with self._lock:
            if not self._has_room():  # Turns of a loop that was closed under them are not over, but never will be.
                self.running = {other for other in self.running if not other.loop.is_closed()}
                self._admit()
            if not self._waiting and self._has_room():
                self.running.add(slot)
                return None
            waiter = self._waiting[slot] = slot.loop.create_future()
            return waiter

    def leave(self, slot: "TurnSlot") -> None:
        """End a turn, or its waiting; another may begin."""
        with self._lock:
            self._waiting.pop(slot, None)
            self.running.discard(slot)
            self._admit()

    def _has_room(self) -> bool:
        return self.max_turns is None or len(self.running) < self.max_turns

    def _admit(self) -> None:
        while self._waiting and self._has_room():
            slot, waiter = self._waiting.popitem(last=False)
            try:
                waiter.get_loop().call_soon_threadsafe(_wake, waiter)
            except RuntimeError:  # Its loop has ended: nobody waits any more.
                continue
            self.running.add(slot)


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


class TurnSlot:
    """The right to run a turn: `async with TurnSlot():` waits for it. Costs nothing where no bound is set."""

    loop: asyncio.AbstractEventLoop

    async def __aenter__(self) -> None:
        # A turn inside another one must not wait: the one that it is part of waits for it, and holds a slot.
        if TURNS.max_turns is None or _turn.get() in TURNS.running:
            return
        self.loop, entered = asyncio.get_running_loop(), False
        try:
            if (waiter := TURNS.enter(self)) is not None:
                await waiter
            _turn.set(self)
            entered = True
        finally:
            if not entered:
                TURNS.leave(self)

    async def __aexit__(self, *exc: Any) -> None:
        if self in TURNS.running:
            TURNS.leave(self)


_turn: contextvars.ContextVar[TurnSlot | None] = contextvars.ContextVar("turn", default=None)
"""The turn that this code runs in; tasks, threads and `run_sync` pass it on."""
TURNS = Turns()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TURNS.reset)
