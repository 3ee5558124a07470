"""`run_sync` runs coroutines from synchronous code, on one event loop that has an OS thread of its own.

There is one loop for the whole program, because the connections of an SDK belong to the loop that opened them:
`asyncio.run` would close it after each call, and the next call would fail on a pooled connection. The loop runs on
another OS thread, so that `run_sync` also works where an event loop is already running, as in a notebook.
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
    """Run *work* to its end. Return its result or raise its exception, including `SystemExit`.

    If something interrupts the wait, such as Ctrl-C or a signal handler that raises, *work* is cancelled and awaited
    before the exception is raised, so that the conversation is saved.

    Raises:
        ConfigError: the caller runs on the event loop of `run_sync`, which would then wait for itself forever.
        MinideepError: the loop broke; the next call starts a new one.
    """
    if threading.current_thread() is _current:
        work.close()  # Or Python warns that it was never awaited.
        raise ConfigError("`run_sync` was called by a coroutine that `run_sync` runs; `await agent.run(...)` there")
    call = _Call(work)
    with blocking(call.outcome):  # Tells what starts here that the loop of this thread, if there is one, stands still.
        loop = _start(call)
    try:
        return call.outcome.result()
    finally:
        if not call.outcome.done():
            loop.call_soon_threadsafe(call.cancel)
            wait([call.outcome])  # Its thread is saved before the interruption goes on.


class _Call:
    """A coroutine on the loop, and its outcome for the thread that waits."""

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
    """The thread of the event loop, which runs it for as long as the loop works."""

    def __init__(self) -> None:
        super().__init__(daemon=True, name="minideep-loop")  # It must not keep the program from ending.
        self.loop = asyncio.new_event_loop()
        self.outcomes: set[Future[Any]] = set()
        """The outcomes of the calls that are not over."""

    def run(self) -> None:
        try:
            while True:
                # A task that raises one of these stops the loop as well. Its caller finds the exception in the outcome,
                # and the callers of other tasks still wait for theirs, so the loop runs on.
                with contextlib.suppress(SystemExit, KeyboardInterrupt):
                    self.loop.run_forever()
        finally:  # The loop itself is broken, for example by a timer that is not a number.
            cause = sys.exception()
            _retire(self)  # First: a call that begins now must get a new loop.
            self.loop.close()
            for outcome in list(self.outcomes):
                failed = MinideepError(
                    f"the event loop of `run_sync` broke: {cause!r}; the turn was not saved to its end"
                )
                failed.__cause__ = cause
                outcome.set_exception(failed)


_lock = threading.Lock()
_current: _LoopThread | None = None


def _start(call: _Call) -> asyncio.AbstractEventLoop:
    """Start *call* on the program's loop, and the loop itself if it does not run yet."""
    global _current
    with _lock:
        if _current is None:
            _current = _LoopThread()
            _current.start()
        outcomes, loop = _current.outcomes, _current.loop
        outcomes.add(call.outcome)  # Before it starts: if the loop breaks first, the caller must not wait forever.
        call.outcome.add_done_callback(outcomes.discard)
        loop.call_soon_threadsafe(call.begin)
        return loop


def _retire(broken: _LoopThread) -> None:
    """Let the next call start a new loop."""
    global _current
    with _lock:
        if _current is broken:
            _current = None


def _reset() -> None:
    """Begin afresh in a forked process: it lacks its parent's thread, which may have held the lock."""
    global _current, _lock
    _lock, _current = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
