"""The result of a turn, and errors as the plain data that a log and a turn keep."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

from msgspec import field

from . import errors
from .checks import word_of_others
from .costs import Costs
from .documented import Struct
from .errors import LimitExceeded, MinideepError, ModelError
from .events import TurnFailed
from .messages import Citation, Message, Text, Usage, clean
from .state import Failure, FileEntry, Interrupt, State, Status
from .tools import R


class Fault(Struct, frozen=True):
    """An error as plain data."""

    kind: str
    """The name of its class."""
    message: str
    transient: bool = False
    """As in `ModelError`, like the two below."""
    retry_after: float | None = None
    """Seconds."""
    code: str = ""

    @classmethod
    def of(cls, error: MinideepError) -> "Fault":
        """Return *error* as data."""
        kind, message = type(error).__name__, str(error)
        if isinstance(error, ModelError):
            return cls(kind, message, error.transient, error.retry_after, error.code)
        return cls(kind, message)

    def exception(self) -> MinideepError:
        """Return an exception of the class that `kind` names, or a `ModelError` if this version has no such class."""
        error = _kind_of(self.kind)(self.message)
        if isinstance(error, ModelError):
            error.transient, error.retry_after, error.code = self.transient, self.retry_after, self.code
        return error


def _kind_of(name: str) -> type[MinideepError]:
    kind: Any = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, MinideepError) else ModelError


class Turn(Struct, Generic[R], kw_only=True, dict=True):
    """The result of a turn, which goes from an accepted input to the boundary at which the agent returns control to its
    caller.

    *status* is `ended`, `paused`, `escalated`, `failed`, `cancelled` or `exhausted`; it is `running`, with the reason
    `interrupted`, if `Agent.aclose` cut the turn short. A `Turn` is a snapshot: nothing that happens later changes it.
    """

    thread_id: str
    status: Status
    reason: str = ""
    """Why the turn stopped: `done`, `truncated`, `refused`, `question` (escalated), `cancelled`, the limit that was
    reached, or the name of the error's class.
    """
    text: str = ""
    """The agent's last non-empty text in this turn."""
    output: R | None = None
    """The typed result, as the agent's `response_format` asks for it. None unless the turn `ended`; a turn that ended
    before the agent had a `response_format` may have none.
    """
    citations: tuple[Citation, ...] = ()
    """The sources that the provider named for that text, in their order."""
    fault: Fault | None = field(default=None, name="error")
    """The error as data; see `error`."""
    interrupts: tuple[Interrupt, ...] = ()
    """The calls that wait for a person; `Agent.resume` takes a decision for any of them."""
    question: str = ""
    """The question of an escalated turn. Answer it with `run(answer, thread_id)`."""
    artifacts: dict[str, FileEntry] = field(default_factory=dict[str, FileEntry])
    """The files that the turn wrote, by path."""
    messages: tuple[Message, ...] = ()
    """The messages of the turn, including those that a compaction took out of context."""
    usage: Usage = Usage()
    """Tokens of the turn, its subagents included."""
    costs: Costs = field(default_factory=Costs)
    saved: bool = True
    """True if the store has the turn. If not, its events are kept for the thread's next append; see `Agent.save`."""

    @property
    def error(self) -> MinideepError | None:
        """The error that made the turn fail or kept it from being saved. If unknown spending stopped the turn before a
        budget was reached, a `LimitExceeded` that says what is unknown.
        """
        kept = vars(self)  # What a turn holds besides its fields.
        if self.fault is not None and "error" not in kept:
            kept["error"] = self.fault.exception()
        return kept.get("error")

    @error.setter
    def error(self, error: MinideepError | None) -> None:
        self.fault = None if error is None else Fault.of(error)
        vars(self)["error"] = error  # The exception itself: it has a cause and a traceback, which the data has not.

    if not TYPE_CHECKING:
        __getattr__ = word_of_others

    def __repr__(self) -> str:
        """Return a short text: asyncio and debuggers ask for it in passing, and a turn may be long."""
        status = self.status if self.saved else f"{self.status}, unsaved"
        error = f", {self.fault.kind}: {shortened(self.fault.message)}" if self.fault else ""
        return f"<Turn of {self.thread_id!r}: {status}{error}, {len(self.messages)} messages, {shortened(self.text)!r}>"

    def json(self) -> str:
        """Return the turn as one line of JSON: `{"event": "Turn", "thread_id", "status", ...}`.

        It holds every field by name, and is safe to print. A file that is not text is base64.
        """
        from .export import json_line, turn_json

        return json_line(turn_json(self))

    @classmethod
    def from_json(cls, raw: str | bytes | Mapping[str, Any]) -> "Turn":
        """Return the turn that `json` wrote as *raw*, which may be decoded already.

        Fields that this version does not know are ignored. The turn is equal to the one that was written, with these
        exceptions: the text of a message is one block, in front of its calls; the arguments of calls are compact JSON;
        an error has no cause and no traceback, and one of a class of your own is a `ModelError`.

        Raises:
            ConfigError: it is not a turn; the text names the place.
        """
        from .decoding import read_turn

        return read_turn(raw, cls)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema, of draft 2020-12, of what `json` writes."""
        from .decoding import schema_of

        return schema_of([cls], "Turn")

    def raise_for_status(self) -> "Turn[R]":
        """Return the turn if it is `ended`, `paused` or `escalated`; otherwise raise an error.

        Raises:
            LimitExceeded: it is `exhausted`.
            MinideepError: it is `failed`, and the exception is its own error, such as `RateLimited`; or it is
                `cancelled` or was cut short.
        """
        if self.status == "exhausted":
            limit = f"{self.reason} ({self.error})" if isinstance(self.error, LimitExceeded) else self.reason
            raise LimitExceeded(f"the turn reached its limit of {limit}; `resume` continues with new counters")
        if self.status == "failed":
            raise self.error or ModelError(self.reason)
        if self.status == "cancelled":
            raise MinideepError("the turn was cancelled; `resume` continues it")
        if self.status == "running":
            raise MinideepError("the turn was cut short by `aclose`; `resume` continues it")
        return self


def shortened(text: str) -> str:
    """Return *text* in at most 60 characters."""
    return text if len(text) <= 60 else f"{text[:59]}…"


def turn_of(
    thread_id: str,
    state: State,
    messages: Sequence[Message],
    artifacts: Mapping[str, FileEntry],
    costs: Costs,
    *,
    is_child: bool = False,
    output: Callable[[Sequence[Message]], Any] | None = None,
) -> Turn:
    """Return the result of the last turn of a run whose state is *state*; *output* reads its typed result."""
    spoken = ((message.text, message) for message in reversed(messages) if message.role == "assistant")
    # A child has one input, perhaps of an earlier turn, so its text may be older too.
    text, message = next((pair for pair in spoken if pair[0]), (state.text if is_child else "", None))
    return Turn(
        thread_id=thread_id,
        status=state.status,
        reason=state.reason,
        text=text,
        output=output(state.messages) if output and state.status == "ended" else None,
        citations=_citations(message) if message else (),
        fault=error_of(state),
        interrupts=state.interrupts,
        question=state.detail if state.status == "escalated" else "",
        artifacts=dict(artifacts),
        messages=tuple(messages),
        usage=costs.usage,
        costs=costs,
    )


def _citations(message: Message) -> tuple[Citation, ...]:
    return tuple([source for block in message.blocks if isinstance(block, Text) for source in block.citations])


def failed(exc: MinideepError, at: float) -> TurnFailed:
    """Return the event that records the failure of a run with *exc*. `error_of` recreates the error from the state."""
    # An error may quote a whole response, or a lone surrogate; neither may keep the failure out of the log.
    more = Failure(exc.transient, exc.retry_after, exc.code) if isinstance(exc, ModelError) else None
    return TurnFailed(at, type(exc).__name__, clean(str(exc))[:10_000], more)


def error_of(state: State) -> Fault | None:
    """Return the error that a failed run recorded. For a run that unknown spending stopped, return a `LimitExceeded`
    that says why; for any other run, None.
    """
    if state.status == "exhausted" and state.detail:
        return Fault("LimitExceeded", state.detail)
    if state.status != "failed":
        return None
    if more := state.failure:
        return Fault(state.reason, state.detail, more.transient, more.retry_after, more.code)
    return Fault(state.reason, state.detail, issubclass(kind := _kind_of(state.reason), ModelError) and kind.transient)
