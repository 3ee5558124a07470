"""Reading a log: the events of a run, the blobs and snapshots it refers to, and the states they fold to."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from msgspec import structs

from ..core import apply, keep_content
from ..errors import CorruptSegment, HistoryCut, IllegalEvent, SegmentTooLarge
from ..events import AnyEvent, Decided, FileEdited, ModelReplied, ToolWaiting
from ..messages import Content, ToolCall
from ..plain_json import is_json
from ..ports import Range
from ..state import Edit, FileEntry, OpenCall, Path, RecordedDecision, State
from . import format, layout
from .format import Entry, Header
from .log import Log, SegmentRef, Tail, is_open
from .store import CheckedStore

T = TypeVar("T")
RunRows = list[list[tuple[str, bytes]]]
"""The row of a run's newest snapshot, if it has one, and its segments after it."""


def read_consistently(store: CheckedStore, thread_id: str, read: Callable[[Log], T]) -> T | None:
    """Return what *read* makes of the thread at one moment, or None if the store does not know the thread.

    A log only grows, so events that are appended meanwhile are left out by their numbers. If rows are missing because
    the thread was truncated or deleted meanwhile, it is read again.

    Raises:
        CheckpointError: it cannot be read.
    """
    while (head_row := store.head(thread_id)) is not None:
        try:
            return read(_open_log(store, thread_id, head_row))
        except CorruptSegment:
            if store.head(thread_id) == head_row:  # Nobody changed it meanwhile: it is damaged.
                raise
    return None


def read_whole(store: CheckedStore, thread_id: str, head_row: bytes) -> tuple[Log, RunRows]:
    """Return a thread whose head is known, and the rows of its main run for `read_run`, all in one trip.

    Raises:
        CheckpointError: its rows are damaged, or were changed since the head was read.
    """
    head = layout.read_head(thread_id, head_row)
    runs, *found = store.read(_run_rows(thread_id), *_rows_of(thread_id, (), head.snapshot, head.number))
    return _log(store, thread_id, head_row, head, runs), found


def _open_log(store: CheckedStore, thread_id: str, head_row: bytes) -> Log:
    head = layout.read_head(thread_id, head_row)
    return _log(store, thread_id, head_row, head, store.read(_run_rows(thread_id))[0])


def _run_rows(thread_id: str) -> Range:
    prefix = layout.thread_prefix("run", thread_id)
    return Range(prefix, layout.after(prefix))


def _rows_of(thread_id: str, path: Path, snapshot: int, number: int) -> tuple[Range, Range]:
    """Return the ranges of a run's snapshot at the event *snapshot*, and of its segments after it, up to *number*."""
    start, stop = (layout.segments_from(thread_id, path, first) for first in (snapshot + 1, number + 1))
    return Range(layout.snapshot_key(thread_id, path, snapshot)), Range(start, stop)


def _log(
    store: CheckedStore, thread_id: str, head_row: bytes, head: layout.Head, found: list[tuple[str, bytes]]
) -> Log:
    runs = {layout.run_path(key): layout.read_run_row(key, data) for key, data in found}
    for (key, _), (path, row) in zip(found, runs.items(), strict=False):
        # Two spellings of one path would be two rows for one run.
        if key != layout.run_key(thread_id, path):
            raise CorruptSegment(f"row {key!r} is not named as a run is")
        if path[:-1] and path[:-1] not in runs:  # Readers hang each run below its parent.
            raise CorruptSegment(f"run {path!r} of thread {thread_id!r} stands below one that does not exist")
        if row.last > head.number:
            raise CorruptSegment(f"run {path!r} of thread {thread_id!r} is ahead of the thread's head")
    return Log(store, thread_id, head_row, head, runs)


