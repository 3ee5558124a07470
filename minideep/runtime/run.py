"""One run of one agent: its spec, its state, its journal, its calls, its ledger and its budgets."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, Literal

from msgspec import structs

from ..checkpoint import Durability, Journal
from ..costs import Costs
from ..errors import CheckpointError, ThreadConflict, ToolError
from ..events import (
    FILE_EVENTS,
    Boundary,
    Compacted,
    E,
    StreamEvent,
    ToolStarted,
    TurnEscalated,
    TurnExhausted,
)
from ..ledger import Ledger, Spent
from ..messages import Message, Usage
from ..spec import AgentSpec
from ..state import Interrupt, OpenCall, Path, State, StateView
from ..turn import Turn, turn_of
from .cancel import TurnScope
from .live import LiveTurn

Point = Literal["step", "reply", "result"]
CHECKPOINTS: dict[Durability, tuple[Point, ...]] = {"turn": (), "step": ("step",), "tool": ("step", "reply", "result")}
"""The points, besides its two ends, at which a turn is saved: before each model call, after each reply or result."""


class Call:
    """One tool call while it is being answered."""

    __slots__ = ("asked", "children", "entry", "over", "paused", "run", "started", "stopped")

    def __init__(self, run: "Run", entry: OpenCall) -> None:
        self.run: Run = run
        self.entry: OpenCall = entry
        self.over: bool = False
        """True if it is answered or left behind: nothing that still runs for it may change the thread."""
        self.started: bool = False
        """True once followers know that it runs."""
        self.paused: tuple[Interrupt, ...] = ()
        """The interrupts that this call waits for: those of its children, or its own question."""
        self.asked: int = 0
        """The questions that the tool has asked since it began."""
        self.stopped: bool = False
        """True if a budget of a run above has stopped a child: the call stays open, and the child goes on with it."""
        self.children: dict[str, asyncio.Future[None]] = {}
        """The end of each child that it ran, by key."""

    def answer_to(self, question: str) -> str | None:
        """Return the answer to the tool's next question; None if it is not answered yet: the call waits for it."""
        from .questions import answer_to  # Few tools ask.

        return answer_to(self, question)

    def emit_start(self) -> None:
        """Emit, once, that the call runs: one that a hook answers, or that waits for a person, does not."""
        if not self.started:
            self.started = True  # A `wrap_tool` may run it again.
            self.run.emit(ToolStarted(self.entry.call))


