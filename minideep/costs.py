"""The ledger of a turn: where its time, its tokens and its bytes went."""

from msgspec import Struct, field

from .messages import Usage
from .state import Limits


class Step(Struct, frozen=True, gc=False):
    """One model reply and the results of its calls. Seconds."""

    model_s: float
    tools_s: float
    harness_s: float


class Spent(Struct, frozen=True):
    """What a run and all below it have spent since its input was accepted: what its budgets are compared with."""

    tokens: int
    """Input and output of all replies: at least, if those of any are `unknown`."""
    cost: float | None
    """US dollars: at least, if any reply is `unpriced`; None where no cost is known."""
    seconds: float
    """Wall time."""
    unknown: int = 0
    """Replies whose tokens are not known, or not all of them."""
    unpriced: int = 0
    """Replies whose cost is not known."""

    def reached(self, limits: Limits) -> str | None:
        """The first budget of *limits* that is spent, or of which nobody knows how much is."""
        if limits.tokens is not None and (self.unknown or self.tokens >= limits.tokens):
            return "tokens"
        # Not `cost >= limit`: one of NaN would never get there.
        if limits.cost is not None and (self.unpriced or not (self.cost or 0.0) < limits.cost):
            return "cost"
        if limits.seconds is not None and self.seconds >= limits.seconds:
            return "seconds"
        return None

    def missing(self, budget: str) -> str:
        """What is not known of the spending that *budget* bounds, for people; nothing, if all of it is known."""
        match budget:
            case "tokens" if self.unknown:
                return f"the tokens of {_replies(self.unknown)} are unknown"
            case "cost" if self.unpriced:
                return f"the cost of {_replies(self.unpriced)} is unknown"
            case _:
                return ""


class Costs(Struct):
    """What a turn spent, its subagents included. Always on.

    Times are seconds and add up over parallel runs: two subagents that wait for their models at once count twice.
    """

    model_s: float = 0.0
    """Waiting for models."""
    tools_s: float = 0.0
    """In tools, without the runs that tools started."""
    harness_s: float = 0.0
    """In minideep itself."""
    save_s: float = 0.0
    """Writing to the store."""
    steps: int = 0
    """Model replies."""
    tool_calls: int = 0
    tool_chars: int = 0
    """Characters of tool output that models were told."""
    usage: Usage = Usage()
    """Tokens: at least, if those of any reply are not known (`usage.unknown`)."""
    money: float | None = None
    """US dollars: at least, if any reply is `unpriced`; None where no cost is known."""
    bytes_raw: int = 0
    """Bytes of events appended by this turn, before compression."""
    bytes_stored: int = 0
    """Bytes of segments appended by this turn."""
    state_bytes: int = 0
    """Bytes of segments of the whole thread."""
    table: list[Step] = field(default_factory=list[Step])
    """The steps of the main run, one by one."""
    unpriced: int = 0
    """Replies and summaries whose cost is not known."""

    def add(self, child: "Costs") -> None:
        """Take in what a child run spent."""
        self.model_s += child.model_s
        self.tools_s += child.tools_s
        self.harness_s += child.harness_s
        self.steps += child.steps
        self.tool_calls += child.tool_calls
        self.tool_chars += child.tool_chars
        self.usage += child.usage
        if child.money is not None:
            self.money = (self.money or 0.0) + child.money
        self.unpriced += child.unpriced


def in_words(count: int, unknown: int) -> str:
    """A number of tokens for people, where those of *unknown* replies are missing."""
    return f"{'at least ' if unknown else ''}{count:,}" if count or not unknown else "unknown"


def _replies(count: int) -> str:
    return "1 reply" if count == 1 else f"{count} replies"
