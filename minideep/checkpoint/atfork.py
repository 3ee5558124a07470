"""Locks that a forked process never inherits as taken.

A lock that another thread holds at the moment of a fork stays taken in the child for ever: the thread that would
release it does not exist there.
"""

import os
import sys
from importlib import import_module
from threading import RLock
from weakref import WeakSet


class AtRest:
    """A base for objects with a lock, or with files that a forked process must not inherit in use.

    At every fork `before_fork` waits until no other thread is inside. None may hold its lock while it waits for
    another one's: a fork waits for them all, in any order. The lock is reentrant, as the garbage collector may call
    into an object of the same kind while this thread is inside.
    """

    def __init__(self) -> None:
        self.lock: RLock = RLock()
        with _mutex:
            _watched.add(self)

    def before_fork(self) -> None:
        self.lock.acquire()

    def reset(self) -> None:
        """Forget, in the child, what belongs to the parent."""

    def after_fork(self, *, child: bool) -> None:
        if child:
            self.reset()
        self.lock.release()


_mutex = RLock()  # A finalizer may make a store while this thread is in here.
_watched: "WeakSet[AtRest]" = WeakSet()
_at_rest: list[AtRest] = []
"""The objects that the current fork has stopped, kept alive until it is over."""


def _before() -> None:
    _stop_all()
    # In the child nobody would finish an import of another thread, and who needs the module would wait for ever.
    # Released first, for that thread may need the locks.
    while importing := _importing():
        _after(child=False)
        for name in importing:
            import_module(name)  # Waits until it is there.
        _stop_all()


def _stop_all() -> None:
    # Held until the fork is over: an object that is made meanwhile would not have been stopped.
    _mutex.acquire()
    for thing in list(_watched):
        thing.before_fork()
        _at_rest.append(thing)


def _importing() -> list[str]:
    """Return the modules of this package that are being imported."""
    ours = [(name, module) for name, module in list(sys.modules.items()) if name.startswith("minideep.")]
    return [name for name, module in ours if getattr(module.__spec__, "_initializing", False)]


def _after(*, child: bool) -> None:
    while _at_rest:
        _at_rest.pop().after_fork(child=child)
    _mutex.release()


if sys.platform != "win32" and hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=lambda: _after(child=False), after_in_child=lambda: _after(child=True)
    )
