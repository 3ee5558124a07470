"""The event loop on which plain code awaits stores that suspend."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..loops import blocking
from .atfork import AtRest

T = TypeVar("T")


class _Loop(AtRest):
    """An event loop on an OS thread, for stores that need one. It is not that of `run_sync`: a turn that runs there may
    read a thread in plain code, and would wait for itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self._running: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if threading.current_thread() is self._thread:
            raise RuntimeError("a store called plain code that waits for it; await the store instead")
        outcome = asyncio.run_coroutine_threadsafe(act(), self._started())
        with blocking(outcome):
            try:
                return outcome.result()
            except BaseException:
                outcome.cancel()  # Ctrl-C: what nobody waits for any more ends.
                raise

    def _started(self) -> asyncio.AbstractEventLoop:
        with self.lock:
            if self._running is None:
                self._running = asyncio.new_event_loop()
                # A daemon: it must not keep the program from ending.
                run = (self._running,)
                self._thread = threading.Thread(target=_run_forever, args=run, daemon=True, name="minideep-store")
                self._thread.start()
            return self._running

    def reset(self) -> None:
        self._running = self._thread = None  # They are the parent's.


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    with contextlib.suppress(SystemExit, KeyboardInterrupt):
        loop.run_forever()


_loop = _Loop()


def run(act: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine of a store to its end, from plain code of any OS thread."""
    return _loop.run(act)
