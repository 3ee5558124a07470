"""One run of one agent: its spec, its state, its place in the thread's journal, and what it costs."""

import time
from time import perf_counter
from typing import Any

from msgspec import structs

from .checkpoint.log import Journal, Saved
from .context import ToolContext
from .costs import Costs, Step
from .errors import ToolError
from .events import FILE_EVENTS, AnyEvent, Happened, TurnCancelled, told
from .messages import AssistantMessage, ToolCall, ToolResult
from .ports import AgentSpec, Emit, Reply
from .state import Path, State
from .turn import Turn, error_of


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
        self.state: State = journal.open_run(path)
        self.costs = Costs()
        self.emitter: Emit | None = self.emit if listener else None
        self._ids = self._known_ids()
        self._model_s = self._tools_s = self._children_s = 0.0
        self._mark = perf_counter()

    @property
    def thread_id(self) -> str:
        return self.journal.thread_id

    def child(self, spec: AgentSpec, key: str, opener: ToolContext) -> tuple["Run", bool]:
        """The run of *spec* below this one, new or as the log has it; and whether it was cut short."""
        path = (*self.path, key)
        resumed = path in self.journal.states  # By a decision, in this turn: then it is `running` already.
        listener, context = self.listener, self.context
        run = Run(spec, self.journal, listener=listener, context=context, path=path, parent=self, opener=opener)
        status = run.state.status
        return run, status in ("failed", "cancelled", "exhausted") or (status == "running" and not resumed)

    def record(self, event: AnyEvent) -> None:
        """Apply *event* and keep it for the next append. A file event is the main run's, whoever records it."""
        if self.closed or self.parent is not None:
            self._check_open()
        self.record_at(() if isinstance(event, FILE_EVENTS) else self.path, event)

    def cancel(self) -> None:
        """Close the turn for good: whatever still runs of it was left behind, and is recorded as cancelled."""
        for path, state in sorted(self.journal.states.items(), key=lambda item: -len(item[0])):
            if state.status == "running":
                self.record_at(path, TurnCancelled(time.time()))
        self.closed = True

    def close_children(self) -> None:
        """Record as cancelled what runs or waits below calls that a new message answers; leaves first."""
        unanswered = {call_id for call_id, entry in self.state.open.items() if entry.result is None}
        for path, row in sorted(self.journal.runs.items(), key=lambda item: -len(item[0])):
            if path[0].split("/")[0] in unanswered and row.status in ("running", "paused"):
                self.record_at(path, TurnCancelled(time.time()))

    def record_at(self, path: Path, event: AnyEvent) -> None:
        """`record` for the run at *path* of the same thread."""
        event = self.journal.record(path, event)
        if self.listener:
            self.listener(told(event, path))

    def emit(self, event: Happened) -> None:
        """Tell the listener, if there is one."""
        if self.listener and not self.closed:
            self.listener(told(event, self.path))

    def _check_open(self) -> None:
        """A run that was left behind, in a call that is over, must not change the thread any more."""
        run = self
        while run.parent is not None and run.opener is not None and not run.opener.closed:
            run = run.parent
        if run.closed or run.parent is not None:
            raise ToolError(f"run {self.path!r} is over: the call that ran it was answered or left behind")

    # ---- ids of calls

    def named(self, message: AssistantMessage) -> AssistantMessage:
        """*message* with a new id for each call that has none, or one that is in use where it could be confused.

        Servers exist that say `call_0` in every reply; an id must find one call in all that is shown to the model,
        one waiting call, and one child run.
        """
        calls = message.calls
        if not calls:
            return message
        ids = [call.id for call in calls]
        if self._ids.isdisjoint(ids) and len(set(ids)) == len(ids) and "" not in ids and "/" not in "".join(ids):
            self._ids.update(ids)
            return message
        blocks = [self._renamed(block) if isinstance(block, ToolCall) else block for block in message.blocks]
        return AssistantMessage(tuple(blocks))

    def _renamed(self, call: ToolCall) -> ToolCall:
        wanted = call.id
        number = self.journal.number + 1
        count = 0
        while not wanted or "/" in wanted or wanted in self._ids:
            wanted = f"call_{number}_{count}"
            count += 1
        self._ids.add(wanted)
        return structs.replace(call, id=wanted)

    def _known_ids(self) -> set[str]:
        replies = (message for message in self.state.messages if isinstance(message, AssistantMessage))
        shown = (call.id for reply in replies for call in reply.calls)
        waiting = (wait.call_id for wait in self.journal.root.interrupts)
        return {*shown, *waiting, *self.journal.keys_below(self.path)}

    # ---- the ledger

    def waited(self, started: float) -> float:
        """The model was waited for since *started*; returns the seconds."""
        seconds = perf_counter() - started
        self._model_s += seconds
        return seconds

    def replied(self, reply: Reply) -> None:
        costs = self.costs
        costs.steps += 1
        costs.usage += reply.usage
        if reply.cost is not None:
            costs.money = (costs.money or 0.0) + reply.cost

    def worked(self, started: float) -> None:
        """Tools ran since *started*."""
        self._tools_s += perf_counter() - started

    def returned(self, result: ToolResult) -> int:
        """A tool answered; returns the characters that the model is told."""
        size = len(result.text)
        costs = self.costs
        costs.tool_calls += 1
        costs.tool_chars += size
        return size

    def delegated(self, child: "Run", started: float) -> None:
        """A child had a call's time since *started*; what it spent is in its own ledger."""
        self._children_s += perf_counter() - started
        self.costs.add(child.costs)

    def waited_for_store(self, started: float) -> None:
        """An append took the time since *started*, which is no step's."""
        seconds = perf_counter() - started
        self.costs.save_s += seconds
        self._mark += seconds

    def saved(self, saved: Saved) -> None:
        self.costs.bytes_raw += saved.raw
        self.costs.bytes_stored += saved.stored
        self.costs.state_bytes = self.journal.head.stored

    def close_step(self) -> None:
        """Book what the step took: all its time that was neither the model's nor the tools' is ours."""
        now = perf_counter()
        model_s, tools_s = self._model_s, self._tools_s
        harness_s = max(0.0, now - self._mark - model_s - tools_s)
        tools_s = max(0.0, tools_s - self._children_s)
        costs = self.costs
        costs.model_s += model_s
        costs.tools_s += tools_s
        costs.harness_s += harness_s
        costs.table.append(Step(model_s, tools_s, harness_s))
        self._model_s = self._tools_s = self._children_s = 0.0
        self._mark = now

    def turn(self) -> Turn:
        """What the run hands back."""
        state = self.state
        said = tuple(state.messages[state.began :])
        spoken = (message.text for message in reversed(said) if message.role == "assistant")
        return Turn(
            thread_id=self.thread_id,
            status=state.status,
            reason=state.reason,
            text=next((text for text in spoken if text), ""),
            error=error_of(state),
            interrupts=state.interrupts,
            question=state.detail if state.status == "escalated" else "",
            artifacts=self.journal.artifacts(),
            messages=said,
            usage=self.costs.usage,
            costs=self.costs,
        )
