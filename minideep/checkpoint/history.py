"""What a thread went through: its boundaries, all that was said, its runs, and what changed between two boundaries."""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from msgspec import Struct

from ..errors import CheckpointError, ConfigError, CorruptSegment
from ..events import (
    FileDeleted,
    FileEdited,
    FileWritten,
    Noted,
    TurnCancelled,
    TurnEnded,
    TurnEscalated,
    TurnExhausted,
    TurnFailed,
    TurnPaused,
)
from ..export import json_line, message_json
from ..messages import Message, Usage
from ..ports import Store
from ..state import Path, State, Status, Todo
from . import layout as names
from .layout import RunInfo, ThreadInfo
from .log import (
    Log,
    accepts,
    at_boundary,
    beginning,
    content_of,
    last_base,
    read_run,
    read_state,
    replay,
    runs_at,
    segments,
    state_at,
)
from .store import translate_errors

BOUNDARIES = (TurnPaused, TurnEnded, TurnEscalated, TurnFailed, TurnCancelled, TurnExhausted)


class Boundary(Struct, frozen=True):
    """Where a turn handed over: a line of `Agent.history()`."""

    at: int
    """Its number, from 1, as `get_state(at=)` and `fork(at=)` take it."""
    status: Status
    reason: str
    """`done`, `truncated`, `refused`, the limit that was reached, or the kind of error."""
    time: float
    """Seconds since 1970."""
    said: str
    """How the last accepted message begins."""
    text: str
    """How the last thing begins that the agent said."""
    steps: int
    """Model replies of the turn."""
    tool_calls: int
    usage: Usage
    """Tokens of the run until here."""


class Difference(Struct, frozen=True):
    """What changed from one boundary to another."""

    messages: list[Message]
    """What was said between them."""
    files: dict[str, str]
    """`added`, `changed` or `removed`, by path."""
    todos: list[Todo] | None
    """The new list, if it is another."""
    notes: dict[str, dict[str, Any]]
    """What middleware remembers otherwise: owner, key, the new value, or None."""
    subagents: list[Path]
    """The runs that began."""
    usage: Usage
    """Tokens spent."""
    status: tuple[Status, Status]


def boundaries(log: Log, path: Path = ()) -> Iterator[Boundary]:
    """The boundaries of a run, in order."""
    state, when, told = beginning(log, path), log.head.cut.time if log.head.cut else 0.0, 0
    for _, entries in segments(log, path, state.number):
        for number, event in entries:
            if at_boundary(state) and accepts(event) and state.turn > told:  # Several decisions begin one turn.
                yield _boundary(state, when)
                told = state.turn
            if not isinstance(event, FileWritten | FileEdited | FileDeleted):
                replay(log, state, number, event)
            if isinstance(event, BOUNDARIES):
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


def said(log: Log, path: Path = ()) -> Iterator[tuple[int, Message]]:
    """Every message of a run as it was said, whatever was compacted since; each with the number of its turn."""
    state = beginning(log, path)
    for message in state.messages:
        yield state.turn, message
    yield from said_after(log, path, state)


def said_after(log: Log, path: Path, state: State) -> Iterator[tuple[int, Message]]:
    """What was said in a run since *state*."""
    seen = len(state.messages)
    for _, entries in segments(log, path, state.number):
        for number, event in entries:
            if isinstance(event, FileWritten | FileEdited | FileDeleted):
                continue  # Of no matter here, and their content may have to be fetched.
            replay(log, state, number, event)
            for message in state.messages[seen:]:
                yield state.turn, message
            seen = len(state.messages)  # Fewer than before, after a compaction: its summary was not said.


def noted(log: Log, owner: str, key: str) -> Iterator[Any]:
    """Everything that the main run has appended to a note, in order; also what the note no longer holds."""
    state = beginning(log, ())
    before = state.notes.get(owner, {}).get(key)
    yield from before if isinstance(before, list) else ()  # What is no list was never appended to.
    for _, entries in segments(log, (), state.number):
        for _, event in entries:
            if isinstance(event, Noted) and (event.owner, event.key, event.rule) == (owner, key, "append"):
                yield event.value


