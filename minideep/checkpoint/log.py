"""Reading a log: the events of a run, the blobs and bases it names, and the states that they fold to."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from msgspec import Struct, structs

from ..core import apply
from ..errors import CheckpointError, ConfigError, CorruptSegment, HistoryCut, IllegalEvent, SegmentTooLarge
from ..events import AnyEvent, Decided, FileEdited, FileWritten, ModelReplied, Resumed, ToolWaiting, UserSaid
from ..messages import Content, ToolCall, is_json
from ..ports import Store
from ..state import Decision, Edit, FileEntry, OpenCall, Path, State
from . import format as codec, layout as names
from .format import BlobRef, Entry, Header
from .layout import Head, RunRow
from .store import stored_head, translate_errors

T = TypeVar("T")


class Log(Struct, frozen=True):
    """A thread as the store has it: the rows that lead to all others."""

    store: Store
    thread_id: str
    stored: bytes
    """The head row."""
    head: Head
    runs: dict[Path, RunRow]

    def last(self, path: Path) -> int:
        """The number of the run's last event."""
        return self.runs[path].last if path else self.head.last

    def newest_base(self, path: Path) -> int:
        """The number of the run's last base, or 0."""
        return self.runs[path].base if path else self.head.base


class SegmentRef(Struct, frozen=True):
    """A segment, as whoever joins segments sees it."""

    key: str
    raw: int
    last: int = 0
    """The number of its last event."""
    closes: bool = False
    """Whether a base stands behind it."""


def read_consistently(store: Store, thread_id: str, read: Callable[[Log], T]) -> T | None:
    """What *read* makes of the thread as its head row says it was; None if the store does not know it.

    A log only grows, so what is appended meanwhile is left out. If rows are missing because the thread was cut or
    deleted meanwhile, it is read again.

    Raises:
        CheckpointError: it cannot be read.
    """
    while (stored := stored_head(store, thread_id)) is not None:
        try:
            return read(_open_log(store, thread_id, stored))
        except CorruptSegment:
            if stored_head(store, thread_id) == stored:
                raise
    return None


def _open_log(store: Store, thread_id: str, stored: bytes) -> Log:
    head, prefix = names.read_head(thread_id, stored), names.thread_prefix("run", thread_id)
    found = translate_errors(store.rows, prefix, names.after(prefix))
    runs = {names.run_path(key): names.read_run_row(key, data) for key, data in found}
    for (key, _), (path, row) in zip(found, runs.items(), strict=False):
        if key != names.run_key(thread_id, path):
            raise CorruptSegment(f"row {key!r} is not named as a run is")
        if path[:-1] and path[:-1] not in runs:
            raise CorruptSegment(f"run {path!r} of thread {thread_id!r} stands below one that is not there")
        if row.last > head.number:
            raise CorruptSegment(f"run {path!r} of thread {thread_id!r} is ahead of the thread's head")
    return Log(store, thread_id, stored, head, runs)


def segments(
    log: Log, path: Path, after: int = 0, stop: int | None = None
) -> Iterator[tuple[SegmentRef, Iterable[Entry]]]:
    """The segments of one run after its event *after*, and those only that begin before *stop*; with their events.

    Raises:
        CheckpointError: one is missing, damaged, of another thread, or of an unknown version.
    """
    thread_id, last, end = log.thread_id, after, log.head.number
    start, stop_key = (names.segments_from(thread_id, path, number) for number in (after + 1, stop or end + 1))
    for key, data in translate_errors(log.store.rows, start, stop_key):
        header, entries = codec.read_segment(data, key)
        check_owner(log, path, header, key)
        if header.prior != last:
            raise CorruptSegment(f"before segment {key!r} one is missing: it follows event {header.prior}, not {last}")
        last = header.last
        events = _unspilled(log.store, key, entries)
        # A block may already hold what was appended after the head was read.
        yield (
            SegmentRef(key, header.raw, header.last),
            events if last <= end else (entry for entry in events if entry[0] <= end),
        )
    expected = stop - 1 if stop else log.last(path)
    if last < expected:
        raise CorruptSegment(f"run {path!r} of thread {thread_id!r} ends with event {last}, expected {expected}")


def check_owner(log: Log, path: Path, header: Header, key: str) -> None:
    """Make sure that what is stored under *key* was written for it.

    Raises:
        CorruptSegment
    """
    if (header.thread, header.path) != (log.thread_id, path):
        raise CorruptSegment(f"segment {key!r} belongs to thread {header.thread!r}, run {header.path!r}")


