"""Threads at their boundaries: the states of the past, which events of other runs belong to them, and their list."""

from collections.abc import Iterable, Iterator, Sequence

from ..core import attach_subagent, share_files
from ..documented import Struct
from ..errors import CheckpointError, ConfigError, HistoryCut
from ..events import (
    FILE_EVENTS,
    AnyEvent,
    Decided,
    FileWritten,
    Resumed,
    TurnCancelled,
    TurnEnded,
    TurnEscalated,
    TurnExhausted,
    TurnFailed,
    TurnPaused,
    UserSaid,
)
from ..messages import Usage
from ..state import FileEntry, Path, State, Status
from .batch import Pending
from .format import decode
from .log import Log
from .replay import content_of, last_snapshot, read_consistently, read_run, replay, segments
from .store import CheckedStore

STATUS_AFTER: dict[type, Status] = {
    TurnPaused: "paused",
    TurnEnded: "ended",
    TurnEscalated: "escalated",
    TurnFailed: "failed",
    TurnCancelled: "cancelled",
    TurnExhausted: "exhausted",
}
"""The status of a turn by the event that ended it."""
ENDINGS = tuple(STATUS_AFTER)


class Boundary(Struct, frozen=True):
    """The end of a turn: an item of `Agent.history()`."""

    at: int
    """Its number, from 1, as `get_state(at=)` and `fork(at=)` take it."""
    status: Status
    reason: str
    """`done`, `truncated`, `refused`, the limit that was reached, or the kind of error."""
    time: float
    """Seconds since 1970."""
    said: str
    """The beginning of the last accepted message."""
    text: str
    """The beginning of the agent's last text."""
    steps: int
    """Model replies of the turn."""
    tool_calls: int
    usage: Usage
    """Tokens of the run so far."""


def accepts(event: AnyEvent) -> bool:
    """Return whether a turn of the main run begins with *event*."""
    return isinstance(event, Resumed | Decided) or (isinstance(event, UserSaid) and not event.by)


def at_boundary(state: State) -> bool:
    """Return whether the turn is over or paused."""
    return state.status not in ("ready", "running")


def beginning(log: Log, path: Path) -> State:
    """Return the state in which a run's log begins: a new one, or the snapshot at which retention truncated it."""
    truncation = log.head.truncation
    if truncation is None or path:  # Runs below are kept whole, or not at all.
        return State()
    # Newer snapshots, of compactions, lack the messages that those have replaced.
    return last_snapshot(log, path, lambda header: header.last == truncation.number)[0]


def state_at(log: Log, at: int) -> tuple[State, int]:
    """Return the main run at its boundary *at*, and the number of the thread's last event that belongs to it.

    Raises:
        ConfigError: the boundary does not exist.
        HistoryCut: retention removed it.
        CheckpointError: it cannot be read.
    """
    state, stop = last_snapshot(log, (), lambda header: header.turn <= at)
    try:
        for _, entries in segments(log, (), state.number, stop):
            for number, event, _ in entries:
                # Only the next input ends a boundary: until then runs below may still record what belongs to it.
                if state.turn == at and at_boundary(state) and accepts(event):
                    return state, number - 1
                replay(log, state, number, event)
    except CheckpointError:
        if not (state.turn == at and at_boundary(state)):  # Damage behind the boundary does not hide it.
            raise
    if state.turn == at and at_boundary(state):
        # At the newest boundary all events belong to it, those of runs below after the main run's last one too.
        return state, log.head.number if state.number == log.head.last else state.number
    newest = state.turn - (not at_boundary(state))  # A turn that runs, or was cut short, has none yet.
    raise ConfigError(f"thread {log.thread_id!r} has no boundary {at}; its newest one is {newest}")


def run_at(log: Log, path: Path, extent: int) -> State:
    """Return a run as of the thread's event *extent*."""
    state, stop = last_snapshot(log, path, lambda header: header.last <= extent)
    for _, entries in segments(log, path, state.number, stop):
        for number, event, _ in entries:
            if number > extent:
                return state
            replay(log, state, number, event)
    return state


def read_state(log: Log, at: int | None, subagents: bool, after: int | None = None) -> State:
    """Return the thread as `root_at` finds it; with *subagents* each run stands in its parent."""
    root, extent = root_at(log, at, after)
    if subagents:
        attach(root, ((path, run_at(log, path, extent)) for path in runs_at(log, extent)))
    return root


