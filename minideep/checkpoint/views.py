"""Reading threads: the functions behind the verbs of `Agent` that change nothing.

A thread that runs in this process is read as it is now, with the events that no append has saved yet; but not one
that is redacted, as its readers must not see what its log must not hold.
"""

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any, TypeVar

from msgspec import structs

from ..core import share_files
from ..documented import Struct
from ..errors import ConfigError
from ..events import FILE_EVENTS, MessagesReplaced, Noted, UserSaid
from ..export import json_line, message_json
from ..messages import Message, Usage
from ..state import Path, State, Status, Todo
from . import layout
from .batch import Pending
from .boundaries import (
    Boundary,
    attach,
    beginning,
    boundaries,
    find_content,
    read_state,
    run_at,
    runs_at,
    state_at,
)
from .format import decode_recorded
from .log import Log
from .replay import content_of, fold, last_snapshot, read_consistently, read_run, replay, segments
from .store import CheckedStore, unknown_thread

T = TypeVar("T")


class RunInfo(Struct, frozen=True):
    """A run below the main one: an item of `Agent.runs()`."""

    path: Path
    """The keys of the calls that lead to it."""
    agent: str
    status: Status
    steps: int
    """Model replies of its last turn."""
    tokens: int
    """A lower bound if those of any reply are `unknown`."""
    created: float
    updated: float
    """Seconds since 1970."""
    bytes_raw: int
    bytes_stored: int
    cost: float | None = None
    """US dollars: at least, if any reply is `unpriced`; None if no cost is known."""
    unknown: int = 0
    """Replies whose tokens are unknown or not fully reported."""
    unpriced: int = 0
    """Replies whose cost is not known."""

    @property
    def call_id(self) -> str:
        """The id of the call that the run answers."""
        return self.path[-1].partition("/")[0]


class Difference(Struct, frozen=True):
    """The changes from one boundary to another."""

    messages: list[Message]
    """The messages between them."""
    files: dict[str, str]
    """`added`, `changed` or `removed`, by path."""
    todos: list[Todo] | None
    """The new list, if it changed."""
    notes: dict[str, dict[str, Any]]
    """The notes that changed: owner, key, the new value, or None."""
    subagents: list[Path]
    """The runs that began."""
    usage: Usage
    """Tokens spent."""
    status: tuple[Status, Status]


# ---- the verbs


def get_state(
    store: CheckedStore, thread_id: str, *, subagents: bool = False, at: int | None = None, after: int | None = None
) -> State:
    """Return the thread as it is now, at its boundary *at*, or after its event *after*; with *subagents* each run
    stands in its parent's state.

    Raises:
        UnknownThread, CheckpointError
        ConfigError: boundary number *at* does not exist.
        HistoryCut: retention removed it.
    """
    if at is None and after is None and (pending := _pending(store, thread_id)):
        return _read(store, thread_id, lambda log: _live_state(log, pending, subagents))
    return _read(store, thread_id, lambda log: read_state(log, at, subagents, after))


def history(store: CheckedStore, thread_id: str, call_id: str | Path | None = None) -> list[Boundary]:
    """Return the boundaries of a thread, or of the run below it that answers the call *call_id*, in order.

    Raises:
        UnknownThread, CheckpointError
        ConfigError: *call_id* names no run, or several.
    """
    return _read(store, thread_id, lambda log: list(boundaries(log, _find_run(log, call_id))))


def transcript(store: CheckedStore, thread_id: str, call_id: str | Path | None = None) -> list[Message]:
    """Return all messages of a thread, or of a run below it, as they were before any compaction.

    Raises:
        UnknownThread, CheckpointError
        ConfigError: *call_id* names no run, or several.
    """
    return _read(store, thread_id, lambda log: [message for _, message in _said(log, _find_run(log, call_id))])


def runs(store: CheckedStore, thread_id: str) -> list[RunInfo]:
    """Return every run below the main one, parents first.

    Raises:
        UnknownThread, CheckpointError
    """
    pending = _pending(store, thread_id)
    return _read(store, thread_id, lambda log: _live_runs(log, pending) if pending else _saved_runs(log))


def diff(store: CheckedStore, thread_id: str, a: int, b: int) -> Difference:
    """Return the changes from boundary *a* to the later boundary *b*.

    Raises:
        UnknownThread, CheckpointError
        ConfigError, HistoryCut: one of them does not exist.
    """
    return _read(store, thread_id, lambda log: _difference(log, a, b))


