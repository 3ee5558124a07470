"""Maintenance: work on threads whose turn is over and whose answer is out, and the removal of threads."""

import contextlib
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct

from ..errors import (
    CheckpointError,
    CorruptSegment,
    SegmentTooLarge,
    ThreadBusy,
    ThreadConflict,
    UnknownThread,
    UnknownVersion,
)
from ..ports import Store
from . import layout
from .format import decoded
from .log import Log
from .rewriting import hold_briefly, is_due, merge, truncate
from .store import CheckedStore, Rows, unknown_thread

TRIES = 10
DAY = 86_400.0
KEPT = ("paused", "escalated", "running")
"""Statuses of threads that are never deleted for their age: a person owes them an answer, or a turn was interrupted,
and only `resume` can tell what became of its calls.
"""
SKIPPED = (ThreadBusy, ThreadConflict, UnknownThread, CorruptSegment, SegmentTooLarge, UnknownVersion)
"""Errors of one thread that do not keep `expire` from the others: it is in use after all, or gone, or damaged."""
_last_look: WeakKeyDictionary[Store, float] = WeakKeyDictionary()
"""When `expire` last ran on each store. Not kept by the `CheckedStore`, which ends with the last agent that uses it."""
logger: logging.Logger = logging.getLogger("minideep")


class Mark(Struct, frozen=True, array_like=True):
    """Marks a thread for deletion, unless something is appended to it meanwhile."""

    append: bytes
    """The id of its last append."""
    time: float
    """When it was marked, in seconds since 1970."""


def schedule(log: Log, merges: list[list[str]], reclaimed: list[int], *, retains: bool) -> None:
    """Have the store's thread do what is due, in order. Each merge adds the bytes that it reclaims to *reclaimed*.
    *retains* says that the store has a retention, and that the turn was saved.
    """
    store, thread_id = log.store, log.thread_id
    jobs: list[Callable[[], Any]] = [
        lambda keys=keys: reclaimed.append(merge(store, thread_id, keys)) for keys in merges
    ]
    if retains and is_due(store, log.head):
        jobs.append(partial(truncate, store, thread_id))
    if retains and store.retention.seconds is not None:
        jobs.append(partial(_expire_now_and_then, store))
    for job in jobs:
        try:
            store.maintain(partial(_run, thread_id, job))
        except RuntimeError as exc:  # The program ends: the next one does it.
            logger.warning("maintenance of thread %s is left to the next turn", thread_id, exc_info=exc)


def _run(thread_id: str, job: Callable[[], Any]) -> None:
    try:
        job()
    except Exception as exc:  # The turn is saved and over; the next one tries again.
        logger.warning("maintenance of thread %s failed", thread_id, exc_info=exc)


def delete(store: CheckedStore, thread_id: str) -> None:
    """Remove a thread, with all runs below it, and the blobs that only it refers to.

    Raises:
        UnknownThread: it does not exist.
        ThreadBusy: it is being run.
        CheckpointError: the store failed; nothing was removed.
    """
    _delete(store, thread_id, None)


def _delete(store: CheckedStore, thread_id: str, only: bytes | None) -> None:
    """`delete` a thread, but only if *only*, unless None, is still its head row. Its rows are not read: a damaged
    thread can be deleted as well.
    """
    # A turn that runs would go on in a thread that no longer exists.
    with hold_briefly(store, thread_id):
        for _ in range(TRIES):
            if (head_row := store.head(thread_id)) is None:
                raise unknown_thread(thread_id)
            if only not in (None, head_row):  # It was used since it was looked at.
                return
            prefixes = (layout.thread_prefix(kind, thread_id) for kind in layout.KINDS)
            # Every kind of row: one that is left behind would be read as part of the next thread with this id.
            keys = [key for prefix in prefixes for key in store.keys(prefix, layout.after(prefix))]
            with contextlib.suppress(ThreadConflict):  # Segments were merged meanwhile.
                put(store, thread_id, head_row, None, {}, [*keys, *_references(store, thread_id, keys)])
                return
        raise CheckpointError(f"thread {thread_id!r} kept changing; try again")


def _references(store: CheckedStore, thread_id: str, keys: list[str]) -> list[str]:
    """Return the keys of the `ref` rows that belong to the `use` rows among *keys*; a damaged store may lack some."""
    names = {key.rpartition("/")[2] for key in keys if key.startswith("use/")}
    references = (key for name in names for key in layout.reference_rows(thread_id, name))
    return [key for key in references if key.startswith("ref/") and store.get(key) is not None]


def put(
    store: CheckedStore, thread: str, expected: bytes | None, head: bytes | None, rows: Rows, deletes: list[str]
) -> None:
    """Append, waiting for other writers; succeed if that landed though the store reported a failure.

    Raises:
        ThreadConflict: the store does not hold what was expected; nothing was changed.
        CheckpointError: the store failed.
    """
    try:
        store.put(thread, expected, head, rows, deletes)
    except ThreadConflict:
        raise
    except CheckpointError:
        if store.head(thread) != head:  # Otherwise only the report was lost: another attempt would conflict with it.
            raise


def mark_key(thread_id: str) -> str:
    return layout.thread_prefix("mark", thread_id)


def read_mark(key: str, data: bytes) -> Mark:
    """Decode the mark of a thread that is to be deleted.

    Raises:
        CorruptSegment: it was damaged.
    """
    return decoded(msgspec.msgpack.Decoder(Mark).decode, data, f"row {key!r}")


def _expire_now_and_then(store: CheckedStore) -> None:
    """`expire`, unless this process did so lately: it reads the head of every thread."""
    now, last = time.monotonic(), _last_look.get(store.inner)
    if last is None or now - last >= min((store.retention.seconds or 0.0) / 10, 3600.0):
        # Before the look: a store that fails must not be asked again after every turn.
        _last_look[store.inner] = now
        expire(store, time.time())


def expire(store: CheckedStore, now: float) -> None:
    """Delete the threads that were idle for longer than the store keeps them. *now* is in seconds since 1970.

    A thread is marked first. A later call deletes it, a tenth of that time or a day after it was marked, whichever is
    less, if nothing was appended to it since. So a clock that is wrong for one turn deletes nothing.
    """
    if store.retention.seconds is None:
        return
    marks = dict(store.rows("mark/", "mark0"))
    for key, data in store.all_heads():
        with contextlib.suppress(*SKIPPED):
            thread_id = layout.thread_of(key)
            _mark_or_delete(store, thread_id, data, marks.get(mark_key(thread_id)), now)


def _mark_or_delete(store: CheckedStore, thread_id: str, head_row: bytes, marked: bytes | None, now: float) -> None:
    head, seconds = layout.read_head(thread_id, head_row), store.retention.seconds or 0.0
    key = mark_key(thread_id)
    if head.status in KEPT or head.updated >= now - seconds:
        if marked is not None:  # It is used again, or the clock was ahead when it was marked and has gone back.
            put(store, thread_id, head_row, head_row, {}, [key])
        return
    mark = read_mark(key, marked) if marked is not None else None
    # Used since it was marked, or the clock has gone back: the time begins anew.
    if mark is None or mark.append != head.append or mark.time > now:
        put(store, thread_id, head_row, head_row, {key: msgspec.msgpack.encode(Mark(head.append, now))}, [])
    elif now - mark.time >= min(seconds / 10, DAY):
        _delete(store, thread_id, head_row)
