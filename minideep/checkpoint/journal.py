"""`Journal`: a thread in memory, with the states of its runs and the events that are not saved yet."""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import time_ns
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..core import apply, share_files
from ..errors import CorruptSegment, SegmentTooLarge, ThreadConflict
from ..events import AnyEvent, Compacted, E, FileEdited, FileWritten
from ..messages import AssistantMessage
from ..ports import Lease
from ..state import FileEntry, Path, State, StateView
from ..tools import Tool
from . import pace
from .batch import Batch, Pending, Saved
from .call_ids import CallIds
from .format import decode_recorded, stored_form
from .layout import JUMP, Head
from .log import Log, SegmentRef, Tail
from .segments import Segments
from .store import CheckedStore, lost_thread
from .written import Written

if TYPE_CHECKING:
    from .redaction import Redaction
    from .replay import RunRows

CHANGES = (FileWritten, FileEdited)
APART = (*CHANGES, Compacted)  # Events that change more than the state of their run.
OVER = ("ended", "failed", "exhausted", "escalated")
"""Statuses of a run to which nothing is appended any more, as a rule."""


class _Append(Struct):
    """An append on its way, and what it takes off the journal once it has landed."""

    batch: Batch
    count: int  # pending events
    tail: Tail | None  # the one that its events go on with
    refs: dict[Path, list[SegmentRef]]  # what it adds to each run
    compacted: set[Path]
    reclaimed: int  # merges


