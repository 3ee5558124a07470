"""Verification: every row of a store is read, and those that are damaged are named.

Each row is checked by itself; then the events of each run are replayed, as if a turn continued it. Others may use the
store meanwhile: apparent damage is checked again until the thread stayed unchanged meanwhile; if it never does, only
damage found every time is reported.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator

from msgspec import structs

from ..documented import Struct
from ..errors import CheckpointError, CorruptSegment, HistoryCut
from ..state import Path, State
from . import files, layout
from .boundaries import beginning
from .format import Header, encode_state, read_blob, read_segment, read_snapshot
from .log import Log
from .maintenance import read_mark
from .replay import check_state, last_snapshot, read_consistently, read_run, replay, segments
from .store import CheckedStore

TRIES = 10
PAGES = ["", *(f"{page:02x}" for page in range(256)), "g"]
"""Split points of blob names, which keep each list short. Names are hexadecimal; any others come last."""
LAST = "\U0010ffff"


class Damage(Struct, frozen=True):
    """A row that is damaged, missing or superfluous: an item of `verify()`."""

    thread: str
    """The thread that is affected; empty if none is."""
    key: str
    """The row; or the beginning of the keys of a run's segments, if they do not fit together."""
    problem: str


def verify(store: CheckedStore) -> list[Damage]:
    """Read every row of *store* and fold every run; return the damage in the order of threads, or an empty list.

    It takes about as long as loading each thread twice, and the memory of the largest thread.

    Raises:
        CheckpointError: the store cannot list its threads.
    """
    heads = store.keys("head/", "head0")
    threads = [layout.thread_of(key) for key in heads if key == layout.head_key(layout.thread_of(key))]
    found = [Damage("", key, "it is not named as the head of a thread is") for key in heads if not _is_head(key)]
    for thread_id in threads:
        found += _lasting(store, thread_id, lambda thread_id=thread_id: _thread(store, thread_id))
    for key in _between(store, "blob/"):
        found += _blob(store, key)
    for key in _between(store, "ref/"):
        thread_id = layout.run_path(key)[0]
        found += _lasting(store, thread_id, lambda key=key, thread_id=thread_id: _reference(store, thread_id, key))
    found += [Damage("", key, problem) for key, problem in files.faults(store)]
    return found + _strays(store, sorted(f"{key.removeprefix('head/')}/" for key in heads if _is_head(key)))


def _is_head(key: str) -> bool:
    return key == layout.head_key(layout.thread_of(key))


def _lasting(store: CheckedStore, thread_id: str, look: Callable[[], list[Damage]]) -> list[Damage]:
    """Return what *look* finds while the thread does not change; if it always does, what is found every time."""
    lasting: list[Damage] | None = None
    for _ in range(TRIES):
        before, found = _stored(store, thread_id), look()
        lasting = [one for one in found if lasting is None or one in lasting]
        if not lasting or _stored(store, thread_id) == before:
            break
    return lasting or []


def _stored(store: CheckedStore, thread_id: str) -> bytes | None:
    """Return the head row, whatever it says; empty bytes if the store refuses to read it."""
    try:
        return store.head(thread_id)
    except CorruptSegment:
        return b""


def _between(store: CheckedStore, prefix: str) -> Iterator[str]:
    """Yield the keys that begin with *prefix*, a few at a time."""
    for start, stop in zip(PAGES, [*PAGES[1:], LAST], strict=True):
        yield from store.keys(prefix + start, min(prefix + stop, layout.after(prefix)))


# ---- one thread


def _thread(store: CheckedStore, thread_id: str) -> list[Damage]:
    found = list(_named(thread_id, layout.head_key(thread_id), lambda: _head(store, thread_id)))
    paths: set[Path] = set()
    for kind in layout.KINDS:
        prefix = layout.thread_prefix(kind, thread_id)
        for key in store.keys(prefix, layout.after(prefix)):
            found += _named(thread_id, key, lambda key=key, kind=kind: _row(store, thread_id, kind, key, paths))
    broken = {one.key.rpartition("/")[0] for one in found}
    for path in () if found and found[0].key == layout.head_key(thread_id) else sorted({(), *paths}, key=len):
        log, snapshots = layout.log_prefix(thread_id, path), layout.snapshot_prefix(thread_id, path)
        if not {log[:-1], snapshots[:-1]} & broken:  # Else its damage is named already.
            found += _named(thread_id, log, lambda path=path: read_consistently(store, thread_id, _folded(path)))
    return found