def read_file(store: CheckedStore, thread_id: str, file: str, at: int | None = None) -> str | bytes | None:
    """Return the content of a file of the thread's state, now or at a boundary; None if only a disk has it.

    Raises:
        ConfigError: the file or the boundary does not exist.
        UnknownThread, CheckpointError, HistoryCut: as `get_state`.
    """
    return _read(store, thread_id, lambda log: _content(log, file, at))


def export(store: CheckedStore, thread_id: str) -> list[str]:
    """Return every message of every run as a line of JSON, the main run first: `path`, `agent`, `turn`, and the fields
    of `message_json`.

    Raises:
        UnknownThread, CheckpointError
    """
    return _read(store, thread_id, lambda log: list(_lines(log)))


def recall(store: CheckedStore, thread_id: str, file: str, sha256: str) -> str | bytes | None:
    """Return the content that a file had when its hash was *sha256*, even if it was changed or deleted since; None if
    no event that is kept holds it.

    Raises:
        UnknownThread, CheckpointError
    """
    return _read(store, thread_id, lambda log: find_content((), log, file, sha256))


def noted(store: CheckedStore, thread_id: str, owner: str, key: str) -> list[Any]:
    """Return every value that the main run appended to a note, in order, even if the note no longer holds it.

    Raises:
        UnknownThread, CheckpointError
    """
    return _read(store, thread_id, lambda log: list(_noted(log, owner, key)))


def _read(store: CheckedStore, thread_id: str, read: Callable[[Log], T]) -> T:
    # In a tuple: a verb may return None, which here means that there is no thread.
    found = read_consistently(store, thread_id, lambda log: (read(log),))
    if found is None:
        raise unknown_thread(thread_id)
    return found[0]


# ---- runs of this process


def _pending(store: CheckedStore, thread_id: str) -> list[Pending]:
    """Return the unsaved events of a thread that runs here. Ask before the store: what is saved meanwhile is found
    there.
    """
    journal = store.live.get(thread_id)
    return [] if journal is None or journal.redaction else list(journal.pending)


def _live_state(log: Log, pending: list[Pending], subagents: bool) -> State:
    states, _ = _live(log, pending)
    if subagents:
        extent = log.head.number
        saved = {path: states.get(path) or run_at(log, path, extent) for path in runs_at(log, extent)}
        # What was saved of a run gives way to what it is now.
        below = saved | {path: state for path, state in states.items() if path}
        attach(states[()], sorted(below.items(), key=lambda run: len(run[0])))
    return states[()]


def _live_runs(log: Log, pending: list[Pending]) -> list[RunInfo]:
    states, began = _live(log, pending)
    known = {info.path: info for info in _saved_runs(log)}
    for path, state in states.items():
        if path:
            at = began.get(path, 0.0)
            info = known.get(path) or RunInfo(path, state.agent, state.status, 0, 0, at, at, 0, 0)
            spent = {"steps": state.step, "tokens": state.usage.total, "cost": state.cost}
            known[path] = structs.replace(info, status=state.status, **spent)
    return sorted(known.values(), key=lambda info: len(info.path))


def _live(log: Log, pending: list[Pending]) -> tuple[dict[Path, State], dict[Path, float]]:
    """Return the main run and every run that *pending* changes, and when the new ones began (seconds since 1970)."""
    states: dict[Path, State] = {(): read_run(log, ())[0]}
    began: dict[Path, float] = {}
    for path, data, _ in pending:
        recorded = decode_recorded(data)
        number, event = recorded.number, recorded.event
        if number <= log.head.number:
            continue  # It was saved since.
        if path not in states:
            states[path] = read_run(log, path)[0] if path in log.runs else State()
            share_files(states[path], states[()])
        if path not in log.runs and isinstance(event, UserSaid):
            began.setdefault(path, event.at)
        fold(log.store, states[path], number, event)
    return states, began


# ---- messages and notes


def _said(log: Log, path: Path) -> Iterator[tuple[int, Message]]:
    """Yield every message of a run with the number of its turn."""
    state = beginning(log, path)
    for message in state.messages:
        yield state.turn, message
    yield from _said_after(log, path, state)


