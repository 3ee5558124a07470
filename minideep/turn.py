"""The result of a turn, and the errors that a log keeps as plain data."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from . import errors
from .checks import word_of_others
from .costs import Costs
from .errors import LimitExceeded, MinideepError, ModelError
from .events import TurnFailed
from .messages import Message, Usage, clean
from .state import Failure, FileEntry, Interrupt, State, Status


class Turn(Struct, kw_only=True):
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
    error: MinideepError | None = None
    """The error that made the turn fail or kept it from being saved. If unknown spending stopped the turn before a
    budget was reached, a `LimitExceeded` that says what is unknown.
    """
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

    if not TYPE_CHECKING:
        __getattr__ = word_of_others

    def __repr__(self) -> str:
        """Return a short text: asyncio and debuggers ask for it in passing, and a turn may be long."""
        text = self.text if len(self.text) <= 60 else f"{self.text[:59]}…"
        status = self.status if self.saved else f"{self.status}, unsaved"
        return f"<Turn of {self.thread_id!r}: {status}, {len(self.messages)} messages, {text!r}>"

    def raise_for_status(self) -> "Turn":
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


def turn_of(
    thread_id: str,
    state: State,
    messages: Sequence[Message],
    artifacts: Mapping[str, FileEntry],
    costs: Costs,
    *,
    is_child: bool = False,
) -> Turn:
    """Return the result of the last turn of a run whose state is *state*."""
    spoken = (message.text for message in reversed(messages) if message.role == "assistant")
    return Turn(
        thread_id=thread_id,
        status=state.status,
        reason=state.reason,
        # A child has one input, perhaps of an earlier turn, so its text may be older too.
        text=next((text for text in spoken if text), state.text if is_child else ""),
        error=error_of(state),
        interrupts=state.interrupts,
        question=state.detail if state.status == "escalated" else "",
        artifacts=dict(artifacts),
        messages=tuple(messages),
        usage=costs.usage,
        costs=costs,
    )


def failed(exc: MinideepError, at: float) -> TurnFailed:
    """Return the event that records the failure of a run with *exc*. `error_of` recreates the error from the state."""
    # An error may quote a whole response, or a lone surrogate; neither may keep the failure out of the log.
    more = Failure(exc.transient, exc.retry_after, exc.code) if isinstance(exc, ModelError) else None
    return TurnFailed(at, type(exc).__name__, clean(str(exc))[:10_000], more)


def error_of(state: State) -> MinideepError | None:
    """Return the error that a failed run recorded, as an exception of its class. For a run that unknown spending
    stopped, return a `LimitExceeded` that says why; for any other run, None.
    """
    if state.status == "exhausted" and state.detail:
        return LimitExceeded(state.detail)
    if state.status != "failed":
        return None
    kind: Any = getattr(errors, state.reason, None)
    if not (isinstance(kind, type) and issubclass(kind, MinideepError)):  # Of a user, or of another version.
        kind = ModelError
    error: MinideepError = kind(state.detail)
    if isinstance(error, ModelError) and (more := state.failure):
        error.transient, error.retry_after, error.code = more.transient, more.retry_after, more.code
    return error
