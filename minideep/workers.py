"""Threads for plain functions: started when needed, bounded in number, and ended when idle.

They are ours and daemons, so that neither Ctrl-C nor the end of the program waits for a function that does not
return, as both do for the threads of `asyncio.to_thread`.
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
"""Calls that run on threads at once, unless `configure_process` says otherwise: few enough for containers, which
often allow 1,024 threads, and so many that only a burst ever waits.
"""
IDLE_SECONDS = 10.0
"""How long a thread waits for another call before it ends."""
LOOK_SECONDS = 1.0
"""How often a thread that waits for an event loop looks whether that still runs."""

_calling: contextvars.ContextVar["ThreadCall | None"] = contextvars.ContextVar("calling", default=None)
"""The call of a plain function that this code runs in; `run_sync` passes it on to what it runs."""
_blocked: contextvars.ContextVar[tuple[tuple[asyncio.AbstractEventLoop, Future[Any]], ...]]
_blocked = contextvars.ContextVar("blocked", default=())
"""The event loops that wait for the work that this code is part of, each until its future is done."""


class ThreadCall(asyncio.Future[Any]):
    """The result of a plain function that runs on a thread, or waits for one.

    Cancel it to stop waiting. A function that has not begun then never begins. One that runs goes on, for nothing can
    stop a thread, but no longer counts against the bound, for it may never end.
    """

    def __init__(self, pool: "ThreadPool", function: Callable[[], Any]) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.begun = False
        """Whether a thread has taken it."""
        self.nested = False
        """Whether a call that holds a thread set it going."""
        self._pool = pool
        self._function = function
        self._context = contextvars.copy_context()

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self._pool.release(self)
        return cancelled

    def run(self) -> None:
        """Call the function, on this thread, and hand what it returns or raises to the loop."""
        value, failed = None, None
        try:
            value = self._context.run(self._call)
        except (StopIteration, SystemExit, KeyboardInterrupt) as exc:  # A future refuses the first, a loop the others.
            failed = RuntimeError(f"{type(exc).__name__}: {exc}")
        except BaseException as exc:  # noqa: BLE001 - Carried to the caller, who sorts it.
            failed = exc
        self.deliver(value, failed)

    def deliver(self, value: Any, failed: BaseException | None) -> None:
        """Set the result, from any thread."""
        with contextlib.suppress(RuntimeError):  # The loop has ended: nobody waits any more.
            self.get_loop().call_soon_threadsafe(self._set, value, failed)

    def _call(self) -> Any:
        if not self.nested:  # Else the call above it stays the one that holds a thread.
            _calling.set(self)
        return self._function()

    def _set(self, value: Any, failed: BaseException | None) -> None:
        if self.done():
            return
        if failed is None:
            self.set_result(value)
        else:
            self.set_exception(failed)


class ThreadPool:
    """Runs calls on threads, at most *max_threads* of them at once (None: no bound); others wait in a queue.

    What a call sets going itself, such as the plain tools of an agent that it runs with `run_sync`, neither waits nor
    counts: else all threads could be held by calls that wait for one.
    """

    def __init__(self, max_threads: int | None = MAX_THREADS, idle_seconds: float = IDLE_SECONDS) -> None:
        self._max_threads = max_threads
        self._idle_seconds = idle_seconds
        self.reset()

    def reset(self) -> None:
        """Forget all threads: a process that was forked has none of them."""
        self._lock = threading.Lock()  # A new one: another thread may have held it at the fork, and never releases it.
        self._counted: set[ThreadCall] = set()
        self._waiting: deque[ThreadCall] = deque()
        self._idle: list[SimpleQueue[ThreadCall]] = []

    def set_max_threads(self, max_threads: int | None) -> None:
        """Change the bound. Calls that run are not stopped."""
        with self._lock:
            self._max_threads = max_threads
            admitted = self._admit()
        self._begin(admitted)

    def start(self, function: Callable[[], Any]) -> ThreadCall:
        """Run *function* in a copy of this context, now or when its turn comes."""
        call = ThreadCall(self, function)
        with self._lock:
            if _calling.get() in self._counted:
                call.nested = call.begun = True
                admitted = [call]
            else:
                self._waiting.append(call)
                admitted = self._admit()
        self._begin(admitted)
        return call

    def release(self, call: ThreadCall) -> None:
        """Stop counting *call*; another may begin."""
        with self._lock:
            self._counted.discard(call)
            admitted = self._admit()
        self._begin(admitted)

    def _admit(self) -> list[ThreadCall]:
        """Take from the queue what may begin now."""
        admitted: list[ThreadCall] = []
        while self._waiting and (self._max_threads is None or len(self._counted) < self._max_threads):
            call = self._waiting.popleft()
            if not call.done():  # Else it was cancelled while it waited.
                call.begun = True
                self._counted.add(call)
                admitted.append(call)
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
                except RuntimeError as exc:  # The system gives no more of them.
                    call.deliver(None, exc)
                    with self._lock:
                        self._counted.discard(call)
                        calls += self._admit()
                    continue
            inbox.put(call)

    def _serve(self, inbox: SimpleQueue[ThreadCall]) -> None:
        call = self._next(inbox)
        while call is not None:
            call.run()
            call = self._finished(call, inbox)
            if call is None:  # The last one is no longer referred to while this waits: it may hold much.
                call = self._next(inbox)

    def _finished(self, call: ThreadCall, inbox: SimpleQueue[ThreadCall]) -> ThreadCall | None:
        """Take the next call from the queue, or be idle."""
        with self._lock:
            self._counted.discard(call)
            admitted = self._admit()
            if not admitted:
                self._idle.append(inbox)
                return None
        self._begin(admitted[1:])
        return admitted[0]

    def _next(self, inbox: SimpleQueue[ThreadCall]) -> ThreadCall | None:
        """Wait for a call; None: none came, and none will."""
        while True:
            try:
                return inbox.get(timeout=self._idle_seconds)
            except Empty:
                try:
                    self._idle.remove(inbox)  # One step: a look before it could find what is taken a moment later.
                except ValueError:
                    continue  # It was just taken, and a call is on its way.
                return None


POOL = ThreadPool()
"""The threads of this process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.reset)