class Run:
    """One run while it is driven. The loop, tool calls and children work on it."""

    def __init__(
        self,
        spec: AgentSpec,
        live: LiveTurn,
        run_child: Callable[..., Awaitable[Turn]],
        *,
        durability: Durability = "turn",
        context: Any = None,
        path: Path = (),
        call: Call | None = None,
    ) -> None:
        self.spec = spec
        self.live = live
        self.journal: Journal = live.journal
        self.scope: TurnScope = live.scope
        self.run_child = run_child
        """Runs an agent below a call of this run. It is passed in, because its module imports this one."""
        self.durability: Durability = durability
        self.saves_at: tuple[Point, ...] = CHECKPOINTS[durability]
        self.path: Path = path
        self.context: Any = context
        self.call = call
        """The call that this run answers; None for the main run."""
        self.parent: Run | None = call.run if call else None
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()  # Tools on threads record through it.
        self.state: State = self.journal.open_run(path)
        # Tools and hooks get the view: a change of the state itself would not be in the log.
        self.view: StateView = self.journal.view(path)
        self.ledger: Ledger = Ledger(self.parent.ledger if self.parent else None)
        self.scratch: dict[object, Any] = {}
        self.wrapped: Any = None
        """The model inside its `wrap_model` hooks, put together with the first question."""
        self.begun: int = 0
        """Runs below this one that its last reply has begun."""
        self.has_new_budget: bool = False
        """True if a budget had stopped the run, and it was resumed: children that stopped with it go on."""
        self.below: dict[Run, float] = {}
        """The runs directly below that are driven, each with when it began."""
        self._before = (self.state.usage, 0, 0)
        """Tokens, steps and calls that its ledger does not count."""
        self._closed, self._compacted = False, list[Message]()
        """`_compacted`: messages of this turn that a compaction took out of context."""

    def model_for(self, model: Any) -> Any:
        """Return *model*, or the one that answers in its place."""
        if self.spec.override is None:
            return model
        from .replacing import in_place_of

        return in_place_of(model, self.spec.override)

    def child(self, spec: AgentSpec, path: Path, call: Call) -> "Run":
        """Return the run of *spec* at *path*, below *call*: new, or as the log has it."""
        about: dict[str, Any] = {"durability": self.durability, "context": self.context}
        return Run(spec, self.live, self.run_child, **about, path=path, call=call)

    # ---- events

    def record(self, event: E) -> E:
        """Apply *event*, keep it for the next append, and return it as it is kept.

        A file event is recorded in the main run, whichever run it comes from.
        """
        # A run below may be over before the turn is, so all calls above it are checked. The main run needs one look.
        if self.call is not None or self.scope.status == "closed":
            self._check_open()
        # In one log, or nobody could tell in which order two runs have changed a file.
        path = () if self.path and isinstance(event, FILE_EVENTS) else self.path
        kind = type(event)
        if kind is Compacted or kind is TurnEscalated:
            return self._record_apart(path, event)
        event = self.journal.record(path, event)
        if self.live.listening:
            self.live.record(path, event)
        return event

    def _record_apart(self, path: Path, event: Any) -> Any:
        """Record an escalation with the costs of the turn; or a compaction, and account for it."""
        if type(event) is TurnEscalated:
            return self.record_at(path, event if self.parent else structs.replace(event, costs=self._kept_costs()))
        # Before the event is applied, which takes them out of the state.
        said = self.state.messages[self.state.began : event.kept]
        event = self.record_at(path, event)
        self._compacted += said
        self.ledger.add_model(event.usage, event.cost, asked=event.asked)
        if not self.state.open:  # Otherwise a tool compacts, in its own time.
            self.ledger.model_s += event.seconds
        return event

    def end(self, event: Boundary) -> None:
        """Record a boundary. That of the main run holds the costs of the turn, so that they can be read later."""
        self.close()
        self.record(event if self.parent else structs.replace(event, costs=self._kept_costs()))

    def _kept_costs(self) -> Costs:
        """Return the costs of the turn as a boundary keeps them. An escalation comes before the ledger is closed."""
        costs = structs.replace(self.ledger.costs, table=[])
        if not self._closed:
            steps, tool_calls, usage = self._uncounted()
            costs.steps += steps
            costs.tool_calls += tool_calls
            costs.usage += usage
        return costs

    def _uncounted(self) -> tuple[int, int, Usage]:
        """Return the steps, calls and tokens that the ledger gets when it is closed."""
        state, (usage, steps, calls) = self.state, self._before
        # Costs tell what models were asked, and a policy is none.
        return 0 if self.is_free else state.step - steps, state.tool_calls - calls, state.usage - usage

    def record_at(self, path: Path, event: E) -> E:
        """Record *event* in the run at *path*, for the owner of the turn, who may do so when its calls are over."""
        event = self.journal.record(path, event)
        if self.live.listening:
            self.live.record(path, event)
        return event

    def emit(self, event: StreamEvent) -> None:
        """Send *event* to those who follow the turn."""
        if self.live.listening and self.scope.status != "closed":
            self.live.emit(self.path, event)

    def _check_open(self) -> None:
        """Refuse a change by a run that was left behind: its call is over, or the whole turn is."""
        run = self
        while run.call is not None and not run.call.over:
            run = run.call.run
        if run.call is not None or self.scope.status == "closed":
            raise ToolError(f"run {self.path!r} is over: the call that ran it was answered or left behind")

    def seconds_before(self) -> float:
        """Return the seconds that the turn had taken when its process last saved it."""
        start = self.state.start
        return start.seconds + max(0.0, self.journal.log.head.updated - start.at)

    def take_over(self) -> None:
        """Go on with a turn that was cut short: its budgets and counters go on with it."""
        from .takeover import spent_before  # Only after a crash.

        state, self.live.taken_over = self.state, True
        costs = spent_before(self.journal, self.path, state, is_free=self.is_free)
        self._before = (state.usage, state.step, state.tool_calls)
        self.ledger.carry(costs, state.start.seconds)
        if self.parent is None:  # It has counted what its children spent.
            self.ledger.costs.add(costs)

    # ---- saving

    async def save(self, *, release: bool = False) -> CheckpointError | None:
        """Append what is pending of the thread, with *release* for the last time in this turn. Return the failure, if
        there is one; the next append tries again.

        A `ThreadConflict` is returned as well, and the turn's scope is then lost.
        """
        started = time.perf_counter()
        try:
            saved = await self.journal.append(release=release)
        except CheckpointError as exc:
            if isinstance(exc, ThreadConflict):
                self.scope.lose(exc)
            return exc  # Not raised: a store that fails must not cost the answer.
        finally:
            self.ledger.add_saving(started)
        self.ledger.add_saved(saved.bytes_raw, saved.bytes_stored, self.journal.log.head.bytes_stored)
        return None

    async def checkpoint(self) -> None:
        """Save in the middle of a turn. A failure is left to the next append.

        Raises:
            ThreadConflict: another writer has gone on with the thread.
        """
        await self.save()
        self.scope.check()

    # ---- budgets

    @property
    def spent(self) -> Spent:
        return self.ledger.spent

    @cached_property
    def budgets(self) -> tuple["Run", ...]:
        """The runs that have a budget: this one and those above it. Fixed once the input is accepted."""
        limits, above = self.state.limits, self.parent.budgets if self.parent else ()
        none = limits.tokens is None and limits.cost is None and limits.seconds is None
        return above if none else (self, *above)

    @property
    def is_free(self) -> bool:
        """True if its replies are computed: they cost nothing, and are no steps of its costs."""
        return getattr(self.spec.model, "free", False)

    def over_budget(self) -> TurnExhausted | None:
        """Return the event that stops the run, if a budget of it or of a run above it is spent."""
        for run in self.budgets:
            spent = run.spent
            if limit := spent.reached(run.state.limits):
                # Such a model costs nothing and decides how the turn ends, with a question for example.
                return None if self.is_free else TurnExhausted(time.time(), limit, spent.missing(limit))
        return None

    def seconds_left(self) -> float | None:
        """Return the seconds that the model may take before a budget of them is spent; None if there is no bound.

        A model that is `free` has none either: it decides how the turn ends.
        """
        if self.is_free:
            return None
        limits = [(run.state.limits.seconds, run.ledger.seconds) for run in self.budgets]
        return min((most - spent for most, spent in limits if most is not None), default=None)

    # ---- the result

    def turn(self) -> Turn:
        """Return the result of the run."""
        state = self.state
        said = (*self._compacted, *state.messages[state.began :])
        artifacts = self.journal.artifacts(self.path)
        about: dict[str, Any] = {"is_child": self.parent is not None, "output": self.spec.output}
        return turn_of(self.journal.thread_id, state, said, artifacts, self.ledger.costs, **about)

    def child_over(self, child: "Run", started: float) -> None:
        """Count what a run directly below has spent since *started*. If it outlived this run, that is done already."""
        if not self._closed:
            self.below.pop(child, None)
            self.ledger.add_child(child.ledger, started)

    def close(self) -> None:
        """Close the ledger of a run that was driven to a boundary, and let go of its wrapped model."""
        if self._closed:
            return
        self._closed = True
        for child, started in self.below.items():  # Left behind: what they have spent counts all the same.
            child.close()
            self.ledger.add_child(child.ledger, started)
        if self.wrapped is not None:  # Both refer to each other, so only the garbage collector could free the run.
            self.wrapped.close()
            self.wrapped = None
        self.ledger.close(*self._uncounted())
