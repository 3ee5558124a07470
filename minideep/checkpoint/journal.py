"""`Journal`: a thread in memory, with the states of its runs and the events that are not saved yet."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from time import time_ns
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from ..core import apply, keep_content, share_files
from ..errors import CorruptSegment, SegmentTooLarge, ThreadConflict
from ..events import AnyEvent, Compacted, E, FileEdited, FileWritten
from ..messages import AssistantMessage
from ..ports import Lease
from ..state import FileEntry, Path, State
from . import pace
from .batch import LARGE, Batch, Pending, Saved
from .call_ids import CallIds, unique_call_ids
from .format import decode, decode_recorded, encode
from .layout import JUMP, Head
from .log import Log, SegmentRef
from .merge_queue import MergeQueue
from .store import CheckedStore, lost_thread

if TYPE_CHECKING:
    from .redaction import Redaction
    from .replay import RunRows

CHANGES = (FileWritten, FileEdited)
OVER = ("ended", "failed", "exhausted", "escalated")
"""Statuses of a run to which nothing is appended any more, as a rule."""


class _Append(Struct):
    """An append on its way, and what it takes off the journal once it has landed."""

    batch: Batch
    count: int  # pending events
    refs: list[tuple[Path, SegmentRef, bool]]  # True: a snapshot follows, so later segments are never merged into it
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
        self.pending: list[Pending] = []
        self.lease: Lease | None = None  # The right to append, while a turn holds the thread.
        self.redaction: Redaction | None = None
        self._compacted: set[Path] = set()
        """Runs with a compaction that is not saved yet: the append that saves it adds a snapshot."""
        self._blobs: set[str] = set()  # Known to be in the store.
        self._queues: dict[Path, MergeQueue] = {}
        self._merges: list[list[str]] = []  # Keys of segments to merge once the turn is over.
        self.keyed: bool = False  # True if some input that is not saved yet has a key.
        self._reclaimed: list[int] = []  # Bytes saved by each merge since the last append.
        self._conflict: ThreadConflict | None = None
        """Set once another writer has continued the thread: nothing of it can be saved any more."""
        self._appending, self._waiting = False, list[asyncio.Future[None]]()
        """True while an append is on its way, and those who wait for its end."""
        self._in_doubt: list[_Append] = []
        """Appends that failed, and may have landed all the same."""
        self._rolled_back, self._planned, self._ids, self._written = 0, False, CallIds(), dict[str, Path]()
        """`_written`: the files that were written in this turn, and the run that wrote each last."""

    @classmethod
    def from_log(cls, log: Log, found: "RunRows | None" = None) -> "Journal":
        """Read the main run of a thread, from the rows *found* if there are any; the others when they are continued."""
        from .replay import read_run

        journal = cls(log.thread_id, log.store)
        journal.log, journal.number = log, log.head.number
        journal.root, refs = read_run(log, (), found)
        journal.states = {(): journal.root}
        if journal.root.status == "running":  # Its process died, and may have used numbers that it never saved.
            journal.number = (journal.number // JUMP + 1) * JUMP
        journal._queues[()] = MergeQueue(refs)
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
        if not pending or now < self.base:
            self.base = now
        data = encode(number, event, now - self.base)
        # Applied as decoded: that checks its types, and a later change of the caller's lists cannot change the state.
        recorded: Any = decode_recorded(data).event
        self._apply(path, number, recorded)
        pending.append((path, data, type(recorded) is FileWritten and recorded.blob))
        return recorded  # pyright: ignore[reportReturnType]

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
        # Asking the store to keep an existing content apart writes no file.
        if before is None or before.sha256 != event.sha256 or not (isinstance(event, FileWritten) and event.blob):
            self._written[event.file] = event.by

    def open_run(self, path: Path) -> State:
        """Return the state of the run at *path*: of this turn, from the store, or new. All share the thread's files."""
        if path not in self.states:
            state, refs = self.saved_run(path)
            self._queues[path] = MergeQueue(refs)
            share_files(state, self.root)  # Files are the thread's: what a child writes its parent reads.
            self.states[path] = state
        return self.states[path]

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
        return self.root.files[file].content

    def recall(self, file: str, sha256: str) -> str | bytes | None:
        """Return the content that a file had when its hash was *sha256*, as far back as events are kept, or None."""
        for path, data, _ in reversed(self.pending):  # Newest first.
            if not path and sha256.encode() in data:
                event = decode(data)
                if isinstance(event, FileWritten) and (event.file, event.sha256) == (file, sha256):
                    return event.content
        from .boundaries import find_content  # Seldom needed.

        return find_content(self.log, file, sha256) if self.log.head_row else None

    def artifacts(self, path: Path) -> dict[str, FileEntry]:
        """Return the files, by path, that the run at *path* or one below it wrote in this turn and that still exist."""
        files, depth = self.root.files, len(path)
        return {file: files[file] for file, by in self._written.items() if by[:depth] == path and file in files}

    def with_unique_call_ids(self, path: Path, message: AssistantMessage) -> AssistantMessage:
        """`unique_call_ids` for a reply in the run at *path*: no id of its context, its children, or a waiting call."""
        if isinstance(message.content, str):
            return message
        waiting = {wait.call_id for wait in self.root.interrupts} if self.root.open else set[str]()
        taken = self._ids.of(path)
        if taken is None:
            taken = self._ids.collect(path, self.open_run(path), self.log.runs)
        return AssistantMessage(unique_call_ids(message.content, taken, waiting, self.number + 1))

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
        pending, batch = self.as_saved(), Batch(self.log, self._blobs, self.base)
        work = _Append(batch, len(pending), [], set(), len(self._reclaimed))
        batch.reclaimed = sum(self._reclaimed[: work.reclaimed])
        by_path: dict[Path, list[tuple[bytes, bool]]] = {}
        for path, data, apart in pending:
            by_path.setdefault(path, []).append((data, apart))
        batch.state((), self._saved_state(()))  # The head tells of it, even if only a child recorded something.
        for path, entries in by_path.items():
            refs, state, has_snapshot = batch.events(path, entries), self._saved_state(path), False
            if path:
                batch.state(path, state)
            if path in self._compacted:
                work.compacted.add(path)
                with suppress(SegmentTooLarge):  # A snapshot only saves time: the events before it are all there.
                    batch.snapshot(path, state)
                    has_snapshot = True
            work.refs += ((path, ref, has_snapshot and ref is refs[-1]) for ref in refs)
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

    def _saved_state(self, path: Path) -> State:
        """Return the run as the saved events say: its secrets must not get into a snapshot either."""
        return self.redaction.states[path] if self.redaction else self.states[path]

    def _landed(self, work: _Append) -> Saved:
        batch = work.batch
        self.log, self._in_doubt = batch.log_after(), []
        del self.pending[: work.count]  # Events that came meanwhile stay for the next append.
        del self._reclaimed[: work.reclaimed]
        self.keyed = self.keyed and bool(self.pending)
        self._compacted -= work.compacted
        self._blobs |= batch.blobs.keys()  # They need not be sent again.
        if self.redaction:
            self.redaction.done(work.count, set(self.states))
        for path, ref, closes in work.refs:
            self._queues.setdefault(path, MergeQueue()).add(ref, closes=closes)
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
        if self.is_current(log.head_row) or ours != theirs:
            return None
        self.log, self._blobs = log, set()  # A truncation may have removed some.
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
        fresh.keyed, fresh.base = self.keyed, self.base
        return fresh

    def close_turn(self) -> None:
        """Forget what only this turn needs. A run with unsaved events is kept, for the next append needs it."""
        kept = {(), *(path for path, _, _ in self.pending)}
        if self.redaction:  # Read back from the store, a waiting run would have redacted arguments.
            waiting = {call_id for call_id, entry in self.root.open.items() if entry.result is None}
            kept |= {path for path in self.states if path and path[0].partition("/")[0] in waiting}
        self.states = {path: state for path, state in self.states.items() if path in kept}
        for file, entry in list(self.root.files.items()):
            apart = entry.blob or entry.size > LARGE
            # Only what the store is known to have: the next append may still need it.
            if entry.content is not None and apart and entry.sha256 in self._blobs:
                keep_content(self.root, file, structs.replace(entry, content=None, blob=True))
        self._queues = {path: queue for path, queue in self._queues.items() if path in self.states}
        self._ids.forget_children()
        self._written = {}

    def plan(self) -> None:
        """Note the maintenance that is due now that a turn is saved, while its runs are still in memory."""
        self._planned = True
        for path, queue in self._queues.items():
            over = bool(path) and path in self.states and self.states[path].status in OVER
            self._merges += ([ref.key for ref in group] for group in queue.take(over=over))

    def schedule(self) -> None:
        """Hand the maintenance that is due to its thread. No turn may hold the thread any more."""
        retention = self.store.retention
        retains = self._planned and (retention.boundaries is not None or retention.seconds is not None)
        merges, self._merges, self._planned = self._merges, [], False
        if merges or retains:
            from .maintenance import schedule  # Most turns leave nothing to do.

            schedule(self.log, merges, self._reclaimed, retains=retains)


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
