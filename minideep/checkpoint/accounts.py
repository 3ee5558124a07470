"""Reads from a log what its thread has cost.

The events of each run are read once, the main run's first: they say where the turns begin, and by its number an event
of a subagent belongs to one of them.
"""

from bisect import bisect_right
from collections.abc import Iterator

from msgspec import Struct

from ..events import (
    FILE_EVENTS,
    AnyEvent,
    Compacted,
    FileWritten,
    ModelReplied,
    Resumed,
    ToolReturned,
    UserSaid,
)
from ..messages import ToolResult
from ..state import Path
from . import format, layout
from .boundaries import ENDINGS, STATUS_AFTER, accepts, beginning, runs_at
from .log import Log
from .replay import read_consistently, segments
from .spending import AgentCosts, CallCosts, RunCosts, Spending, StepCosts, ThreadCosts, TurnCosts
from .store import CheckedStore, unknown_thread

WAITS = ("paused", "escalated")
"""Statuses of a turn that a person must answer."""
SLACK = 0.005
"""Seconds by which a reply may seem to begin before what it answers, since times are kept in milliseconds."""


def thread_costs(store: CheckedStore, thread_id: str) -> ThreadCosts:
    """Return what a thread has cost, as far as it is saved.

    Raises:
        UnknownThread, CheckpointError
    """
    found = read_consistently(store, thread_id, _read)
    if found is None:
        raise unknown_thread(thread_id)
    return found


def _read(log: Log) -> ThreadCosts:
    accounts = _Accounts(log)
    accounts.read_main_run()
    for path in runs_at(log, log.head.number):
        accounts.read_below(path)
    turns = [turn.closed() for turn in accounts.turns]
    _add_waits(turns)
    total = Spending()
    for turn in turns:
        total.add(turn.run.total)
    prefix = layout.thread_prefix("base", log.thread_id)
    return ThreadCosts(
        log.thread_id,
        log.head.status,
        turns,
        _by_agent(accounts.turns),
        total,
        seconds=sum(turn.seconds for turn in turns),
        waited_s=sum(turn.waited_s or 0.0 for turn in turns),
        snapshots=sum(len(data) for _, data in log.store.rows(prefix, layout.after(prefix))),
    )


def _add_waits(turns: list[TurnCosts]) -> None:
    for turn, answer in zip(turns, [*turns[1:], None], strict=True):
        if turn.status in WAITS and turn.end is not None:
            turn.waited_s = max(0.0, answer.start - turn.end) if answer else None


def _by_agent(turns: "list[_Turn]") -> list[AgentCosts]:
    found: dict[str, tuple[set[str], set[Path], Spending]] = {}
    for turn in turns:
        for path, run in turn.runs.items():
            models, paths, own = found.setdefault(run.agent, (set(), set(), Spending()))
            models.update(step.model for step in run.steps if step.model)
            paths.add(path)
            own.add(run.own)
    return [AgentCosts(agent, tuple(sorted(models)), len(paths), own) for agent, (models, paths, own) in found.items()]


# ---- events with their sizes


class _Sized(Struct):
    """An event as it stands in the log."""

    number: int
    event: AnyEvent
    at: float
    """Seconds since 1970."""
    bytes_raw: int
    bytes_stored: int


def _events(log: Log, path: Path, after: int, known: set[str]) -> Iterator[_Sized]:
    """Yield the events of a run after its event *after*. Blobs that are *known* are counted already."""
    start, stop = (layout.segments_from(log.thread_id, path, number) for number in (after + 1, log.head.number + 1))
    rows = log.store.rows(start, stop)
    stored = {key: len(data) + _size_of_blobs(log, data, key, known) for key, data in rows}
    for ref, entries in segments(log, path, after, found=rows):
        read = [(number, event, at, _size(number, event)) for number, event, at in entries]
        whole, so_far, given = max(1, sum(size for *_, size in read)), 0, 0
        for number, event, at, size in read:
            so_far += size
            # Shares of what is given out so far, so that they add up to the whole.
            share = stored[ref.key] * so_far // whole - given
            given += share
            yield _Sized(number, event, _time(event, at), size, share)


