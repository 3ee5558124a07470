"""The state of a run: one `State` holds everything that is needed to continue it."""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from msgspec import Meta, field, msgpack, structs

from .checks import UserWritten
from .costs import Costs, TurnStart
from .documented import Struct
from .kinds import Check
from .messages import Message, Messages, ToolCall, ToolResult, Usage, UserMessage, clean
from .plain_json import arguments_json, from_json

Status = Literal["ready", "running", "paused", "ended", "escalated", "failed", "cancelled", "exhausted"]
TodoStatus = Literal["pending", "in_progress", "completed"]
Phase = Literal["ready", "waiting", "decided", "started", "answered"]
Path = tuple[str, ...]
"""The place of a run below the main run: the keys of the children that lead to it, each `call id` or `call id/key`;
`()` is the main run.
"""


def _names_a_thread(text: str) -> bool:
    return bool(text.strip()) and len(text) <= 500 and clean(text) == text


ThreadId = Annotated[str, Check(_names_a_thread, "text of 1 to 500 characters")]
ThreadPrefix = Annotated[str, Check(lambda text: clean(text) == text, "text that UTF-8 can encode")]
TagText = ThreadPrefix
InputKey = Annotated[str, Check(lambda text: _names_a_thread(text) and len(text) <= 200, "text of 1 to 200 characters")]
BoundaryNumber = Annotated[int, Meta(ge=1)]
"""Boundaries of a thread are numbered from 1."""
_Count = Annotated[int, Meta(ge=0)]
_Amount = Annotated[float, Meta(ge=0)]


BUDGETS = ("tokens", "cost", "seconds")
"""The limits that apply to a run and everything below it together."""


class Limits(UserWritten, frozen=True, array_like=True):
    """The limits at which a turn stops by itself; None means no limit. Each accepted input resets the counters.

    *tokens*, *cost* and *seconds* are budgets of a run and of everything below it, so those of the main agent apply to
    the whole turn. They are checked between model calls: a turn can overshoot *tokens* and *cost* by one reply, or by
    several that arrive together. *seconds* also interrupts the model call in flight; a tool is stopped only by its own
    timeout. If the tokens or the cost of a reply are unknown, a turn with a budget for them stops.

    *max_depth* and *max_children* also apply to a run and everything below it, but do not stop the turn: a call that
    would begin one run too many gets an error result, and the calls beside it continue.
    """

    steps: _Count | None = 1000
    """Model replies of one run in one turn."""
    tool_calls: _Count | None = None
    """Answered tool calls of one run in one turn."""
    tokens: _Count | None = None
    """Input and output tokens of all replies."""
    cost: _Amount | None = None
    """US dollars. Every model must have a price, or state the cost of each reply."""
    seconds: _Amount | None = None
    """Wall time since the input was accepted."""
    max_depth: _Count | None = None
    """Levels of subagents below the run: 0 allows none, 1 allows subagents that have none themselves."""
    max_children: _Count | None = None
    """Runs that one reply may begin, including the runs that those begin themselves."""


class Todo(Struct, frozen=True, array_like=True):
    content: str
    status: TodoStatus = "pending"


class FileEntry(Struct, frozen=True, array_like=True):
    """A file of the thread."""

    content: Any
    """`str`, or `bytes` if it is not UTF-8 text; None if the store or the disk holds the content."""
    size: int
    """Bytes."""
    sha256: str
    modified: float
    """Seconds since 1970."""
    by: Path = ()
    """The run that wrote it last."""
    blob: bool = False
    """True if the store holds the content, under its SHA-256, to be read on demand."""


def as_bytes(content: str | bytes) -> bytes:
    """Return the content of a file as it would be written to a disk."""
    return content.encode() if isinstance(content, str) else content


class Approve(UserWritten, frozen=True, array_like=True, tag="approve"):
    """Run the call as it is."""


class _Edit(type(Struct)):
    """Lets `Edit` take a mapping, though it keeps bytes, as a `ToolCall` does."""

    def __call__(cls, args: Mapping[str, Any] | bytes) -> Any:
        return super().__call__(args if isinstance(args, bytes) else arguments_json(args))

    __call__.__qualname__ = "Edit"  # Python names it in the error for a wrong call.


class Edit(Struct, frozen=True, array_like=True, tag="edit", metaclass=_Edit):
    """Run the call with other arguments: `Edit({"path": "/b"})`."""

    raw: bytes

    if TYPE_CHECKING:

        def __init__(self, args: Mapping[str, Any] | bytes) -> None: ...

    @property
    def args(self) -> dict[str, Any]:
        return from_json(self.raw)


