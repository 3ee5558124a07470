"""`Recording`: what the events of a thread say about running it again: inputs, replies, and the results of calls."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, field

from ..backends import CONVERSATION, RESULTS
from ..core import SETTLED, apply
from ..costs import Costs
from ..errors import ConfigError, IllegalEvent
from ..events import (
    FILE_EVENTS,
    AnyEvent,
    Boundary,
    CallStarted,
    Compacted,
    Decided,
    FileWritten,
    MessagesReplaced,
    ModelReplied,
    Noted,
    Resumed,
    TodosWritten,
    ToolReturned,
    ToolWaiting,
    TurnEscalated,
    UserSaid,
)
from ..messages import Message, ToolCall, Usage, UserMessage
from ..state import Answer, Decision, Path, RecordedDecision, Respond, State

SAY = "say"
"""Who says a message that comes during a turn, as `UserSaid.by` has it."""
BEGUN = (ModelReplied, ToolReturned, ToolWaiting, CallStarted)
"""Events that show that a turn has done something."""
MADE = (Noted, TodosWritten, Compacted)
CHANGES = (*FILE_EVENTS, MessagesReplaced)
"""Events by which a person changes a thread between two turns; tools and hooks record those of files as well."""
"""Events that a tool or a hook records in its own run; those about files stand in the main run's log."""


class RecordedCall(Struct):
    """A call and what it led to."""

    call: ToolCall
    path: Path
    """The run that made it."""
    result: ToolReturned | None = None
    input_index: int = 0
    """The index of the input after which it was answered."""
    effects: list[AnyEvent] = field(default_factory=list[AnyEvent])
    """What its tool, and the hooks about it, have recorded."""
    decisions: list[RecordedDecision] = field(default_factory=list[RecordedDecision])
    """What a person has decided about it: several, if it was cut short in between."""
    ran_agents: bool = False
    """True if other agents ran below it."""


class RecordedReply(Struct):
    """A reply of a model, and where it was asked: in which turn, and after how many replies of that turn."""

    event: ModelReplied
    turn: int
    step: int
    input_index: int
    """The index of the input after which it came."""
    before: list[AnyEvent]
    """What hooks have recorded before it."""
    calls: list[RecordedCall]
    said: list[str] = field(default_factory=list[str])
    """What a person said to the running turn after it, and before the next reply."""


class RecordedInput(Struct):
    """A message or a resumption that the thread has accepted, and how far it went."""

    at: float
    """Seconds since 1970."""
    number: int
    """The number of its first event."""
    turn: int
    """The number of its boundary."""
    message: UserMessage | None = None
    """None: the thread was resumed."""
    files: dict[str, str | bytes] = field(default_factory=dict[str, str | bytes])
    """The files that came with the message, unless only a disk has them."""
    key: str = ""
    decisions: dict[str, Decision] = field(default_factory=dict[str, Decision])
    """By `Interrupt.key`."""
    beforehand: dict[str, Decision] = field(default_factory=dict[str, Decision])
    """Decisions that were made before anybody could be asked, by `Interrupt.key`."""
    end: Boundary | None = None
    """The boundary that it reached; None if it was cut short, or still runs."""
    last: int = 0
    """The number of the last event of a run before that."""
    said: list[str] = field(default_factory=list[str])
    """What a person said to the turn before its first reply."""
    is_begun: bool = False
    """True if any reply, or the fate of any call, was recorded after it."""

    @property
    def is_history(self) -> bool:
        """True if it stood in a history, with which the next input began the thread."""
        return self.end is not None and self.end.costs == Costs()  # Nobody was asked, and it took no time.


class RecordedRun(Struct):
    """One run of the thread."""

    state: State = field(default_factory=State)
    replies: list[RecordedReply] = field(default_factory=list[RecordedReply])
    messages: list[tuple[int, Message]] = field(default_factory=list[tuple[int, Message]])
    """Every message, with the index of the input after which it came."""
    ends: list[tuple[int, Boundary]] = field(default_factory=list[tuple[int, Boundary]])
    """Its boundaries, each with such an index."""