def segments(
    log: Log, path: Path, after: int = 0, stop: int | None = None, found: list[tuple[str, bytes]] | None = None
) -> Iterator[tuple[SegmentRef, Iterable[Entry]]]:
    """Yield the segments of one run after its event *after*, with their events; with *stop* only those that begin
    before that event. *found* are their rows, if they were read already.

    Raises:
        CheckpointError: one is missing, damaged, of another thread, or of an unknown version.
    """
    thread_id, last, end = log.thread_id, after, log.head.number
    if found is None:
        # Keys and values in one query: between two of them a merge could take segments away.
        start, stop_key = (layout.segments_from(thread_id, path, number) for number in (after + 1, stop or end + 1))
        found = log.store.rows(start, stop_key)
    for key, data in found:
        header, entries = format.read_segment(data, key)
        check_owner(log, path, header, key)
        # Segments form a chain, so that a missing one is noticed.
        if header.prior != last:
            raise CorruptSegment(f"a segment before {key!r} is missing: it follows event {header.prior}, not {last}")
        last = header.last
        events = with_blobs(log.store, key, header.base, entries)
        # A merged segment may already hold events that were appended after the head was read.
        yield (
            SegmentRef(key, header.bytes_raw, header.last),
            events if last <= end else (entry for entry in events if entry[0] <= end),
        )
    expected = stop - 1 if stop else log.last(path)
    # No segment follows the last one to miss it, but its run's row knows.
    if last < expected:
        raise CorruptSegment(f"run {path!r} of thread {thread_id!r} ends with event {last}, expected {expected}")


def check_owner(log: Log, path: Path, header: Header, key: str) -> None:
    """Check that the row under *key* was written for this run: a copied row would otherwise be read as its own.

    Raises:
        CorruptSegment: it was written for another thread or run.
    """
    if (header.thread, header.path) != (log.thread_id, path):
        raise CorruptSegment(f"segment {key!r} belongs to thread {header.thread!r}, run {header.path!r}")


def with_blobs(store: CheckedStore, key: str, base: int, entries: Iterable[format.Stored]) -> Iterator[Entry]:
    """Yield the events of a segment, those that are blobs included."""
    for entry in entries:
        number, event = entry.number, entry.event
        if isinstance(event, format.BlobRef):
            event = format.event_in_blob(fetch_blob(store, event.name), event.name)
        # Decoding checks types, and no type says that arguments are JSON.
        check = _CHECKS.get(type(event))
        if check is not None and not check(event):
            raise CorruptSegment(f"segment {key!r} holds a call in event {number} whose arguments are not JSON")
        yield number, event, (base + entry.ms) / 1000


def check_state(state: State, key: str) -> None:
    """Check what the types of a snapshot leave open: the arguments of calls, and the contents of files.

    Raises:
        CorruptSegment: one of them is something else.
    """
    calls = all(_has_json_calls(message.content) for message in state.messages if message.role == "assistant")
    if not calls or not all(map(_waits_for_json_calls, state.open.values())):
        raise CorruptSegment(f"snapshot {key!r} holds a call whose arguments are not JSON")
    for file, held in state.files.items():
        if not isinstance(held.content, str | bytes | None):
            raise CorruptSegment(f"snapshot {key!r} holds {file!r}, which is neither text nor bytes")


def _has_json_calls(content: Content) -> bool:
    # Called for every reply of a thread that is opened, so it allocates nothing.
    if type(content) is not str:
        for block in content:
            if type(block) is ToolCall and not is_json(block.raw):
                return False
    return True


def _waits_for_json_calls(entry: OpenCall) -> bool:
    calls = (entry.call, *(wait.call for wait in entry.waits))
    return all(is_json(call.raw) for call in calls) and _is_json_edit(entry.decision)


def _is_json_edit(decision: RecordedDecision | None) -> bool:
    return not isinstance(decision, Edit) or is_json(decision.raw)


_CHECKS: dict[type, Callable[[Any], bool]] = {
    ModelReplied: lambda event: _has_json_calls(event.message.content),
    ToolWaiting: lambda event: all(is_json(wait.call.raw) for wait in event.interrupts),
    Decided: lambda event: _is_json_edit(event.decision),
}
"""Checks of the events whose types leave something open."""


def fetch_blob(store: CheckedStore, name: str) -> bytes:
    """Return the content of a blob.

    Raises:
        CheckpointError: it is missing or damaged, or the store failed.
    """
    data = store.get(layout.blob_key(name))
    if data is None:
        raise CorruptSegment(f"blob {name!r} is missing")
    return format.read_blob(data, name)


def content_of(store: CheckedStore, entry: FileEntry) -> str | bytes | None:
    """Return the content of a file, wherever it is kept; None if only a disk has it."""
    if not entry.blob or entry.content is not None:
        return entry.content
    data = fetch_blob(store, entry.sha256)
    try:
        return data.decode()
    except UnicodeDecodeError:  # It was written as bytes: text is always UTF-8.
        return data


def fill(store: CheckedStore, state: State, file: str) -> None:
    """Fetch a file's content into *state* if it is only referred to there. That changes nothing that the log says."""
    entry = state.files.get(file)
    if entry is not None and entry.blob and entry.content is None:
        keep_content(state, file, structs.replace(entry, content=content_of(store, entry)))