class Reject(UserWritten, frozen=True, array_like=True, tag="reject"):
    """Do not run the call; the model reads *reason*."""

    reason: str = ""


class Respond(UserWritten, frozen=True, array_like=True, tag="respond"):
    """Do not run the call; *text* is its result."""

    text: str


class Answer(UserWritten, frozen=True, array_like=True, tag="answer"):
    """Run the call again, and give it *text* as the answer to its question: what a `Respond` to a question becomes."""

    text: str


Decision = Approve | Edit | Reject | Respond
RecordedDecision = Decision | Answer
UnattendedDecision = Approve | Reject | Respond
DecisionKind = Literal["approve", "edit", "reject", "respond"]


class Interrupt(Struct, frozen=True, array_like=True):
    """A call that waits for a person."""

    call: ToolCall
    reason: str = ""
    path: Path = ()
    """The run that owns the call."""
    decisions: tuple[DecisionKind, ...] = ()
    """The kinds of decision that a person may give; empty: all."""
    question: bool = False
    """True if the tool itself asks, by `ToolContext.interrupt`: *reason* is its question, and `Respond` answers it."""

    @property
    def call_id(self) -> str:
        return self.call.id

    @property
    def key(self) -> str:
        """The key for a decision about this call, such as `/t1/p1`: no other call that waits has it."""
        return "/".join(("", *self.path, self.call.id))


class OpenCall(Struct, array_like=True):
    """A call of the last reply. It stays open until every call of that reply is answered."""

    call: ToolCall
    requested_by: int
    """The number, in the thread, of the event that asked for it."""
    result: ToolResult | None = None
    waits: tuple[Interrupt, ...] = ()
    """The interrupts it waits for: its own, or those of its children."""
    decision: RecordedDecision | None = None
    started: bool = False
    """True if a person let it run and it has begun. If it is cut short, it waits again."""

    @property
    def phase(self) -> Phase:
        """The progress of the call. Every legal combination of `result`, `waits`, `decision` and `started` is one of
        the phases.
        """
        if self.result is not None:
            return "answered"
        if self.waits:
            return "waiting"
        if self.started:
            return "started"
        return "ready" if self.decision is None else "decided"


class Failure(Struct, frozen=True, array_like=True):
    """The attributes of a `ModelError` besides its kind and its text."""

    transient: bool = False
    retry_after: float | None = None
    """Seconds."""
    code: str = ""


class State(Struct, kw_only=True, array_like=True):
    """The state of one run, computed from its events. Only `minideep.core` changes it."""

    agent: str = ""
    said: UserMessage | None = None
    """The last accepted input."""
    status: Status = "ready"
    messages: list[Message] = field(default_factory=list[Message])
    """The messages in context. The list grows at its end; a compaction makes a new one."""
    open: dict[str, OpenCall] = field(default_factory=dict[str, OpenCall])
    """The calls of the last reply by id, in call order, while any of them is unanswered."""
    todos: list[Todo] = field(default_factory=list[Todo])
    files: dict[str, FileEntry] = field(default_factory=dict[str, FileEntry])
    notes: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """The notes of middleware and tools: `notes[owner][key]` is plain data."""

    limits: Limits = Limits()
    step: int = 0
    """Model replies since the last accepted input."""
    tool_calls: int = 0
    """Answered calls since the last accepted input."""
    turn: int = 0
    """Inputs and resumptions so far."""
    usage: Usage = Usage()
    """Tokens over the life of the run."""
    stop: str = ""
    """The `StopReason` of the last reply."""
    ends: bool = False
    """True if a tool asked to end the turn once all calls of this reply are answered."""
    reason: str = ""
    """Why the last turn stopped: `done`, `truncated`, `refused`, `question`, `cancelled`, the limit, or the name of the
    error's class.
    """
    detail: str = ""
    """The text of the error, the question of an escalation, the reason of a cancellation, or, if unknown spending
    stopped the turn before a limit was reached, what is unknown.
    """
    began: int = 0
    """The index in `messages` at which the last turn begins."""
    number: int = 0
    """The number, in the thread, of the last event applied."""

    subagents: dict[str, "State"] = field(default_factory=dict[str, "State"])
    """The runs below this one, by their key; filled by `get_state(subagents=True)`, never recorded."""
    cost: float | None = None
    """US dollars over the life of the run, without the runs below it. A lower bound if any reply is `unpriced`; None if
    no cost is known.
    """
    failure: Failure | None = None
    """The attributes of the model error that the last turn failed with."""
    unpriced: int = 0
    """Replies and summaries of unknown cost."""
    key: str = ""
    """The `key` of the last accepted input."""
    start: TurnStart = TurnStart()
    """The beginning of the last turn."""
    costs: Costs | None = None
    """The costs of the last turn, its subagents included; None until it reaches a boundary, and for a subagent."""

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The calls of this run and of its children that wait for a person, in call order."""
        return tuple(wait for entry in self.open.values() for wait in entry.waits)

    @property
    def text(self) -> str:
        """The agent's last non-empty text."""
        spoken = (message.text for message in reversed(self.messages) if message.role == "assistant")
        return next((text for text in spoken if text), "")


