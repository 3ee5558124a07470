"""`CheckedStore`: anybody's store, with its errors translated in one place and what is kept in memory about it."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ..checks import check
from ..errors import CheckpointError, MinideepError, ThreadConflict, UnknownThread
from ..exchange import Exchange
from ..ports import Lease, Opened, Purpose, Range, Retention, Store
from . import pace
from .atfork import AtRest
from .layout import head_key
from .waiting import may_block, read_for, wait_for
from .worker import Worker

T = TypeVar("T")
Rows = Mapping[str, bytes]
HEADS = 1000
"""Heads that are read in one trip."""
READERS = 8
"""OS threads that decode the threads of one store."""
logger: logging.Logger = logging.getLogger("minideep")


class CheckedStore:
    """A store whose every failure is a `CheckpointError`, shared by all agents that were given the same object.

    A store may be anybody's code and raise anything. A turn must survive that, so only this class calls a store
    directly. A turn awaits it; code that reads or rewrites whole threads is plain, runs on an OS thread of its own or
    of its caller, and waits for the store there.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.live: WeakValueDictionary[str, Any] = WeakValueDictionary()
        """The `Journal` of each thread that runs in this process: readers also see what it has not saved yet."""
        self.offers_exchange: bool = hasattr(type(inner), "exchange") or "exchange" in getattr(inner, "__dict__", ())
        """Whether it may have an `exchange`, which is made when it is first asked for."""
        self._immediate: bool = getattr(inner, "immediate", False)
        self._readers, self._maintenance = Worker(READERS), Worker()

    @property
    def retention(self) -> Retention:
        return self.inner.retention

    @property
    def exchange(self) -> Exchange | None:
        """The means to ask the process that runs a turn, if the store has any."""
        return getattr(self.inner, "exchange", None)

    # ---- for coroutines

    async def open(self, thread: str, *, wait: float = 0.0, purpose: Purpose = "turn") -> Opened | None:
        with _translated_errors:
            return await self.inner.open(thread, wait=wait, purpose=purpose)

    async def value(self, key: str) -> bytes | None:
        """Return the value of a row; None if there is none."""
        with _translated_errors:
            found = (await self.inner.read(Range(key)))[0]
        return found[0][1] if found else None

    async def has(self, thread: str) -> bool:
        """Return whether the store has the thread."""
        return await self.value(head_key(thread)) is not None

    async def is_head(self, thread: str, head: bytes) -> bool:
        """Return whether *head* is the thread's head row."""
        return await self.value(head_key(thread)) == head

    async def append(
        self,
        thread: str,
        expected: bytes | None,
        head: bytes | None,
        rows: Rows,
        deletes: Iterable[str] = (),
        *,
        lease: Lease | None = None,
        release: bool = False,
    ) -> None:
        """`Store.append`. Nothing of it is cut off half-way: a cancel is delivered once it is over.

        Raises:
            ThreadConflict: the store does not hold what was expected; nothing was changed.
            CheckpointError: the store failed, or other writers had it for too long.
        """
        with _translated_errors:
            work = self.inner.append(thread, expected, head, rows, deletes, lease=lease, release=release)
            if self._immediate or may_block():  # Such a store sees to it, without a task.
                await work
            else:
                task = asyncio.ensure_future(work)
                await pace.through(task)
                task.result()

    async def held(self, thread: str) -> bool:
        with _translated_errors:
            return await self.inner.held(thread)

    # ---- for plain code

    def wait_for(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the coroutine that *act* makes, which awaits this store."""
        return wait_for(self.inner, act)

    def read(self, *ranges: Range) -> list[list[tuple[str, bytes]]]:
        """Return the rows of each range, all as of one moment."""
        with _translated_errors:
            return self.wait_for(lambda: self.inner.read(*ranges))

    def get(self, key: str) -> bytes | None:
        found = self.read(Range(key))[0]
        return found[0][1] if found else None

    def head(self, thread: str) -> bytes | None:
        return self.get(head_key(thread))

    def rows(self, start: str, stop: str) -> list[tuple[str, bytes]]:
        return self.read(Range(start, stop))[0]

    def keys(self, start: str, stop: str) -> list[str]:
        """Return the keys of `rows`, without reading the values."""
        return [key for key, _ in self.read(Range(start, stop, values=False))[0]]

    def all_heads(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """Yield the keys and values of all head rows whose keys begin with *prefix*, in order, some at a time."""
        # The last key before them: keys are ASCII, of which "\x7f" is the last character.
        after = f"{prefix[:-1]}{chr(ord(prefix[-1]) - 1)}\x7f" if prefix else ""
        while True:
            with _translated_errors:
                found = self.wait_for(lambda after=after: self.inner.heads(after, HEADS))
            for key, data in found:
                if not key.startswith(prefix):
                    return
                yield key, data
            if len(found) < HEADS:
                return
            after = found[-1][0]

    def put(
        self, thread: str, expected: bytes | None, head: bytes | None, rows: Rows, deletes: Iterable[str] = ()
    ) -> None:
        """`append`, from plain code."""
        self.wait_for(lambda: self.append(thread, expected, head, rows, deletes))

    # ---- OS threads

    def off_loop(self, act: Callable[[], T]) -> "asyncio.Future[T]":
        """Call *act*, which uses this store, on an OS thread, so that it does not block the event loop.

        Raises:
            CheckpointError: the program ends.
        """
        with _translated_errors:
            loop = asyncio.get_running_loop()
            # A store that suspends is awaited on the caller's own loop, to which its connections belong.
            work = act if self._immediate else partial(read_for, loop, act)
            return loop.run_in_executor(self._readers.executor, work)

    def maintain(self, job: Callable[[], object]) -> None:
        """Call *job* on the OS thread for maintenance, after those that were given to it before.

        Raises:
            RuntimeError: the program ends.
        """
        self._maintenance.executor.submit(job)

    def finish(self) -> None:
        """Wait until all maintenance is done."""
        self._maintenance.finish()
        self._readers.finish()


class _Opened(AtRest):
    """The `CheckedStore` of each store object, for as long as anything uses it."""

    def __init__(self) -> None:
        super().__init__()
        # By id, as a store need not be hashable. An entry holds its store, so no other object can have that id.
        self._by_id: WeakValueDictionary[int, CheckedStore] = WeakValueDictionary()

    def open(self, store: Store) -> CheckedStore:
        with self.lock:
            found = self._by_id.get(id(store))
            if found is None:
                # Here, once: a missing method would otherwise be found in the middle of a turn.
                check(store, Store, "checkpointer", "Agent")
                found = self._by_id[id(store)] = CheckedStore(store)
            return found

    def find(self, store: object) -> CheckedStore | None:
        with self.lock:
            return self._by_id.get(id(store))


_opened = _Opened()


def open_store(store: Store | CheckedStore) -> CheckedStore:
    """Return the one `CheckedStore` of a store object; a `CheckedStore` is returned unchanged.

    Raises:
        ConfigError: *store* lacks a member of the port.
    """
    return store if isinstance(store, CheckedStore) else _opened.open(store)


def finish_work(store: object) -> None:
    """Wait until the maintenance of *store* is done, before it is closed."""
    # Work that is not done keeps the `CheckedStore` alive, so none is missed.
    if (found := _opened.find(store)) is not None:
        found.finish()


def unknown_thread(thread_id: str) -> UnknownThread:
    return UnknownThread(f"no thread {thread_id!r}; `threads()` lists those that exist")


def lost_thread(thread_id: str) -> ThreadConflict:
    return ThreadConflict(f"the hold on thread {thread_id!r} was lost, and another runner may have it; run it again")


class _TranslatedErrors:
    """Raises any failure of a store as a `CheckpointError`: whatever it is, the caller must be able to go on."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, exc: BaseException | None, trace: object) -> None:
        if not isinstance(exc, Exception) or isinstance(exc, MinideepError):
            return  # One of ours is left as it is, a conflict for example.
        if isinstance(exc, TimeoutError) and str(exc):
            raise CheckpointError(str(exc)) from exc  # The store itself says that others have it.
        raise CheckpointError(f"the store failed: {type(exc).__name__}: {exc}") from exc


_translated_errors = _TranslatedErrors()
