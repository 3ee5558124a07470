"""What of a thread is in memory: the states of its runs, and the events that no append has written yet."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

from msgspec import structs

from ..core import apply
from ..errors import ThreadConflict
from ..events import AnyEvent, Compacted, E, FileEdited, FileWritten
from ..messages import AssistantMessage
from ..ports import Store
from ..state import FileEntry, Path, State
from . import format as codec, log as reading
from .blobs import LARGE
from .joining import MergeQueue
from .layout import Head, RunRow
from .log import Log, SegmentRef
from .redaction import Redaction

Durability = Literal["turn", "step", "tool"]


class Journal:
    """One for the main run and all runs below it: numbers every event, applies it, and keeps its bytes."""

    refused = 0
    """How many of the last pending events belong to an input that was not accepted, and are to be taken back."""

    due: Sequence[Callable[[], Any]] = ()
    """What is to be done once the turn is over and nobody holds the thread."""

    def __init__(self, thread_id: str, store: Store) -> None:
        self.thread_id, self.store = thread_id, store
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
        self.compacted: set[Path] = set()
        """Runs with a compaction that no append has written yet."""
        self.blobs: set[str] = set()
        """Blobs that the thread is known to name in the store."""
        self.tails: dict[Path, MergeQueue] = {}
        """The newest segments of each run: those that are still to be joined."""
        self.bytes_reclaimed: list[int] = []
        """Bytes that joining has saved since the last append."""
        self.durability: Durability = "turn"
        self.redaction: Redaction | None = None
        self.conflict: ThreadConflict | None = None
        """Set once another writer has gone on with the thread: nothing of it can be saved any more."""
        self.appending: asyncio.Future[Any] | None = None
        """The end of the append that is under way: there is one at a time."""
        self.in_doubt: list[Any] = []  # Each `Append` that failed, and may have been written all the same.
        self.cancelled = False
        """Whether the caller has cancelled this turn."""
        self._ids: dict[Path, set[str]] = {}
        self._written: dict[str, Path] = {}

    @property
    def stopped(self) -> bool:
        """Whether the turn must not go on."""
        return self.cancelled or self.conflict is not None

    def check(self) -> None:
        """Make sure that the thread is still ours.

        Raises:
            ThreadConflict
        """
        if self.conflict is not None:
            raise self.conflict

    def record(self, path: Path, event: E) -> E:
        """Number *event*, keep its bytes for the next append, apply it, and return it as it was applied.

        Raises:
            IllegalEvent, SegmentTooLarge: it is refused; nothing was changed.
            CheckpointError: it edits a file that the store holds and cannot read.
        """
        number = self.number + 1
        data = codec.encode(number, event)
        event = cast(E, codec.decode(data))  # Checks its types, and shares nothing with whoever made it.
        self._applied(path, number, event)
        self.pending.append((path, data))
        return event

    def replay(self, path: Path, data: bytes) -> None:
        """Record again, under its old number, what `record` has kept the bytes of."""
        number, event = codec.decode_numbered(data)
        self._applied(path, number, event)
        self.pending.append((path, data))

    def _applied(self, path: Path, number: int, event: AnyEvent) -> None:
        state = self.states.get(path) or self.open_run(path)
        if type(event) is FileEdited:  # Cheaper than `isinstance`, for what is asked of every event.
            reading.fill(self.store, state.files, event.file)
        before = state.files.get(event.file) if type(event) is FileWritten else None
        apply(state, event, number)
        self.number = number
        if type(event) is FileEdited or (type(event) is FileWritten and not _moves_apart(event, before)):
            self._written[event.file] = event.by
        elif type(event) is Compacted:
            self.compacted.add(path)

    def open_run(self, path: Path) -> State:
        """The state of the run at *path*: of this turn, of the log, or a new one. Every run has the thread's files."""
        if path not in self.states:
            state, pieces = self._saved_run(path)
            self.tails[path] = MergeQueue(pieces)
            state.files = self.root.files
            self.states[path] = state
        return self.states[path]

    def _saved_run(self, path: Path) -> tuple[State, list[SegmentRef]]:
        """A run as the store has it, or a new one, and its newest segments."""
        if self.stored is None or (path and path not in self.runs):
            return State(), []
        return reading.read_run(Log(self.store, self.thread_id, self.stored, self.head, self.runs), path)

    def written(self) -> list[tuple[Path, bytes]]:
        """The pending events as they are to be saved.

        Raises:
            CheckpointError: what redacts them failed.
        """
        if self.redaction is None:
            return self.pending
        return self.redaction.pending(self.pending, self.root.files, lambda path: self._saved_run(path)[0])

    def written_state(self, path: Path) -> State:
        """The run as the events that are `written` say."""
        return self.redaction.states[path] if self.redaction else self.states[path]

    def content_of(self, file: str) -> str | bytes | None:
        """What a file of the thread holds, fetched from the store if need be; None where the disk is the truth."""
        reading.fill(self.store, self.root.files, file)
        return self.root.files[file].content

    def recall(self, file: str, sha256: str) -> str | bytes | None:
        """What a file held when its hash was *sha256*, though it may be gone since: as far back as events are kept;
        None if none of those says it.
        """
        for path, data in reversed(self.pending):
            if not path and sha256.encode() in data:
                event = codec.decode(data)
                if isinstance(event, FileWritten) and (event.file, event.sha256) == (file, sha256):
                    return event.content
        if self.stored is None:
            return None
        return reading.recall(Log(self.store, self.thread_id, self.stored, self.head, self.runs), file, sha256)

    def artifacts(self, path: Path) -> dict[str, FileEntry]:
        """The files that the run at *path*, or one below it, wrote in this turn and that are still there, by path."""
        files, depth = self.root.files, len(path)
        return {file: files[file] for file, by in self._written.items() if by[:depth] == path and file in files}

    @property
    def unsaved(self):
        return len(self.pending)

    @property
    def rolled_back(self):
        return self.refused

    def rollback(self, n):
        self.refused = n

    def reopened(self):
        return rewound(self)

    def is_current(self):
        from .store import stored_head

        return self.stored is not None and stored_head(self.store, self.thread_id) == self.stored

    def set_redact(self, redact):
        if redact is not (self.redaction and self.redaction.redact):
            self.redaction = Redaction(redact, self.store) if redact else None

    def running(self):
        from . import live

        return live.running(self)

    def plan(self):
        from . import upkeep

        upkeep.note_what_is_due(self)

    def schedule(self):
        from . import upkeep

        upkeep.hand_over(self)

    @property
    def size(self):
        return self.head.stored

    async def append(self):
        from .batch import append

        return await append(self)

    def with_unique_call_ids(self, path, message):
        import itertools

        from ..messages import ToolCall, is_json, parse_arguments

        if isinstance(message.content, str):
            return message
        taken, blocks = self.ids(path), list(message.content)

        def confusable(i):
            return i in taken or "/" in i or self.is_waiting(i)

        for place, call in enumerate(blocks):
            if isinstance(call, ToolCall):
                if not call.id or not is_json(call.raw) or confusable(call.id):
                    raw, wanted = call.raw, call.id or f"call_{self.number + 1}_{place}"
                    for count in itertools.count():
                        if not confusable(wanted):
                            break
                        wanted = f"call_{self.number + 1}_{place}" + (f"_{count}" if count else "")
                    blocks[place] = call = ToolCall(
                        call.name, raw if is_json(raw) else parse_arguments(raw.decode(errors="replace")), wanted
                    )
                taken.add(call.id)
        return AssistantMessage(tuple(blocks))

    def close_turn(self) -> None:
        """Forget what only this turn needs; a run with events that are not saved yet is needed for its next append."""
        kept = {(), *(path for path, _ in self.pending)}
        if self.redaction:  # The store has another text of them, by which their calls would not know them again.
            waiting = {call_id for call_id, entry in self.root.open.items() if entry.result is None}
            kept |= {path for path in self.states if path and path[0].partition("/")[0] in waiting}
        self.states = {path: state for path, state in self.states.items() if path in kept}
        for file, entry in self.root.files.items():
            apart = entry.blob or entry.size > LARGE
            if entry.content is not None and apart and entry.sha256 in self.blobs:
                self.root.files[file] = structs.replace(entry, content=None, blob=True)
        self.tails = {path: tail for path, tail in self.tails.items() if path in self.states}
        self._ids = {path: ids for path, ids in self._ids.items() if not path}
        self._written = {}
        self.cancelled = False

    def ids(self, path: Path) -> set[str]:
        """The ids that a new call of the run at *path* must not have: of calls in its context, and of its children."""
        if path not in self._ids:
            replies = (message for message in self.open_run(path).messages if isinstance(message, AssistantMessage))
            shown = (call.id for reply in replies for call in reply.calls)
            below = self.runs if path in self.runs or not path else ()  # A new run has none.
            children = (other[-1].split("/")[0] for other in below if other[:-1] == path)
            self._ids[path] = {*shown, *children}
        return self._ids[path]

    def is_waiting(self, call_id: str) -> bool:
        """Whether a call of this id waits for a person anywhere in the thread."""
        return bool(self.root.open) and any(wait.call_id == call_id for wait in self.root.interrupts)


