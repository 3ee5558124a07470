"""Rewriting a log: small segments are merged, old boundaries are cut off, and a fork begins as a copy."""

import contextlib
import os
from collections.abc import Generator, Iterable

import msgspec
from msgspec import structs

from ..errors import ConfigError, CorruptSegment, ThreadBusy, ThreadConflict
from ..ports import Range
from ..state import Path, State
from . import format, layout
from .batch import Batch
from .boundaries import boundaries, root_at, run_at, runs_at, state_at
from .format import read_header
from .layout import Head, Truncation
from .log import Log
from .replay import check_owner, read_consistently
from .store import CheckedStore, unknown_thread

MERGE_TRIES = 100
TRIES = 10


class Rewrite(Batch):
    """A batch that also copies and deletes rows, as only maintenance and a fork do."""

    def truncate(self, state: State, time: float) -> None:
        """Let the thread begin with the boundary at which *state* stands, reached at *time*: a snapshot of it replaces
        all events before. The caller deletes those.

        Raises:
            SegmentTooLarge: as `snapshot`.
        """
        self.snapshot((), state, prior=0)
        self._truncation = Truncation(state.number, state.turn, time)

    def copy(self, data: bytes, key: str) -> None:
        """Add a stored segment or snapshot, found under *key*, that was rewritten for this thread."""
        header = format.read_header(data, key)
        if key.startswith("base/"):
            place = layout.snapshot_key(self.log.thread_id, header.path, header.last)
        else:
            place = layout.segment_key(self.log.thread_id, header.path, header.first, header.last)
        # Under a key of its own: a segment that was cut begins or ends elsewhere than the row it comes from.
        self._add(place, header, lambda: data)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete segments, snapshots or run rows, and then the references to blobs that nothing else makes."""
        gone = [*keys]
        self._deletes += gone
        self.reclaimed: int = self.reclaimed + sum(len(self.log.store.get(key) or b"") for key in gone)

    def commit_now(self) -> None:
        """`commit`, from plain code."""
        if not self.head_row:
            self.seal()  # Here: what is deleted makes it read the store, for which no event loop should wait.
        self.log.store.wait_for(self.commit)

    def seal(self) -> None:
        if self._deletes:  # Nothing else takes a reference away.
            self._drop_references()
        super().seal()

    def _drop_references(self) -> None:
        """Delete the thread's references to blobs that no row refers to any more, and repair the others."""
        store, thread_id = self.log.store, self.log.thread_id
        gone = {*self._deletes, *self._rows, *(part.key for part in self._parts)}
        prefix = layout.thread_prefix("use", thread_id)
        known = {key.rpartition("/")[2] for key in store.keys(prefix, layout.after(prefix))}
        used = {name for part in self._parts for name in part.header.blobs}
        # Most threads have no blobs, and need not be read to find that out.
        if not known | used:
            return
        for kind in layout.SEALED:
            prefix = layout.thread_prefix(kind, thread_id)
            kept = ((key, data) for key, data in store.rows(prefix, layout.after(prefix)) if key not in gone)
            # Read from the rows that stay, not from a count: one that was wrong once would lose a content for good.
            used |= {name for key, data in kept for name in format.read_header(data, key).blobs}
        for name in used:
            self._rows |= layout.reference_rows(thread_id, name)
        for name in known - used:
            self._deletes += layout.reference_rows(thread_id, name)


@contextlib.contextmanager
def hold_briefly(store: CheckedStore, thread_id: str) -> Generator[None]:
    """Hold a thread for maintenance that no turn may run beside. A turn that begins meanwhile waits, as it is short.

    Raises:
        ThreadBusy: a turn runs.
    """
    opened = store.wait_for(lambda: store.open(thread_id, purpose="maintenance"))
    if opened is None:
        raise ThreadBusy(f"thread {thread_id!r} is being run; try again when it is over")
    try:
        yield
    finally:
        opened.lease.release()


def merge(store: CheckedStore, thread_id: str, keys: list[str]) -> int:
    """Replace the consecutive segments under *keys* by one; return the bytes that this reclaims.

    Appends may happen meanwhile: the head stays as it is, and so does what readers find. A key says which events its
    segment holds: if another process has merged or cut one of them, it is gone, and nothing is done.
    """
    before, found, last = store.read(Range(layout.head_key(thread_id)), Range(keys[0], keys[-1]), Range(keys[-1]))
    found += last
    # The keys first: a segment that somebody else merged or cut meanwhile must not come back.
    if not before or [key for key, _ in found] != keys:
        return 0
    # Before the loop: compression may take longer than the time between two appends.
    block = merge_segments(found)
    epoch = layout.read_head(thread_id, before[0][1]).epoch
    key = layout.merged_key(keys[0], read_header(block, keys[0]).last)
    for _ in range(MERGE_TRIES):
        head_row = store.head(thread_id)
        if head_row is None or layout.read_head(thread_id, head_row).epoch != epoch:
            return 0  # It was deleted, and perhaps begun again.
        try:
            # The head stays byte for byte, or a turn that runs meanwhile would conflict.
            store.put(thread_id, head_row, head_row, {key: block}, keys)
        except ThreadConflict:  # An append came between.
            continue
        return sum(len(data) for _, data in found) - len(block)
    return 0


