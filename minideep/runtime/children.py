"""Children: runs below a tool call, which are opened or continued, bounded in number, and closed with their call."""

import time
from contextlib import suppress

from ..errors import CheckpointError, ConfigError, ToolError
from ..events import Noted, Resumed, TurnCancelled, UserSaid
from ..messages import UserMessage, clean
from ..spec import AgentSpec
from ..state import Path, State
from .run import Call, Run
from .spec import check_prices

BUDGETS = ("tokens", "cost", "seconds")
INSTEAD = "do this work yourself with the tools that you have"
"""The remedy for a model that may not delegate."""


def key_of(call: Call, key: str | None, attempt: int) -> str:
    """Return the key of a child of *call*, which no other child of it has.

    Raises:
        ConfigError: *key* is taken, or UTF-8 cannot encode it.
    """
    # The key becomes part of rows and events: one lone surrogate would block every later append.
    if key and clean(key) != key:
        raise ConfigError(f"key {key!r} holds characters that UTF-8 cannot encode; give another one")
    # A call that a middleware runs again begins fresh children, since those of the first attempt are over.
    name = f"{key or ''}#{attempt}" if attempt > 1 else key
    call_id = call.entry.call.id
    full = f"{call_id}/{name}" if name else call_id
    # The second child would be given the answer of the first one out of the log.
    if full in call.children:
        raise ConfigError(f"call {call_id!r} already runs a child under key {key!r}; give each its own `key`")
    return full


def open_child(call: Call, spec: AgentSpec, key: str, message: UserMessage) -> Run:
    """Return the run of *spec* for *message* below *call*: a new one, or the one in the log. One that was cut short is
    made to run again; one that is over, or that waits for a person, is returned as it is.

    Raises:
        ToolError: it would be one run too many, for the parent or for a run above it; nothing was begun.
        ConfigError: the log knows *key* with another agent or input; or a cost budget applies here, and a model of
            *spec* does not state its cost. Nothing was begun.
    """
    parent, path = call.run, (*call.run.path, key)
    # What is in memory was resumed by a decision in this turn, or has events that no append has saved yet.
    in_memory = path in parent.journal.states
    # A child that is continued was checked and counted when it began.
    if not in_memory and path not in parent.journal.log.runs:
        for run in parent.budgets:
            check_prices(spec, run.state.limits, run.spec.name)
        _count_child(parent, path)
    child = parent.child(spec, path, call)
    state = child.state
    if state.status == "ready":
        child.record(UserSaid(message, time.time(), spec.limits, agent=spec.name))
        _share_notes(child, parent.state)
    # After a deploy, or with an input made from the clock, the log has the answer to another question.
    elif state.agent != spec.name or (state.said != message and not spec.keyed):
        raise ConfigError(f"run {path!r} was begun by agent {state.agent!r} or with another input; give a `key`")
    elif _goes_on(parent, state, in_memory):
        # One that failed, or reached a limit while its parent could go on, is over, and its caller knows.
        was_running, child.has_new_budget = state.status == "running", state.status == "exhausted"
        seconds = child.seconds_before() if was_running else 0.0
        child.record(Resumed(time.time(), spec.limits, seconds=seconds))
        if was_running:
            child.take_over()
    return child


def _goes_on(parent: Run, child: State, in_memory: bool) -> bool:
    """Return whether a child out of the log was cut short, or was stopped together with its parent."""
    if child.status == "running":
        return parent.live.taken_over or not in_memory
    return child.status == "cancelled" or (parent.has_new_budget and is_out_of_budget(child))


def is_out_of_budget(child: State) -> bool:
    """Return whether a budget stopped the run: its own, or one of a run above it."""
    return child.status == "exhausted" and child.reason in BUDGETS


def _count_child(parent: Run, path: Path) -> None:
    """Count a run that begins at *path* for its parent and every run above, if the limits of all of them allow it."""
    line = [parent]
    while (above := line[-1].parent) is not None:
        line.append(above)
    # Every limit is asked before anything is counted: a child that is refused costs nobody anything.
    for run in line:
        limits, name = run.state.limits, run.spec.name
        if limits.max_depth is not None and len(path) - len(run.path) > limits.max_depth:
            found = f"below {name!r} there may be {limits.max_depth} levels of subagents"
            raise ToolError(f"not begun: {found}; {INSTEAD}")
        if limits.max_children is not None and run.begun >= limits.max_children:
            found = f"one reply of {name!r} may begin {limits.max_children} subagents, and has"
            raise ToolError(f"not begun: {found}; {INSTEAD}, or ask again in your next reply")
    for run in line:
        run.begun += 1


def _share_notes(child: Run, parent: State) -> None:
    """Copy the parent's notes that the agent of *child* shares."""
    for owner in child.spec.share:
        for name, value in parent.notes.get(owner, {}).items():
            child.record(Noted(owner, name, value))


def has_children(call: Call) -> bool:
    """Return whether *call* has run children. Then it is safe to begin it again: they continue from the log."""
    run, depth = call.run, len(call.run.path)
    return any(_is_below(call, path, depth) for path in (*run.journal.log.runs, *run.journal.states))


def _is_below(call: Call, path: Path, depth: int) -> bool:
    """Return whether the run at *path* is below *call*, whose own run is *depth* levels below the main one."""
    same = len(path) > depth and path[:depth] == call.run.path
    return same and path[depth].partition("/")[0] == call.entry.call.id


def unanswered(run: Run) -> list[Path]:
    """Return the open runs below unanswered calls, leaves first. A new message answers these calls, so the runs must be
    cancelled with it.
    """
    calls = {call_id for call_id, entry in run.state.open.items() if entry.phase != "answered"}
    if not calls:
        return []
    return [path for path in _open_runs(run) if path[0].split("/")[0] in calls]


def _open_runs(run: Run) -> list[Path]:
    """Return the runs of the thread, below its main one, that are not over: leaves first."""
    statuses = {path: row.status for path, row in run.journal.log.runs.items()}
    statuses |= {path: state.status for path, state in run.journal.states.items() if path}
    return sorted((path for path, status in statuses.items() if status in ("running", "paused")), key=len, reverse=True)


def end_children(call: Call) -> None:
    """Cancel the runs below a call that an earlier turn left open and that its tool did not continue: the call is being
    answered, so nobody else will ever end them.
    """
    depth = len(call.run.path)
    driven = {child.path for child in call.run.below}  # Left behind by the tool: they are ended with the turn.
    for path in _open_runs(call.run):
        if _is_below(call, path, depth) and path[: depth + 1] not in driven:
            with suppress(CheckpointError):  # It cannot be read: it stays as it is.
                call.run.record_at(path, TurnCancelled(time.time()))


class ChildPaused(BaseException):
    """Raised through a tool whose child waits, for a person or for a new budget of a run above.

    Not an `Exception`: many tools catch those.
    """
