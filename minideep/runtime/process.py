"""Bounds on the turns, and on the calls in worker threads, that one process runs at once."""

import asyncio
import contextvars
import os
import threading
from collections import OrderedDict
from typing import Any

from ..checks import checked
from ..kinds import Positive


@checked
def configure_process(max_turns: Positive | None = None, max_tool_threads: Positive | None = 500) -> None:
    """Set bounds on the work that all agents of this process do at once, from now on. None removes a bound.

    *max_turns* bounds turns. Further turns wait in the order of their arrival, and do not lock their threads meanwhile.
    Subagents are part of their turn and are not counted. A turn that a tool begins inside another turn does not wait.

    *max_tool_threads* bounds the plain functions that run in worker threads: tools, and the file access of backends.
    Further calls wait. A call that was left behind, after its timeout or a cancellation, no longer counts. If a tool
    runs an agent with `run_sync`, the calls of that agent do not wait, unless the tool calls `run_sync` from an OS
    thread that it started itself.

    Raises:
        ConfigError: a bound is not a whole number above 0.
    """
    from ..workers import POOL  # Otherwise loaded by the first plain function: most agents never need it.

    TURNS.set_max_turns(max_turns)
    POOL.set_max_threads(max_tool_threads)


class TurnQueue:
    """The turns that run and those that wait, on all event loops of the process."""

    def __init__(self) -> None:
        self.max_turns: int | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all turns. In a forked process they belong to the parent process, which continues them."""
        # Reentrant: the garbage collector may end a turn, whose loop is gone, while this thread holds the lock.
        self._lock = threading.RLock()
        self.running: set[TurnSlot] = set()
        self._waiting: OrderedDict[TurnSlot, asyncio.Future[None]] = OrderedDict()

    def set_max_turns(self, max_turns: int | None) -> None:
        with self._lock:
            self.max_turns = max_turns
            self._admit()

    def enter(self, slot: "TurnSlot") -> "asyncio.Future[None] | None":
        """Let a turn begin and return None, or return the future that it must wait for."""
        with self._lock:
            if not self._has_room():  # A turn whose loop was closed never leaves by itself.
                self.running = {other for other in self.running if not other.loop.is_closed()}
                self._admit()
            if not self._waiting and self._has_room():
                self.running.add(slot)
                return None
            waiter = self._waiting[slot] = slot.loop.create_future()
            return waiter

    def leave(self, slot: "TurnSlot") -> None:
        """Remove a turn that is over or has given up waiting, and let the next one begin."""
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
            except RuntimeError:  # Its loop is closed, so nobody waits any more.
                continue
            # Now, not when it wakes up: until then another turn could take the place.
            self.running.add(slot)


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():  # Its task may be cancelled by now.
        waiter.set_result(None)


class TurnSlot:
    """The right to run a turn: `async with TurnSlot():` waits for it. Without a bound it costs nothing."""

    loop: asyncio.AbstractEventLoop

    async def __aenter__(self) -> None:
        # A turn inside another one must not wait: the outer turn waits for it and keeps its slot, a deadlock.
        if TURNS.max_turns is None or _turn.get() in TURNS.running:
            return
        self.loop, entered = asyncio.get_running_loop(), False
        try:
            if (waiter := TURNS.enter(self)) is not None:
                await waiter
            _turn.set(self)
            entered = True
        finally:
            # If it was cancelled just when it was let in, nobody else would ever get its place.
            if not entered:
                TURNS.leave(self)

    async def __aexit__(self, *exc: Any) -> None:
        if self in TURNS.running:  # It is not if there is no bound, or in a forked process.
            TURNS.leave(self)


_turn: contextvars.ContextVar[TurnSlot | None] = contextvars.ContextVar("turn", default=None)
"""The turn that this code runs in; tasks, threads and `run_sync` pass it on."""
TURNS = TurnQueue()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TURNS.reset)
