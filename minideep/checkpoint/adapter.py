"""`threaded`: a synchronous store behind the asynchronous port. What is not quick is called on an OS thread."""

import asyncio
import concurrent.futures
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from ..errors import ThreadConflict
from ..ports import Lease, Opened, Purpose, Range, Retention, Store
from . import pace
from .layout import head_key
from .store import finish_work
from .sync_store import Space, SyncStore, release_quietly, take_now
from .waiting import may_block
from .worker import Worker

T = TypeVar("T")
TIMEOUT = 60.0
"""Seconds that a store waits for others who write to it."""
THREADS = 8
"""OS threads for the calls of one store that an event loop must not wait for."""


class Holding:
    """The lease of a thread that this process has locked: it lasts until it is released."""

    __slots__ = ("_callbacks", "_calls", "_spaces", "_thread", "lost", "over")

    def __init__(self, calls: "_Calls", thread: str, spaces: tuple[Space, ...]) -> None:
        self.lost: bool = False
        self.over: bool = False
        """True once it is released or lost."""
        self._calls, self._thread, self._spaces = calls, thread, spaces
        self._callbacks: list[Callable[[], object]] = []

    def on_lost(self, callback: Callable[[], object]) -> None:
        self._callbacks.append(callback)
        if self.lost:  # Asked afterwards: it may be lost at this moment, on another thread.
            self.lose()

    def lose(self) -> None:
        """Say that the thread may be somebody else's. The locks that are left are kept until `release`."""
        self.lost = self.over = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def check(self) -> None:
        """Refuse an append.

        Raises:
            ThreadConflict: the thread was released or lost.
        """
        if self.over:
            raise ThreadConflict(f"thread {self._thread!r} is no longer held by this turn; run it again")

    def release(self) -> None:
        if spaces := self._end():
            self._calls.give_up(self._thread, *spaces)

    async def released(self) -> None:
        """Release the thread, and return once it is free."""
        if spaces := self._end():
            await self._calls.call(self._calls.release, self._thread, *spaces, quick=self._calls.holds_here)

    def _end(self) -> tuple[Space, ...]:
        self.over = True
        spaces, self._spaces, self._callbacks = self._spaces, (), []
        return spaces


class _Calls:
    """The calls of a synchronous store, made where they belong: here if they are quick, else on an OS thread."""

    def __init__(self, plain: SyncStore, timeout: float) -> None:
        self.plain: SyncStore = plain
        self.timeout: float = timeout
        self.pool: Worker = Worker(THREADS)
        self.holds_here: bool = plain.inline > 0
        """True if a lock may be taken on the OS thread of an event loop."""
        self.releasing: dict[str, Future[None]] = {}
        """Threads that are being released on an OS thread."""
        self.watch: Callable[[str, Callable[[], None]], None] | None = None
        """Called with each thread that is opened, and with what is to be called if it is lost."""

    async def hold(self, space: Space, thread: str) -> bool:
        return await self.call(self.plain.hold, space, thread, quick=self.holds_here)

    async def take_now(self, thread: str) -> bool:
        return await self.call(take_now, self.plain, thread, quick=self.holds_here)

    async def is_held(self, space: Space, thread: str) -> bool:
        return await self.call(self.plain.is_held, space, thread, quick=self.plain.inline > 0)

    def give_up(self, thread: str, *spaces: Space) -> None:
        if self.plain.inline or may_block():
            self.release(thread, *spaces)
        else:
            self.releasing[thread] = releasing = self.pool.executor.submit(self.release, thread, *spaces)
            releasing.add_done_callback(lambda _: self.releasing.pop(thread, None))

    def release(self, thread: str, *spaces: Space) -> None:
        for space in spaces:
            release_quietly(self.plain, space, thread)

    async def freed(self, thread: str) -> None:
        """Wait until a thread that this process has given up is free."""
        if (releasing := self.releasing.get(thread)) is None:
            return
        if may_block():
            concurrent.futures.wait([releasing])
        else:  # Shielded: a cancel of this future would take the release itself off the queue.
            await pace.through(asyncio.wrap_future(releasing))

    async def append(self, *change: Any, check: Callable[[], None] | None) -> None:
        # The time limit starts now, not when a thread gets to it: the work before may wait as long.
        until = time.monotonic() + self.timeout

        def write() -> None:
            self.plain.append(*change, check=check, timeout=max(0.0, until - time.monotonic()))

        await self.call(write, quick=False)

    async def call(self, act: Callable[..., T], *args: Any, quick: bool) -> T:
        """Call *act*: here if it is *quick*, or if plain code waits for it."""
        if quick or may_block():
            return act(*args)
        working = asyncio.get_running_loop().run_in_executor(self.pool.executor, act, *args)
        await pace.through(working)  # Nothing is cut off half-way, and a cancel comes after.
        return working.result()


