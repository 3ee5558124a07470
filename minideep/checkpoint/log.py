"""The log of a thread: one journal for the main run and all runs below it, appended in one transaction."""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from .. import codec
from ..core import apply
from ..errors import CheckpointError, CorruptSegment, MinideepError
from ..events import E, FileEdited, FileWritten
from ..messages import AssistantMessage
from ..ports import Store
from ..state import FileEntry, Path, State
from . import rows as names
from .rows import Head, RunRow, ThreadInfo

WRITES = (FileWritten, FileEdited)
T = TypeVar("T")


class Saved(Struct, frozen=True):
    """What an append wrote."""

    raw: int
    stored: int


class Journal:
    """What of a thread is in memory: the states of its runs, and the events that no append has written yet."""

    def __init__(self, thread_id: str, store: Store) -> None:
        self.thread_id = thread_id
        self.store = store
        self.stored: bytes | None = None
        """The head row as the store has it."""
        self.head = Head(0, secrets.token_bytes(8), b"")
        self.number = 0
        self.root = State()
        self.runs: dict[Path, RunRow] = {}
        """Every run below the main one that the store knows."""
        self.states: dict[Path, State] = {(): self.root}
        """The runs of this turn."""
        self.pending: list[tuple[Path, bytes]] = []
        self.cancelled = False
        """Whether the caller has cancelled this turn."""
        self._ids: dict[Path, set[str]] = {}
        self._written: dict[str, Path] = {}

    def record(self, path: Path, event: E) -> E:
        """Number *event*, keep its bytes for the next append, apply it, and return it as it was applied.

        Raises:
            IllegalEvent, SegmentTooLarge: it is refused; nothing was changed.
        """
        number = self.number + 1
        data = codec.encode(number, event)
        event = cast(E, codec.decode(data))  # Checks its types, and shares nothing with whoever made it.
        apply(self.states.get(path) or self.open_run(path), event, number)
        self.number = number
        if isinstance(event, WRITES):
            self._written[event.file] = event.by
        self.pending.append((path, data))
        return event

    def open_run(self, path: Path) -> State:
        """The state of the run at *path*: of this turn, of the log, or a new one. Every run has the thread's files."""
        if path not in self.states:
            known = self.runs.get(path)
            state = read_run(self.store, self.thread_id, path, known.last) if known else State()
            state.files = self.root.files
            self.states[path] = state
        return self.states[path]

    def artifacts(self, path: Path) -> dict[str, FileEntry]:
        """The files that the run at *path*, or one below it, wrote in this turn and that are still there, by path."""
        files, depth = self.root.files, len(path)
        return {file: files[file] for file, by in self._written.items() if by[:depth] == path and file in files}

    def close_turn(self) -> None:
        """Forget what only this turn needs; a run with events that are not saved yet is needed for its next append."""
        unsaved = {path for path, _ in self.pending}
        self.states = {path: state for path, state in self.states.items() if not path or path in unsaved}
        self._ids = {path: ids for path, ids in self._ids.items() if not path}
        self._written = {}
        self.cancelled = False

    def ids(self, path: Path) -> set[str]:
        """The ids that a new call of the run at *path* must not have: of calls in its context, and of its children."""
        if path not in self._ids:
            replies = (message for message in self.open_run(path).messages if isinstance(message, AssistantMessage))
            shown = (call.id for reply in replies for call in reply.calls)
            children = (other[-1].split("/")[0] for other in self.runs if other[:-1] == path)
            self._ids[path] = {*shown, *children}
        return self._ids[path]

    def is_waiting(self, call_id: str) -> bool:
        """Whether a call of this id waits for a person anywhere in the thread."""
        return bool(self.root.open) and any(wait.call_id == call_id for wait in self.root.interrupts)