def root_at(log: Log, at: int | None, after: int | None = None) -> tuple[State, int]:
    """Return the main run at its boundary *at*, after the thread's event *after*, or as last saved if both are None;
    and the number of the thread's last event that belongs to it.

    Raises:
        ConfigError: the boundary or the event does not exist, or both are given.
        HistoryCut: retention removed it.
    """
    if after is None:
        return (read_run(log, ())[0], log.head.number) if at is None else state_at(log, at)
    if at is not None:
        raise ConfigError(f"at={at} names a boundary and after={after} an event; give one of them")
    if after > log.head.number:
        raise ConfigError(f"thread {log.thread_id!r} has no event {after}; its last one is {log.head.number}")
    if log.head.truncation is not None and after < log.head.truncation.number:
        first = log.head.truncation.number
        raise HistoryCut(f"thread {log.thread_id!r}: retention removed event {after}; the first left is {first}")
    return run_at(log, (), after), after


def runs_at(log: Log, extent: int) -> list[Path]:
    """Return the runs below the main one that had begun by the event *extent*, parents first, then in the order in
    which they began.
    """
    # Rows of runs hold only the newest state of each; when it began tells whether it belongs.
    begun = [path for path, row in log.runs.items() if row.first <= extent]
    return sorted(begun, key=lambda path: (len(path), log.runs[path].first))


def attach(root: State, runs: Iterable[tuple[Path, State]]) -> None:
    """Put each run into the `subagents` of the one above it. All share the thread's files."""
    states: dict[Path, State] = {(): root}
    for path, state in runs:
        share_files(state, root)  # A snapshot of a run below holds none.
        states[path] = state
        attach_subagent(states[path[:-1]], path[-1], state)


def find_content(pending: Sequence[Pending], log: Log, file: str, sha256: str) -> str | bytes | None:
    """Return the content that a file had when its hash was *sha256*; None if no event holds it, pending or saved."""
    for path, data, _ in reversed(pending):  # Newest first.
        if not path and sha256.encode() in data:
            event = decode(data)
            if isinstance(event, FileWritten) and (event.file, event.sha256) == (file, sha256):
                return event.content
    if log.head_row is None:
        return None
    state = beginning(log, ())
    # The event that wrote it may be older than what retention keeps.
    if file in state.files and state.files[file].sha256 == sha256:
        return content_of(log.store, state.files[file])
    for _, entries in segments(log, (), state.number):
        for _, event, _ in entries:
            if isinstance(event, FileWritten) and (event.file, event.sha256) == (file, sha256):
                return content_of(log.store, FileEntry(event.content, event.size, sha256, event.at, blob=event.blob))
    return None


def recallable(store: CheckedStore, thread_id: str) -> set[tuple[str, str]]:
    """Return the path and the hash of each content that `recall` finds in what is saved of a thread, in one look.

    Raises:
        CheckpointError: the log cannot be read.
    """
    return read_consistently(store, thread_id, lambda log: set(_contents(log))) or set()


def _contents(log: Log) -> Iterator[tuple[str, str]]:
    state = beginning(log, ())
    yield from ((path, file.sha256) for path, file in state.files.items() if file.blob or file.content is not None)
    for _, entries in segments(log, (), state.number):
        for _, event, _ in entries:
            if isinstance(event, FileWritten) and (event.blob or event.content is not None):
                yield event.file, event.sha256


def boundaries(log: Log, path: Path = ()) -> Iterator[Boundary]:
    """Yield the boundaries of a run, in order."""
    truncation = log.head.truncation
    state, when, listed = beginning(log, path), truncation.time if truncation else 0.0, 0
    for _, entries in segments(log, path, state.number):
        for number, event, _ in entries:
            if at_boundary(state) and accepts(event) and state.turn > listed:  # Several decisions begin one turn.
                yield _boundary(state, when)
                listed = state.turn
            if not isinstance(event, FILE_EVENTS):  # A boundary says nothing of files, and an edit would fetch one.
                replay(log, state, number, event)
            if isinstance(event, ENDINGS):
                when = event.at
    if at_boundary(state):
        yield _boundary(state, when)


def _boundary(state: State, when: float) -> Boundary:
    return Boundary(
        at=state.turn,
        status=state.status,
        reason=state.reason,
        time=when,
        said=state.said.text[:80] if state.said else "",
        text=state.text[:80],
        steps=state.step,
        tool_calls=state.tool_calls,
        usage=state.usage,
    )
