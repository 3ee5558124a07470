"""One run of one agent: its spec, its state, its place in the thread's journal, and what it costs."""

import asyncio
import math
import time
from functools import cached_property
from time import perf_counter
from typing import Any

from ..checkpoint import Durability, Journal
from ..context import ToolContext
from ..costs import Costs, Spent, Step
from ..errors import CheckpointError, ThreadConflict, ToolError
from ..events import (
    FILE_EVENTS,
    CallStarted,
    Compacted,
    E,
    ModelReplied,
    Noted,
    Resumed,
    StreamEvent,
    TurnCancelled,
    TurnExhausted,
    with_path,
)
from ..messages import UNKNOWN, AssistantMessage, Message, ToolCall, ToolResult, Usage
from ..ports import AgentSpec, Emit, Reply
from ..state import Path, State
from ..turn import Turn, error_of
from .spec import check_prices

INSTEAD = "do this work yourself with the tools that you have"
"""What a model is told to do where it may not delegate."""


class Scope:
    """The turn that a run belongs to: whether it may still go on."""

    def __init__(self) -> None:
        self.durability: Durability = "turn"
        self.cancelled = False
        self.conflict: ThreadConflict | None = None

    @property
    def stopped(self) -> bool:
        return self.cancelled or self.conflict is not None

    def check(self) -> None:
        if self.conflict is not None:
            raise self.conflict


