"""Writing a log: everything that is pending of a thread, in one transaction."""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field, structs

from ..errors import SegmentTooLarge, ThreadConflict
from ..ports import Store
from ..state import Path, State
from . import format as codec, layout as names, pace
from .blobs import Blobs
from .format import Header
from .joining import MergeQueue
from .journal import Journal
from .layout import Head, RunRow
from .log import SegmentRef, read_consistently
from .pace import through
from .store import PATIENCE, as_checkpoint_error, stored_head, translate_errors

T = TypeVar("T")


class Saved(Struct, frozen=True):
    """What an append wrote."""

    raw: int = 0
    stored: int = 0

    def __add__(self, other: "Saved") -> "Saved":
        return Saved(self.raw + other.raw, self.stored + other.stored)


class _Part(Struct):
    """What an append adds to one run."""

    path: Path
    segments: list[tuple[Header, list[bytes]]] = field(default_factory=list[tuple[Header, list[bytes]]])
    base: tuple[Header, bytes] | None = None
    row: RunRow | None = None
    """None for the main run, of which the head tells."""

    def headers(self) -> list[Header]:
        return [header for header, _ in self.segments] + ([self.base[0]] if self.base else [])


class Append(Struct):
    """One transaction: worked out on the event loop, while nothing changes; compressed and written anywhere."""

    journal: Journal
    count: int
    """How many pending events it holds."""
    raw: int
    head: Head
    parts: list[_Part]
    blobs: Blobs
    pieces: list[tuple[Path, SegmentRef]]
    compacted: set[Path]
    """Runs that get a base."""
    bytes_reclaimed: int
    """How many of the journal's `gained` are in the head."""
    rows: dict[str, bytes] = field(default_factory=dict[str, bytes])
    saved: Saved = Saved()
    stored: bytes = b""

    def write(self, until: float) -> None:
        """Write it, or find that it was written though the store said otherwise; at most until the clock
        (`time.monotonic`) says *until*, but once in any case.

        Raises:
            ThreadConflict: another writer was first.
            CheckpointError: the store failed, or others had it until then.
        """
        self._write(timeout=max(0.0, until - time.monotonic()))

    def write_at_once(self) -> bool:
        """`write`, if nobody else writes to the store: an event loop must not wait for them."""
        try:
            self._write()
        except TimeoutError:
            return False
        return True

    def _write(self, **how: Any) -> None:
        store, thread_id = self.journal.store, self.journal.thread_id
        self.rows = self.rows or self._rows()
        try:
            store.append(thread_id, self.journal.stored, self.stored, self.rows, **how)
        except Exception as exc:  # The store door: whatever a store raises, the answer must survive it.
            if isinstance(exc, TimeoutError) and not how:
                raise
            self.rows = {}
            self.journal.in_doubt.append(self)
            landed = stored_head(store, thread_id) == self.stored  # And only the report of it was lost.
            self.journal.in_doubt.pop()
            if not landed:
                raise as_checkpoint_error(exc) from exc

    def _rows(self) -> dict[str, bytes]:
        rows = {names.blob_key(name): codec.seal_blob(content) for name, content in self.blobs.contents.items()}
        total = Saved(self.blobs.size(), sum(map(len, rows.values())))
        for part in self.parts:
            sealed = self._sealed(part)
            rows |= sealed
            written = Saved(sum(header.raw for header in part.headers()), sum(map(len, sealed.values())))
            for name in {name for header in part.headers() for name in header.blobs}:
                rows |= names.use_rows(self.journal.thread_id, name)
            if part.row:
                raw, stored = part.row.raw + written.raw, part.row.stored + written.stored
                part.row = structs.replace(part.row, raw=raw, stored=stored)
                rows[names.run_key(self.journal.thread_id, part.path)] = msgspec.msgpack.encode(part.row)
            total += written
        self.saved = total
        self.head = structs.replace(self.head, raw=self.head.raw + total.raw, stored=self.head.stored + total.stored)
        self.stored = msgspec.msgpack.encode(self.head)
        return rows

    def _sealed(self, part: _Part) -> dict[str, bytes]:
        thread_id = self.journal.thread_id
        rows = {
            names.segment_key(thread_id, part.path, header.first, header.last): codec.seal(header, events)
            for header, events in part.segments
        }
        if part.base:
            header, state = part.base
            rows[names.base_key(thread_id, part.path, header.last)] = codec.seal_base(header, state)
        return rows

    def done(self) -> Saved:
        """Take note, in the journal, that it was written."""
        journal = self.journal
        journal.stored, journal.head, journal.in_doubt = self.stored, self.head, []
        journal.runs |= {part.path: part.row for part in self.parts if part.row}
        del journal.pending[: self.count]
        del journal.bytes_reclaimed[: self.bytes_reclaimed]
        journal.compacted -= self.compacted
        if journal.redaction:
            journal.redaction.done(self.count, set(journal.states))
        journal.blobs |= self.blobs.contents.keys()
        for path, piece in self.pieces:
            journal.tails.setdefault(path, MergeQueue()).add(piece)
        return self.saved


