"""Events, which happen in a run and are recorded or streamed.

Events are facts in the past tense. The union is closed: a middleware that must remember something of its own records
`Noted`. A log stores an event as an array that begins with its tag: new fields go last and have defaults, and a tag is
never reused. Times, ids and sizes are stored in the event, so that replaying a log yields the same state.
"""

# Some events have a field `at`, which stands in for the class variable of all.
# pyright: reportIncompatibleVariableOverride=false

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar, get_args

import msgspec

from .costs import Costs
from .documented import Struct
from .messages import AssistantMessage, Content, Message, StopReason, ToolCall, Usage, UserMessage
from .state import Failure, Interrupt, Limits, Path, RecordedDecision, Todo

_PUBLIC = (
    "AnyEvent ArgsDelta CallStarted Compacted Decided Event FileDeleted FileEdited FileWritten MessagesReplaced "
    "ModelReplied Noted "
    "Restarted Resumed Rewound StreamEvent TextDelta ThinkingDelta TodosWritten ToolEnded ToolReturned "
    "ToolStarted ToolWaiting TurnCancelled TurnEnded TurnEscalated TurnExhausted TurnFailed TurnPaused UserSaid "
    "from_json json_schema"
)
__all__ = _PUBLIC.split()  # pyright: ignore[reportUnsupportedDunderAll]


class StreamEvent(Struct, frozen=True, array_like=True, dict=True):
    """Base class of everything that a listener receives."""

    # These four are no fields: a log keeps them once for many events, and `with_path` sets them on the copy that
    # listeners receive (hence `dict=True`).
    path: ClassVar[Path] = ()
    """The run that the event belongs to."""
    number: ClassVar[int] = 0
    """The event's number in its thread; 0 for an event that is not recorded."""
    at: ClassVar[float] = 0.0
    """Seconds since 1970. Of an event that was read from the log and holds no time: when it was saved."""
    id: ClassVar[str] = ""
    """`17` for event 17, `17.2` for the second tool that started or ended after it, empty for a piece of text."""

    def json(self) -> str:
        r"""Return the event as one line of JSON: `{"event": its name, "path", "number", "id", "at", ...}`.

        It holds every field by name, and is safe to print: `f"data: {event.json()}\n\n"` is a server-sent event.
        """
        from .export import event_json, json_line

        return json_line(event_json(self))


class Event(StreamEvent, frozen=True, array_like=True):
    """Base class of the events that a log records."""


# ---- messages and calls


class UserSaid(Event, frozen=True, array_like=True, tag=1):
    """A message was accepted. It begins a turn, unless a middleware said it, and closes open calls as not completed."""

    message: UserMessage
    at: float
    """Seconds since 1970."""
    limits: Limits | None = None
    """The limits of the turn; None leaves them as they are."""
    by: str = ""
    """The middleware that said it; empty if a person or a delegating agent said it."""
    agent: str = ""
    """The agent that the message is for."""
    key: str = ""
    """The key under which the input is accepted once, however often it is sent."""


class ModelReplied(Event, frozen=True, array_like=True, tag=2):
    """The model has answered; its calls are open now."""

    asked: ClassVar[bool] = True
    """True if a model was asked. For this event that is always so."""

    message: AssistantMessage
    stop: StopReason = "done"
    usage: Usage = Usage()
    model: str = ""
    """The model that answered."""
    seconds: float = 0.0
    cost: float | None = None
    """US dollars, as stated by the provider or else by its price list; None if unknown."""


class ToolReturned(Event, frozen=True, array_like=True, tag=3):
    """A call has its result."""

    call_id: str
    content: Content
    is_error: bool = False
    ends: bool = False
    """True if the turn ends once all calls of the reply are answered."""
    seconds: float = 0.0


class ToolWaiting(Event, frozen=True, array_like=True, tag=4):
    """A call waits for a person: for a decision about itself, or about calls of its children."""

    call_id: str
    interrupts: tuple[Interrupt, ...]


class Decided(Event, frozen=True, array_like=True, tag=5):
    """A person has decided about a call that waited."""

    call_id: str
    decision: RecordedDecision


