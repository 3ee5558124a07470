"""Threads for plain functions: started when needed, bounded in number, and ended when idle.

They are daemons of our own. Ctrl-C and the end of the program wait for the threads of `asyncio.to_thread`; they do not
wait for these, so a function that never returns cannot keep the program alive.
"""

import asyncio
import contextlib
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from .errors import ToolError

MAX_THREADS = 500
"""The default bound of calls that run on threads at once: few enough for containers, which often allow 1,024 threads,
and so many that only a burst ever waits.
"""
IDLE_SECONDS = 10.0
"""How long an idle thread waits for another call before it ends."""
POLL_SECONDS = 1.0
"""How often a thread that waits for an event loop checks that the loop still runs."""

_calling: contextvars.ContextVar["ThreadCall | None"] = contextvars.ContextVar("calling", default=None)
"""The call of a plain function that this code is part of; `run_sync` hands it on to the turn that it runs."""
_blocked: contextvars.ContextVar[tuple[tuple[asyncio.AbstractEventLoop, Future[Any]], ...]]
_blocked = contextvars.ContextVar("blocked", default=())
"""The event loops that are blocked by the work that this code is part of, each until its future is done."""


class ThreadCall(asyncio.Future[Any]):
    """The result of a plain function that runs on a thread, or waits for one.

    Cancel it to stop waiting. A function that has not begun then never begins. A running one continues, as nothing can
    stop a thread, but it no longer counts against the bound, as it may never end.
    """

    def __init__(self, pool: "ThreadPool", function: Callable[[], Any]) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.begun = False
        """True once a thread has taken it."""
        self.nested = False
        """True if a call that holds a thread itself has started this one."""
        self._pool = pool
        self._function = function
        self._context = contextvars.copy_context()

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self._pool.release(self)
        return cancelled

    def run(self) -> None:
        """Call the function on this thread, and hand its result or exception to the loop."""
        value, failed = None, None
        try:
            value = self._context.run(self._call)
        except (StopIteration, SystemExit, KeyboardInterrupt) as exc:  # A future refuses the first, and a loop stops.
            failed = RuntimeError(f"{type(exc).__name__}: {exc}")
        except BaseException as exc:  # noqa: BLE001 - Handed to the caller, who sorts it.
            failed = exc
        self.deliver(value, failed)

    def deliver(self, value: Any, failed: BaseException | None) -> None:
        """Set the result, from any thread."""
        with contextlib.suppress(RuntimeError):  # The loop is closed, so nobody waits any more.
            self.get_loop().call_soon_threadsafe(self._set, value, failed)

    def _call(self) -> Any:
        if not self.nested:  # A nested call holds no counted thread: the call above it does.
            _calling.set(self)
        return self._function()

    def _set(self, value: Any, failed: BaseException | None) -> None:
        if not self.done():
            self.set_result(value) if failed is None else self.set_exception(failed)