def _time(event: AnyEvent, at: float) -> float:
    # These hold their time in every format. That of a file is the file's.
    return event.at if isinstance(event, (UserSaid, Resumed, *ENDINGS)) else at


def _size(number: int, event: AnyEvent) -> int:
    apart = event.size if isinstance(event, FileWritten) and event.blob and event.content is None else 0
    return len(format.encode(number, event)) + apart


def _size_of_blobs(log: Log, data: bytes, key: str, known: set[str]) -> int:
    names = set(format.read_header(data, key).blobs) - known
    known |= names
    return sum(len(log.store.get(layout.blob_key(name)) or b"") for name in names)


# ---- turns


class _Turn:
    """A turn while its events are read."""

    def __init__(self, number: int, agent: str) -> None:
        main = RunCosts((), agent)
        self.costs = TurnCosts(number, main)
        self.runs: dict[Path, RunCosts] = {(): main}
        self._calls: dict[tuple[Path, str], tuple[StepCosts, CallCosts]] = {}
        self._begun = self._before = self._model_s = 0.0

    def begin(self, event: UserSaid | Resumed) -> None:
        """Begin it, or go on with it after a crash."""
        costs = self.costs
        if self._begun:
            costs.cut_short += 1
        else:
            costs.start = event.at
        if isinstance(event, UserSaid):
            costs.said = event.message.text[:80]
        self._begun, self._before = event.at, costs.seconds

    def end(self, event: AnyEvent, at: float) -> None:
        costs = self.costs
        costs.status, costs.end = STATUS_AFTER[type(event)], at
        if spent := getattr(event, "costs", None):
            costs.harness_s, costs.save_s, self._model_s = spent.harness_s, spent.save_s, spent.model_s

    def seen(self, at: float) -> None:
        if self._begun:
            self.costs.seconds = max(self.costs.seconds, self._before + at - self._begun)

    def step(self, run: RunCosts, step: StepCosts, calls: list[CallCosts]) -> StepCosts:
        run.steps.append(step)
        for call in calls:
            self._add_call(run, step, call)
        return step

    def call(self, run: RunCosts, call_id: str, name: str) -> tuple[StepCosts, CallCosts]:
        """Return a call of the run with its step: one of its own if it was made in an earlier turn."""
        if (run.path, call_id) not in self._calls:
            if not run.steps or run.steps[0].kind != "continued":
                run.steps.insert(0, StepCosts("continued"))
            self._add_call(run, run.steps[0], CallCosts(call_id, name))
        return self._calls[run.path, call_id]

    def _add_call(self, run: RunCosts, step: StepCosts, call: CallCosts) -> None:
        step.calls.append(call)
        self._calls[run.path, call.id] = step, call

    def closed(self) -> TurnCosts:
        """Return the turn once all its events are read, with each run below its call, and everything added up."""
        below = sorted((path for path in self.runs if path), key=len)
        for path in below:
            _, call = self.call(self.runs[path[:-1]], path[-1].partition("/")[0], "")
            call.runs.append(self.runs[path])
        for run in self.runs.values():
            for step in run.steps:
                seconds = sum(call.seconds or 0.0 for call in step.calls if not call.runs)
                step.own.tools_s += seconds
                run.own.tools_s += seconds
            run.total.add(run.own)
        for path in reversed(below):  # The deepest first.
            self.runs[path[:-1]].total.add(self.runs[path].total)
        self.costs.unanswered_s = max(0.0, self._model_s - self.costs.run.total.model_s)
        if not self.costs.timed:
            self._forget_times()
        return self.costs

    def _forget_times(self) -> None:
        for run in self.runs.values():
            run.start = run.end = None
            for step in run.steps:
                step.replied = step.ended = None