class Run:
    """What the loop carries while it drives one agent, main or sub."""

    def __init__(
        self,
        spec: AgentSpec,
        journal: Journal,
        *,
        listener: Emit | None = None,
        context: Any = None,
        path: Path = (),
        parent: "Run | None" = None,
        opener: ToolContext | None = None,
    ) -> None:
        self.spec = spec
        self.journal = journal
        self.listener = listener
        self.context = context
        self.path = path
        self.parent = parent
        self.opener = opener
        self.closed = False
        self.scope = parent.scope if parent else Scope()
        self.loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        self.state: State = journal.open_run(path)
        self.costs = Costs()
        self.total: Costs = parent.total if parent else self.costs
        """The ledger of the main run."""
        self.scratch: dict[object, Any] = {}
        """What hooks keep while the run is driven; never recorded."""
        self._usage_before = self.state.usage
        self._compacted: list[Message] = []
        """What was said in this turn, and is in context no more."""
        self.emitter: Emit | None = self.emit if listener else None
        self._model_s = self._tools_s = self._children_s = 0.0
        self._mark = self._began = perf_counter()
        self._tokens = self._unknown = self._unpriced = 0
        self._money: float | None = None
        self._above: tuple[Run, ...] = parent.budgets if parent else ()
        self._begun = 0
        """Runs below this one that its last reply has set going."""

    @property
    def thread_id(self) -> str:
        return self.journal.thread_id

    def content_of(self, file: str) -> str | bytes | None:
        """What a file of the thread holds; None where the disk is the truth."""
        return self.journal.content_of(file)

    def recall(self, file: str, sha256: str) -> str | bytes | None:
        """What a file held when its hash was *sha256*, as far back as events are kept."""
        return self.journal.recall(file, sha256)

    def child(self, spec: AgentSpec, key: str, opener: ToolContext) -> tuple["Run", bool]:
        """The run of *spec* below this one, new or as the log has it; and whether it was cut short.

        One that failed or reached a limit was not: it is over, and its caller was told.

        Raises:
            ToolError: it would be one run too many, for this run or for one above it; nothing was begun.
            ConfigError: there is a budget of money, and nobody says what *spec* costs; nothing was begun.
        """
        path = (*self.path, key)
        resumed = path in self.journal.states  # By a decision, in this turn: then it is `running` already.
        if not resumed and path not in self.journal.runs:
            for run in self.budgets:
                check_prices(spec, run.state.limits, run.spec.name)
            self._begin(path)
        listener, context = self.listener, self.context
        run = Run(spec, self.journal, listener=listener, context=context, path=path, parent=self, opener=opener)
        status = run.state.status
        return run, status == "cancelled" or (status == "running" and not resumed)

    def _begin(self, path: Path) -> None:
        """Count a run that is begun at *path*, for this run and every run above it, if the limits of all allow it."""
        line: list[Run] = [self]
        while (above := line[-1].parent) is not None:
            line.append(above)
        for run in line:
            limits, name = run.state.limits, run.spec.name
            if limits.max_depth is not None and len(path) - len(run.path) > limits.max_depth:
                raise ToolError(
                    f"not begun: below {name!r} there may be {limits.max_depth} levels of subagents; {INSTEAD}"
                )
            if limits.max_children is not None and run._begun >= limits.max_children:
                begun = f"one reply of {name!r} may set {limits.max_children} subagents going, and has"
                raise ToolError(f"not begun: {begun}; {INSTEAD}, or ask again in your next reply")
        for run in line:
            run._begun += 1

    def has_children(self, call_id: str) -> bool:
        """Whether a call has run children: then it is safe to begin it again, for they go on from the log."""
        depth = len(self.path)
        return any(
            len(path) > depth and path[:depth] == self.path and path[depth].partition("/")[0] == call_id
            for path in (*self.journal.runs, *self.journal.states)
        )

    def go_on(self) -> None:
        """Go on with a run that was cut short."""
        self.record(Resumed(time.time(), self.spec.limits))

    def share_notes(self, parent: State) -> None:
        """Begin with a copy of what the agent may see of the parent's notes."""
        for owner in self.spec.share:
            for name, value in parent.notes.get(owner, {}).items():
                self.record(Noted(owner, name, value))

    def record(self, event: E) -> E:
        """Apply *event*, keep it for the next append, and return it as it is kept.

        A file event is the main run's, whoever records it.
        """
        if self.closed or self.parent is not None:
            self._check_open()
        path = () if isinstance(event, FILE_EVENTS) else self.path
        said = self.state.messages[self.state.began : event.kept] if type(event) is Compacted else ()
        event = self.journal.record(path, event)
        if type(event) is Compacted:
            self._compacted += said
            self.spend(event)
            if not self.state.open:  # Else it is a tool's own time.
                self._model_s += event.seconds
        if self.listener:
            self.listener(with_path(event, path))
        return event

    def cancel(self) -> None:
        """Close the turn for good: whatever still runs of it was left behind, and is recorded as cancelled."""
        for path, state in sorted(self.journal.states.items(), key=lambda item: -len(item[0])):
            if state.status == "running":
                self.record_at(path, TurnCancelled(time.time()))
        self.closed = True

    def unanswered(self) -> list[Path]:
        """The runs that run or wait below calls that a new message answers; leaves first."""
        calls = {call_id for call_id, entry in self.state.open.items() if entry.result is None}
        if not calls:
            return []
        known = {path: row.status for path, row in self.journal.runs.items()}
        known |= {path: state.status for path, state in self.journal.states.items() if path}
        cut_off = [path for path, status in known.items() if status in ("running", "paused")]
        return sorted((path for path in cut_off if path[0].split("/")[0] in calls), key=len, reverse=True)

    def record_at(self, path: Path, event: E) -> E:
        """`record` for the run at *path* of the same thread."""
        event = self.journal.record(path, event)
        if self.listener:
            self.listener(with_path(event, path))
        return event

    def emit(self, event: StreamEvent) -> None:
        """Tell the listener, if there is one."""
        if self.listener and not self.closed:
            self.listener(with_path(event, self.path))

    def _check_open(self) -> None:
        """A run that was left behind, in a call that is over, must not change the thread any more."""
        run = self
        while run.parent is not None and run.opener is not None and not run.opener.closed:
            run = run.parent
        if run.closed or run.parent is not None:
            raise ToolError(f"run {self.path!r} is over: the call that ran it was answered or left behind")

    # ---- budgets

    @property
    def spent(self) -> Spent:
        """What this run and all below it have spent since its input was accepted."""
        return Spent(self._tokens, self._money, perf_counter() - self._began, self._unknown, self._unpriced)

    def replied(self, message: AssistantMessage, reply: Reply, seconds: float) -> None:
        """The model has answered, after *seconds*: record *message*, and what it took."""
        model, usage, cost = reply.model or self.spec.model.name, reply.usage, reply.cost
        # What cannot be is not known: an amount below nothing would win a budget back. Wrong types are the codec's.
        if isinstance(cost, int | float) and not 0 <= cost < math.inf:
            cost = None
        if type(usage) is Usage and type(usage.input) is type(usage.output) is int and (usage.input | usage.output) < 0:
            usage = UNKNOWN
        self.spend(self.record(ModelReplied(message, reply.stop, usage, model, seconds, cost)))
        self._begun = 0

    def spend(self, reply: ModelReplied | Compacted) -> None:
        """A reply or a summary came: this run and every run above it have spent what it took."""
        usage, cost = reply.usage, reply.cost
        tokens = usage.total
        if cost is not None:
            self.costs.money = (self.costs.money or 0.0) + cost
        run: Run | None = self
        while run is not None:
            run._tokens += tokens
            if cost is not None:
                run._money = (run._money or 0.0) + cost
            run = run.parent
        if cost is None or usage.unknown:
            self._spend_unknown(usage.unknown, cost is None and reply.asked)

    def _spend_unknown(self, unknown: int, unpriced: bool) -> None:
        """Count what nobody counted, for this run and every run above it: a budget cannot be kept any more."""
        self.costs.unpriced += unpriced
        run: Run | None = self
        while run is not None:
            run._unknown += unknown
            run._unpriced += unpriced
            run = run.parent

    def over_budget(self) -> TurnExhausted | None:
        """How the run stops at the first budget that is spent, of it or of one above; not where asking is free."""
        for run in self.budgets:
            spent = run.spent
            if limit := spent.reached(run.state.limits):
                free = getattr(self.spec.model, "free", False)
                return None if free else TurnExhausted(time.time(), limit, spent.missing(limit))
        return None

    def seconds_left(self) -> float | None:
        """How long the model may take before `Limits.seconds` of this run, or of one above it, is reached; None: as
        long as it likes, as may one that costs nothing to ask and decides how the turn ends.
        """
        if getattr(self.spec.model, "free", False):
            return None
        now = perf_counter()
        limits = [(run.state.limits.seconds, now - run._began) for run in self.budgets]
        return min((most - spent for most, spent in limits if most is not None), default=None)

    @cached_property
    def budgets(self) -> tuple["Run", ...]:
        """Of this run and those above it, those that have a budget. To be asked once the input is accepted."""
        limits = self.state.limits
        none = limits.tokens is None and limits.cost is None and limits.seconds is None
        return self._above if none else (self, *self._above)

    # ---- the ledger

    def waited(self, started: float) -> float:
        """The model was waited for since *started*; returns the seconds."""
        seconds = perf_counter() - started
        self._model_s += seconds
        return seconds

    def worked(self, started: float, save_s: float) -> None:
        """Tools ran since *started*, when the turn had been saving for *save_s* seconds."""
        saving = self.total.save_s - save_s
        self._tools_s += max(0.0, perf_counter() - started - saving)

    def returned(self, result: ToolResult) -> int:
        """A tool answered; returns the characters that the model is told."""
        size = len(result.text)
        self.costs.tool_chars += size
        return size

    def delegated(self, child: "Run", started: float) -> None:
        """A child had a call's time since *started*; what it spent is in its own ledger."""
        self._children_s += perf_counter() - started
        self.costs.add(child.costs)

    async def save(self) -> CheckpointError | None:
        """Append what is pending of the thread. A failure is returned, and the next append tries again.

        Raises:
            ThreadConflict: another writer was first.
        """
        started, total = perf_counter(), self.total
        try:
            saved = await self.journal.append()
        except ThreadConflict as exc:
            self.scope.conflict = exc
            raise
        except CheckpointError as exc:
            return exc
        finally:
            seconds = perf_counter() - started
            total.save_s += seconds
            self._mark += seconds
        total.bytes_raw += saved.bytes_raw
        total.bytes_stored += saved.bytes_stored
        total.state_bytes = self.journal.size
        return None

    async def save_if(self, *durabilities: Durability) -> None:
        """Save in the middle of a turn, if the agent's durability is one of these."""
        if self.scope.durability in durabilities:
            await self.save()

    async def begin(self, call: ToolCall) -> CheckpointError | None:
        """Save that a call begins which a person let run; if that fails it must not run."""
        self.record(CallStarted(call.id))
        return await self.save()

    def close_step(self) -> None:
        """Note what the step took: all its time that was neither the model's nor the tools' is ours."""
        now = perf_counter()
        model_s, tools_s = self._model_s, self._tools_s
        harness_s = max(0.0, now - self._mark - model_s - tools_s)
        self.costs.table.append(Step(model_s, max(0.0, tools_s - self._children_s), harness_s))
        self._model_s = self._tools_s = self._children_s = 0.0
        self._mark = now

    def book(self) -> None:
        """Add up the ledger, once the run is over."""
        costs, state = self.costs, self.state
        costs.model_s += sum(step.model_s for step in costs.table)
        costs.tools_s += sum(step.tools_s for step in costs.table)
        costs.harness_s += sum(step.harness_s for step in costs.table)
        costs.steps += state.step
        costs.tool_calls += state.tool_calls
        costs.usage += state.usage - self._usage_before

    def turn(self) -> Turn:
        """What the run hands back."""
        state = self.state
        said = (*self._compacted, *state.messages[state.began :])
        spoken = (message.text for message in reversed(said) if message.role == "assistant")
        return Turn(
            thread_id=self.thread_id,
            status=state.status,
            reason=state.reason,
            text=next((text for text in spoken if text), state.text if self.parent else ""),  # A child has one input.
            error=error_of(state),
            interrupts=state.interrupts,
            question=state.detail if state.status == "escalated" else "",
            artifacts=self.journal.artifacts(self.path),
            messages=said,
            usage=self.costs.usage,
            costs=self.costs,
        )