def _named(thread_id: str, key: str, look: Callable[[], object]) -> Iterable[Damage]:
    """Yield the error that *look* raises, as damage of the row under *key*."""
    try:
        look()
    except CheckpointError as exc:
        yield Damage(thread_id, key, str(exc))


def _head(store: CheckedStore, thread_id: str) -> None:
    stored = store.head(thread_id)
    if stored is not None:  # Otherwise it was deleted meanwhile.
        layout.read_head(thread_id, stored)


def _row(store: CheckedStore, thread_id: str, kind: str, key: str, paths: set[Path]) -> None:
    """Check one row of a thread by itself; add the path of a run to *paths*."""
    data = store.get(key)
    if data is None:  # It was merged, truncated or deleted meanwhile.
        return
    match kind:
        case "log" | "base":
            header = _sealed(thread_id, kind, key, data)
            if header.path and store.get(layout.run_key(thread_id, header.path)) is None:
                raise CorruptSegment(f"row {key!r} is of run {header.path!r}, which does not exist")
            for name in header.blobs:
                _check_named(store, thread_id, key, name)
        case "run":
            path = layout.run_path(key)
            if key != layout.run_key(thread_id, path):
                raise CorruptSegment(f"row {key!r} is not named as a run is")
            layout.read_run_row(key, data)
            paths.add(path)
        case "key":
            layout.read_key_row(key, data)
        case "use":
            _check_named(store, thread_id, key, key.removeprefix(layout.thread_prefix("use", thread_id)))
        case _:
            read_mark(key, data)


def _sealed(thread_id: str, kind: str, key: str, data: bytes) -> Header:
    """Return the header of a segment or a snapshot, after checking that it is sound and in its place."""
    if kind == "log":
        header, _ = read_segment(data, key)
        start = layout.segments_from(thread_id, header.path, header.first)
        places = {layout.segment_key(thread_id, header.path, header.first, header.last), start}  # As in format 1.0.
    else:
        header, state = read_snapshot(data, key)
        check_state(state, key)
        places = {layout.snapshot_key(thread_id, header.path, header.last)}
    # A row that was copied from elsewhere has a valid checksum, too.
    if header.thread != thread_id or key not in places:
        raise CorruptSegment(f"row {key!r} belongs to thread {header.thread!r}, run {header.path!r}")
    return header


def _check_named(store: CheckedStore, thread_id: str, key: str, name: str) -> None:
    """Check that a blob exists, and is kept for as long as the thread refers to it."""
    if store.get(layout.blob_key(name)) is None:
        raise CorruptSegment(f"row {key!r} refers to blob {name!r}, which is missing")
    for wanted, empty in layout.reference_rows(thread_id, name).items():
        if store.get(wanted) != empty:
            raise CorruptSegment(f"row {key!r} refers to blob {name!r}, and {wanted!r} is missing or not empty")


def _folded(path: Path) -> Callable[[Log], None]:
    """Return a function that folds one run of a log: all its events, its snapshots, and what a new turn reads."""

    def fold(log: Log) -> None:
        if path and path not in log.runs:
            return
        state, prefix = beginning(log, path), layout.snapshot_prefix(log.thread_id, path)
        snapshots = {_number_in(key): key for key in log.store.keys(prefix, layout.after(prefix))}
        for _, entries in segments(log, path, state.number):
            for number, event, _ in entries:
                replay(log, state, number, event)
                if number in snapshots:
                    _check_snapshot(log, snapshots[number], state)
        with contextlib.suppress(HistoryCut):  # As the chain of a truncated thread ends.
            last_snapshot(log, path, lambda header: False)  # Follows all of them: each refers to the one before it.
        read_run(log, path)  # As a turn does, from the newest snapshot on.
        _check_end(log, path, state)

    return fold