def open_thread(store: Store, thread_id: str, *, subagents: bool = False) -> Journal | None:
    """Read a thread as of one moment; None if the store does not know it. With *subagents* every run below the main
    one is read too, and stands in its parent's `State.subagents`.

    Raises:
        CheckpointError: its log cannot be read.
    """
    while (stored := read_stored_head(store, thread_id)) is not None:
        try:
            journal = _read_thread(store, thread_id, stored)
            if subagents:
                _read_subagents(journal)
        except CorruptSegment:
            if read_stored_head(store, thread_id) == stored:
                raise
        else:
            if read_stored_head(store, thread_id) == stored:
                return journal
        # Somebody appended meanwhile, and the rows were of two moments.
    return None


def rewound(journal: Journal, unsaved: list[tuple[Path, bytes]]) -> Journal:
    """The thread as the store has it, with *unsaved*, events of earlier turns that no append has written, on top."""
    fresh = open_thread(journal.store, journal.thread_id) or Journal(journal.thread_id, journal.store)
    for path, data in unsaved:
        number, event = codec.decode_numbered(data)
        apply(fresh.open_run(path), event, number)
        fresh.number = number
        fresh.pending.append((path, data))
    return fresh


def read_stored_head(store: Store, thread_id: str) -> bytes | None:
    """The head row as it is stored, whatever it says.

    Raises:
        CheckpointError: the store failed.
    """
    return _guarded(store.head, thread_id)


def _read_thread(store: Store, thread_id: str, stored: bytes) -> Journal:
    journal = Journal(thread_id, store)
    journal.stored, journal.head = stored, names.read_head(thread_id, stored)
    journal.number = journal.head.number
    prefix = names.run_prefix(thread_id)
    found = _guarded(store.rows, prefix, names.after(prefix))
    journal.runs = {names.run_path(key): names.read_run_row(key, data) for key, data in found}
    journal.root = read_run(store, thread_id, (), journal.head.last)
    journal.states = {(): journal.root}
    return journal


def _read_subagents(journal: Journal) -> None:
    for path in sorted(journal.runs, key=lambda path: (len(path), journal.runs[path].first)):
        journal.states[path[:-1]].subagents[path[-1]] = journal.open_run(path)


async def append(journal: Journal) -> Saved:
    """Write every pending event of the thread in one transaction: a segment, or more if they are large, per run.

    Raises:
        ThreadConflict: another writer was first.
        CheckpointError: the store failed. The events stay pending.
    """
    if not journal.pending:
        return Saved(0, 0)
    store = journal.store
    append_id, pending = secrets.token_bytes(8), len(journal.pending)
    head, rows, runs, saved = _rows(journal, append_id)
    stored = msgspec.msgpack.encode(head)

    def write() -> None:
        try:
            store.append(journal.thread_id, journal.stored, stored, rows)
        except Exception as exc:  # The store door: whatever a store raises, the answer must survive it.
            landed = read_stored_head(store, journal.thread_id) == stored  # And only the report of it was lost.
            if not landed:
                raise _as_checkpoint_error(exc) from exc

    await off_loop(store, write)
    journal.stored, journal.head = stored, head
    journal.runs |= runs
    del journal.pending[:pending]
    return saved


async def off_loop(store: Store, act: Callable[[], T]) -> T:
    """Call *act*, which uses *store*, where that does not hold up the event loop."""
    if store.executor is None:
        return act()
    return await asyncio.get_running_loop().run_in_executor(store.executor, act)


def _rows(journal: Journal, append_id: bytes) -> tuple[Head, dict[str, bytes], dict[Path, RunRow], Saved]:
    """The new head, and the rows of one append."""
    now = time.time()
    rows: dict[str, bytes] = {}
    runs: dict[Path, RunRow] = {}
    total = Saved(0, 0)
    for path, entries in _by_path(journal.pending).items():
        before = journal.runs.get(path)
        size = Saved(0, 0)
        prior = before.last if before else 0 if path else journal.head.last
        for events in _cut(entries):
            first, last = _number(events[0]), _number(events[-1])
            header = codec.Header(journal.thread_id, path, first, last, prior, append_id, codec.raw_size(events), now)
            data = codec.seal(header, events)
            rows[names.segment_key(journal.thread_id, path, first)] = data
            size = Saved(size.raw + header.raw, size.stored + len(data))
            prior = last
        total = Saved(total.raw + size.raw, total.stored + size.stored)
        if path:
            runs[path] = _run_row(journal.states[path], before, _number(entries[0]), prior, now, size)
            rows[names.run_key(journal.thread_id, path)] = msgspec.msgpack.encode(runs[path])
    return _next_head(journal, append_id, now, total), rows, runs, total