def _unspilled(store: Store, key: str, entries: Iterable[codec.Stored]) -> Iterator[Entry]:
    for number, event in entries:
        if isinstance(event, BlobRef):
            event = codec.unspilled(read_blob(store, event.name), event.name)
        check = _CHECKS.get(type(event))
        if check is not None and not check(event):
            raise CorruptSegment(f"segment {key!r} holds a call in event {number} whose arguments are no JSON")
        yield number, event


def check_state(state: State, key: str) -> None:
    """Make sure of what the types of a base leave open: the arguments of calls, and what files hold.

    Raises:
        CorruptSegment
    """
    calls = all(_can_be_read(message.content) for message in state.messages if message.role == "assistant")
    if not calls or not all(map(_waits_can_be_read, state.open.values())):
        raise CorruptSegment(f"base {key!r} holds a call whose arguments are no JSON")
    for file, held in state.files.items():
        if not isinstance(held.content, str | bytes | None):
            raise CorruptSegment(f"base {key!r} holds {file!r}, which is neither text nor bytes")


def _can_be_read(content: Content) -> bool:
    """Whether the arguments of the calls in a reply are JSON. Asked of every reply, so it makes nothing."""
    if type(content) is not str:
        for block in content:
            if type(block) is ToolCall and not is_json(block.raw):
                return False
    return True


def _waits_can_be_read(entry: OpenCall) -> bool:
    calls = (entry.call, *(wait.call for wait in entry.waits))
    return all(is_json(call.raw) for call in calls) and _edit_can_be_read(entry.decision)


def _edit_can_be_read(decision: Decision | None) -> bool:
    return not isinstance(decision, Edit) or is_json(decision.raw)


_CHECKS: dict[type, Callable[[Any], bool]] = {
    ModelReplied: lambda event: _can_be_read(event.message.content),
    ToolWaiting: lambda event: all(is_json(wait.call.raw) for wait in event.interrupts),
    Decided: lambda event: _edit_can_be_read(event.decision),
}
"""What is asked of events whose types leave something open."""


def read_blob(store: Store, name: str) -> bytes:
    """The content of a blob.

    Raises:
        CheckpointError: it is missing or damaged, or the store failed.
    """
    data = translate_errors(store.get, names.blob_key(name))
    if data is None:
        raise CorruptSegment(f"blob {name!r} is missing")
    return codec.read_blob(data, name)


def content_of(store: Store, entry: FileEntry) -> str | bytes | None:
    """What a file holds, wherever that is kept; None where the disk is the truth."""
    if not entry.blob or entry.content is not None:
        return entry.content
    data = read_blob(store, entry.sha256)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def fill(store: Store, files: dict[str, FileEntry], file: str) -> None:
    """Fetch a file's content into *files*, if it is only named there: what the log says does not change by that."""
    entry = files.get(file)
    if entry is not None and entry.blob and entry.content is None:
        files[file] = structs.replace(entry, content=content_of(store, entry))


def fold(store: Store, state: State, number: int, event: AnyEvent) -> None:
    """`apply`, with the file at hand that an edit changes."""
    if isinstance(event, FileEdited):
        fill(store, state.files, event.file)
    apply(state, event, number)


def replay(log: Log, state: State, number: int, event: AnyEvent) -> None:
    """`fold` of an event that the log holds.

    Raises:
        CorruptSegment: it does not fit those before it.
        SegmentTooLarge: it makes a file larger than any that can be kept.
        CheckpointError: the file that it edits cannot be read.
    """
    try:
        if type(event) is FileEdited:
            fill(log.store, state.files, event.file)
            _check_edit(state, event)
        apply(state, event, number)
    except IllegalEvent as exc:
        what = f"event {number} of thread {log.thread_id!r}"
        raise CorruptSegment(f"{what} does not fit those before it: {exc}") from None


def _check_edit(state: State, event: FileEdited) -> None:
    """Make sure that an edit makes no more of a file than it says: one that replaces each letter may make it huge."""
    entry = state.files.get(event.file)
    text = entry.content if entry else None
    if not isinstance(text, str) or not event.old:
        return
    size = len(text) + text.count(event.old) * (len(event.new) - len(event.old))
    if size > max(event.size, codec.MAX_RAW):
        raise SegmentTooLarge(f"an edit makes {size:,} characters of {event.file!r}, and says {event.size:,} bytes")