class Journal:
    """The one journal of a thread: it numbers the events of the main run and of all runs below it, applies them, and
    keeps their bytes until `append` saves them together. A run that was saved on its own could outlive its call.
    """

    def __init__(self, thread_id: str, store: CheckedStore) -> None:
        self.log: Log = Log(store, thread_id, None, Head(0, os.urandom(8), b""), {})
        """The thread as the store has it."""
        self.thread_id: str = thread_id
        self.store: CheckedStore = store
        self.root: State = State()
        self.number: int = 0
        self.base: int = 0  # When the first event that is not saved was recorded, in milliseconds since 1970.
        self.states: dict[Path, State] = {(): self.root}  # The runs of this turn.
        self._views: dict[Path, StateView] = {}
        self.pending: list[Pending] = []
        self.lease: Lease | None = None  # The right to append, while a turn holds the thread.
        self.turn: Any = None  # The `LiveTurn` that runs on it.
        self.redaction: Redaction | None = None
        self._compacted: set[Path] = set()
        """Runs with a compaction that is not saved yet: the append that saves it adds a snapshot."""
        self._blobs: set[str] = set()  # Known to be in the store.
        self.keyed: bool = False  # True if some input that is not saved yet has a key.
        self._segments: Segments = Segments()
        self._conflict: ThreadConflict | None = None
        """Set once another writer has continued the thread: nothing of it can be saved any more."""
        self._appending, self._waiting = False, list[asyncio.Future[None]]()
        """True while an append is on its way, and those who wait for its end."""
        self._in_doubt: list[_Append] = []
        """Appends that failed, and may have landed all the same."""
        self._rolled_back, self._planned, self._ids, self._written = 0, False, CallIds(), Written()

    @classmethod
    def from_log(cls, log: Log, found: "RunRows | None" = None) -> "Journal":
        """Read the main run of a thread, from the rows *found* if there are any; the others when they are continued."""
        from .replay import read_run, read_tail, run_rows

        journal, found = cls(log.thread_id, log.store), found or run_rows(log, ())
        journal.log, journal.number = log, log.head.number
        journal.root, refs = read_run(log, (), found)
        journal.states, journal._written = {(): journal.root}, Written(journal.root.files)
        if journal.root.status == "running":  # Its process died, and may have used numbers that it never saved.
            journal.number = (journal.number // JUMP + 1) * JUMP
        if (tail := read_tail(log, found)) is not None:
            journal.base = tail.header.base
        journal._segments.add((), refs, tail)
        return journal

    @property
    def epoch(self) -> bytes:
        """Random bytes of the thread: one that is deleted and begun again has others."""
        return self.log.head.epoch

    @property
    def unsaved(self) -> int:
        """The number of events that are not saved yet."""
        return len(self.pending)

    def is_current(self, head_row: bytes | None) -> bool:
        """Return whether *head_row*, which the store has now, is that of the last append."""
        return self.log.head_row == head_row

    # ---- events

    def record(self, path: Path, event: E) -> E:
        """Number *event*, encode it for the next append, apply it, and return it as it was applied.

        Raises:
            IllegalEvent, SegmentTooLarge: it is refused; nothing was changed.
            CheckpointError: it edits a file that the store holds and cannot read.
        """
        number, pending, now = self.number + 1, self.pending, time_ns() // 1_000_000
        if now < self.base or not (pending or self._segments.tail):
            self.base = now
        # Applied as stored: that checks its types, and a later change of the caller's lists cannot change the state.
        data, recorded = stored_form(number, event, now - self.base)
        if (state := self.states.get(path)) is None or type(recorded) in APART:
            self._apply(path, number, recorded)
        else:  # Most events, so without a call on the way.
            apply(state, recorded, number)
            self.number = number
        pending.append((path, data, type(recorded) is FileWritten and recorded.blob))
        return recorded

    def _replay(self, pending: Pending) -> None:
        """Record an event again, under its old number."""
        recorded = decode_recorded(pending[1])
        self._apply(pending[0], recorded.number, recorded.event)
        self.pending.append(pending)

    def _apply(self, path: Path, number: int, event: AnyEvent) -> None:
        state = self.states.get(path) or self.open_run(path)
        if isinstance(event, CHANGES):
            self._apply_change(state, number, event)
        else:
            apply(state, event, number)
            if type(event) is Compacted:
                self._compacted.add(path)
        self.number = number

    def _apply_change(self, state: State, number: int, event: FileWritten | FileEdited) -> None:
        before = state.files.get(event.file)
        if before is not None and isinstance(event, FileEdited):
            self.content_of(event.file)  # An edit needs the text that it changes.
        apply(state, event, number)
        self._written.hold(event.file)
        # Asking the store to keep an existing content apart writes no file.
        if before is None or before.sha256 != event.sha256 or not (isinstance(event, FileWritten) and event.blob):
            self._written.write(event.file, event.by)

    def open_run(self, path: Path) -> State:
        """Return the state of the run at *path*: of this turn, from the store, or new. All share the thread's files."""
        if path not in self.states:
            state, refs = self.saved_run(path)
            self._segments.add(path, refs)
            share_files(state, self.root)  # Files are the thread's: what a child writes its parent reads.
            self.states[path] = state
        return self.states[path]

    def view(self, path: Path) -> StateView:
        """Return the run at *path* as tools and hooks see it: the same object for as long as its state is in memory."""
        state = self.open_run(path)
        return self._views.get(path) or self._views.setdefault(path, StateView(state))

    def saved_run(self, path: Path) -> tuple[State, list[SegmentRef]]:
        """Return a run as the store has it."""
        if self.log.head_row is None or (path and path not in self.log.runs):
            return State(), []
        from .replay import read_run

        return read_run(self.log, path)

    def content_of(self, file: str) -> str | bytes | None:
        """Return the content of a file, fetched from the store if it is kept apart; None if only a disk has it."""
        entry = self.root.files[file]
        if not entry.blob or entry.content is not None:
            return entry.content
        from .replay import fill

        fill(self.store, self.root, file)
        self._written.hold(file)
        return self.root.files[file].content

    def recall(self, file: str, sha256: str) -> str | bytes | None:
        """Return the content that a file had when its hash was *sha256*, as far back as events are kept, or None."""
        from .boundaries import find_content  # Seldom needed.

        return find_content(self.pending, self.log, file, sha256)

    def artifacts(self, path: Path) -> dict[str, FileEntry]:
        """Return the files, by path, that the run at *path* or one below it wrote in this turn and that still exist."""
        return self._written.artifacts(self.root.files, path)

    def as_recorded(self, path: Path, reply: AssistantMessage, tools: Mapping[str, Tool]) -> AssistantMessage:
        """Return a reply at *path* whose calls have ids of their own, and arguments as *tools* take them."""
        return self._ids.as_recorded(reply, path, self.states, self.log.runs, self.number + 1, tools)

    # ---- saving

    def set_redact(self, redact: Callable[[AnyEvent], AnyEvent] | None) -> None:
        """Redact events with *redact* from the next append on; None: save them as they are."""
        if redact is not (self.redaction and self.redaction.redact):
            from .redaction import Redaction  # Only for agents that redact.

            self.redaction = Redaction(redact, self.store) if redact else None

    async def append(self, *, release: bool = False) -> Saved:
        """Save every pending event in one transaction, which with *release* also gives up the thread. A cancel is
        delivered once it is over.

        Raises:
            ThreadConflict: another writer was first, now or at an earlier append of this journal; or the lease is lost.
            CheckpointError: the store failed. The events stay pending.
        """
        await pace.shielded()  # Very many turns that end at once must not stop the loop.
        while self._appending:  # One at a time: a second one would conflict with the first.
            self._waiting.append(over := asyncio.get_running_loop().create_future())
            await pace.through(over)
        if self._conflict is None and self.lease is not None and self.lease.lost:
            self._conflict = lost_thread(self.thread_id)
        if self._conflict is not None:
            raise self._conflict
        self._appending = True
        try:
            return await self._save(release)
        finally:
            self._appending = False
            while self._waiting:
                self._waiting.pop().set_result(None)

    async def _save(self, release: bool) -> Saved:
        saved = Saved()
        while self.pending:
            work = self._prepared()
            try:
                await work.batch.commit(self.lease, release=release)
            except ThreadConflict as exc:  # Perhaps only maintenance, or an append of ours that landed after all.
                if (caught_up := await self._catch_up()) is None:
                    self._conflict = exc  # For good: the states in memory are not those of the log any more.
                    raise
                saved += caught_up
            else:
                return saved + self._landed(work)
            finally:
                if work.batch.in_doubt:
                    self._in_doubt.append(work)
        return saved

    def _prepared(self) -> _Append:
        """Collect everything pending. The batch alone is then compressed and written, perhaps on another thread."""
        pending = self.pending if self.redaction is None else self.as_saved()
        batch, states = Batch(self.log, self._blobs, self.base), self._saved_states
        tail, reclaimed = self._segments.tail_from(self.base), [*self._segments.reclaimed]
        work, batch.reclaimed = _Append(batch, len(pending), tail, {}, set(), len(reclaimed)), sum(reclaimed)
        by_path: dict[Path, list[tuple[bytes, bool]]] = {}
        for path, data, apart in pending:
            by_path.setdefault(path, []).append((data, apart))
        batch.state((), states[()])  # The head tells of it, even if only a child recorded something.
        for path, entries in by_path.items():
            work.refs[path], state = batch.events(path, entries, None if path else tail), states[path]
            if path:
                batch.state(path, state)
            if path in self._compacted:
                work.compacted.add(path)
                with suppress(SegmentTooLarge):  # A snapshot only saves time: the events before it are all there.
                    batch.snapshot(path, state)
        if self.keyed:
            from .keys import key_rows  # Most inputs have none.

            for key, row in key_rows(self.thread_id, self.log.head.epoch, pending).items():
                batch.put(key, row)
        return work

    def as_saved(self) -> list[Pending]:
        """Return the pending events as they are to be saved, which is as `redact` leaves them.

        Raises:
            CheckpointError: `redact` raised, or returned an event that cannot be saved.
        """
        if self.redaction is None:
            return self.pending
        return self.redaction.pending(self.pending, self.root.files, lambda path: self.saved_run(path)[0])

    @property
    def _saved_states(self) -> dict[Path, State]:
        """The runs as the saved events say: their secrets must not get into a snapshot either."""
        return self.redaction.states if self.redaction else self.states

    def _landed(self, work: _Append) -> Saved:
        batch = work.batch
        self.log, self._in_doubt = batch.log_after(), []
        del self.pending[: work.count]  # Events that came meanwhile stay for the next append.
        del self._segments.reclaimed[: work.reclaimed]
        self.keyed = self.keyed and bool(self.pending)
        self._compacted -= work.compacted
        self._blobs |= batch.blobs.keys()  # They need not be sent again.
        if self.redaction:
            self.redaction.done(work.count, set(self.states))
        for path, refs in work.refs.items():
            tail = None if path else batch.tail()
            self._segments.add(path, refs, tail, work.tail, closes=path in work.compacted)
        return batch.saved

    async def _catch_up(self) -> Saved | None:
        """After a conflict return what an append in doubt did save, or an empty `Saved` if the thread was only
        truncated or merged meanwhile. Return None if another writer has continued it.
        """
        from .replay import read_consistently

        if self.lease is not None and self.lease.lost:
            return None
        log = await self.store.off_loop(lambda: read_consistently(self.store, self.thread_id, lambda log: log))
        if log is None:
            return None
        for work in self._in_doubt:
            if work.batch.head_row == log.head_row:
                return self._landed(work)
        ours, theirs = ((one.head.number, one.head.epoch) for one in (self.log, log))
        if ours != theirs or (self.is_current(log.head_row) and not self._segments.tail):
            return None
        # A truncation may have removed blobs, and somebody else may have merged the last segment.
        self.log, self._blobs, self._segments.tail = log, set(), None
        return Saved()

    def rollback(self, count: int) -> None:
        """Mark the last *count* pending events, of an input that was not accepted, as taken back."""
        self._rolled_back = count  # Removed when the thread is used next: an append in doubt may have saved them.

    async def rolled_back(self) -> "Journal":
        """Return the thread as the store has it, plus what earlier turns left unsaved: without what was taken back.

        Raises:
            ThreadConflict: another writer has continued the thread.
            CheckpointError: it cannot be read.
        """
        return await self.store.off_loop(self._reopened) if self._rolled_back else self

    def _reopened(self) -> "Journal":
        fresh = open_thread(self.store, self.thread_id) or Journal(self.thread_id, self.store)
        fresh.set_redact(self.redaction and self.redaction.redact)
        # Appends in doubt that landed are part of what was read.
        landed = next((work.count for work in self._in_doubt if fresh.is_current(work.batch.head_row)), 0)
        ours, theirs = ((one.log.head.number, one.log.head.epoch) for one in (self, fresh))
        if not landed and not fresh.is_current(self.log.head_row) and ours != theirs:
            raise ThreadConflict(f"thread {self.thread_id!r} was changed by another writer; run it again")
        for pending in self.pending[landed : -self._rolled_back]:
            fresh._replay(pending)
        if fresh.pending:
            fresh.keyed, fresh.base = self.keyed, self.base
        return fresh

    def close_turn(self) -> None:
        """Forget what only this turn needs. A run with unsaved events is kept, for the next append needs it."""
        kept = {(), *(path for path, _, _ in self.pending)}
        if self.redaction:  # Read back from the store, a waiting run would have redacted arguments.
            waiting = {call_id for call_id, entry in self.root.open.items() if entry.result is None}
            kept |= {path for path in self.states if path and path[0].partition("/")[0] in waiting}
        self.states = {path: state for path, state in self.states.items() if path in kept}
        self._views = {path: view for path, view in self._views.items() if path in kept}
        self._segments.keep(self.states)
        self._ids.forget_children()
        self._written.close_turn(self.root, self._blobs)

    def plan(self) -> None:
        """Note the maintenance that is due now that a turn is saved, while its runs are still in memory."""
        self._planned = True
        self._segments.plan(lambda path: bool(path) and path in self.states and self.states[path].status in OVER)

    def schedule(self) -> None:
        """Hand the maintenance that is due to its thread. No turn may hold the thread any more."""
        retention = self.store.retention
        retains = self._planned and (retention.boundaries is not None or retention.seconds is not None)
        (merges, self._segments.merges), self._planned = (self._segments.merges, []), False
        if merges or retains:
            from .maintenance import schedule  # Most turns leave nothing to do.

            schedule(self.log, merges, self._segments.reclaimed, retains=retains)


def open_thread(store: CheckedStore, thread_id: str, head_row: bytes | None = None) -> Journal | None:
    """Read a thread to continue it, in one trip if its *head_row* is known; return None if there is no such thread.

    Raises:
        CheckpointError: its log cannot be read.
    """
    from .replay import read_consistently, read_whole  # A new thread needs no reading.

    if head_row is not None:
        with suppress(CorruptSegment):  # Segments were merged since the head was read, or it is found again below.
            return Journal.from_log(*read_whole(store, thread_id, head_row))
    return read_consistently(store, thread_id, Journal.from_log)