def _said_after(log: Log, path: Path, state: State) -> Iterator[tuple[int, Message]]:
    seen = len(state.messages)
    for _, entries in segments(log, path, state.number):
        for number, event, _ in entries:
            if isinstance(event, FILE_EVENTS):
                continue  # They hold no message, and their content may have to be fetched.
            replay(log, state, number, event)
            # Those that a person put in, wherever in the list; else the new ones at its end.
            for message in event.messages if isinstance(event, MessagesReplaced) else state.messages[seen:]:
                yield state.turn, message
            seen = len(state.messages)  # Fewer than before, after a compaction: its summary is not a message.


def _lines(log: Log) -> Iterator[str]:
    root, _ = read_run(log, ())
    for path in [(), *runs_at(log, log.head.number)]:
        agent = log.runs[path].agent if path else root.agent
        for turn, message in _said(log, path):
            yield json_line({"path": list(path), "agent": agent, "turn": turn, **message_json(message)})


def _noted(log: Log, owner: str, key: str) -> Iterator[Any]:
    state = beginning(log, ())
    before = state.notes.get(owner, {}).get(key)
    yield from before if isinstance(before, list) else ()  # Nothing was ever appended to another value.
    for _, entries in segments(log, (), state.number):
        for _, event, _ in entries:
            if isinstance(event, Noted) and (event.owner, event.key, event.rule) == (owner, key, "append"):
                yield event.value


# ---- files


def _content(log: Log, file: str, at: int | None) -> str | bytes | None:
    files = read_state(log, at, False).files
    if file not in files:
        existing = ", ".join(sorted(files)[:20]) or "none"
        raise ConfigError(f"thread {log.thread_id!r} has no file {file!r}; its files: {existing}")
    return content_of(log.store, files[file])


# ---- lists of runs and threads


def _find_run(log: Log, call_id: str | Path | None) -> Path:
    """Return the path of a run, found by the key of its call, or by its whole path where that is ambiguous.

    Raises:
        ConfigError: there is none, or more than one.
    """
    if call_id is None:
        return ()
    found = [path for path in log.runs if call_id in (path, "/".join(path), path[-1], path[-1].partition("/")[0])]
    if len(found) != 1:
        existing = ", ".join(repr("/".join(path)) for path in found or log.runs) or "none"
        raise ConfigError(f"{'more than one run is' if found else 'no run is'} called {call_id!r}; runs: {existing}")
    return found[0]


def _saved_runs(log: Log) -> list[RunInfo]:
    return [_run_info(path, log.runs[path]) for path in runs_at(log, log.head.number)]


def _run_info(path: Path, row: layout.RunRow) -> RunInfo:
    about = (row.agent, row.status, row.steps, row.tokens, row.created, row.updated, row.bytes_raw, row.bytes_stored)
    return RunInfo(path, *about, row.cost, row.unknown, row.unpriced)


# ---- differences


def _difference(log: Log, a: int, b: int) -> Difference:
    (before, first), (after, last) = state_at(log, a), state_at(log, b)
    if a >= b:
        raise ConfigError(f"boundary {a} is not before boundary {b}; name the earlier one first")
    # From a snapshot before *a*: a compaction between the two has taken messages out of later states.
    state, _ = last_snapshot(log, (), lambda header: header.turn <= a)
    said = takewhile(lambda one: one[0] <= b, _said_after(log, (), state))
    return Difference(
        messages=[message for turn, message in said if turn > a],
        files=_changed_files(before, after),
        todos=None if before.todos == after.todos else after.todos,
        notes=_changed_notes(before, after),
        subagents=[path for path in runs_at(log, last) if log.runs[path].first > first],
        usage=after.usage - before.usage,
        status=(before.status, after.status),
    )


def _changed_files(before: State, after: State) -> dict[str, str]:
    changed = {file: "removed" for file in before.files if file not in after.files}
    for file, entry in after.files.items():
        old = before.files.get(file)
        if old is None or old.sha256 != entry.sha256:  # By hash: contents may be blobs.
            changed[file] = "changed" if old else "added"
    return dict(sorted(changed.items()))


def _changed_notes(before: State, after: State) -> dict[str, dict[str, Any]]:
    changed: dict[str, dict[str, Any]] = {}
    for owner in {*before.notes, *after.notes}:
        old, new = before.notes.get(owner, {}), after.notes.get(owner, {})
        values = {key: new.get(key) for key in {*old, *new} if old.get(key) != new.get(key)}
        if values:
            changed[owner] = values
    return changed
