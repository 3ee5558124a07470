"""For scripts: coroutines run on one event loop, on a thread of its own.

One loop for the whole program, for the SDKs' connections belong to the loop that opened them; and on another thread,
so that it also works where a loop runs already.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_pid = 0


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* to its end and return what it returns. Ctrl-C cancels it, waits until it has ended, and raises."""
    loop, over = _running_loop(), threading.Event()

    async def watched() -> T:
        try:
            return await work
        finally:
            over.set()

    future = asyncio.run_coroutine_threadsafe(watched(), loop)
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        over.wait()
        raise


def _running_loop() -> asyncio.AbstractEventLoop:
    """The program's loop; a new one after a fork, which does not copy threads."""
    global _loop, _pid
    with _lock:
        if _loop is None or _pid != os.getpid():
            _loop, _pid = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, daemon=True, name="minideep-loop").start()
        return _loop
