"""The recorded events of a thread, of all its runs in one order: all of them, or a page after a number."""

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter, itemgetter

from msgspec import Struct, structs

from ..errors import CorruptSegment, HistoryCut
from ..events import AnyEvent, FileWritten, with_path
from ..state import FileEntry, Path
from . import format, layout
from .log import Log
from .replay import check_owner, content_of, read_consistently, segments, with_blobs
from .store import CheckedStore, unknown_thread

PAGE = 256
"""Events of one page."""
SEGMENTS = 8
"""Segments of one run that are read for a page: each has at most 1 MiB."""
TRIES = 100
"""Reads of one run: it is read again when a merge has replaced its segments between two queries."""


class Page(Struct, frozen=True):
    """Some events of a thread, as followers receive them."""

    events: list[AnyEvent]
    known: int
    """The number of the last event that the log has up to the number after which the page begins: less than that number
    if the event with that number did not last.
    """
    last: int
    """The number of the thread's last event."""


def read_page(store: CheckedStore, thread_id: str, after: int, limit: int = PAGE) -> Page | None:
    """Return the first events after number *after*; None if the store does not know the thread.

    Raises:
        HistoryCut: retention has removed events after that number.
        CheckpointError: it cannot be read.
    """
    return read_consistently(store, thread_id, lambda log: _page(log, after, limit))


class _Part(Struct):
    """Events of one run after a number, in order."""

    before: int
    """The number of the run's last event up to that number."""
    entries: list[tuple[int, AnyEvent]]
    whole: bool
    """False if the run has more."""


def _page(log: Log, after: int, limit: int) -> Page:
    cut = log.head.truncation
    if cut is not None and 0 < after < cut.number:
        raise HistoryCut(f"events after {after} of thread {log.thread_id!r} were removed by retention")
    known, parts, end = 0, list[_Part](), log.head.number
    for path, last in [((), log.head.last), *((path, row.last) for path, row in log.runs.items())]:
        # Retention cuts off the beginning of the main run only.
        first = after if path or cut is None else max(after, cut.number)
        if last <= first:  # Most runs below are over.
            known = max(known, min(last, after))
            continue
        part = _read_run(log, path, first)
        known = max(known, min(after, part.before))
        if not part.whole:  # What other runs have after its last event may come after events that were not read.
            end = min(end, part.entries[-1][0])
        parts.append(part)
    found = (event for number, event in merge(*(part.entries for part in parts), key=itemgetter(0)) if number <= end)
    return Page(list(islice(found, limit)), known, log.head.number)


def _read_run(log: Log, path: Path, after: int) -> _Part:
    start, stop = (layout.segments_from(log.thread_id, path, number) for number in (0, log.head.number + 1))
    for _ in range(TRIES):
        later = _segments_after(log.store.keys(start, stop), after)
        whole = len(later) <= SEGMENTS
        # In one query: between two of them a merge could take segments away.
        rows = log.store.rows(later[0], stop if whole else later[SEGMENTS]) if later else []
        part = _Part(0, [], whole)
        last = None
        for key, data in rows:
            header, entries = format.read_segment(data, key)
            check_owner(log, path, header, key)
            if header.prior > after if last is None else header.prior != last:
                break  # A segment is missing: merged with one before it, or damaged.
            if last is None:
                part.before = max([header.prior, *(entry.number for entry in entries if entry.number <= after)])
            last = header.last
            part.entries += (
                (number, with_path(event, path, number, at, str(number)))
                for number, event, at in with_blobs(log.store, key, header.base, entries)
                if number > after
            )
        else:
            if last is not None and (last >= log.last(path) or not whole):
                return part
    raise CorruptSegment(f"events after {after} of run {path!r} of thread {log.thread_id!r} are missing")


def _segments_after(keys: list[str], number: int) -> list[str]:
    """Return those of a run's *keys*, in order, whose segments hold events after *number*, or may."""
    numbers = [key.rpartition("/")[2].partition("-") for key in keys]
    # In format 1.0 a key says where its segment begins, and the next one where it ends.
    followers = [*(int(first) - 1 for first, _, _ in numbers[1:]), layout.MAX_NUMBER]
    lasts = (int(last or follower) for (_, _, last), follower in zip(numbers, followers, strict=False))
    return [key for key, last in zip(keys, lasts, strict=True) if last > number]


# ---- all of them


def thread_events(store: CheckedStore, thread_id: str) -> list[AnyEvent]:
    """Return every event of a thread as it is saved, with its path, number and time, and the contents of files.

    Raises:
        UnknownThread, CheckpointError
        HistoryCut: retention has removed the beginning.
    """
    found = read_consistently(store, thread_id, _events)
    if found is None:
        raise unknown_thread(thread_id)
    return found


def _events(log: Log) -> list[AnyEvent]:
    if cut := log.head.truncation:
        kept = f"thread {log.thread_id!r} begins with boundary {cut.turn}"
        raise HistoryCut(f"{kept}, as retention removed the older ones; only a whole thread can be run again")
    return list(merge(*(_events_of(log, path) for path in ((), *log.runs)), key=attrgetter("number")))


def _events_of(log: Log, path: Path) -> Iterator[AnyEvent]:
    for _, entries in segments(log, path):
        for number, event, at in entries:
            whole = _with_content(log, event) if type(event) is FileWritten else event
            yield with_path(whole, path, number, at, str(number))


def _with_content(log: Log, event: FileWritten) -> FileWritten:
    entry = FileEntry(event.content, event.size, event.sha256, event.at, blob=event.blob)
    return structs.replace(event, content=content_of(log.store, entry))