async def append(journal: Journal) -> Saved:
    """Write every pending event of the thread in one transaction: a segment, or more if they are large, per run.

    There is one append at a time, and none is cut short: a cancel that comes meanwhile is delivered once it is through.

    Raises:
        ThreadConflict: another writer was first, now or at an earlier append of this journal.
        CheckpointError: the store failed. The events stay pending.
    """
    await pace.shielded()
    while journal.appending is not None:
        await through(journal.appending)
    journal.check()
    saved = Saved()
    while journal.pending:
        work = prepare(journal)
        try:
            await _written(work)
        except ThreadConflict as exc:
            if (caught_up := _caught_up(journal)) is None:
                journal.conflict = exc
                raise
            saved += caught_up
        else:
            return saved + work.done()
    return saved


async def _written(work: Append) -> None:
    """Write *work*: a small one here and now if the store is free, which costs less than to hand it over."""
    journal = work.journal
    if work.raw <= journal.store.inline and work.write_at_once():
        return
    # From now, and not from when the store's thread comes to it: those before it may wait as long.
    until = time.monotonic() + PATIENCE
    # Not the writing itself: who waits for that may wake before us.
    journal.appending = over = asyncio.get_running_loop().create_future()
    try:
        writing = off_loop(journal.store, lambda: work.write(until))
        await through(writing)
        writing.result()
    finally:
        journal.appending = None
        over.set_result(None)


def _caught_up(journal: Journal) -> Saved | None:
    """After a conflict: what was written though the store could not say so; nothing, if retention has only cut off
    what was; None, if another writer has gone on with the thread.
    """
    log = read_consistently(journal.store, journal.thread_id, lambda log: log)
    if log is None:
        return None
    for work in journal.in_doubt:
        if work.stored == log.stored:
            return work.done()
    if log.stored == journal.stored or (log.head.number, log.head.epoch) != (journal.head.number, journal.head.epoch):
        return None
    journal.stored, journal.head, journal.runs, journal.blobs = log.stored, log.head, log.runs, set()
    return Saved()


def off_loop(store: Store, act: Callable[[], T]) -> "asyncio.Future[T]":
    """Have *act*, which uses *store*, called where that does not hold up the event loop."""
    loop = asyncio.get_running_loop()
    return translate_errors(lambda: loop.run_in_executor(store.executor, act))  # Which may be closing.


def prepare(journal: Journal) -> Append:
    """The transaction that writes everything pending."""
    pending, compacted, bytes_reclaimed = journal.written(), set(journal.compacted), len(journal.bytes_reclaimed)
    work = Append(journal, len(pending), 0, journal.head, [], Blobs(journal.blobs), [], compacted, bytes_reclaimed)
    now, append_id = time.time(), secrets.token_bytes(8)
    for path, entries in _by_path(pending).items():
        work.parts.append(_part(work, path, entries, append_id, now))
    work.raw += work.blobs.size()
    work.head = _next_head(work, append_id, now)
    return work