# ---- truncation


def is_due(store: CheckedStore, head: Head) -> bool:
    """Return whether a thread has a quarter more boundaries than are kept: a truncation writes a snapshot, so it is
    not worth while at every turn.
    """
    keep = store.retention.boundaries
    first = head.truncation.turn if head.truncation else 1
    return keep is not None and _newest(head) - first + 1 > keep + keep // 4


def _newest(head: Head) -> int:
    """Return the newest boundary: a turn that was interrupted has none yet."""
    return head.turn - (head.status == "running")


def truncate(store: CheckedStore, thread_id: str) -> None:
    """Remove what is older than the boundaries that the store keeps. If the thread is in use, leave it to the next."""
    with contextlib.suppress(ThreadBusy), hold_briefly(store, thread_id):
        for _ in range(TRIES):
            log = read_consistently(store, thread_id, lambda log: log)
            if log is None or not is_due(store, log.head):
                return
            with contextlib.suppress(ThreadConflict):  # Segments were merged meanwhile.
                _truncate(log, _newest(log.head) - (store.retention.boundaries or 1) + 1)
                return


def _truncate(log: Log, turn: int) -> None:
    """Let the thread begin with the boundary *turn*."""
    store, thread_id, batch = log.store, log.thread_id, Rewrite(log)
    state, extent = state_at(log, turn)
    number = state.number
    batch.truncate(state, next(one.time for one in boundaries(log) if one.at == turn))
    start, behind = layout.log_prefix(thread_id, ()), layout.segments_from(thread_id, (), number + 1)
    for key, data in store.rows(start, behind)[-1:]:  # It may hold events of both sides.
        rest = cut_segment(data, key, number, after=True)
        if rest is not None:
            batch.copy(rest, key)
    later = layout.snapshot_key(thread_id, (), number + 1)
    # The first snapshot that stays refers to one that goes.
    for key in store.keys(later, layout.after(layout.snapshot_prefix(thread_id, ())))[:1]:
        data = store.get(key) or b""
        batch.reclaimed += len(data)  # Its row is replaced.
        batch.copy(change_header(data, key, prior=number), key)
    batch.delete(store.keys(start, behind))
    batch.delete(store.keys(layout.snapshot_prefix(thread_id, ()), later))
    for path in _finished(log, state, extent):
        for prefix in (layout.log_prefix(thread_id, path), layout.snapshot_prefix(thread_id, path)):
            batch.delete(store.keys(prefix, layout.after(prefix)))
        batch.delete([layout.run_key(thread_id, path)])
    batch.commit_now()


def _finished(log: Log, state: State, extent: int) -> list[Path]:
    """Return the runs that were over by the event *extent*, and that no open call of *state* can resume."""
    unanswered = {call_id for call_id, entry in state.open.items() if entry.result is None}
    return [
        path for path, row in log.runs.items() if row.last <= extent and path[0].partition("/")[0] not in unanswered
    ]


# ---- forks


def fork(store: CheckedStore, source: str, at: int | None, new_id: str, after: int | None = None) -> None:
    """Begin the thread *new_id* as *source* was at boundary *at*, after event *after*, or as it was last saved.
    Compressed rows are copied as they are; blobs are shared.

    Raises:
        UnknownThread: the store has no thread *source*.
        ConfigError: the boundary does not exist, or a thread *new_id* exists.
        HistoryCut: retention removed the boundary.
        CheckpointError: the thread cannot be read, or the store failed.
    """
    batch = read_consistently(store, source, lambda log: _copied(log, at, new_id, after))
    if batch is None:
        raise unknown_thread(source)
    try:
        batch.commit_now()
    except ThreadConflict:
        raise ConfigError(f"thread {new_id!r} exists already; give the fork another id") from None