def last_base(log: Log, path: Path, fits: Callable[[Header], bool] = lambda _: True) -> tuple[State, int | None]:
    """The newest base of a run that *fits*, or a new state; and where to stop reading what leads to the base after it.

    Raises:
        HistoryCut: there was one, or a beginning, before retention cut it off.
        CheckpointError: a base is missing or damaged.
    """
    number, stop = log.newest_base(path), None
    while number:
        key = names.base_key(log.thread_id, path, number)
        data = translate_errors(log.store.get, key)
        if data is None:
            raise CorruptSegment(f"base {key!r} is missing")
        header = codec.read_header(data, key)
        check_owner(log, path, header, key)
        if header.last != number or header.prior >= number:  # Which might lead round in a circle.
            raise CorruptSegment(f"base {key!r} says that it stands at event {header.last}, after {header.prior}")
        if fits(header):
            state = codec.read_base(data, key)[1]
            check_state(state, key)
            return state, stop
        stop, number = number + 1, header.prior
    if log.head.cut and not path:
        first = log.head.cut.turn
        raise HistoryCut(f"thread {log.thread_id!r} begins with boundary {first}; retention removed what was before")
    return State(), stop


def beginning(log: Log, path: Path) -> State:
    """The run as its log begins: new, or as it was where retention has cut."""
    cut = log.head.cut
    if cut is None or path:
        return State()
    return last_base(log, path, lambda header: header.last == cut.number)[0]


def recall(log: Log, file: str, sha256: str) -> str | bytes | None:
    """What a file held when its hash was *sha256*, by the events that are left of its thread; None if none says it."""
    state = beginning(log, ())
    if file in state.files and state.files[file].sha256 == sha256:
        return content_of(log.store, state.files[file])
    for _, entries in segments(log, (), state.number):
        for _, event in entries:
            if isinstance(event, FileWritten) and (event.file, event.sha256) == (file, sha256):
                return content_of(log.store, FileEntry(event.content, event.size, sha256, event.at, blob=event.blob))
    return None


def read_run(log: Log, path: Path) -> tuple[State, list[SegmentRef]]:
    """One run as it was last saved, and the segments that follow its last base.

    Raises:
        CheckpointError: it cannot be read.
    """
    state, _ = last_base(log, path)
    pieces: list[SegmentRef] = []
    for piece, entries in segments(log, path, state.number):
        pieces.append(piece)
        for number, event in entries:
            replay(log, state, number, event)
    return state, pieces


def accepts(event: AnyEvent) -> bool:
    """Whether a turn of the main run begins with *event*."""
    return isinstance(event, Resumed | Decided) or (isinstance(event, UserSaid) and not event.by)


def at_boundary(state: State) -> bool:
    """Whether the turn has handed over."""
    return state.status not in ("ready", "running")


def state_at(log: Log, at: int) -> tuple[State, int]:
    """The main run at its boundary *at*, and the number of the thread's last event that belongs to it.

    Raises:
        ConfigError: there is no such boundary.
        HistoryCut: there was.
        CheckpointError: it cannot be read.
    """
    state, stop = last_base(log, (), lambda header: header.turn <= at)
    try:
        for _, entries in segments(log, (), state.number, stop):
            for number, event in entries:
                if state.turn == at and at_boundary(state) and accepts(event):
                    return state, number - 1
                replay(log, state, number, event)
    except CheckpointError:
        if not (state.turn == at and at_boundary(state)):  # What is damaged comes after what was asked for.
            raise
    if state.turn == at and at_boundary(state):
        return state, log.head.number if state.number == log.head.last else state.number
    there = state.turn - (not at_boundary(state))
    raise ConfigError(f"thread {log.thread_id!r} has no boundary {at}; there are {there}")


def run_at(log: Log, path: Path, extent: int) -> State:
    """A run as of the thread's event *extent*."""
    state, stop = last_base(log, path, lambda header: header.last <= extent)
    for _, entries in segments(log, path, state.number, stop):
        for number, event in entries:
            if number > extent:
                return state
            replay(log, state, number, event)
    return state


def read_state(log: Log, at: int | None, subagents: bool) -> State:
    """The thread at a boundary, or as it was last saved; with *subagents* every run stands in its parent's state."""
    root, extent = (read_run(log, ())[0], log.head.number) if at is None else state_at(log, at)
    if subagents:
        attach(root, ((path, run_at(log, path, extent)) for path in runs_at(log, extent)))
    return root


def runs_at(log: Log, extent: int) -> list[Path]:
    """The runs below the main one that had begun by the event *extent*, parents first, each in its order."""
    begun = [path for path, row in log.runs.items() if row.first <= extent]
    return sorted(begun, key=lambda path: (len(path), log.runs[path].first))


def attach(root: State, runs: Iterable[tuple[Path, State]]) -> None:
    """Put each run into the `subagents` of the one above it; all have the thread's files."""
    states: dict[Path, State] = {(): root}
    for path, state in runs:
        state.files = root.files
        states[path] = state
        states[path[:-1]].subagents[path[-1]] = state
