"""Threads that run in this process: whoever reads one also sees what no append has written yet."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from msgspec import structs

from ..events import UserSaid
from ..ports import Store
from ..state import Path, State
from . import format as codec, history
from .journal import Journal
from .layout import RunInfo
from .log import Log, attach, fold, read_run, run_at, runs_at

Pending = Sequence[tuple[Path, bytes]]
"""Encoded events with the run of each, in their order."""

_running: dict[tuple[int, str], Journal] = {}


@contextmanager
def running(journal: Journal) -> Generator[None]:
    """Show *journal* to those who read its thread, while its turn runs."""
    key = (id(journal.store), journal.thread_id)  # The journal holds the store: nothing else can have its id.
    _running[key] = journal
    try:
        yield
    finally:
        _running.pop(key, None)


def pending(store: Store, thread_id: str) -> Pending:
    """The events of a thread that runs here and that are not saved yet. None of one that is redacted: what its log
    must not hold is not shown to its readers either.

    To be asked before the store is: what an append takes away meanwhile is then found there.
    """
    journal = _running.get((id(store), thread_id))
    return () if journal is None or journal.redaction else list(journal.pending)


def read_state(log: Log, events: Pending, subagents: bool) -> State:
    """The thread as *events* leave it; with *subagents* every run stands in its parent's state."""
    states, _ = _folded(log, events)
    if subagents:
        extent = log.head.number
        saved = {path: states.get(path) or run_at(log, path, extent) for path in runs_at(log, extent)}
        below = saved | {path: state for path, state in states.items() if path}
        attach(states[()], sorted(below.items(), key=lambda run: len(run[0])))
    return states[()]


def runs(log: Log, events: Pending) -> list[RunInfo]:
    """Every run below the main one as *events* leave it, parents first."""
    states, begun = _folded(log, events)
    known = {info.path: info for info in history.runs(log)}
    for path, state in states.items():
        if path:
            at = begun.get(path, 0.0)
            info = known.get(path) or RunInfo(path, state.agent, state.status, 0, 0, at, at, 0, 0)
            spent = {"steps": state.step, "tokens": state.usage.total, "cost": state.cost}
            known[path] = structs.replace(info, status=state.status, **spent)
    return sorted(known.values(), key=lambda info: len(info.path))


def _folded(log: Log, events: Pending) -> tuple[dict[Path, State], dict[Path, float]]:
    """The main run and every run that *events* change, and when those that are new began, in seconds since 1970."""
    states: dict[Path, State] = {(): read_run(log, ())[0]}
    begun: dict[Path, float] = {}
    for path, data in events:
        number, event = codec.decode_numbered(data)
        if number <= log.head.number:
            continue  # It was saved after *events* were looked at.
        if path not in states:
            states[path] = read_run(log, path)[0] if path in log.runs else State()
            states[path].files = states[()].files
        if path not in log.runs and isinstance(event, UserSaid):
            begun.setdefault(path, event.at)
        fold(log.store, states[path], number, event)
    return states, begun