def _number_in(key: str) -> int:
    """Return the first event number in the key of a segment or a snapshot.

    Raises:
        CorruptSegment: the key has none, so no append made the row.
    """
    number = key.rpartition("/")[2].partition("-")[0]
    if not (number.isascii() and number.isdigit() and len(number) < 20):
        raise CorruptSegment(f"row {key!r} is not named as a segment or a snapshot is")
    return int(number)


def _check_snapshot(log: Log, key: str, state: State) -> None:
    """Check that a snapshot holds the state that the events before it make. Files are blobs, and checked as such."""
    data = log.store.get(key)
    if data is None:  # It was removed meanwhile.
        return
    _, snapshot = read_snapshot(data, key)
    if _plain(snapshot) != _plain(state):
        raise CorruptSegment(f"snapshot {key!r} holds another state than the events before it make")


def _plain(state: State) -> bytes:
    return encode_state(structs.replace(state, files={}, subagents={}))


def _check_end(log: Log, path: Path, state: State) -> None:
    """Check that the row of a run, or the head, agrees with its events."""
    if path:
        row = log.runs[path]
        stored, found = (row.status, row.last, row.steps), (state.status, state.number, state.step)
    else:
        stored, found = (log.head.status, log.head.last, log.head.turn), (state.status, state.number, state.turn)
    # Lists go by the row and turns by the events, so the two must not differ.
    if stored != found:
        raise CorruptSegment(f"run {path!r} of thread {log.thread_id!r} is {found}, and its row says {stored}")


# ---- blobs, and rows without a thread


def _blob(store: CheckedStore, key: str) -> list[Damage]:
    name = key.removeprefix("blob/")
    try:
        if (data := store.get(key)) is None:
            return []
    except CorruptSegment as exc:  # The store itself finds that it was changed.
        return [Damage(thread_id, key, str(exc)) for thread_id in _users(store, name) or [""]]
    users = _users(store, name)
    # Asked twice: between two looks a thread may have been saved or deleted.
    if not users and store.get(key) is not None and not (users := _users(store, name)):
        return [Damage("", key, "no thread refers to it")]
    return [one for thread_id in users for one in _named(thread_id, key, lambda data=data: read_blob(data, name))]


def _users(store: CheckedStore, name: str) -> list[str]:
    return [layout.run_path(key)[0] for key in store.keys(f"ref/{name}/", f"ref/{name}0")]


def _reference(store: CheckedStore, thread_id: str, key: str) -> list[Damage]:
    if store.get(key) is None:
        return []
    name = key.split("/")[1]
    if key not in layout.reference_rows(thread_id, name) or _stored(store, thread_id) is None:
        return [Damage("", key, "it belongs to no thread")]
    return list(_named(thread_id, key, lambda: _check_named(store, thread_id, key, name)))


def _strays(store: CheckedStore, threads: list[str]) -> list[Damage]:
    """Find the rows that belong to no thread. *threads* are the existing ones, as they stand in keys."""
    kinds = sorted(["head", "blob", "ref", *files.KINDS, *layout.KINDS])
    # Rows between the kinds, and within each between the threads: a list of all keys could fill the memory.
    gaps = list(zip(["", *(f"{kind}0" for kind in kinds)], [*(f"{kind}/" for kind in kinds), LAST], strict=True))
    for kind in layout.KINDS:
        starts = [f"{kind}/", *(layout.after(f"{kind}/{thread}") for thread in threads)]
        gaps += zip(starts, [*(f"{kind}/{thread}" for thread in threads), f"{kind}0"], strict=True)
    found = (key for start, stop in gaps for key in store.keys(start, stop))
    return [Damage("", key, "it belongs to no thread") for key in found if _is_stray(store, key)]


def _is_stray(store: CheckedStore, key: str) -> bool:
    """Return whether a row still exists and its thread, which may have begun meanwhile, does not."""
    kind, _, rest = key.partition("/")
    if kind not in layout.KINDS or "/" not in rest:  # No append writes such a key.
        return True
    thread_id = layout.thread_of(key)
    if not key.startswith(layout.thread_prefix(kind, thread_id)):
        return True
    # The thread is asked for twice, since it may have begun just before its row was seen.
    gone = _stored(store, thread_id) is None
    return gone and store.get(key) is not None and _stored(store, thread_id) is None
