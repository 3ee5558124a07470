"""An event loop without sockets, threads or waiting: when nothing is ready, time jumps to the next timer.

Everything that runs on it belongs to a process, or to the world outside of all processes. A process that dies is never
run again: its callbacks are dropped wherever they wait, as after a kill.
"""

import asyncio
import contextlib
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from itertools import count
from random import Random
from typing import Any

PROCESS: ContextVar[Any] = ContextVar("process", default=None)
"""The simulated process that the running code belongs to; None: the world."""
WORLD = Context()
DEEP = 6
"""Plain functions that may be suspended inside each other."""


class Hang(BaseException):
    """Virtual time or the number of callbacks is up: something waits for ever, or spins."""


class Killed(BaseException):
    """Raised in a plain function whose process died while it waited for its store."""


class _Task(asyncio.Task):
    """A task whose place in a set does not depend on its address."""

    def __hash__(self):
        return self.serial


class _Future(asyncio.Future):
    def __hash__(self):
        return self.serial


class _Timer(asyncio.TimerHandle):
    """A timer that goes after those that were set before it for the same time."""

    __slots__ = ("serial",)

    def __lt__(self, other):
        return (self._when, self.serial) < (other._when, other.serial)


class Loop(asyncio.AbstractEventLoop):
    """An event loop on virtual time. What is ready runs in the order in which it became ready, as asyncio promises."""

    def __init__(self, random: Random, most: int = 60_000) -> None:
        self.random = random
        self.problems: list[Any] = []
        """What asyncio would have logged."""
        self._now, self._left, self._depth = 1000.0, most, 0
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[_Timer] = []
        self._serials = count(1)
        self._tasks: list[asyncio.Task] = []
        self._closed = False

    # ---- driving

    def run(self, main, until: float) -> Any:
        """Run a coroutine to its end.

        Raises:
            Hang: it takes longer than *until* seconds of virtual time.
        """
        self._last = self._now + until
        events._set_running_loop(self)
        try:
            task = WORLD.copy().run(self.create_task, main)
            while not task.done():
                self._step()
            return task.result()
        finally:
            events._set_running_loop(None)

    def pause(self, seconds: float) -> None:
        """Let others run for some virtual time, inside of a plain function that waits for its store."""
        if asyncio._get_running_loop() is not self or asyncio.current_task(self) is not None or self._depth >= DEEP:
            return  # A plain function in a task holds the loop up, here as anywhere.
        process, over = PROCESS.get(), list[bool]()
        self._depth += 1
        try:
            self.call_later(seconds, over.append, True, context=WORLD.copy())
            while not over:
                self._step()
        finally:
            self._depth -= 1
        if process is not None and process.dead:
            raise Killed

    def _step(self) -> None:
        if not self._ready:
            if not self._timers:
                raise Hang("nothing is left to do, and somebody waits")
            self._now = max(self._now, self._timers[0]._when)
            if self._now > self._last:
                raise Hang("virtual time is up")
            while self._timers and self._timers[0]._when <= self._now:
                self._ready.append(heapq.heappop(self._timers))
            return
        handle = self._ready.popleft()
        if handle._cancelled:
            return
        process = handle._context.get(PROCESS)
        if process is None or process.lives():
            self._left -= 1
            if self._left < 0:
                raise Hang("it spins")
            handle._run()

    def bury(self) -> None:
        """Close everything that never ended, as the garbage collector does with what a closed loop has left."""
        self._closed = True
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False
                with contextlib.suppress(BaseException):  # It may await something once more.
                    task.get_coro().close()
        self._tasks.clear(), self._ready.clear(), self._timers.clear()

    # ---- what asyncio asks of a loop

    def time(self):
        return self._now

    def call_soon(self, callback, *args, context=None):
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay, callback, *args, context=None):
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(self, when, callback, *args, context=None):
        timer = _Timer(when, callback, args, self, context)
        timer.serial = next(self._serials)
        timer._scheduled = True
        heapq.heappush(self._timers, timer)
        return timer

    def _timer_handle_cancelled(self, handle):
        """Nothing: it is dropped when its time comes."""

    def create_future(self):
        future = _Future(loop=self)
        future.serial = next(self._serials)
        return future

    def create_task(self, coro, *, name=None, context=None):
        task = _Task.__new__(_Task)
        task.serial = next(self._serials)  # Before the rest: asyncio puts each new task into a set.
        task.__init__(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor, func, *args):
        """Call *func* a moment later, in one go but for the times that it waits for its store."""
        outcome = self.create_future()
        self.call_later(self.random.expovariate(1000), self._call, outcome, func, args)
        return outcome

    def _call(self, outcome, func, args) -> None:
        try:
            value = func(*args)
        except Killed:
            return
        except Exception as exc:
            if not outcome.done():
                outcome.set_exception(exc)
        else:
            if not outcome.done():
                outcome.set_result(value)

    def get_debug(self):
        return False

    def is_running(self):
        return True

    def is_closed(self):
        return self._closed

    def call_exception_handler(self, context):
        if isinstance(context.get("exception"), Hang):
            raise context["exception"]
        self.problems.append(context)


def later(loop: Loop, seconds: float, act: Callable[..., Any], *args: Any) -> None:
    """Have the world do something."""
    loop.call_later(seconds, act, *args, context=WORLD.copy())
