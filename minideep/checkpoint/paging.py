"""The recorded events of a thread after a number, of all its runs in one order, a page at a time."""

from collections.abc import Iterator
from heapq import merge
from itertools import islice

from msgspec import Struct

from ..errors import CorruptSegment, HistoryCut
from ..events import AnyEvent, with_path
from ..state import Path
from . import format, layout
from .log import Log
from .replay import check_owner, read_consistently, with_blobs
from .store import CheckedStore

PAGE = 256
"""Events of one page."""


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


def _page(log: Log, after: int, limit: int) -> Page:
    cut = log.head.truncation
    if cut is not None and 0 < after < cut.number:
        raise HistoryCut(f"events after {after} of thread {log.thread_id!r} were removed by retention")
    known, runs = 0, list[Iterator[tuple[int, AnyEvent]]]()
    for path, last in [((), log.head.last), *((path, row.last) for path, row in log.runs.items())]:
        if last <= after:  # Most runs below are over.
            known = max(known, last)
            continue
        before, keys = _segments_after(log, path, after)
        known = max(known, before)
        runs.append(_entries(log, path, keys, after))
    found = merge(*runs, key=lambda entry: entry[0])
    return Page([event for _, event in islice(found, limit)], known, log.head.number)


def _segments_after(log: Log, path: Path, after: int) -> tuple[int, list[str]]:
    """Return the number of a run's last event up to number *after*, or 0, and the keys of segments with later ones."""
    start, stop = (layout.segments_from(log.thread_id, path, number) for number in (0, log.head.number + 1))
    keys = log.store.keys(start, stop)
    later = [key for key in keys if layout.segment_numbers(key)[1] > after]
    before = layout.segment_numbers(keys[-len(later) - 1])[1] if len(later) < len(keys) else 0
    if later and layout.segment_numbers(later[0])[0] <= after:
        before = max(number for number, _ in _segment(log, path, later[0]) if number <= after)
    return before, later


def _entries(log: Log, path: Path, keys: list[str], after: int) -> Iterator[tuple[int, AnyEvent]]:
    """Yield the events after number *after*, each with its number, reading a segment when it is needed."""
    for key in keys:
        for number, event in _segment(log, path, key):
            # A merged segment may already hold events that were appended after the head was read.
            if after < number <= log.head.number:
                yield number, event


def _segment(log: Log, path: Path, key: str) -> Iterator[tuple[int, AnyEvent]]:
    data = log.store.get(key)
    if data is None:  # Merged meanwhile: the thread is read again.
        raise CorruptSegment(f"segment {key!r} is missing")
    header, entries = format.read_segment(data, key)
    check_owner(log, path, header, key)
    for number, event in with_blobs(log.store, key, entries):
        yield number, with_path(event, path, number, header.at, str(number))
