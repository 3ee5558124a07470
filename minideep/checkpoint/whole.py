"""All recorded events of a thread, of all its runs in one order, with everything that they refer to."""

from collections.abc import Iterator
from heapq import merge
from operator import attrgetter

from msgspec import structs

from ..errors import HistoryCut
from ..events import AnyEvent, FileWritten, with_path
from ..state import FileEntry, Path
from .log import Log
from .replay import content_of, read_consistently, segments
from .store import CheckedStore, unknown_thread


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
