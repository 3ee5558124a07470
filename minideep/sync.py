"""For scripts: coroutines run on one event loop, on a thread of its own.

One loop for the whole program, for the SDKs' connections belong to the loop that opened them; and on another thread,
so that it also works where a loop runs already.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from .errors import ConfigError

T = TypeVar("T")
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_pid = 0
_thread: int | None = 0


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* to its end and return what it returns. Ctrl-C cancels it, waits until it has ended, and raises.

    Raises:
        ConfigError: called by something that itself runs on that loop, which would wait for itself for ever.
    """
    loop, over = _running_loop(), threading.Event()
    if threading.get_ident() == _thread:
        work.close()
        raise ConfigError("`run_sync` was called by a coroutine that `run_sync` runs; `await agent.run(...)` there")

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
    global _loop, _pid, _thread
    with _lock:
        if _loop is None or _pid != os.getpid():
            _loop, _pid = asyncio.new_event_loop(), os.getpid()
            runner = threading.Thread(target=_loop.run_forever, daemon=True, name="minideep-loop")
            runner.start()
            _thread = runner.ident
        return _loop