class Recording:
    """A thread, or a part of one, as something that can be run again.

    Raises:
        ConfigError: *events* are not all the events of a thread from its beginning, in order.
    """

    def __init__(self, events: Iterable[AnyEvent], thread_id: str) -> None:
        self.thread_id: str = thread_id
        self.inputs: list[RecordedInput] = []
        self.runs: dict[Path, RecordedRun] = {(): RecordedRun()}
        self._changed: int = 0  # The number of the first event by which a person changed it.
        self.spent: list[tuple[int, ModelReplied | Compacted]] = []
        """Each reply and summary, with the index of the input after which it came."""
        self.below: dict[tuple[Path, str], list[Path]] = {}
        """The runs below each call, by the run and the id of the call."""
        self._events: list[AnyEvent] = [*events]
        self._deciding = False
        self._calls: dict[tuple[Path, str], RecordedCall] = {}
        self._made: dict[Path, list[AnyEvent]] = {}
        """What tools and hooks of a run have recorded since its last reply or result."""
        for event in self._events:
            if isinstance(event, CHANGES) and self.runs[()].state.status in SETTLED:
                self._changed = self._changed or event.number
            try:
                self._read(event)
            except IllegalEvent as exc:
                problem = f"event {event.number} of thread {thread_id!r} does not fit those before it: {exc}"
                raise ConfigError(f"{problem}; give all events of a thread, from its beginning") from None
        if all(given.is_history for given in self.inputs):  # Also if there is none.
            raise ConfigError(f"thread {thread_id!r} holds no input that was run, so there is nothing to run again")

    @property
    def agent(self) -> str:
        """The name of the agent that ran the thread."""
        return self.runs[()].state.agent

    def input(self, index: int) -> UserMessage | list[Message] | None:
        """Return what an input gave: a message, a history that ends with one, or nothing if it resumed the thread."""
        message, earlier = self.inputs[index].message, self.inputs[:index]
        if message is None or not earlier or not all(given.is_history for given in earlier):
            return message
        return [*(one for input_index, one in self.runs[()].messages if input_index < index), message]

    def calls(self) -> Iterator[RecordedCall]:
        """Yield every call of every run."""
        for run in self.runs.values():
            for reply in run.replies:
                yield from reply.calls

    def until(self, at: int) -> "Recording":
        """Return the recording as it was at boundary *at*.

        Raises:
            ConfigError: it does not exist.
        """
        if not any(given.turn == at and given.end for given in self.inputs):
            newest = max((given.turn for given in self.inputs if given.end), default=0)
            raise ConfigError(f"thread {self.thread_id!r} has no boundary {at}; its newest one is {newest}")
        later = next((given.number for given in self.inputs if given.turn > at), None)
        return Recording([one for one in self._events if later is None or one.number < later], self.thread_id)

    def check(self) -> None:
        """Check that everything in the thread came from inputs, replies and calls, which alone can be given again.

        Raises:
            ConfigError: a person has changed it otherwise.
        """
        if self._changed:
            problem = f"thread {self.thread_id!r} was changed by `update_state` at event {self._changed}"
            raise ConfigError(f"{problem}, which cannot be repeated; replay it with `at=` a boundary before that")

    def _read(self, event: AnyEvent) -> None:
        if isinstance(event, FILE_EVENTS):  # The states have no files, as redaction may have changed their contents.
            self._read_file_event(event)
            return
        path, run = event.path, self._run_at(event.path)
        attended = run.state.status != "running"
        if isinstance(event, Decided) and (path or not attended):
            self._decide(event, self.inputs[-1].decisions if attended else self.inputs[-1].beforehand)
        elif not path:
            self._read_input(event)
        input_index, state = len(self.inputs) - 1, run.state
        seen, place, opened = len(state.messages), (state.turn, state.step), bool(state.open)
        apply(state, event, event.number)
        if isinstance(event, Compacted):  # Its summary is no message.
            seen = len(state.messages)
        run.messages += ((input_index, message) for message in state.messages[seen:])
        if isinstance(event, ModelReplied | Compacted) and not _is_given(event):
            self.spent.append((input_index, event))
        if isinstance(event, Boundary):
            run.ends.append((input_index, event))
        if self.inputs and not isinstance(event, Boundary):
            self.inputs[-1].last = event.number
            self.inputs[-1].is_begun |= isinstance(event, BEGUN)
        if not path and self.inputs:
            self.inputs[-1].turn = state.turn
            self.inputs[-1].end = event if isinstance(event, Boundary) else self.inputs[-1].end
        if isinstance(event, MADE) or (isinstance(event, TurnEscalated) and opened):
            self._made.setdefault(path, []).append(event)
        else:
            self._read_answer(run, event, place)

    def _read_answer(self, run: RecordedRun, event: AnyEvent, place: tuple[int, int]) -> None:
        """Read a reply to the run that stood at *place*, a result, or a message."""
        path, input_index = event.path, len(self.inputs) - 1
        match event:
            case ModelReplied():
                calls = [RecordedCall(call, path) for call in event.message.calls]
                self._calls |= {(path, call.call.id): call for call in calls}
                before = self._made.pop(path, [])
                if not _is_given(event):
                    run.replies.append(RecordedReply(event, *place, input_index, before, calls))
            case ToolReturned():
                call = self._calls[path, event.call_id]
                call.result, call.input_index = event, input_index
                call.effects = sorted([*call.effects, *self._made.pop(path, [])], key=lambda one: one.number)
            case UserSaid(by=by) if by == SAY:
                is_first = not run.replies or run.replies[-1].input_index != input_index
                (self.inputs[-1] if is_first else run.replies[-1]).said.append(event.message.text)
            case UserSaid() | Resumed():
                self._made.pop(path, None)
            case _:
                pass

    def _run_at(self, path: Path) -> RecordedRun:
        if path not in self.runs:
            self.runs[path] = RecordedRun()
            place = path[:-1], path[-1].partition("/")[0]
            self.below.setdefault(place, []).append(path)
            if (call := self._calls.get(place)) is not None:
                call.ran_agents = True
        return self.runs[path]

    def _read_input(self, event: AnyEvent) -> None:
        match event:
            case UserSaid(by=""):
                self.inputs.append(RecordedInput(event.at, event.number, 0, event.message, key=event.key))
            case Decided() if self._deciding:
                self._decide(event, self.inputs[-1].decisions)
            case Decided():
                self._deciding = True
                self.inputs.append(RecordedInput(event.at, event.number, 0))
                self._decide(event, self.inputs[-1].decisions)
            case Resumed() if not self._deciding:
                self.inputs.append(RecordedInput(event.at, event.number, 0))
            case Resumed():
                self.inputs[-1].at, self._deciding = event.at, False
            case _:
                pass

    def _decide(self, event: Decided, decisions: dict[str, Decision]) -> None:
        decisions["/".join(("", *event.path, event.call_id))] = as_given(event.decision)
        self._calls[event.path, event.call_id].decisions.append(event.decision)

    def _read_file_event(self, event: Any) -> None:
        given = self.inputs[-1] if self.inputs else None
        if given and given.message and isinstance(event, FileWritten) and self._came_with_input(event):
            given.files[event.file] = event.content
            return
        call = self._calls.get((event.by, event.call_id))
        if call is not None and call.result is None:
            call.effects.append(event)
        else:  # A hook's, or of a format that did not name the call.
            self._made.setdefault(event.by, []).append(event)

    def _came_with_input(self, event: FileWritten) -> bool:
        """Return whether a file was written by whoever gave the message, and not by a tool or a hook."""
        replies, input_index = self.runs[()].replies, len(self.inputs) - 1
        asked = bool(replies) and replies[-1].input_index == input_index
        own = {CONVERSATION, RESULTS} & {*event.file.split("/")}
        return not (asked or own or event.by or event.call_id) and event.content is not None


def _is_given(event: ModelReplied | Compacted) -> bool:
    """Return whether a reply stood in a history: it names no model, and was not paid for in this thread."""
    return isinstance(event, ModelReplied) and (event.model, event.usage, event.cost) == ("", Usage(), 0.0)


def as_given(decision: RecordedDecision) -> Decision:
    """Return a decision as a person gave it: the answer to a question is recorded as what it is."""
    return Respond(decision.text) if isinstance(decision, Answer) else decision