def lines(log: Log) -> Iterator[str]:
    """Every message of every run as a line of JSON, the main run first: `path`, `agent`, `turn`, and `message_json`."""
    root, _ = read_run(log, ())
    for path in [(), *runs_at(log, log.head.number)]:
        agent = log.runs[path].agent if path else root.agent
        for turn, message in said(log, path):
            yield json_line({"path": list(path), "agent": agent, "turn": turn, **message_json(message)})


def find_run(log: Log, call_id: str | Path | None) -> Path:
    """The path of a run, by the key of its call, or by its whole path where that is not enough.

    Raises:
        ConfigError: there is none, or more than one.
    """
    if call_id is None:
        return ()
    found = [path for path in log.runs if call_id in (path, "/".join(path), path[-1], path[-1].partition("/")[0])]
    if len(found) != 1:
        there = ", ".join(repr("/".join(path)) for path in found or log.runs) or "none"
        raise ConfigError(f"{'more than one run is' if found else 'no run is'} called {call_id!r}; there are {there}")
    return found[0]


def runs(log: Log) -> list[RunInfo]:
    """Every run below the main one, parents first."""
    return [_info(path, log) for path in runs_at(log, log.head.number)]


def _info(path: Path, log: Log) -> RunInfo:
    row = log.runs[path]
    about = (row.agent, row.status, row.steps, row.tokens, row.created, row.updated, row.raw, row.stored)
    return RunInfo(path, *about, row.cost, row.unknown, row.unpriced)


def threads(store: Store) -> list[ThreadInfo]:
    """Every thread of the store, the last used one first; those last whose head row is damaged."""
    found = [_thread(key, data) for key, data in translate_errors(store.rows, "head/", "head0")]
    return sorted(found, key=lambda info: -info.updated)


def _thread(key: str, data: bytes) -> ThreadInfo:
    thread_id = names.thread_of(key)
    try:
        if key != names.head_key(thread_id):
            raise CorruptSegment(f"row {key!r} is not named as the head of a thread is")
        head = names.read_head(thread_id, data)
    except CheckpointError as exc:  # One that cannot be read must not hide the others.
        return ThreadInfo(thread_id, "", "damaged", 0, "", 0.0, 0.0, 0, 0, str(exc))
    times, sizes = (head.created, head.updated), (head.raw, head.stored)
    return ThreadInfo(thread_id, head.agent, head.status, head.turn, head.title, *times, *sizes)


def difference(log: Log, a: int, b: int) -> Difference:
    """What changed from boundary *a* to the later boundary *b*.

    Raises:
        ConfigError, HistoryCut: one of them is not there.
    """
    (before, first), (after, last) = state_at(log, a), state_at(log, b)
    if a >= b:
        raise ConfigError(f"boundary {a} is not before boundary {b}; name the earlier one first")
    return Difference(
        messages=_said_between(log, a, b),
        files=_changed_files(before, after),
        todos=None if before.todos == after.todos else after.todos,
        notes=_changed_notes(before, after),
        subagents=[path for path in runs_at(log, last) if log.runs[path].first > first],
        usage=after.usage - before.usage,
        status=(before.status, after.status),
    )


def _said_between(log: Log, a: int, b: int) -> list[Message]:
    state, _ = last_base(log, (), lambda header: header.turn <= a)
    said = takewhile(lambda one: one[0] <= b, said_after(log, (), state))
    return [message for turn, message in said if turn > a]


def _changed_files(before: State, after: State) -> dict[str, str]:
    changed = {file: "removed" for file in before.files if file not in after.files}
    for file, entry in after.files.items():
        old = before.files.get(file)
        if old is None or old.sha256 != entry.sha256:
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


def content(log: Log, file: str, at: int | None) -> str | bytes | None:
    """What a file of the thread holds.

    Raises:
        ConfigError: there is no such file.
    """
    files = read_state(log, at, False).files
    if file not in files:
        there = ", ".join(sorted(files)[:20]) or "none"
        raise ConfigError(f"thread {log.thread_id!r} has no file {file!r}; there are {there}")
    return content_of(log.store, files[file])