def _copied(log: Log, at: int | None, new_id: str, after: int | None) -> Rewrite:
    """Collect the rows of the new thread."""
    root, extent = root_at(log, at, after)
    head = structs.replace(log.head, number=extent, epoch=os.urandom(8), bytes_raw=0, bytes_stored=0, snapshot=0)
    paths = runs_at(log, extent)
    rows = {path: structs.replace(log.runs[path], bytes_raw=0, bytes_stored=0, snapshot=0) for path in paths}
    batch = Rewrite(Log(log.store, new_id, None, head, rows))
    batch.state((), root)
    names = _copy_run(log, (), extent, batch)
    for path in paths:
        batch.state(path, run_at(log, path, extent))
        names |= _copy_run(log, path, extent, batch)
    _copy_keys(log, extent, batch)
    for name in names:
        # Put though it is there: the source may be deleted, and its blobs with it, before the fork is committed.
        batch.put(layout.blob_key(name), _blob(log, name))
    _check_unchanged(log)  # Last: all rows that were copied existed until now.
    return batch


def _copy_run(log: Log, path: Path, extent: int, batch: Rewrite) -> set[str]:
    """Copy the segments and snapshots of one run up to the event *extent*; return the blobs that they refer to."""
    new_id, names = batch.log.thread_id, set[str]()
    start, stop = layout.log_prefix(log.thread_id, path), layout.segments_from(log.thread_id, path, extent + 1)
    found = log.store.rows(start, stop)
    start, stop = layout.snapshot_prefix(log.thread_id, path), layout.snapshot_key(log.thread_id, path, extent + 1)
    copied = 0
    for key, data in [*found, *log.store.rows(start, stop)]:
        header = read_header(data, key)
        check_owner(log, path, header, key)
        part = cut_segment(data, key, extent, after=False) if header.last > extent else data
        if part is not None:
            batch.copy(change_header(part, key, thread=new_id), key)
            names.update(header.blobs)
            copied += 1
    if path and not copied:
        raise CorruptSegment(f"run {path!r} of thread {log.thread_id!r} has no events")
    return names


def _copy_keys(log: Log, extent: int, batch: Rewrite) -> None:
    """Copy the rows of the keys of inputs up to the event *extent*."""
    start, source = layout.thread_prefix("key", batch.log.thread_id), layout.thread_prefix("key", log.thread_id)
    for key, data in log.store.rows(source, layout.after(source)):
        row = layout.read_key_row(key, data)
        if row.number <= extent and row.epoch == log.head.epoch:
            row = structs.replace(row, epoch=batch.log.head.epoch)
            batch.put(start + key.removeprefix(source), msgspec.msgpack.encode(row))


def _blob(log: Log, name: str) -> bytes:
    data = log.store.get(layout.blob_key(name))
    if data is None:  # An empty row in its place would stand for it in every thread that refers to it.
        raise CorruptSegment(f"blob {name!r} is missing")
    return data


def _check_unchanged(log: Log) -> None:
    """Check that what was read at several moments is what one moment would have shown: a log only grows, until it is
    truncated or deleted.

    Raises:
        CorruptSegment: it was; then it is read again.
    """
    now = log.store.head(log.thread_id)
    head = None if now is None else layout.read_head(log.thread_id, now)
    if head is None or (head.epoch, head.truncation) != (log.head.epoch, log.head.truncation):
        raise CorruptSegment(f"thread {log.thread_id!r} was truncated or deleted meanwhile")


# ---- segments and snapshots


def merge_segments(segments: list[tuple[str, bytes]]) -> bytes:
    """Merge consecutive segments of one run into one. No event is decoded."""
    opened = [format.unseal(data, key, format.SEGMENT) for key, data in segments]
    headers = [header for header, _ in opened]
    first, last = headers[0], headers[-1]
    events = [
        event
        for (key, _), (header, body) in zip(segments, opened, strict=True)
        for event in format.split_events(body, key, header.base - first.base)
    ]
    blobs = tuple(sorted({name for header in headers for name in header.blobs}))
    size = format.raw_size(events)
    age = max(0, round(last.at * 1000) - first.base)
    header = structs.replace(last, first=first.first, prior=first.prior, bytes_raw=size, blobs=blobs, age=age)
    return format.seal(header, events)


def cut_segment(data: bytes, key: str, number: int, *, after: bool) -> bytes | None:
    """Cut a segment to its events up to *number*, or to those *after* it; return None if none is left."""
    header, body = format.unseal(data, key, format.SEGMENT)
    events = format.split_events(body, key)
    kept = [event for event in events if (format.number_of(event) > number) == after]
    if len(kept) == len(events):
        return data
    if not kept:
        return None
    prior = format.number_of(events[len(events) - len(kept) - 1]) if after else header.prior
    first, last = format.number_of(kept[0]), format.number_of(kept[-1])
    return format.seal(
        structs.replace(header, first=first, last=last, prior=prior, bytes_raw=format.raw_size(kept)), kept
    )


def change_header(data: bytes, key: str, **changes: object) -> bytes:
    """Return the same segment or snapshot with another thread, or another prior one, without decompressing it."""
    header, body = format.open_row(data, key)
    return format.frame(data[:3], msgspec.msgpack.encode(structs.replace(header, **changes)), bytes(body))