class Threaded:
    """A synchronous store as a `Store`. What `threaded` returns, and what the stores of minideep inherit.

    Nothing here suspends where the synchronous store is quick enough to be called on an event loop.
    """

    immediate = True

    def __init__(self, plain: SyncStore, timeout: float = TIMEOUT) -> None:
        self.plain = plain
        self.retention: Retention = plain.retention
        self._calls = _Calls(plain, timeout)

    def __repr__(self) -> str:
        where = getattr(self, "directory", None)
        return f"{type(self).__name__}({str(where)!r})" if where else f"{type(self).__name__}()"

    async def open(self, thread: str, *, wait: float = 0.0, purpose: Purpose = "turn") -> Opened | None:
        # Nearly every turn finds its thread free, and then nothing has to be awaited.
        if purpose == "turn" and not wait and self._calls.holds_here and take_now(self.plain, thread):
            spaces = ("turns",)
        else:
            from .queueing import take  # Loaded for threads that are not free, and for maintenance.

            await self._calls.freed(thread)
            if (spaces := await take(self._calls, thread, wait, purpose)) is None:
                return None
        lease = Holding(self._calls, thread, spaces)
        if self._calls.watch is not None:
            self._calls.watch(thread, lease.lose)
        try:
            head = Range(head_key(thread))
            (found,) = self.plain.read(head) if self._calls.holds_here else await self.read(head)
        except BaseException:
            lease.release()
            raise
        return Opened(found[0][1] if found else None, lease)

    async def read(self, *ranges: Range) -> list[list[tuple[str, bytes]]]:
        # A range may be of any size; single keys are quick.
        small = self.plain.inline > 0 and all(one.stop is None for one in ranges)
        return await self._calls.call(self.plain.read, *ranges, quick=small or self.plain.inline == sys.maxsize)

    async def append(
        self,
        thread: str,
        expected: bytes | None,
        head: bytes | None,
        rows: Mapping[str, bytes],
        deletes: Iterable[str] = (),
        *,
        lease: Lease | None = None,
        release: bool = False,
    ) -> None:
        check = lease.check if isinstance(lease, Holding) else None
        size, inline = sum(map(len, rows.values())), self.plain.inline
        if may_block():
            timeout = self._calls.timeout
            self.plain.append(thread, expected, head, rows, deletes, check=check, timeout=timeout)
        elif size > inline or not inline:
            await self._calls.append(thread, expected, head, rows, deletes, check=check)
        else:
            try:
                self.plain.append(thread, expected, head, rows, deletes, check=check)
            except TimeoutError:  # Somebody else writes: the event loop must not wait for them.
                await self._calls.append(thread, expected, head, rows, deletes, check=check)
        if release and isinstance(lease, Holding):
            await lease.released()

    async def heads(self, after: str = "", limit: int = 100) -> list[tuple[str, bytes]]:
        (found,) = await self.read(Range(max(after, "head/"), "head0", limit + 1))
        return [row for row in found if row[0] > after][:limit]

    async def held(self, thread: str) -> bool:
        return await self._calls.is_held("turns", thread) and not await self._calls.is_held("maintenance", thread)

    async def aclose(self) -> None:
        if may_block():
            self.close()
        else:  # Not in the pool, which it ends.
            await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Finish pending work, then close files and end OS threads. The store opens again when it is used."""
        finish_work(self)
        self._calls.pool.finish()
        self.plain.close()


def threaded(store: SyncStore, *, timeout: float = TIMEOUT) -> Store:
    """Return *store* behind the asynchronous port, with the locks' waiting done. Calls that an event loop should not
    wait for run on up to 8 OS threads; an append waits at most *timeout* seconds for other writers.
    """
    return Threaded(store, timeout)