class _Accounts:
    """The turns of a thread while its log is read."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.turns: list[_Turn] = []
        self._firsts: list[int] = []
        """The number of the first event of each turn."""
        self._names: dict[tuple[Path, str], str] = {}
        """The tool of each call."""
        self._blobs: set[str] = set()

    def read_main_run(self) -> None:
        log, state = self._log, beginning(self._log, ())
        if cut := log.head.truncation:
            costs = self._begin(state.turn, 0).costs
            costs.removed, costs.status, costs.start, costs.end = state.turn, state.status, log.head.created, cut.time
            costs.run.own = Spending(usage=state.usage, cost=state.cost, unpriced=state.unpriced)
        reader = _RunReader((), self._names)
        for sized in _events(log, (), state.number, self._blobs):
            event = sized.event
            turn = self.turns[-1] if self.turns else None
            if turn is None or (accepts(event) and turn.costs.end is not None):
                turn = self._begin(turn.costs.number + 1 if turn else 1, sized.number)
            if isinstance(event, UserSaid | Resumed) and accepts(event):
                turn.begin(event)
            writer = event.by if isinstance(event, FILE_EVENTS) else ()  # The main run's log has the files of all.
            reader.read(turn, self._run(turn, writer), sized)
            if isinstance(event, ENDINGS):
                turn.end(event, sized.at)

    def read_below(self, path: Path) -> None:
        reader = _RunReader(path, self._names)
        for sized in _events(self._log, path, 0, self._blobs):
            turn = self.turns[max(0, bisect_right(self._firsts, sized.number) - 1)]
            reader.read(turn, self._run(turn, path), sized)

    def _begin(self, number: int, first: int) -> _Turn:
        self.turns.append(turn := _Turn(number, self._log.head.agent))
        self._firsts.append(first)
        return turn

    def _run(self, turn: _Turn, path: Path) -> RunCosts:
        for depth in range(1, len(path) + 1):
            if (above := path[:depth]) not in turn.runs:
                turn.runs[above] = RunCosts(above, self._log.runs[above].agent if above in self._log.runs else "")
        return turn.runs[path]


class _RunReader:
    """Reads the events of one run into its turns."""

    def __init__(self, path: Path, names: dict[tuple[Path, str], str]) -> None:
        self._path = path
        self._names = names
        self._asked = 0.0
        """The time from which on the run could ask its model."""

    def read(self, turn: _Turn, run: RunCosts, sized: _Sized) -> None:
        event, at = sized.event, sized.at
        turn.seen(at)
        run.start, run.end = min(run.start or at, at), max(run.end or at, at)
        owners = [run.own, *(step.own for step in run.steps[-1:])]
        match event:
            case ModelReplied() | Compacted():
                owners = [run.own, self._model(turn, run, event, at).own]
                for own in owners:
                    own.add_model(event)
            case ToolReturned():
                owners = [run.own, self._result(turn, run, event, at).own]
                for own in owners:
                    own.tool_calls += 1
                    own.tool_chars += len(ToolResult(event.content).text)
            case UserSaid() | Resumed():
                run.status, self._asked = "running", at
            case _:
                run.status = STATUS_AFTER.get(type(event), run.status)
        for own in owners:
            own.bytes_raw += sized.bytes_raw
            own.bytes_stored += sized.bytes_stored

    def _model(self, turn: _Turn, run: RunCosts, event: ModelReplied | Compacted, at: float) -> StepCosts:
        if isinstance(event, Compacted):
            return turn.step(run, StepCosts("summary", 0, event.model, at if event.asked else None, at), [])
        # A model cannot have been asked before the results that it read. Formats before 1.4 hold no times: there all
        # events of an append have its time.
        turn.costs.timed = turn.costs.timed and at - event.seconds >= self._asked - SLACK
        self._asked = at
        calls = [CallCosts(call.id, call.name) for call in event.message.calls]
        for call in calls:
            self._names[self._path, call.id] = call.name
        number = next((step.number for step in reversed(run.steps) if step.number), 0) + 1
        return turn.step(run, StepCosts("reply", number, event.model, at, at), calls)

    def _result(self, turn: _Turn, run: RunCosts, event: ToolReturned, at: float) -> StepCosts:
        step, call = turn.call(run, event.call_id, self._names.get((self._path, event.call_id), ""))
        call.seconds, call.is_error = event.seconds, event.is_error
        step.ended = self._asked = at
        return step