def fold(store: CheckedStore, state: State, number: int, event: AnyEvent) -> None:
    """`apply` an event, after fetching the file that an edit changes."""
    if type(event) is FileEdited:
        fill(store, state, event.file)
    apply(state, event, number)


def replay(log: Log, state: State, number: int, event: AnyEvent) -> None:
    """`fold` an event that the log holds.

    Raises:
        CorruptSegment: it does not fit those before it.
        SegmentTooLarge: it makes a file larger than any that can be stored.
        CheckpointError: the file that it edits cannot be read.
    """
    try:
        if type(event) is FileEdited:
            fill(log.store, state, event.file)
            _check_edit(state, event)
        apply(state, event, number)
    except IllegalEvent as exc:
        what = f"event {number} of thread {log.thread_id!r}"
        raise CorruptSegment(f"{what} does not fit those before it: {exc}") from None


def _check_edit(state: State, event: FileEdited) -> None:
    """Check that an edit makes a file no larger than it says: a forged one that replaces each letter could fill the
    memory.
    """
    entry = state.files.get(event.file)
    text = entry.content if entry else None
    if not isinstance(text, str) or not event.old:
        return
    size = len(text) + text.count(event.old) * (len(event.new) - len(event.old))
    if size > max(event.size, format.MAX_RAW):
        raise SegmentTooLarge(f"an edit makes {size:,} characters of {event.file!r}, and says {event.size:,} bytes")


def last_snapshot(
    log: Log,
    path: Path,
    fits: Callable[[Header], bool] = lambda _: True,
    newest: list[tuple[str, bytes]] | None = None,
) -> tuple[State, int | None]:
    """Return the newest snapshot of a run that *fits*, or a new state; and the event after which a later snapshot
    stands, which bounds the segments to read. *newest* is the row of the newest one, if it was read already.

    Raises:
        HistoryCut: there was one, or a beginning, before retention removed it.
        CheckpointError: a snapshot is missing or damaged.
    """
    number, stop = log.newest_snapshot(path), None
    while number:
        key = layout.snapshot_key(log.thread_id, path, number)
        found, newest = log.store.read(Range(key))[0] if newest is None else newest, None
        if not found:
            raise CorruptSegment(f"snapshot {key!r} is missing")
        data = found[0][1]
        header = format.read_header(data, key)
        check_owner(log, path, header, key)
        if header.last != number or header.prior >= number:  # A forged one could lead round in a circle.
            raise CorruptSegment(f"snapshot {key!r} says it stands at event {header.last}, after {header.prior}")
        # Only the state that is asked for is decoded, so damage in another snapshot does not hide it.
        if fits(header):
            state = format.read_snapshot(data, key)[1]
            check_state(state, key)
            return state, stop
        stop, number = number + 1, header.prior
    # A new state would pass for the beginning of the thread.
    if log.head.truncation and not path:
        first = log.head.truncation.turn
        raise HistoryCut(f"thread {log.thread_id!r} begins with boundary {first}; retention removed the older ones")
    return State(), stop


def read_run(log: Log, path: Path, found: RunRows | None = None) -> tuple[State, list[SegmentRef]]:
    """Return one run as it was last saved, and the segments after its newest snapshot. *found* are its rows, if they
    were read already.

    Raises:
        CheckpointError: it cannot be read.
    """
    snapshot, tail = found or run_rows(log, path)
    state, _ = last_snapshot(log, path, newest=snapshot)
    refs: list[SegmentRef] = []
    for ref, entries in segments(log, path, state.number, found=tail):
        refs.append(ref)
        for number, event, _ in entries:
            replay(log, state, number, event)
    return state, refs


def run_rows(log: Log, path: Path) -> RunRows:
    """Return the rows that `read_run` reads."""
    return log.store.read(*_rows_of(log.thread_id, path, log.newest_snapshot(path), log.head.number))


def read_tail(log: Log, found: RunRows) -> Tail | None:
    """Return the last segment of the main run, of which *found* are the rows, if the next append may go on with it."""
    for key, data in found[1][-1:]:
        header = format.read_header(data, key)
        if is_open(header) and header.last == log.head.last:
            _, body = format.unseal(data, key, format.SEGMENT)
            return Tail(key, header, format.split_events(body, key), len(data))
    return None
