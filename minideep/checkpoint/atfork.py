"""What a fork must find at rest: a lock that another thread holds at that moment stays held in the child for ever."""

import os
import sys
from threading import RLock
from typing import Protocol
from weakref import WeakSet


class AtRest(Protocol):
    """Something with a lock, or with files that a forked process must not inherit in use."""

    def before_fork(self) -> None:
        """Wait until no other thread is inside, and keep them out."""
        ...

    def after_fork(self, *, child: bool) -> None:
        """Let threads in again, in the parent or in the *child*."""
        ...


_mutex = RLock()  # A finalizer may make a store while this thread is in here.
_watched: "WeakSet[AtRest]" = WeakSet()
_at_rest: list[AtRest] = []
"""What a fork that is under way has stopped: kept alive until it goes on."""


def watch(*things: AtRest) -> None:
    """Bring *things* to rest at every fork for as long as they live. None may hold its lock while it waits for another
    one's: a fork waits for them all, in any order.
    """
    with _mutex:
        for thing in things:
            _watched.add(thing)


def _before() -> None:
    _mutex.acquire()
    for thing in list(_watched):
        thing.before_fork()
        _at_rest.append(thing)


def _after(*, child: bool) -> None:
    while _at_rest:
        _at_rest.pop().after_fork(child=child)
    _mutex.release()


if sys.platform != "win32" and hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=lambda: _after(child=False), after_in_child=lambda: _after(child=True)
    )
