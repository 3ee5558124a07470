"""Letting go of what was: whole threads, and boundaries older than a store is to keep."""

import contextlib
import secrets
import time
from collections.abc import Generator
from weakref import WeakKeyDictionary

import msgspec
from msgspec import structs

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
from ..state import Path, State
from . import format as codec, layout as names
from .blobs import Blobs
from .format import Header
from .history import boundaries
from .layout import Head, Mark, Truncation
from .log import Log, read_consistently, state_at
from .store import PATIENCE, put, release_quietly, stored_head, translate_errors, unknown

TRIES = 10
DAY = 86_400.0
WAITING = ("paused", "escalated", "running")
"""Threads that are never let go of for their age: a person owes them an answer, or a turn was cut short, and only
`resume` can tell what became of the calls that it was in.
"""
NOT_TO_JUDGE = (ThreadBusy, ThreadConflict, UnknownThread, CorruptSegment, SegmentTooLarge, UnknownVersion)
"""A thread is in use after all, or gone, or damaged: then the others are looked at."""
_last_look: WeakKeyDictionary[Store, float] = WeakKeyDictionary()


@contextlib.contextmanager
def held(store: Store, thread_id: str) -> Generator[None]:
    """Take the thread for what no turn may run beside; a turn that begins meanwhile waits, for it takes no time.

    Raises:
        ThreadBusy: a turn runs.
    """
    mark, until = _mark(thread_id), time.monotonic() + PATIENCE
    while not translate_errors(store.hold, mark):
        if time.monotonic() > until:
            raise ThreadBusy(f"thread {thread_id!r} is being tidied up; try again when that is over")
        time.sleep(0.001)
    try:
        if not translate_errors(store.hold, thread_id):
            raise ThreadBusy(f"thread {thread_id!r} is being run; try again when it is over")
        try:
            yield
        finally:
            release_quietly(store, thread_id)
    finally:
        release_quietly(store, mark)


def in_upkeep(store: Store, thread_id: str) -> bool:
    """Whether a thread that is held is so for a moment only, and by no turn."""
    if not translate_errors(store.hold, _mark(thread_id)):
        return True
    release_quietly(store, _mark(thread_id))
    return False


def _mark(thread_id: str) -> str:
    return thread_id + 501 * "~"  # Longer than the id of any thread.


def delete(store: Store, thread_id: str) -> None:
    """Remove a thread, with all runs below it, and the blobs that only it names.

    Raises:
        UnknownThread, ThreadBusy
        CheckpointError: the store failed; nothing was removed.
    """
    _delete(store, thread_id, None)


def _delete(store: Store, thread_id: str, only: bytes | None) -> None:
    """`delete`, but *only* if that is still the thread's head row."""
    with held(store, thread_id):
        for _ in range(TRIES):
            if (stored := stored_head(store, thread_id)) is None:
                raise unknown(thread_id)
            if only not in (None, stored):
                return
            keys = [key for kind in names.KINDS for key in _keys(store, names.thread_prefix(kind, thread_id))]
            with contextlib.suppress(ThreadConflict):  # Segments were joined meanwhile.
                put(store, thread_id, stored, None, {}, [*keys, *_references(store, thread_id)])
                return
        raise CheckpointError(f"thread {thread_id!r} was changed again and again; try again")


def _keys(store: Store, prefix: str) -> list[str]:
    return translate_errors(store.keys, prefix, names.after(prefix))


def _references(store: Store, thread_id: str) -> list[str]:
    """The keys of the thread's `ref` rows, which stand under the blobs' names; a damaged store may lack some."""
    keys = [key for name in _uses(store, thread_id) for key in names.use_rows(thread_id, name)]
    return [key for key in keys if key.startswith("ref/") and translate_errors(store.get, key) is not None]


def _uses(store: Store, thread_id: str) -> set[str]:
    """The blobs that the thread is known to name."""
    return {key.rpartition("/")[2] for key in _keys(store, names.thread_prefix("use", thread_id))}


def expire_now_and_then(store: Store) -> None:
    """`expire`, unless this process has done it lately."""
    now, last = time.monotonic(), _last_look.get(store)
    if last is None or now - last >= min((store.retention.seconds or 0.0) / 10, 3600.0):
        _last_look[store] = now
        expire(store, time.time())


def expire(store: Store, now: float) -> None:
    """Let go of the threads that lie unused for longer than the store keeps them. *now* is in seconds since 1970.

    A thread is marked first. It is deleted by a later call, a tenth of that time or a day after it was marked,
    whichever is less, if nothing was appended to it since: a clock that is wrong for one turn deletes nothing.
    """
    seconds = store.retention.seconds
    if seconds is None:
        return
    marks = dict(store.rows("mark/", "mark0"))
    for key, data in store.rows("head/", "head0"):
        with contextlib.suppress(*NOT_TO_JUDGE):
            thread_id = names.thread_of(key)
            _judge(store, thread_id, data, marks.get(names.mark_key(thread_id)), now)


def _judge(store: Store, thread_id: str, stored: bytes, marked: bytes | None, now: float) -> None:
    """Mark a thread, take its mark away, or delete it."""
    head, seconds, key = names.read_head(thread_id, stored), store.retention.seconds or 0.0, names.mark_key(thread_id)
    if head.status in WAITING or head.updated >= now - seconds:
        if marked is not None:  # It is used again, or the clock was ahead when it was marked and has gone back.
            put(store, thread_id, stored, stored, {}, [key])
        return
    mark = names.read_mark(key, marked) if marked is not None else None
    if mark is None or mark.append != head.append or mark.time > now:
        put(store, thread_id, stored, stored, {key: msgspec.msgpack.encode(Mark(head.append, now))})
    elif now - mark.time >= min(seconds / 10, DAY):
        _delete(store, thread_id, stored)


