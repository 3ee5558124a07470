"""Stores that misbehave on command.

store = InstrumentedStore()
store.down = {"append"}                # every append fails, until the set is emptied
store.before = act                     # called as act("append", thread, ...) before each operation
FaultyStore(DiskCheckpointer(folder))  # any store, of which one numbered operation fails
DistantStore()                         # a store behind a network
plain(store).rows()                    # any store's methods without `await`
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, ref

from minideep import MemoryCheckpointer, Retention
from minideep.checkpoint import finish_work
from minideep.checkpoint.layout import head_key
from minideep.checkpoint.memory import MemoryRows
from minideep.errors import ThreadConflict
from minideep.ports import Opened, Range, Store
from minideep.testing.plain import PlainStore

APPEND, HEAD, ROWS, KEYS, GET = "append", "head", "rows", "keys", "get"
_plain: WeakKeyDictionary[Any, PlainStore] = WeakKeyDictionary()


def plain(store) -> PlainStore:
    """The methods of a store without `await`, always the same object for one store."""
    if (found := _plain.get(store)) is None:
        found = _plain[store] = PlainStore(_Weak(store))
    return found


class _Weak:
    """A store that keeps nothing alive, so that `_plain` forgets it."""

    def __init__(self, store):
        self._store = ref(store)

    def __getattr__(self, name):
        return getattr(self._store(), name)


def what(ranges) -> tuple[str, tuple[str, ...]]:
    """The name of a read, and what it asks for: one head, one row, keys, or rows."""
    first = next((one for one in ranges if one.stop is not None), ranges[0])
    if first.stop is None:
        head = first.start.startswith("head/")
        return HEAD if head else GET, (first.start,)
    return (ROWS if first.values else KEYS), (first.start, first.stop)


class InstrumentedStore(MemoryCheckpointer):
    """A store in memory that counts what is asked of it, fails on command, and lets a test act in between."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.plain = self._calls.plain = InstrumentedRows(self, self.retention)
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

    @property
    def inline(self) -> int:
        return self.plain.inline

    @inline.setter
    def inline(self, size: int) -> None:
        """0: everything is done on an OS thread of the store."""
        self.plain.inline, self._calls.holds_here = size, size > 0

    def do(self, operation: str, args: tuple[Any, ...], act: Callable[[], Any]) -> Any:
        self.calls[operation] += 1
        if operation in self.down or (operation == APPEND and self.appends in self.failing_appends):
            raise OSError("no space left")
        if self.before:
            self.before(operation, *args)
        done = act()
        if self.after:
            self.after(operation, *args)
        return done


class InstrumentedRows(MemoryRows):
    """The rows of an `InstrumentedStore`."""

    def __init__(self, store: InstrumentedStore, retention: Retention) -> None:
        super().__init__(retention)
        self.store = store

    def append(self, thread, expected, head, rows, deletes=(), *, check=None, timeout=0.0):
        args, check = (thread, expected, head, rows, list(deletes)), check if self.store.locks else None
        self.store.do(APPEND, args, lambda: MemoryRows.append(self, *args, check=check))

    def read(self, *ranges):
        operation, args = what(ranges)
        return self.store.do(operation, args, lambda: MemoryRows.read(self, *ranges))

    def hold(self, space, thread):
        return super().hold(space, thread) or not self.store.locks


class FaultyStore:
    """A store like any other, whose operation number *at* fails: alone, or with all that follow until it is healed."""

    immediate = True

    def __init__(self, store) -> None:
        self.store, self.retention = store, store.retention
        self.at, self.error, self.outage = 0, OSError, False
        self.done: list[str] = []

    def fail(self, at, error=OSError, outage=False):
        self.at, self.error, self.outage, self.done = at, error, outage, []

    def heal(self):
        """Return whether it has failed at all."""
        failed, self.at = self.at <= len(self.done), 0
        self.close()  # Waits for maintenance.
        return failed

    def point(self, name):
        self.done.append(name)
        if self.at and (len(self.done) == self.at or (self.outage and len(self.done) > self.at)):
            raise self.error(f"{name} failed")

    async def read(self, *ranges):
        self.point(what(ranges)[0])
        return await self.store.read(*ranges)

    async def append(self, *args, **how):
        self.point("append")
        await self.store.append(*args, **how)
        self.point("append, when it was done")

    async def open(self, thread, **how):
        self.point("open")
        return await self.store.open(thread, **how)

    async def heads(self, after="", limit=100):
        self.point("heads")
        return await self.store.heads(after, limit)

    async def held(self, thread):
        return await self.store.held(thread)

    async def aclose(self):
        await self.store.aclose()

    def close(self):
        finish_work(self)
        self.store.close()


class DistantLease:
    """A lease that its server may end at any moment."""

    def __init__(self, store, thread):
        self.lost, self.over = False, False
        self._store, self._thread, self._callbacks = store, thread, []

    def on_lost(self, callback):
        self._callbacks.append(callback)

    def lose(self):
        """Its connection is cut: the server frees the thread, and the holder hears of it."""
        self.lost = True
        self._free()
        for callback in self._callbacks:
            callback()

    def release(self):
        self._free()

    def check(self):
        if self.over:
            raise ThreadConflict(f"thread {self._thread!r} is no longer held under this lease")

    def _free(self):
        if not self.over:
            self.over = True
            del self._store.leases[self._thread]


class DistantStore:
    """A store behind a network: each trip to it takes *delay* seconds, and all of its methods suspend."""

    def __init__(self, delay: float = 0.0, retention: Retention | None = None) -> None:
        self.retention = retention or Retention()
        self.delay, self.trips = delay, list[str]()
        self.leases: dict[str, DistantLease] = {}
        self.rows = MemoryRows(self.retention)

    async def _trip(self, name):
        self.trips.append(name)
        await asyncio.sleep(self.delay)

    async def open(self, thread, *, wait=0.0, purpose="turn"):
        until = asyncio.get_running_loop().time() + wait
        await self._trip("open")
        while thread in self.leases:
            for_a_moment = purpose == "turn" and self.leases[thread].purpose == "maintenance"
            if not for_a_moment and asyncio.get_running_loop().time() >= until:
                return None
            await asyncio.sleep(0.001)
        lease = self.leases[thread] = DistantLease(self, thread)
        lease.purpose = purpose
        found = self.rows.read(Range(head_key(thread)))[0]
        return Opened(found[0][1] if found else None, lease)

    async def read(self, *ranges):
        await self._trip("read")
        return self.rows.read(*ranges)

    async def append(self, thread, expected, head, rows, deletes=(), *, lease=None, release=False):
        await self._trip("append")
        self.rows.append(thread, expected, head, rows, deletes, check=lease and lease.check)
        if release:
            lease.release()

    async def heads(self, after="", limit=100):
        await self._trip("heads")
        found = self.rows.read(Range(max(after, "head/"), "head0"))[0]
        return [row for row in found if row[0] > after][:limit]

    async def held(self, thread):
        await self._trip("held")
        return thread in self.leases

    async def aclose(self):
        pass


def copy_of(store: Store) -> MemoryCheckpointer:
    """The thread `t` as it is stored now: what a process that is killed now leaves."""
    rows = dict(plain(store).rows("", "\x7f"))
    copy = MemoryCheckpointer()
    plain(copy).append("t", None, rows.pop(head_key("t")), rows)
    return copy
