"""What can happen, and what the core can ask for.

Events are facts in the past tense. The union is closed: a middleware that must remember something of its own records
`Noted`. On the wire an event is an array behind its tag: new fields go last and have defaults, a tag is never used
again. Clocks, ids and sizes are inside the event, so that replaying a log gives the same state.
"""

from typing import Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Struct

from .messages import AssistantMessage, Content, StopReason, ToolCall, Usage, UserMessage
from .state import Decision, Failure, Interrupt, Limits, Path, Todo


class StreamEvent(Struct, frozen=True, array_like=True, dict=True):
    """Base of all that a listener is told."""

    path: ClassVar[Path] = ()
    """The run it belongs to. No field: `with_path` sets it for listeners, a log keeps it once a segment."""


class Event(StreamEvent, frozen=True, array_like=True):
    """Base of what is recorded."""


# ---- what is said


class UserSaid(Event, frozen=True, array_like=True, tag=1):
    """A message was accepted. Begins a turn, unless a middleware said it; open calls are answered as not completed."""

    message: UserMessage
    at: float
    """Seconds since 1970."""
    limits: Limits | None = None
    """The turn's limits; None leaves them."""
    by: str = ""
    """The middleware that said it, or nothing."""
    agent: str = ""
    """The agent that is run."""


class ModelReplied(Event, frozen=True, array_like=True, tag=2):
    asked: ClassVar[bool] = True
    """Whether a model was asked."""

    message: AssistantMessage
    stop: StopReason = "done"
    usage: Usage = Usage()
    model: str = ""
    """Who answered."""
    seconds: float = 0.0
    cost: float | None = None
    """US dollars: what the provider says, else by its list of prices; None where it is not known."""


class ToolReturned(Event, frozen=True, array_like=True, tag=3):
    call_id: str
    content: Content
    is_error: bool = False
    ends: bool = False
    """Whether the turn ends after this batch."""
    seconds: float = 0.0


class ToolWaiting(Event, frozen=True, array_like=True, tag=4):
    """A call waits for a person: itself, or calls of the children that it ran."""

    call_id: str
    interrupts: tuple[Interrupt, ...]


class Decided(Event, frozen=True, array_like=True, tag=5):
    call_id: str
    decision: Decision


class Resumed(Event, frozen=True, array_like=True, tag=6):
    """The turn goes on; the counters start anew."""

    at: float
    limits: Limits | None = None
    calls: tuple[str, ...] = ()
    """The calls whose children go on."""


class CallStarted(Event, frozen=True, array_like=True, tag=19):
    """A call that a person let run has begun; saved before it does anything."""

    call_id: str


# ---- boundaries


class TurnPaused(Event, frozen=True, array_like=True, tag=7):
    at: float


class TurnEnded(Event, frozen=True, array_like=True, tag=8):
    at: float
    reason: Literal["done", "truncated", "refused"] = "done"


class TurnEscalated(Event, frozen=True, array_like=True, tag=9):
    at: float
    question: str


class TurnFailed(Event, frozen=True, array_like=True, tag=10):
    at: float
    kind: str
    """The name of the error's class."""
    text: str
    failure: Failure | None = None
    """Of a `ModelError`: what it says besides."""


class TurnCancelled(Event, frozen=True, array_like=True, tag=11):
    at: float


class TurnExhausted(Event, frozen=True, array_like=True, tag=12):
    at: float
    limit: str
    """The field of `Limits` that was reached: of the run's own, or of a budget of a run above it."""
    text: str = ""
    """Why it stops the run before it is reached: how much was spent is not known."""


# ---- what tools and middleware change


class TodosWritten(Event, frozen=True, array_like=True, tag=13):
    todos: tuple[Todo, ...]