class Resumed(Event, frozen=True, array_like=True, tag=6):
    """A turn was resumed. Its counters restart, unless it was cut short: then it is the same turn."""

    at: float
    limits: Limits | None = None
    calls: tuple[str, ...] = ()
    """The calls whose children are resumed."""
    seconds: float = 0.0
    """Seconds that a turn that was cut short had taken, as far as its log tells."""


class CallStarted(Event, frozen=True, array_like=True, tag=19):
    """A person let a call run, and it has begun. This event is saved before the tool does anything: if the call does
    not finish, it may have taken effect, so it waits for the person again.
    """

    call_id: str


# ---- boundaries


class TurnPaused(Event, frozen=True, array_like=True, tag=7):
    """Every unanswered call waits for a person."""

    at: float
    costs: Costs | None = None
    """The costs of the turn without its last append; None in the run of a subagent. So in all boundaries."""


class TurnEnded(Event, frozen=True, array_like=True, tag=8):
    """The agent is done."""

    at: float
    reason: Literal["done", "truncated", "refused"] = "done"
    costs: Costs | None = None


class TurnEscalated(Event, frozen=True, array_like=True, tag=9):
    """The agent asks the user a question."""

    at: float
    question: str
    costs: Costs | None = None
    """If one of several calls escalates, the costs until then."""


class TurnFailed(Event, frozen=True, array_like=True, tag=10):
    """An error ended the turn."""

    at: float
    kind: str
    """The name of the error's class."""
    text: str
    failure: Failure | None = None
    """The attributes of a `ModelError`."""
    costs: Costs | None = None


class TurnCancelled(Event, frozen=True, array_like=True, tag=11):
    """The caller, or `Agent.cancel`, ended the turn."""

    at: float
    reason: str = ""
    """What `Agent.cancel` was given; empty if the caller's own task was cancelled."""
    costs: Costs | None = None


class TurnExhausted(Event, frozen=True, array_like=True, tag=12):
    """A limit ended the turn."""

    at: float
    limit: str
    """The field of `Limits` that was reached, in the run's own limits or in those of a run above it."""
    text: str = ""
    """The spending that is unknown, if that stopped the run before the limit was reached."""
    costs: Costs | None = None


# ---- changes by tools and middleware


class TodosWritten(Event, frozen=True, array_like=True, tag=13):
    """The todos were replaced."""

    todos: tuple[Todo, ...]


class FileWritten(Event, frozen=True, array_like=True, tag=14):
    """A file of the thread was created or replaced."""

    file: str
    content: Any
    """`str`, or `bytes` if it is not UTF-8 text; None if the content is only on the disk."""
    size: int
    sha256: str
    at: float
    by: Path = ()
    """The run that wrote it. The event itself is always in the main run's log, since all runs share the files."""
    blob: bool = False
    """True if the store keeps the content separately, under its SHA-256, because the middleware that wrote it asked for
    that, or because it is large.
    """
    call_id: str = ""
    """The call that made the change; empty if a hook or an older version did."""


class FileEdited(Event, frozen=True, array_like=True, tag=15):
    """*old* was replaced by *new* in a file that the state holds. The event is as large as the change."""

    file: str
    old: str
    new: str
    all: bool
    size: int
    sha256: str
    at: float
    by: Path = ()
    call_id: str = ""
    """The call that made the change; empty if a hook or an older version did."""


class FileDeleted(Event, frozen=True, array_like=True, tag=16):
    """A file of the thread was removed."""

    file: str
    at: float
    by: Path = ()
    call_id: str = ""
    """The call that made the change; empty if a hook or an older version did."""


class Compacted(Event, frozen=True, array_like=True, tag=17):
    """*summary* replaced the messages in context that come before index *kept*."""

    summary: UserMessage
    kept: int
    usage: Usage = Usage()
    """The tokens of the summary. Like the fields below, it stays at its default if no model was asked."""
    model: str = ""
    seconds: float = 0.0
    cost: float | None = None
    """US dollars; None if the cost of any part is unknown."""

    @property
    def asked(self) -> bool:
        """True if a model was asked."""
        return bool(self.model) or self.usage != Usage()


class MessagesReplaced(Event, frozen=True, array_like=True, tag=20):
    """Between two turns, a person put *messages* in the place of those in context from index *start* up to *stop*."""

    start: int
    stop: int
    messages: tuple[Message, ...]
    at: float
    """Seconds since 1970."""


