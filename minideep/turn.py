"""The result of a turn, and the errors that a log keeps as plain data."""

from typing import Any

from msgspec import Struct, field

from . import errors
from .costs import Costs
from .errors import LimitExceeded, MinideepError, ModelError
from .events import TurnFailed
from .messages import Message, Usage, clean
from .state import Failure, FileEntry, Interrupt, State, Status


class Turn(Struct, kw_only=True):
    """The result of a turn, which goes from an accepted input to the boundary where the agent hands over.

    *status* is `ended`, `paused`, `escalated`, `failed`, `cancelled` or `exhausted`. A `Turn` shares nothing that
    changes later.
    """

    thread_id: str
    status: Status
    reason: str = ""
    """`done`, `truncated`, `refused`, the limit that was reached, or the kind of error."""
    text: str = ""
    """The last text of the agent in this turn that is not empty."""
    error: MinideepError | None = None
    """Why the turn failed or could not be saved; or what is unknown about the spending, if that stopped the turn before
    a budget was reached.
    """
    interrupts: tuple[Interrupt, ...] = ()
    """The calls that wait for a person; `Agent.resume` takes a decision for any of them."""
    question: str = ""
    """The question of an escalated turn. Answer it with `run(answer, thread_id)`."""
    artifacts: dict[str, FileEntry] = field(default_factory=dict[str, FileEntry])
    """The files that the turn wrote, by path."""
    messages: tuple[Message, ...] = ()
    """The messages of the turn, those that a compaction took out of context included."""
    usage: Usage = Usage()
    """Tokens of the turn, its subagents included."""
    costs: Costs = field(default_factory=Costs)
    saved: bool = True
    """True if the store has the turn. If not, its events are kept for the thread's next append; see `Agent.save`."""

    def __repr__(self) -> str:
        """Return a short text: asyncio and debuggers ask for it in passing, and a turn may be long."""
        text = self.text if len(self.text) <= 60 else f"{self.text[:59]}…"
        status = self.status if self.saved else f"{self.status}, unsaved"
        return f"<Turn of {self.thread_id!r}: {status}, {len(self.messages)} messages, {text!r}>"

    def raise_for_status(self) -> "Turn":
        """Return the turn if it is `ended`, `paused` or `escalated`; otherwise raise the reason.

        Raises:
            LimitExceeded: it is `exhausted`.
            MinideepError: it is `failed`, and this is its error, such as `RateLimited`; or it is `cancelled`.
        """
        if self.status == "exhausted":
            limit = f"{self.reason} ({self.error})" if isinstance(self.error, LimitExceeded) else self.reason
            raise LimitExceeded(f"the turn reached its limit of {limit}; `resume` continues with new counters")
        if self.status == "failed":
            raise self.error or ModelError(self.reason)
        if self.status == "cancelled":
            raise MinideepError("the turn was cancelled; `resume` continues it")
        return self


def failed(exc: MinideepError, at: float) -> TurnFailed:
    """Return the event that records that a run failed with *exc*; `error_of` makes the error again from it."""
    # An error may quote a whole response, or a lone surrogate; neither may keep the failure out of the log.
    more = Failure(exc.transient, exc.retry_after, exc.code) if isinstance(exc, ModelError) else None
    return TurnFailed(at, type(exc).__name__, clean(str(exc))[:10_000], more)


def error_of(state: State) -> MinideepError | None:
    """Return the error that a failed run recorded, as an exception of its class; or why spending that is unknown
    stopped a run. None for any other run.
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