def is_due(store: Store, head: Head) -> bool:
    """Whether a thread has a quarter more boundaries than are kept: cutting writes a base, so not at every turn."""
    keep = store.retention.boundaries
    first = head.cut.turn if head.cut else 1
    return keep is not None and _last(head) - first + 1 > keep + keep // 4


def _last(head: Head) -> int:
    """The newest boundary: a turn that was cut short has none yet."""
    return head.turn - (head.status == "running")


def cut(store: Store, thread_id: str) -> None:
    """Cut off what is older than the boundaries that the store keeps, unless the thread is in use."""
    with contextlib.suppress(ThreadBusy), held(store, thread_id):  # Else the next turn cuts.
        for _ in range(TRIES):
            log = read_consistently(store, thread_id, lambda log: log)
            if log is None or not is_due(store, log.head):
                return
            with contextlib.suppress(ThreadConflict):  # Segments were joined meanwhile.
                _cut(log, _last(log.head) - (store.retention.boundaries or 1) + 1)
                return


def _cut(log: Log, turn: int) -> None:
    """Let the thread begin with the boundary *turn*: a base stands there for all before it."""
    store, thread_id, blobs = log.store, log.thread_id, Blobs(set())
    state, extent = state_at(log, turn)
    append_id, number = secrets.token_bytes(8), state.number
    key, base = _base(log, state, append_id, blobs)
    rows = {key: base} | {names.blob_key(name): codec.seal_blob(data) for name, data in blobs.contents.items()}
    rows |= _split(log, number)
    rows |= _relinked(log, number)
    gone = [*store.keys(names.log_prefix(thread_id, ()), names.segments_from(thread_id, (), number + 1))]
    gone += store.keys(names.base_prefix(thread_id, ()), names.base_key(thread_id, (), number + 1))
    for path in _finished(log, state, extent):
        gone += _keys(store, names.log_prefix(thread_id, path)) + _keys(store, names.base_prefix(thread_id, path))
        gone.append(names.run_key(thread_id, path))
    used = _used(log, rows, set(gone))
    for name in used:
        rows |= names.use_rows(thread_id, name)
    for name in _uses(store, thread_id) - used:
        gone += names.use_rows(thread_id, name)
    lost = sum(len(store.get(one) or b"") for one in gone) - sum(map(len, rows.values()))
    head = structs.replace(
        log.head,
        append=append_id,
        cut=Truncation(number, turn, next(one.time for one in boundaries(log) if one.at == turn)),
        base=max(log.head.base, number),
        stored=max(0, log.head.stored - lost),
        format=codec.FORMAT,
    )
    put(store, thread_id, log.stored, msgspec.msgpack.encode(head), rows, gone)


def _base(log: Log, state: State, append_id: bytes, blobs: Blobs) -> tuple[str, bytes]:
    raw, number = blobs.base_form(state, main=True), state.number
    head = Header(log.thread_id, (), number, number, 0, append_id, len(raw), time.time(), blobs.named(), state.turn)
    return names.base_key(log.thread_id, (), number), codec.seal_base(head, raw)


def _split(log: Log, number: int) -> dict[str, bytes]:
    """The part behind *number* of the segment that holds both sides of it."""
    before = log.store.rows(names.log_prefix(log.thread_id, ()), names.segments_from(log.thread_id, (), number + 1))
    if not before:
        return {}
    key, data = before[-1]
    rest = codec.cut(data, key, number, after=True)
    if rest is None:
        return {}
    header = codec.read_header(rest, key)
    return {names.segment_key(log.thread_id, (), header.first, header.last): rest}


def _relinked(log: Log, number: int) -> dict[str, bytes]:
    """The base after *number*, following that which is written there."""
    start = names.base_key(log.thread_id, (), number + 1)
    later = log.store.keys(start, names.after(names.base_prefix(log.thread_id, ())))
    if not later:
        return {}
    data = log.store.get(later[0]) or b""
    return {later[0]: codec.relinked(data, later[0], number)}


def _finished(log: Log, state: State, extent: int) -> list[Path]:
    """The runs that were over by the event *extent*, and that no call of *state*, the thread's then, can go on with."""
    unanswered = {call_id for call_id, entry in state.open.items() if entry.result is None}
    return [
        path for path, row in log.runs.items() if row.last <= extent and path[0].partition("/")[0] not in unanswered
    ]


def _used(log: Log, rows: dict[str, bytes], gone: set[str]) -> set[str]:
    """The blobs that are named by what is left of the thread, and by *rows*."""
    if not _uses(log.store, log.thread_id) and not any(key.startswith("blob/") for key in rows):
        return set()
    kept: dict[str, bytes] = {}
    for kind in names.SEALED:
        prefix = names.thread_prefix(kind, log.thread_id)
        kept |= {key: data for key, data in log.store.rows(prefix, names.after(prefix)) if key not in gone}
    sealed = {key: data for key, data in (kept | rows).items() if key.partition("/")[0] in names.SEALED}
    return {name for key, data in sealed.items() for name in codec.read_header(data, key).blobs}
