"""`SyncStore`: a store of plain functions, and its locks as an event loop takes them."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, Protocol

from ..ports import Range, Retention

Space = Literal["turns", "waiters", "maintenance"]
"""The name spaces of locks: who runs a thread, who waits for it first, and who maintains it."""
logger: logging.Logger = logging.getLogger("minideep")


class SyncStore(Protocol):
    """A store of plain functions, for `threaded`. They are called on any OS thread, also at the same time.

    The rows are those of `Store`, and so is what `append` promises.
    """

    retention: Retention
    inline: int
    """The most bytes that an append may write on the OS thread of an event loop. 0: nothing at all is quick enough to
    be done there. `sys.maxsize`: everything is, reading many rows as well.
    """

    def read(self, *ranges: Range) -> list[list[tuple[str, bytes]]]:
        """Return the rows of each range, in order, all as of one moment."""
        ...

    def append(
        self,
        thread: str,
        expected: bytes | None,
        head: bytes | None,
        rows: Mapping[str, bytes],
        deletes: Iterable[str] = (),
        *,
        check: Callable[[], None] | None = None,
        timeout: float = 0.0,
    ) -> None:
        """`Store.append`, which calls *check* inside the transaction, before it changes anything, and raises what that
        raises. If *timeout* is 0, the caller is an event loop: do not wait for other writers.

        Raises:
            ThreadConflict: the head is not *expected*, or a key of *deletes* is missing; nothing was changed.
            TimeoutError: other writers held the store for longer than *timeout* seconds; nothing was changed.
        """
        ...

    def hold(self, space: Space, thread: str) -> bool:
        """Take a lock for this process. Return False, without waiting, if anybody has it, in this process or another.

        A process that ends, even by a kill, releases what it holds.
        """
        ...

    def release(self, space: Space, thread: str) -> None:
        """Release a lock that this process has."""
        ...

    def is_held(self, space: Space, thread: str) -> bool:
        """Return whether anybody has a lock. Takes nothing: no `hold` may fail because of it."""
        ...

    def close(self) -> None:
        """Close files and connections. The store opens again when it is used."""
        ...


class Locking(Protocol):
    """The locks of a `SyncStore`, awaited where they are not quick."""

    async def hold(self, space: Space, thread: str) -> bool:
        """Take a lock, unless anybody has it; return whether it was taken."""
        ...

    async def take_now(self, thread: str) -> bool:
        """`take_now`, awaited."""
        ...

    async def is_held(self, space: Space, thread: str) -> bool:
        """Return whether anybody has a lock."""
        ...

    def give_up(self, thread: str, *spaces: Space) -> None:
        """Release locks, without waiting for a store that is not quick."""
        ...


def take_now(store: SyncStore, thread: str) -> bool:
    """Take the thread, without waiting, unless somebody has it or waits for it; return whether that was so."""
    if not store.hold("turns", thread):
        return False
    passed = True
    try:
        # After it was taken: looking first would open a file of locks once more. Those who wait are not passed.
        passed = store.is_held("waiters", thread)
    finally:
        if passed:
            release_quietly(store, "turns", thread)
    return not passed


def release_quietly(store: SyncStore, space: Space, thread: str) -> None:
    """Release a lock. A failure is logged: the work that it was held for is already done."""
    try:
        store.release(space, thread)
    except Exception as exc:
        logger.warning("cannot release thread %r (%s)", thread, space, exc_info=exc)