def _moves_apart(event: FileWritten, before: FileEntry | None) -> bool:
    """Whether the event says of a file that is there only that the store is to keep it apart."""
    return event.blob and before is not None and before.sha256 == event.sha256


def open_thread(store: Store, thread_id: str) -> Journal | None:
    """Read a thread, to go on with it; None if the store does not know it.

    Raises:
        CheckpointError: its log cannot be read.
    """

    def read(log: Log) -> Journal:
        journal = Journal(thread_id, store)
        journal.stored, journal.head, journal.runs = log.stored, log.head, log.runs
        journal.number = log.head.number
        journal.root, pieces = reading.read_run(log, ())
        journal.tails[()] = MergeQueue(pieces)
        journal.states = {(): journal.root}
        return journal

    return reading.read_consistently(store, thread_id, read)


def rewound(journal: Journal) -> Journal:
    """The thread as the store has it, and on top what earlier turns left unsaved; without what was refused after it.

    Raises:
        ThreadConflict: another writer has gone on with it.
        CheckpointError: it cannot be read.
    """
    fresh = open_thread(journal.store, journal.thread_id) or Journal(journal.thread_id, journal.store)
    if journal.redaction:
        fresh.redaction = Redaction(journal.redaction.redact, journal.store)
    written = next((work.count for work in journal.in_doubt if work.stored == fresh.stored), 0)
    ours, theirs = ((one.head.number, one.head.epoch) for one in (journal, fresh))
    if not written and fresh.stored != journal.stored and ours != theirs:
        raise ThreadConflict(f"thread {journal.thread_id!r} was changed by another writer; run it again")
    for path, data in journal.pending[written : -journal.refused]:
        fresh.replay(path, data)
    return fresh
