"""The costs of a turn: where its time, its tokens and its money went."""

from msgspec import field

from .documented import Struct
from .messages import Usage


class Step(Struct, frozen=True, gc=False):
    """The time of one step, in seconds: one model reply and the results of its calls."""

    model_s: float
    tools_s: float
    harness_s: float


class Costs(Struct, array_like=True):
    """The spending of a turn, its subagents included. It is always measured.

    Times are in seconds and are summed over parallel runs: if two subagents wait for their models at the same time,
    both waits are counted.
    """

    model_s: float = 0.0
    """Waiting for models."""
    tools_s: float = 0.0
    """In tools, excluding the runs that tools started."""
    harness_s: float = 0.0
    """In minideep itself."""
    save_s: float = 0.0
    """Writing to the store."""
    steps: int = 0
    """Replies of models. Those that a blueprint's graph computes are none."""
    tool_calls: int = 0
    tool_chars: int = 0
    """Characters of tool results that models read."""
    usage: Usage = Usage()
    """Tokens; a lower bound if those of any reply are unknown (`usage.unknown`)."""
    money: float | None = None
    """US dollars; a lower bound if any reply is `unpriced`; None if no cost is known."""
    bytes_raw: int = 0
    """Bytes of events appended by this turn, before compression."""
    bytes_stored: int = 0
    """Bytes of segments appended by this turn."""
    state_bytes: int = 0
    """Bytes of segments of the whole thread."""
    table: list[Step] = field(default_factory=list[Step])
    """The steps of the main run, one by one. The first item is the time before the first model call."""
    unpriced: int = 0
    """Replies and summaries of unknown cost."""

    def add(self, child: "Costs") -> None:
        """Add what a child run spent."""
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


class TurnStart(Struct, frozen=True, array_like=True):
    """The beginning of a run's turn, so that its spending is known to a process that takes the turn over."""

    number: int = 0
    """The number of the event that began it."""
    at: float = 0.0
    """Seconds since 1970, in the process that has the turn."""
    seconds: float = 0.0
    """Seconds that the turn had taken in processes before."""
    usage: Usage = Usage()
    cost: float | None = None
    unpriced: int = 0
    """Of the run until then."""


def in_words(count: int, unknown: int) -> str:
    """Format a number of tokens for people. *count* does not include the tokens of *unknown* replies."""
    return f"{'at least ' if unknown else ''}{count:,}" if count or not unknown else "unknown"