async def in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call *function* on another thread, in a copy of this context, and wait for what it returns."""
    return await start_thread(function, *args, **kwargs)


def start_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> ThreadCall:
    """Call *function* on another thread, in a copy of this context; the future gets what it returns or raises."""
    return POOL.start(partial(function, *args, **kwargs))


@contextlib.contextmanager
def blocking(outcome: Future[Any]) -> Generator[None]:
    """What is begun in here is waited for, until *outcome* is done, by the thread of the event loop that runs here."""
    try:
        token = _blocked.set((*_blocked.get(), (asyncio.get_running_loop(), outcome)))
    except RuntimeError:  # None runs here.
        yield
        return
    try:
        yield
    finally:
        _blocked.reset(token)


def call_on(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call *function* on the thread of *loop*, from another thread; raise what it raises.

    Raises:
        ToolError: the loop has ended, or waits for the caller itself, and the function was not called.
    """
    if any(other is loop and not outcome.done() for other, outcome in _blocked.get()):
        raise ToolError(
            "the event loop of this turn waits, in `run_sync`, for what this is part of, and would wait for ever; "
            "`await agent.run(...)` there"
        )
    outcome: Future[None] = Future()

    def there() -> None:
        if not outcome.set_running_or_notify_cancel():
            return  # The thread no longer waits.
        try:
            function()
        except BaseException as exc:  # For the thread that waits: without an answer it would wait for ever.
            outcome.set_exception(exc)
            if isinstance(exc, KeyboardInterrupt):  # A person's Ctrl-C is for the loop, too.
                raise
        else:
            outcome.set_result(None)

    with contextlib.suppress(RuntimeError):  # The loop is closed, as is found out below.
        loop.call_soon_threadsafe(there)
    while not outcome.done():
        with contextlib.suppress(TimeoutError):  # If *function* has raised it, it is raised again below.
            outcome.result(0 if loop.is_closed() else LOOK_SECONDS)
        if not loop.is_running() and outcome.cancel():
            raise ToolError("the event loop of this turn has ended; nothing can be recorded or emitted any more")
    outcome.result()
