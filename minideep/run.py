"""One run of one agent: its spec, its state, its place in the thread's journal, and what it costs."""

import asyncio
import itertools
import time
from time import perf_counter
from typing import Any

from .checkpoint.log import Journal, Saved
from .context import ToolContext
from .costs import Costs, Step
from .errors import ToolError
from .events import FILE_EVENTS, E, Happened, TurnCancelled, told
from .messages import AssistantMessage, ToolCall, ToolResult, is_json, parse_arguments
from .ports import AgentSpec, Emit
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
        self.loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        self.state: State = journal.open_run(path)
        self.costs = Costs()
        self._usage_before = self.state.usage
        self.emitter: Emit | None = self.emit if listener else None
        self._model_s = self._tools_s = self._children_s = 0.0
        self._mark = perf_counter()

    @property
    def thread_id(self) -> str:
        return self.journal.thread_id

    def child(self, spec: AgentSpec, key: str, opener: ToolContext) -> tuple["Run", bool]:
        """The run of *spec* below this one, new or as the log has it; and whether it was cut short.

        One that failed or reached a limit was not: it is over, and its caller was told.
        """
        path = (*self.path, key)
        resumed = path in self.journal.states  # By a decision, in this turn: then it is `running` already.
        listener, context = self.listener, self.context
        run = Run(spec, self.journal, listener=listener, context=context, path=path, parent=self, opener=opener)
        status = run.state.status
        return run, status == "cancelled" or (status == "running" and not resumed)

    def record(self, event: E) -> E:
        """Apply *event*, keep it for the next append, and return it as it is kept.

        A file event is the main run's, whoever records it.
        """
        if self.closed or self.parent is not None:
            self._check_open()
        path = () if isinstance(event, FILE_EVENTS) else self.path
        event = self.journal.record(path, event)
        if self.listener:
            self.listener(told(event, path))
        return event

    def cancel(self) -> None:
        """Close the turn for good: whatever still runs of it was left behind, and is recorded as cancelled."""
        for path, state in sorted(self.journal.states.items(), key=lambda item: -len(item[0])):
            if state.status == "running":
                self.record_at(path, TurnCancelled(time.time()))
        self.closed = True

    def close_children(self) -> None:
        """Record as cancelled what runs or waits below calls that a new message answers; leaves first."""
        unanswered = {call_id for call_id, entry in self.state.open.items() if entry.result is None}
        known = {path: row.status for path, row in self.journal.runs.items()}
        known |= {path: state.status for path, state in self.journal.states.items() if path}
        for path in sorted(known, key=len, reverse=True):
            if path[0].split("/")[0] in unanswered and known[path] in ("running", "paused"):
                self.record_at(path, TurnCancelled(time.time()))

    def record_at(self, path: Path, event: E) -> E:
        """`record` for the run at *path* of the same thread."""
        event = self.journal.record(path, event)
        if self.listener:
            self.listener(told(event, path))
        return event

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
        if isinstance(message.content, str):
            return message
        taken, blocks = self.journal.ids(self.path), list(message.content)
        for place, block in enumerate(blocks):
            if isinstance(block, ToolCall):
                if not block.id or not is_json(block.raw) or self._confusable(block.id, taken):
                    blocks[place] = block = self._renamed(block, place, taken)
                taken.add(block.id)
        return AssistantMessage(tuple(blocks))

    def _confusable(self, call_id: str, taken: set[str]) -> bool:
        return call_id in taken or "/" in call_id or self.journal.is_waiting(call_id)

    def _renamed(self, call: ToolCall, place: int, taken: set[str]) -> ToolCall:
        raw, wanted = call.raw, call.id or f"call_{self.journal.number + 1}_{place}"
        for count in itertools.count():
            if not self._confusable(wanted, taken):
                break
            wanted = f"call_{self.journal.number + 1}_{place}" + (f"_{count}" if count else "")
        return ToolCall(call.name, raw if is_json(raw) else parse_arguments(raw.decode(errors="replace")), wanted)

    # ---- the ledger

    def waited(self, started: float) -> float:
        """The model was waited for since *started*; returns the seconds."""
        seconds = perf_counter() - started
        self._model_s += seconds
        return seconds

    def worked(self, started: float) -> None:
        """Tools ran since *started*."""
        self._tools_s += perf_counter() - started

    def returned(self, result: ToolResult) -> int:
        """A tool answered; returns the characters that the model is told."""
        size = len(result.text)
        self.costs.tool_chars += size
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
        """Note what the step took: all its time that was neither the model's nor the tools' is ours."""
        now = perf_counter()
        model_s, tools_s = self._model_s, self._tools_s
        harness_s = now - self._mark - model_s - tools_s
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
            artifacts=self.journal.artifacts(self.path),
            messages=said,
            usage=self.costs.usage,
            costs=self.costs,
        )