class Noted(Event, frozen=True, array_like=True, tag=18):
    """*owner* noted plain data under *key*. *rule* says whether to `replace` the value there, `append` to the list
    there, or `delete` what is there.
    """

    owner: str
    key: str
    value: Any = None
    rule: Literal["replace", "append", "delete"] = "replace"


AnyEvent = (
    UserSaid | ModelReplied | ToolReturned | ToolWaiting | Decided | Resumed | CallStarted | TurnPaused
    | TurnEnded | TurnEscalated | TurnFailed | TurnCancelled | TurnExhausted | TodosWritten | FileWritten
    | FileEdited | FileDeleted | Compacted | MessagesReplaced | Noted
)  # fmt: skip
E = TypeVar("E", bound=AnyEvent)
Boundary = TurnPaused | TurnEnded | TurnEscalated | TurnFailed | TurnCancelled | TurnExhausted
SE = TypeVar("SE", bound=StreamEvent)
FILE_EVENTS = (FileWritten, FileEdited, FileDeleted)

# ---- events for listeners only: they are streamed and not recorded


class TextDelta(StreamEvent, frozen=True, array_like=True, tag="text"):
    """A piece of the reply's text."""

    text: str


class ThinkingDelta(StreamEvent, frozen=True, array_like=True, tag="thinking"):
    """A piece of the reasoning that a provider shows."""

    text: str


class ArgsDelta(StreamEvent, frozen=True, array_like=True, tag="args"):
    """A piece of a call's arguments, as JSON text."""

    index: int
    """The position of the call in the reply, from 0."""
    name: str
    text: str
    call_id: str = ""
    """The id of the call; empty if the provider does not say it before the reply is whole."""


class Restarted(StreamEvent, frozen=True, array_like=True, tag="restarted"):
    """The reply begins again, because the stream broke off or a hook replaced the reply: discard the part that was
    shown.
    """


class Rewound(StreamEvent, frozen=True, array_like=True, tag="rewound"):
    """The turn broke off: events after number *to* were not saved and did not last, nor did text that came since."""

    to: int
    """The number of the last saved event."""


class ToolStarted(StreamEvent, frozen=True, array_like=True, tag="started"):
    """A call runs. One that waits for a person, or that a hook answers, has not started."""

    call: ToolCall


class ToolEnded(StreamEvent, frozen=True, array_like=True, tag="ended"):
    """A call that had started has its result."""

    call_id: str
    name: str
    is_error: bool
    seconds: float
    size: int
    """Characters of text that the model reads."""


EVENTS: tuple[type[StreamEvent], ...] = (
    *get_args(AnyEvent),
    *(TextDelta, ThinkingDelta, ArgsDelta, Restarted, Rewound, ToolStarted, ToolEnded),
)
"""The classes of all events, recorded or not."""


def from_json(raw: str | bytes | Mapping[str, Any]) -> StreamEvent:
    """Return the event that `StreamEvent.json` wrote as *raw*, which may be decoded already.

    Fields that this version does not know are ignored. The event is equal to the one that was written, with these
    exceptions: the text of a message is one block, in front of its calls; the arguments of calls are compact JSON.

    Raises:
        ConfigError: it is not an event; the text names the place.
    """
    from .decoding import read_document

    kind, found = read_document(raw, EVENTS, "the event")
    event = kind(**{name: found[name] for name in kind.__struct_fields__ if name in found})
    return with_path(event, found.get("path", ()), found.get("number", 0), found.get("at", 0.0), found.get("id", ""))


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema, of draft 2020-12, of what `StreamEvent.json` writes for any event."""
    from .decoding import schema_of

    return schema_of(EVENTS, "StreamEvent")


def with_path(event: SE, path: Path, number: int = 0, at: float = 0.0, id: str = "") -> SE:
    """Return *event* in the form in which listeners receive it: with the path of its run, its number, time and id."""
    copy = msgspec.structs.replace(event)
    about = vars(copy)  # Not by `setattr`, which a frozen Struct refuses. An event with a field `at` keeps that.
    about["path"], about["number"], about["at"], about["id"] = path, number, at, id
    return copy
