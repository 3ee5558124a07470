"""The way between the threads of plain functions and an event loop: results go one way, calls the other."""

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

from .errors import ToolError

MAX_THREADS = 500
"""The default bound of plain functions that run at once: few enough for containers, which often allow 1,024 threads,
and so many that only a burst ever waits.
"""
POLL_SECONDS = 1.0
"""How often a thread that waits for an event loop checks that the loop still runs."""

CALLING: contextvars.ContextVar["ThreadCall | None"] = contextvars.ContextVar("calling", default=None)
"""The call of a plain function that this code is part of; `run_sync` hands it on to the turn that it runs."""
_blocked: contextvars.ContextVar[tuple[tuple[asyncio.AbstractEventLoop, Future[Any]], ...]]
_blocked = contextvars.ContextVar("blocked", default=())
"""The event loops that are blocked by the work that this code is part of, each until its future is done."""


class ThreadCall(asyncio.Future[Any]):
    """The result of a plain function that runs on a thread, or waits for one.

    Cancel it to stop waiting. A function that has not begun then never begins. A running one continues, as nothing can
    stop a thread, but it no longer counts against the bound, as it may never end.
    """

    def __init__(self, function: Callable[[], Any], release: "Callable[[ThreadCall], None]") -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.begun = False
        """True once a thread has taken it."""
        self.nested = False
        """True if a call that holds a thread itself has started this one."""
        self._function = function
        self._release = release
        self._context = contextvars.copy_context()

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self._release(self)
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
            CALLING.set(self)
        return self._function()

    def _set(self, value: Any, failed: BaseException | None) -> None:
        if not self.done():
            self.set_result(value) if failed is None else self.set_exception(failed)


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
