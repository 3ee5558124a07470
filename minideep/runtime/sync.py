"""For scripts: coroutines run on one event loop, on a thread of its own.

One loop for the whole program, for the SDKs' connections belong to the loop that opened them; and on another thread,
so that it also works where a loop runs already.
"""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from ..errors import ConfigError, MinideepError
from ..loops import blocking

T = TypeVar("T")


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* to its end; return what it returns, or raise what it raises, `SystemExit` included.

    Whatever interrupts the waiting, such as Ctrl-C or a signal handler that raises, cancels *work*, waits until it has
    ended, and is raised.

    Raises:
        ConfigError: called by something that itself runs on that loop, which would wait for itself for ever.
        MinideepError: the loop itself broke, which is then replaced.
    """
    if threading.current_thread() is _current:
        work.close()
        raise ConfigError("`run_sync` was called by a coroutine that `run_sync` runs; `await agent.run(...)` there")
    call = _Call(work)
    with blocking(call.outcome):  # The loop that runs on this thread, if one does.
        loop = _begin(call)
    try:
        return call.outcome.result()
    finally:
        if not call.outcome.done():
            loop.call_soon_threadsafe(call.cancel)
            wait([call.outcome])


class _Call:
    """A coroutine on the loop, and what comes of it for the thread that waits."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self.outcome: Future[Any] = Future()
        self._work = work
        self._task: asyncio.Task[Any] | None = None

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: "asyncio.Task[Any]") -> None:
        if task.cancelled():
            self.outcome.set_exception(asyncio.CancelledError())
        elif (failed := task.exception()) is not None:
            self.outcome.set_exception(failed)
        else:
            self.outcome.set_result(task.result())


class _LoopThread(threading.Thread):
    """The thread of an event loop, which runs for as long as the loop can."""

    def __init__(self) -> None:
        super().__init__(daemon=True, name="minideep-loop")
        self.loop = asyncio.new_event_loop()
        self.outcomes: set[Future[Any]] = set()
        """Of the calls that are not over."""

    def run(self) -> None:
        try:
            while True:
                # A task that raises one of these has it as its result, as any other exception, but the loop stops
                # too. It is run again: callers wait for that task, and for others.
                with contextlib.suppress(SystemExit, KeyboardInterrupt):
                    self.loop.run_forever()
        finally:  # The loop itself is broken, by a timer that is no number for instance.
            cause = sys.exception()
            _replace(self)
            self.loop.close()
            for outcome in list(self.outcomes):
                failed = MinideepError(
                    f"the event loop of `run_sync` broke: {cause!r}; the turn was not saved to its end"
                )
                failed.__cause__ = cause
                outcome.set_exception(failed)


_lock = threading.Lock()
_current: _LoopThread | None = None


def _begin(call: _Call) -> asyncio.AbstractEventLoop:
    """Begin *call* on the program's loop, which is started if there is none."""
    global _current
    with _lock:
        if _current is None:
            _current = _LoopThread()
            _current.start()
        outcomes, loop = _current.outcomes, _current.loop
        outcomes.add(call.outcome)  # Before it begins: a loop that breaks first must not leave it waiting.
        call.outcome.add_done_callback(outcomes.discard)
        loop.call_soon_threadsafe(call.begin)
        return loop


def _replace(broken: _LoopThread) -> None:
    """Have the next call start a new loop."""
    global _current
    with _lock:
        if _current is broken:
            _current = None


def _forget() -> None:
    """Start anew in a process that was forked: its parent's thread is not in it, and may have held the lock."""
    global _current, _lock
    _lock, _current = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
