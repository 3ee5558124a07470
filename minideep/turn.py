"""What a turn hands back."""

from typing import Any

from msgspec import Struct, field

from . import errors
from .costs import Costs
from .errors import LimitExceeded, MinideepError, ModelError
from .events import TurnFailed
from .messages import Message, Usage, clean
from .state import Failure, FileEntry, Interrupt, State, Status


class Turn(Struct, kw_only=True):
    """From an accepted input to the boundary where the agent handed over.

    *status* is `ended`, `paused`, `escalated`, `failed`, `cancelled` or `exhausted`. A `Turn` shares nothing that
    later changes.
    """

    thread_id: str
    status: Status
    reason: str = ""
    """`done`, `truncated`, `refused`, the limit that was reached, or the kind of error."""
    text: str = ""
    """The last thing the agent said in this turn that is not empty."""
    error: MinideepError | None = None
    """Why the turn failed, or could not be saved, or why a budget stopped it that is not spent as far as is known."""
    interrupts: tuple[Interrupt, ...] = ()
    """The calls that wait for a person; `Agent.resume` takes a decision for any of them."""
    question: str = ""
    """What an escalated turn asks; answer with `run(answer, thread_id)`."""
    artifacts: dict[str, FileEntry] = field(default_factory=dict[str, FileEntry])
    """The files that the turn wrote, by path."""
    messages: tuple[Message, ...] = ()
    """The turn as it was said."""
    usage: Usage = Usage()
    """Tokens of the turn, its subagents included."""
    costs: Costs = field(default_factory=Costs)
    saved: bool = True
    """Whether the store has the turn; if not, its events go with the thread's next append."""

    def __repr__(self) -> str:
        """Short: asyncio and debuggers ask for it in passing, and a turn may be long."""
        text = self.text if len(self.text) <= 60 else f"{self.text[:59]}…"
        status = self.status if self.saved else f"{self.status}, unsaved"
        return f"<Turn of {self.thread_id!r}: {status}, {len(self.messages)} messages, {text!r}>"

    def raise_for_status(self) -> "Turn":
        """Return the turn if it ended, waits or asks; raise what stopped it otherwise.

        Raises:
            LimitExceeded: it is `exhausted`.
            MinideepError: it is `failed`: the error itself, such as `RateLimited`; or `cancelled`.
        """
        if self.status == "exhausted":
            why = f" ({self.error})" if isinstance(self.error, LimitExceeded) else ""
            raise LimitExceeded(f"the turn reached its limit of {self.reason}{why}; `resume` goes on with new counters")
        if self.status == "failed":
            raise self.error or ModelError(self.reason)
        if self.status == "cancelled":
            raise MinideepError("the turn was cancelled; `resume` goes on with it")
        return self


def failed(exc: MinideepError, at: float) -> TurnFailed:
    """The event that says that a run failed with *exc*, from which `error_of` makes it again."""
    more = Failure(exc.transient, exc.retry_after, exc.code) if isinstance(exc, ModelError) else None
    return TurnFailed(at, type(exc).__name__, clean(str(exc))[:10_000], more)


def error_of(state: State) -> MinideepError | None:
    """The error that a failed run recorded, as an exception of its kind; or what keeps a budget from being kept."""
    if state.status == "exhausted" and state.detail:
        return LimitExceeded(state.detail)
    if state.status != "failed":
        return None
    kind: Any = getattr(errors, state.reason, None)
    if not (isinstance(kind, type) and issubclass(kind, MinideepError)):
        kind = ModelError
    error: MinideepError = kind(state.detail)
    if isinstance(error, ModelError) and (more := state.failure):
        error.transient, error.retry_after, error.code = more.transient, more.retry_after, more.code
    return error