def _next_head(journal: Journal, append_id: bytes, now: float, size: Saved) -> Head:
    old, root = journal.head, journal.root
    return Head(
        number=journal.number,
        epoch=old.epoch,
        append=append_id,
        last=root.number,
        agent=root.agent,
        status=root.status,
        turn=root.turn,
        title=old.title or (root.said.text[:80] if root.said else ""),
        created=old.created or now,
        updated=now,
        raw=old.raw + size.raw,
        stored=old.stored + size.stored,
    )


def _run_row(state: State, before: RunRow | None, first: int, last: int, now: float, size: Saved) -> RunRow:
    return RunRow(
        agent=state.agent,
        status=state.status,
        first=before.first if before else first,
        last=last,
        steps=state.step,
        tokens=min(state.usage.total, 2**63),
        created=before.created if before else now,
        updated=now,
        raw=(before.raw if before else 0) + size.raw,
        stored=(before.stored if before else 0) + size.stored,
    )


def _by_path(pending: list[tuple[Path, bytes]]) -> dict[Path, list[bytes]]:
    found: dict[Path, list[bytes]] = {}
    for path, data in pending:
        found.setdefault(path, []).append(data)
    return found


def _cut(events: list[bytes]) -> Iterable[list[bytes]]:
    """*events* in pieces of at most 1 MiB, unless a single one is larger."""
    piece: list[bytes] = []
    size = 0
    for data in events:
        if piece and size + len(data) > codec.CUT:
            yield piece
            piece, size = [], 0
        piece.append(data)
        size += len(data)
    yield piece


def _number(data: bytes) -> int:
    return msgspec.msgpack.decode(data, type=tuple[int, Any])[0]


def read_run(store: Store, thread_id: str, path: Path, last: int) -> State:
    """The state of one run, folded from its segments up to its event *last*.

    Raises:
        CheckpointError: a segment is missing, damaged, of another thread, or of an unknown version.
    """
    state = State()
    for number, event in read_events(store, thread_id, path):
        apply(state, event, number)
    if state.number != last:
        raise CorruptSegment(f"run {path!r} of thread {thread_id!r} ends with event {state.number}, expected {last}")
    return state


def read_events(store: Store, thread_id: str, path: Path) -> Iterable[codec.Entry]:
    """The numbered events of one run, in order."""
    prefix = names.log_prefix(thread_id, path)
    last = 0
    for key, data in _guarded(store.rows, prefix, names.after(prefix)):
        header, entries = codec.read_segment(data, key)
        if (header.thread, header.path) != (thread_id, path):
            raise CorruptSegment(f"segment {key!r} belongs to thread {header.thread!r}, run {header.path!r}")
        if header.prior != last:
            raise CorruptSegment(f"before segment {key!r} one is missing: it follows event {header.prior}, not {last}")
        last = header.last
        yield from entries


def list_threads(store: Store) -> list[ThreadInfo]:
    """Every thread of the store, the last used one first."""
    found: list[ThreadInfo] = []
    for thread_id, data in _guarded(store.heads):
        head = names.read_head(thread_id, data)
        found.append(
            ThreadInfo(
                thread_id,
                head.agent,
                head.status,
                head.turn,
                head.title,
                head.created,
                head.updated,
                head.raw,
                head.stored,
            )
        )
    return sorted(found, key=lambda info: -info.updated)


def _guarded(read: Any, *args: str) -> Any:
    try:
        return read(*args)
    except Exception as exc:  # The store door: a store may be anybody's, and its errors become ours.
        raise _as_checkpoint_error(exc) from exc


def _as_checkpoint_error(exc: Exception) -> MinideepError:
    if isinstance(exc, MinideepError):
        return exc
    return CheckpointError(f"the store failed: {type(exc).__name__}: {exc}")