class ThreadPool:
    """Runs at most *max_threads* calls at once (None: no bound); others wait in a queue.

    A call that another one starts, such as a plain tool of an agent that a tool runs with `run_sync`, neither waits nor
    counts. Otherwise every thread could be held by a call that waits for a thread.
    """

    def __init__(self, max_threads: int | None = MAX_THREADS, idle_seconds: float = IDLE_SECONDS) -> None:
        self._max_threads = max_threads
        self._idle_seconds = idle_seconds
        self.reset()

    def reset(self) -> None:
        """Forget all threads: a forked process has none of them."""
        # Another thread may have held the old lock at the fork, and would never release it here.
        self._lock = threading.Lock()
        self._counted: set[ThreadCall | None] = set()
        self._waiting: deque[ThreadCall] = deque()
        self._idle: list[SimpleQueue[ThreadCall]] = []

    def set_max_threads(self, max_threads: int | None) -> None:
        """Change the bound. Running calls are not stopped."""
        self._max_threads = max_threads
        self._begin(self._admit())

    def start(self, function: Callable[[], Any]) -> ThreadCall:
        """Run *function* in a copy of this context, now or when its turn comes."""
        call = ThreadCall(self, function)
        if _calling.get() in self._counted:
            call.nested = call.begun = True
            self._begin([call])
        else:
            self._waiting.append(call)
            self._begin(self._admit())
        return call

    def release(self, call: ThreadCall) -> None:
        """Stop counting *call*, so that another may begin."""
        self._begin(self._admit(call))

    def _admit(self, ended: ThreadCall | None = None, inbox: SimpleQueue[ThreadCall] | None = None) -> list[ThreadCall]:
        """Stop counting *ended*, and take the calls from the queue that may begin now.

        If there are none, the thread of *inbox* is idle.
        """
        admitted: list[ThreadCall] = []
        with self._lock:  # Two threads that both find room for one call would exceed the bound.
            self._counted.discard(ended)
            while self._waiting and (self._max_threads is None or len(self._counted) < self._max_threads):
                call = self._waiting.popleft()
                if not call.done():  # It may have been cancelled while it waited.
                    call.begun = True
                    self._counted.add(call)
                    admitted.append(call)
            if inbox and not admitted:  # Under the lock: a call between the two would start a thread over the bound.
                self._idle.append(inbox)
        return admitted

    def _begin(self, calls: list[ThreadCall]) -> None:
        """Give each of *calls* a thread: an idle one, else a new one."""
        while calls:
            call = calls.pop(0)
            try:
                inbox = self._idle.pop()
            except IndexError:
                inbox = SimpleQueue[ThreadCall]()
                thread = threading.Thread(target=self._serve, args=(inbox,), daemon=True, name="minideep-tool")
                try:
                    thread.start()
                except RuntimeError as exc:  # The system allows no more threads.
                    call.deliver(None, exc)
                    calls += self._admit(call)
                    continue
            inbox.put(call)

    def _serve(self, inbox: SimpleQueue[ThreadCall]) -> None:
        call = self._next(inbox)
        while call is not None:
            call.run()
            admitted = self._admit(call, inbox)
            self._begin(admitted[1:])
            call = None  # Drop the last call before waiting: it may hold much memory.
            call = admitted.pop(0) if admitted else self._next(inbox)

    def _next(self, inbox: SimpleQueue[ThreadCall]) -> ThreadCall | None:
        """Wait for a call; return None when the thread has been idle for too long."""
        while True:
            try:
                return inbox.get(timeout=self._idle_seconds)
            except Empty:
                try:
                    self._idle.remove(inbox)  # Atomic: testing first could find an inbox that is taken a moment later.
                except ValueError:
                    continue  # It has just been taken, and a call is on its way.
                return None


POOL = ThreadPool()
"""The pool of this process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.reset)


def start_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> ThreadCall:
    """Call *function* on another thread, in a copy of this context; return a future of its result."""
    return POOL.start(partial(function, *args, **kwargs))


async def in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call *function* on another thread, in a copy of this context, and return its result."""
    return await start_thread(function, *args, **kwargs)


@contextlib.contextmanager
def blocking(outcome: Future[Any]) -> Generator[None]:
    """Mark the event loop of this thread, if one runs, as blocked by the work begun here until *outcome* is done."""
    try:
        token = _blocked.set((*_blocked.get(), (asyncio.get_running_loop(), outcome)))
    except RuntimeError:  # No loop runs here.
        yield
        return
    try:
        yield
    finally:
        _blocked.reset(token)


def call_on(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call *function* on the thread of *loop*, from another thread, and raise what it raises.

    Raises:
        ToolError: the loop has ended, or is blocked by the caller itself; the function was not called.
    """
    if any(other is loop and not outcome.done() for other, outcome in _blocked.get()):
        raise ToolError(
            "the event loop of this turn is blocked in `run_sync`, which waits for this very call: a deadlock; "
            "use `await agent.run(...)` there"
        )
    outcome: Future[None] = Future()

    def there() -> None:
        if not outcome.set_running_or_notify_cancel():
            return  # The calling thread no longer waits.
        try:
            function()
        except BaseException as exc:  # The waiting thread needs an answer, or it would wait for ever.
            outcome.set_exception(exc)
            if isinstance(exc, KeyboardInterrupt):  # Ctrl-C must stop the loop, too.
                raise
        else:
            outcome.set_result(None)

    with contextlib.suppress(RuntimeError):  # The loop is closed; the loop below finds out.
        loop.call_soon_threadsafe(there)
    while not outcome.done():
        with contextlib.suppress(TimeoutError):  # One that *function* raised is raised again at the end.
            outcome.result(0 if loop.is_closed() else POLL_SECONDS)
        if not loop.is_running() and outcome.cancel():
            raise ToolError("the event loop of this turn has ended; nothing can be recorded or emitted any more")
    outcome.result()
