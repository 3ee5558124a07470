"""`CheckedStore`: anybody's store, with its errors translated in one place and what is kept in memory about it."""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ..checks import check
from ..errors import CheckpointError, MinideepError, UnknownThread
from ..ports import Retention, Store
from .atfork import AtRest

T = TypeVar("T")
Rows = Mapping[str, bytes]
WRITE_TIMEOUT = 60.0
"""Seconds that an append waits for other writers where no event loop waits for it."""
MAINTENANCE_TIMEOUT = 1.0
"""The same for work that the next turn can do as well: appends wait behind it."""
logger = logging.getLogger("minideep")


class CheckedStore:
    """A store whose every failure is a `CheckpointError`, shared by all agents that were given the same object.

    A store may be anybody's code and raise anything. A turn must survive that, so only this class calls a store
    directly.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.live: dict[str, Any] = {}
        """The `Journal` of each thread that runs in this process: readers also see what it has not saved yet."""
        self.queues: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()
        """The runs of each event loop that wait for a thread."""

    @contextmanager
    def showing(self, thread: str, journal: Any) -> Generator[None]:
        """Show *journal* to the readers of *thread*, for as long as a turn runs."""
        self.live[thread] = journal
        try:
            yield
        finally:
            self.live.pop(thread, None)

    @property
    def inline(self) -> int:
        return self.inner.inline

    @property
    def retention(self) -> Retention:
        return self.inner.retention

    @property
    def executor(self) -> Executor:
        return self.inner.executor

    def head(self, thread: str) -> bytes | None:
        return translate_errors(self.inner.head, thread)

    def get(self, key: str) -> bytes | None:
        return translate_errors(self.inner.get, key)

    def rows(self, start: str, stop: str) -> list[tuple[str, bytes]]:
        return translate_errors(self.inner.rows, start, stop)

    def keys(self, start: str, stop: str) -> list[str]:
        return translate_errors(self.inner.keys, start, stop)

    def hold(self, name: str) -> bool:
        return translate_errors(self.inner.hold, name)

    def held(self, name: str) -> bool:
        """Return whether anybody holds *name*, in this process or another. Takes nothing, if the store can be asked."""
        look = getattr(self.inner, "held", None)
        if look is not None:
            return translate_errors(look, name)
        if free := self.hold(name):
            self.release_quietly(name)
        return not free

    def append(
        self,
        thread: str,
        expected: bytes | None,
        head: bytes | None,
        rows: Rows,
        deletes: Iterable[str] = (),
        *,
        timeout: float | None = None,
    ) -> None:
        """`Store.append`; without *timeout* it is called on an event loop and waits for no other writer.

        Raises:
            ThreadConflict: the store does not hold what was expected; nothing was changed.
            TimeoutError: no *timeout* was given, and another writer has the store; nothing was changed.
            CheckpointError: the store failed, or other writers had it for longer than *timeout* seconds.
        """
        # A store that is not told to wait does not, and an event loop must never wait.
        how = {} if timeout is None else {"timeout": timeout}
        try:
            self.inner.append(thread, expected, head, rows, deletes, **how)
        except Exception as exc:  # Whatever a store raises, the answer must survive it.
            if timeout is None and isinstance(exc, TimeoutError):  # The caller commits again, off the event loop.
                raise
            raise _as_checkpoint_error(exc) from exc

    def release_quietly(self, name: str) -> None:
        """Release a lock. A failure is logged: the work that it was held for is already done."""
        try:
            translate_errors(self.inner.release, name)
        except CheckpointError as exc:
            logger.warning("cannot release the lock %r", name.rstrip("~"), exc_info=exc)


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


_opened = _Opened()


def open_store(store: Store | CheckedStore) -> CheckedStore:
    """Return the one `CheckedStore` of a store object; a `CheckedStore` is returned unchanged.

    Raises:
        ConfigError: *store* lacks a member of the port.
    """
    return store if isinstance(store, CheckedStore) else _opened.open(store)


def off_loop(store: CheckedStore, act: Callable[[], T]) -> "asyncio.Future[T]":
    """Call *act*, which uses *store*, on the store's thread, so that it does not block the event loop.

    Raises:
        CheckpointError: the store is closing.
    """
    loop = asyncio.get_running_loop()
    # The executor of a store that is closing raises a `RuntimeError`.
    return translate_errors(lambda: loop.run_in_executor(store.executor, act))


def exists(store: CheckedStore, thread_id: str) -> bool:
    """Return whether the store has the thread."""
    return store.head(thread_id) is not None


def unknown_thread(thread_id: str) -> UnknownThread:
    return UnknownThread(f"no thread {thread_id!r}; `threads()` lists those that exist")


def translate_errors(act: Callable[..., T], *args: Any) -> T:
    """Call *act* and return its result.

    Raises:
        CheckpointError: it failed, whatever it raised.
    """
    try:
        return act(*args)
    except Exception as exc:  # Whatever a store raises, its caller must be able to go on.
        raise _as_checkpoint_error(exc) from exc


def _as_checkpoint_error(exc: Exception) -> MinideepError:
    if isinstance(exc, MinideepError):
        return exc  # It is one of ours already, a conflict for example.
    if isinstance(exc, TimeoutError) and str(exc):
        return CheckpointError(str(exc))  # The store itself says that others have it.
    return CheckpointError(f"the store failed: {type(exc).__name__}: {exc}")
