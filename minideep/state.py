"""What is remembered: one `State` holds everything that a run needs to go on."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, field

from .kinds import Rule
from .messages import Message, ToolCall, ToolResult, Usage, UserMessage, arguments_json, clean, from_json

Status = Literal["ready", "running", "paused", "ended", "escalated", "failed", "cancelled", "exhausted"]
TodoStatus = Literal["pending", "in_progress", "completed"]
Path = tuple[str, ...]
"""Where a run stands below the main agent: the keys of the calls that lead to it; `()` is the main agent."""


def _names_a_thread(text: str) -> bool:
    return bool(text.strip()) and len(text) <= 500 and clean(text) == text


ThreadId = Annotated[str, Rule(_names_a_thread, "text of 1 to 500 characters")]
BoundaryNumber = Annotated[int, Meta(ge=1)]
"""Boundaries of a thread are numbered from 1."""
_Count = Annotated[int, Meta(ge=0)]
_Amount = Annotated[float, Meta(ge=0)]


class Limits(Struct, frozen=True, array_like=True):
    """When a turn stops by itself; `None` means never. Each accepted input starts the counters anew.

    *tokens*, *cost* and *seconds* are of a run and all that runs below it: those of the main agent hold for the whole
    turn. They are compared before each question to a model, so *tokens* and *cost* may be exceeded by a reply, or by
    several that come at once; *seconds* also cuts short a model that is being asked. A tool ends by its own timeout.
    A reply whose tokens, or whose cost, are not known stops a turn that has a budget of them.

    *max_depth* and *max_children* are of a run and all below it too, and stop nothing: a call that would begin one run
    too many gets an error result that says so, and the calls beside it go on.
    """

    steps: _Count | None = 1000
    """Model replies of one run."""
    tool_calls: _Count | None = None
    """Answered tool calls of one run."""
    tokens: _Count | None = None
    """Input and output of all replies."""
    cost: _Amount | None = None
    """US dollars. Every model must have a price, or say what its replies cost."""
    seconds: _Amount | None = None
    """Wall time since the input was accepted."""
    max_depth: _Count | None = None
    """Levels of subagents below the run: 0 is none, 1 subagents that have none."""
    max_children: _Count | None = None
    """Runs that one reply sets going, with those that they begin in turn: how wide the tree grows at a time."""


class Todo(Struct, frozen=True, array_like=True):
    content: str
    status: TodoStatus = "pending"


class FileEntry(Struct, frozen=True, array_like=True):
    """A file of the thread's file space."""

    content: Any
    """The file itself: `str`, or `bytes` of what is no UTF-8 text; None where the store or the disk holds it."""
    size: int
    """Bytes."""
    sha256: str
    modified: float
    """Seconds since 1970."""
    by: Path = ()
    """The run that wrote it last."""
    blob: bool = False
    """Whether the store holds the content, under its SHA-256, and it is read when it is needed."""


def as_bytes(content: str | bytes) -> bytes:
    """What a file holds, as it would stand on a disk."""
    return content.encode() if isinstance(content, str) else content


class Approve(Struct, frozen=True, array_like=True, tag="approve"):
    """Let the call run as it is."""


class _Edit(type(Struct)):
    """Lets `Edit` be made from a mapping, though what it keeps is bytes, like a `ToolCall`."""

    def __call__(cls, args: Mapping[str, Any] | bytes) -> Any:
        return super().__call__(args if isinstance(args, bytes) else arguments_json(args))


class Edit(Struct, frozen=True, array_like=True, tag="edit", metaclass=_Edit):
    """Let the call run with other arguments: `Edit({"path": "/b"})`."""

    raw: bytes

    if TYPE_CHECKING:

        def __init__(self, args: Mapping[str, Any] | bytes) -> None: ...

    @property
    def args(self) -> dict[str, Any]:
        return from_json(self.raw)


class Reject(Struct, frozen=True, array_like=True, tag="reject"):
    """Do not run the call; the model is told why."""

    reason: str = ""


class Respond(Struct, frozen=True, array_like=True, tag="respond"):
    """Do not run the call; *text* is its result."""

    text: str


Decision = Approve | Edit | Reject | Respond


class Interrupt(Struct, frozen=True, array_like=True):
    """A call that waits for a person."""

    call: ToolCall
    reason: str = ""
    path: Path = ()
    """The run that owns the call."""

    @property
    def call_id(self) -> str:
        return self.call.id


class OpenCall(Struct, array_like=True):
    """A call of the last reply, until every call of that reply is answered."""

    call: ToolCall
    asked: int
    """The number, in the thread, of the event that asked for it."""
    result: ToolResult | None = None
    waits: tuple[Interrupt, ...] = ()
    """What it waits for: itself, or calls of its children."""
    decision: Decision | None = None
    started: bool = False
    """Whether it was let run by a person, and has begun: should it be cut short, it waits again."""


class Failure(Struct, frozen=True, array_like=True):
    """What a model's error says besides its kind and its text, as `ModelError` has it."""

    transient: bool = False
    retry_after: float | None = None
    """Seconds."""
    code: str = ""


class State(Struct, kw_only=True, array_like=True):
    """One run, as the fold of its events. Only `minideep.core.apply` changes it."""

    agent: str = ""
    said: UserMessage | None = None
    """The last input that was accepted."""
    status: Status = "ready"
    messages: list[Message] = field(default_factory=list[Message])
    """What is in context. Grows at its end; a compaction makes a new list."""
    open: dict[str, OpenCall] = field(default_factory=dict[str, OpenCall])
    """The calls of the last reply by id, in call order, while any of them is unanswered."""
    todos: list[Todo] = field(default_factory=list[Todo])
    files: dict[str, FileEntry] = field(default_factory=dict[str, FileEntry])
    notes: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """What middleware remembers: owner, key, plain data."""

    limits: Limits = Limits()
    step: int = 0
    """Model replies since the last accepted input."""
    tool_calls: int = 0
    """Answered calls since the last accepted input."""
    turn: int = 0
    usage: Usage = Usage()
    """Tokens over the life of the run."""
    stop: str = ""
    """Why the last reply ended: a `StopReason`."""
    ends: bool = False
    """Whether a tool asked to end the turn after this batch."""
    reason: str = ""
    """Why the last turn ended: `done`, `truncated`, `refused`, the limit, or the kind of error."""
    detail: str = ""
    """The error's text, the question of an escalation, or why a limit stops what has not reached it."""
    began: int = 0
    """Where in `messages` the last turn begins."""
    number: int = 0
    """The number, in the thread, of the last event applied."""

    subagents: dict[str, "State"] = field(default_factory=dict[str, "State"])
    """Filled in by `get_state(subagents=True)`: the runs below this one by the key of their call. Never recorded."""
    cost: float | None = None
    """US dollars over the life of the run, without those below it: at least, if any are `unpriced`; None where no cost
    is known.
    """
    failure: Failure | None = None
    """What is known besides of the error of a model that the last turn failed with."""
    unpriced: int = 0
    """Replies and summaries whose cost is not known."""

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The calls that wait for a person, of this run and of its children, in call order."""
        return tuple(wait for entry in self.open.values() for wait in entry.waits)

    @property
    def text(self) -> str:
        """The last thing the agent said that is not empty."""
        spoken = (message.text for message in reversed(self.messages) if message.role == "assistant")
        return next((text for text in spoken if text), "")
