"""Children: the runs below a tool call, which end with it. `delegation.py` begins and drives them."""

import time
from contextlib import suppress

from ..errors import CheckpointError
from ..events import TurnCancelled
from ..state import Path
from .run import Call, Run


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