class FileWritten(Event, frozen=True, array_like=True, tag=14):
    file: str
    content: Any
    """`str`, or `bytes` of what is no UTF-8 text; None where the disk is the truth."""
    size: int
    sha256: str
    at: float
    by: Path = ()
    """The run that wrote it; file events themselves always stand in the main run's log."""
    blob: bool = False
    """Whether the store keeps the content apart, under its SHA-256: asked for, or because it is large."""


class FileEdited(Event, frozen=True, array_like=True, tag=15):
    """*old* was replaced by *new* in a file that the state holds; costs what it changes."""

    file: str
    old: str
    new: str
    all: bool
    size: int
    sha256: str
    at: float
    by: Path = ()


class FileDeleted(Event, frozen=True, array_like=True, tag=16):
    file: str
    at: float
    by: Path = ()


class Compacted(Event, frozen=True, array_like=True, tag=17):
    """*summary* stands for the messages before *kept*, an index into those in context."""

    summary: UserMessage
    kept: int
    usage: Usage = Usage()
    """What asking for the summary took: tokens, money, seconds, and who was asked; nothing, if nobody was."""
    model: str = ""
    seconds: float = 0.0
    cost: float | None = None
    """US dollars; None where that of any part of it is not known."""

    @property
    def asked(self) -> bool:
        """Whether a model was asked."""
        return bool(self.model) or self.usage != Usage()


class Noted(Event, frozen=True, array_like=True, tag=18):
    """*owner* remembers plain data under *key*: `replace` it, `append` to a list, or `delete` it."""

    owner: str
    key: str
    value: Any = None
    rule: Literal["replace", "append", "delete"] = "replace"


AnyEvent = (
    UserSaid
    | ModelReplied
    | ToolReturned
    | ToolWaiting
    | Decided
    | Resumed
    | CallStarted
    | TurnPaused
    | TurnEnded
    | TurnEscalated
    | TurnFailed
    | TurnCancelled
    | TurnExhausted
    | TodosWritten
    | FileWritten
    | FileEdited
    | FileDeleted
    | Compacted
    | Noted
)
E = TypeVar("E", bound=AnyEvent)
"""Some event."""
FILE_EVENTS = (FileWritten, FileEdited, FileDeleted)

# ---- what a listener is told besides, and no log keeps


class TextDelta(StreamEvent, frozen=True, array_like=True, tag="text"):
    text: str


class ThinkingDelta(StreamEvent, frozen=True, array_like=True, tag="thinking"):
    text: str


class ArgsDelta(StreamEvent, frozen=True, array_like=True, tag="args"):
    """A piece of a call's arguments, as JSON text."""

    index: int
    """Which call of the reply, from 0."""
    name: str
    text: str


class Restarted(StreamEvent, frozen=True, array_like=True, tag="restarted"):
    """The stream broke: what was shown of this reply is void, and it begins anew."""


class ToolStarted(StreamEvent, frozen=True, array_like=True, tag="started"):
    call: ToolCall


class ToolEnded(StreamEvent, frozen=True, array_like=True, tag="ended"):
    call_id: str
    name: str
    is_error: bool
    seconds: float
    size: int
    """Characters of text that the model is told."""


# ---- effects: what the core asks for


class CallModel(Struct, frozen=True):
    """Ask the model for its next reply."""


class CallTools(Struct, frozen=True):
    """Run these calls."""

    calls: tuple[ToolCall, ...]


class Pause(Struct, frozen=True):
    """Every open call waits for a person."""


class Finish(Struct, frozen=True):
    """Nothing is left to do, unless a middleware has more to say."""

    reason: Literal["done", "truncated", "refused"]


class Stop(Struct, frozen=True):
    """A limit is reached."""

    limit: str


Effect = CallModel | CallTools | Pause | Finish | Stop


def with_path(event: StreamEvent, path: Path) -> StreamEvent:
    """*event* as a listener to the whole thread gets it."""
    if not path:
        return event
    copy = msgspec.structs.replace(event)
    vars(copy)["path"] = path
    return copy
