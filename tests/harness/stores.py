"""Stores that misbehave on command.

store = InstrumentedStore()
store.down = {"append"}                # every append fails, until the set is emptied
store.before = act                     # called as act("append", thread, ...) before each operation
FaultyStore(DiskCheckpointer(folder))  # any store, of which one numbered operation fails
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from minideep import MemoryCheckpointer
from minideep.checkpoint.layout import head_key
from minideep.ports import Store

APPEND, HEAD, ROWS, KEYS, GET = "append", "head", "rows", "keys", "get"


class InstrumentedStore(MemoryCheckpointer):
    """A store in memory that counts what is asked of it, fails on command, and lets a test act in between."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.calls = Counter[str]()
        self.down: set[str] = set()
        """Operations that fail."""
        self.failing_appends: set[int] = set()
        """Numbers, from 1, of the appends that fail."""
        self.locks = True
        """False: everybody gets hold of every thread."""
        self.before: Callable[..., object] | None = None
        self.after: Callable[..., object] | None = None
        """Called with the name and the arguments of each operation; if it raises, the operation has failed."""

    @property
    def appends(self) -> int:
        return self.calls[APPEND]

    def _do(self, operation: str, *args: Any, **how: Any) -> Any:
        self.calls[operation] += 1
        if operation in self.down or (operation == APPEND and self.appends in self.failing_appends):
            raise OSError("no space left")
        if self.before:
            self.before(operation, *args)
        done = getattr(MemoryCheckpointer, operation)(self, *args, **how)
        if self.after:
            self.after(operation, *args)
        return done

    def append(self, thread, expected, head, rows, deletes=(), **how):
        self._do(APPEND, thread, expected, head, rows, list(deletes), **how)

    def head(self, thread):
        return self._do(HEAD, thread)

    def get(self, key):
        return self._do(GET, key)

    def rows(self, start, stop):
        return self._do(ROWS, start, stop)

    def keys(self, start, stop):
        return self._do(KEYS, start, stop)

    def hold(self, thread):
        return super().hold(thread) or not self.locks


class FaultyStore:
    """A store like any other, whose operation number *at* fails: alone, or with all that follow until it is healed."""

    def __init__(self, store) -> None:
        self.store, self.inline, self.retention = store, store.inline, store.retention
        self.at, self.error, self.outage = 0, OSError, False
        self.done: list[str] = []

    def fail(self, at, error=OSError, outage=False):
        self.at, self.error, self.outage, self.done = at, error, outage, []

    def heal(self):
        """Return whether it has failed at all."""
        failed, self.at = self.at <= len(self.done), 0
        self.store.close()  # Waits for what the store's own thread is doing.
        return failed

    def point(self, name):
        self.done.append(name)
        if self.at and (len(self.done) == self.at or (self.outage and len(self.done) > self.at)):
            raise self.error(f"{name} failed")

    @property
    def executor(self):
        return self.store.executor

    def head(self, thread):
        self.point("head")
        return self.store.head(thread)

    def get(self, key):
        self.point("get")
        return self.store.get(key)

    def rows(self, start, stop):
        self.point("rows")
        return self.store.rows(start, stop)

    def keys(self, start, stop):
        self.point("keys")
        return self.store.keys(start, stop)

    def append(self, *args, **how):
        self.point("append")
        self.store.append(*args, **how)
        self.point("append, when it was done")

    def hold(self, thread):
        self.point("hold")
        return self.store.hold(thread)

    def release(self, thread):
        self.store.release(thread)
        self.point("release")

    def size(self):
        return self.store.size()

    def close(self):
        self.store.close()


def copy_of(store: Store) -> MemoryCheckpointer:
    """The thread `t` as it is stored now: what a process that is killed now leaves."""
    rows = dict(store.rows("", "\x7f"))
    copy = MemoryCheckpointer()
    copy.append("t", None, rows.pop(head_key("t")), rows)
    return copy