def _read(name: str) -> Any:
    return property(attrgetter(f"_state.{name}"))  # It runs in C, and hooks read several of these at every step.


class StateView:
    """A run's `State` as tools and hooks see it: always current, and read-only.

    A change to it would not be in the log, and so would be lost with the process: record an event instead.
    """

    __slots__ = ("__weakref__", "_seen", "_state")

    agent: str = _read("agent")
    said: UserMessage | None = _read("said")
    status: Status = _read("status")
    limits: Limits = _read("limits")
    step: int = _read("step")
    tool_calls: int = _read("tool_calls")
    turn: int = _read("turn")
    usage: Usage = _read("usage")
    stop: str = _read("stop")
    ends: bool = _read("ends")
    reason: str = _read("reason")
    detail: str = _read("detail")
    began: int = _read("began")
    number: int = _read("number")
    cost: float | None = _read("cost")
    failure: Failure | None = _read("failure")
    unpriced: int = _read("unpriced")
    key: str = _read("key")
    start: TurnStart = _read("start")
    costs: Costs | None = _read("costs")
    interrupts: tuple[Interrupt, ...] = _read("interrupts")
    text: str = _read("text")

    def __init__(self, state: State) -> None:
        self._state = state
        self._seen = state.messages, len(state.messages), Messages(state.messages)

    @property
    def messages(self) -> Messages:
        """The messages in context now. Later ones do not appear in it."""
        # Every hook of a step reads it, so the view is kept until there are more messages, or others.
        # One tuple, because threads read it too.
        messages, (seen, length, view) = self._state.messages, self._seen
        if messages is not seen or len(messages) != length:
            length = len(messages)
            view = Messages(messages, length)
            self._seen = messages, length, view
        return view

    @property
    def open(self) -> dict[str, OpenCall]:
        """Copies of the open calls."""
        return {call_id: structs.replace(entry) for call_id, entry in self._state.open.items()}

    @property
    def todos(self) -> Sequence[Todo]:
        return tuple(self._state.todos)

    @property
    def files(self) -> Mapping[str, FileEntry]:
        """The files of the whole thread."""
        return MappingProxyType(self._state.files)

    @property
    def notes(self) -> "Mapping[str, Mapping[str, Any]]":
        return Notes(self._state.notes)

    def size(self) -> int:
        """Return the bytes of the state as a snapshot encodes it, without its files."""
        return len(msgpack.encode(structs.replace(self._state, files={}, subagents={})))

    def __repr__(self) -> str:
        return repr(self._state)


AnyState = State | StateView


def behind(state: AnyState) -> State:
    """Return the state behind a view. For parts of this package, which only read it: copying the lists among the notes
    at every step would make a long run quadratic.
    """
    return state._state if isinstance(state, StateView) else state  # pyright: ignore[reportPrivateUsage]


class Notes(Mapping[str, Any]):
    """The notes of a run: `notes[owner][key]` is a value. A value that is a list or a dict is copied each time it is
    read.
    """

    __slots__ = ("_notes", "_owners")

    def __init__(self, notes: dict[str, Any], *, owners: bool = True) -> None:
        self._notes = notes
        self._owners = owners

    def __getitem__(self, key: str) -> Any:
        value = self._notes[key]
        return Notes(value, owners=False) if self._owners else _copied(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._notes)

    def __len__(self) -> int:
        return len(self._notes)

    def __repr__(self) -> str:
        return repr(self._notes)


def _copied(value: Any) -> Any:
    """Copy plain data, as far as it can be changed."""
    if type(value) is dict:
        return {key: _copied(item) for key, item in cast(dict[str, Any], value).items()}
    return [_copied(item) for item in cast(list[Any], value)] if type(value) is list else value