def _next_head(work: Append, append_id: bytes, now: float) -> Head:
    journal = work.journal
    root, old = journal.written_state(()), journal.head
    return structs.replace(
        old,
        number=journal.number,
        append=append_id,
        last=root.number,
        format=codec.FORMAT,
        agent=root.agent,
        status=root.status,
        turn=root.turn,
        title=old.title or (root.said.text[:80] if root.said else ""),
        created=old.created or now,
        updated=now,
        stored=old.stored - sum(journal.bytes_reclaimed[: work.bytes_reclaimed]),
        base=next((part.base[0].last for part in work.parts if part.base and not part.path), old.base),
    )


def _part(work: Append, path: Path, entries: list[bytes], append_id: bytes, now: float) -> _Part:
    """What the append adds to the run at *path*: its events, and a base if its context was compacted."""
    journal = work.journal
    thread_id, before = journal.thread_id, journal.runs.get(path)
    prior = before.last if before else 0 if path else journal.head.last
    part = _Part(path)
    for events in _cut(work.blobs.stored_form(data) for data in entries):
        first, last, raw = codec.number_of(events[0]), codec.number_of(events[-1]), codec.raw_size(events)
        header = Header(thread_id, path, first, last, prior, append_id, raw, now, work.blobs.named())
        part.segments.append((header, events))
        work.raw += raw
        prior = last
    if path in work.compacted:
        part.base = _base(work, path, append_id, now)
    if path:
        part.row = _run_row(journal.written_state(path), before, part, now)
    for header, _ in part.segments:
        key = names.segment_key(thread_id, path, header.first, header.last)
        closes = part.base is not None and header.last == prior
        work.pieces.append((path, SegmentRef(key, header.raw, header.last, closes)))
    return part


def _base(work: Append, path: Path, append_id: bytes, now: float) -> tuple[Header, bytes] | None:
    """The run's whole state as the append leaves it; None if it is too large to help."""
    journal = work.journal
    state, before = journal.written_state(path), journal.runs.get(path)
    try:
        raw = work.blobs.base_form(state, main=not path)
    except SegmentTooLarge:
        return None
    finally:
        named = work.blobs.named()
    prior = before.base if before else 0 if path else journal.head.base
    work.raw += len(raw)
    number = state.number
    return Header(journal.thread_id, path, number, number, prior, append_id, len(raw), now, named, state.turn), raw


def _run_row(state: State, before: RunRow | None, part: _Part, now: float) -> RunRow:
    return RunRow(
        agent=state.agent,
        status=state.status,
        first=before.first if before else part.segments[0][0].first,
        last=part.segments[-1][0].last,
        steps=state.step,
        tokens=min(state.usage.total, 2**63),
        created=before.created if before else now,
        updated=now,
        raw=before.raw if before else 0,
        stored=before.stored if before else 0,
        base=part.base[0].last if part.base else before.base if before else 0,
        cost=state.cost,
        unknown=state.usage.unknown,
        unpriced=state.unpriced,
    )


def _by_path(pending: list[tuple[Path, bytes]]) -> dict[Path, list[bytes]]:
    found: dict[Path, list[bytes]] = {}
    for path, data in pending:
        found.setdefault(path, []).append(data)
    return found


def _cut(events: Iterable[bytes]) -> Iterable[list[bytes]]:
    """*events* in pieces of at most 1 MiB."""
    piece: list[bytes] = []
    size = 0
    for data in events:
        if piece and size + len(data) > codec.CUT:
            yield piece
            piece, size = [], 0
        piece.append(data)
        size += len(data)
    yield piece
