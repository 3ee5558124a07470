"""Awaiting a store from plain code: without an event loop where the store needs none."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
_waiting: ContextVar[int] = ContextVar("waiting", default=0)
"""The OS thread on which plain code waits for a coroutine that no event loop drives: it may block, and must not
suspend. Tasks that it starts inherit this and run on another one.
"""


def may_block() -> bool:
    """Return whether the running code may block its OS thread: no event loop runs there, or its caller waits anyway."""
    if _waiting.get() == threading.get_ident():
        return True
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # A loop that is closed saves what it can.
        return True
    return False


class _Home(threading.local):
    """The event loop that an OS thread reads for, which awaits the outcome and is free meanwhile."""

    loop: asyncio.AbstractEventLoop | None = None


_home = _Home()


def read_for(loop: asyncio.AbstractEventLoop, act: Callable[[], T]) -> T:
    """Call *act* on an OS thread on behalf of *loop*, on which it awaits a store that suspends."""
    _home.loop = loop
    try:
        return act()
    finally:
        _home.loop = None


def _wait_at_home(home: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    outcome = asyncio.run_coroutine_threadsafe(work, home)
    while not concurrent.futures.wait([outcome], 1.0).done:
        if home.is_closed():  # Then it never comes.
            raise RuntimeError("the event loop was closed while a thread was read for it")
    return outcome.result()


def wait_for(store: object, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of the coroutine that *act* makes, which awaits *store*, from code that cannot await it.

    An event loop that runs on this OS thread stands still meanwhile.
    """
    if not getattr(store, "immediate", False):
        if (home := _home.loop) is not None:
            return _wait_at_home(home, act())
        from .store_loop import run  # Loaded for stores that suspend.

        return run(act)
    token = _waiting.set(threading.get_ident())
    work = act()
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    finally:
        work.close()
        _waiting.reset(token)
    raise RuntimeError(f"{type(store).__name__} says that it is `immediate`, and waits for an event loop")
