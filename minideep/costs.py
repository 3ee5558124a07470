"""The costs of a turn: where its time, its tokens and its money went."""

from time import perf_counter

from msgspec import Struct, field

from .messages import Usage
from .state import Limits


class Step(Struct, frozen=True, gc=False):
    """The time of one step, in seconds: one model reply and the results of its calls."""

    model_s: float
    tools_s: float
    harness_s: float


class Spent(Struct, frozen=True):
    """The spending of a run and everything below it since its input was accepted. Budgets are compared with it."""

    tokens: int
    """Input and output tokens of all replies; a lower bound if `unknown` is not 0."""
    cost: float | None
    """US dollars; a lower bound if any reply is `unpriced`; None if no cost is known."""
    seconds: float
    """Wall time."""
    unknown: int = 0
    """Replies whose tokens are not fully known."""
    unpriced: int = 0
    """Replies of unknown cost."""

    def reached(self, limits: Limits) -> str | None:
        """Return the name of the first budget in *limits* that is used up, or of which an unknown amount is used; None
        if there is none.
        """
        if limits.tokens is not None and (self.unknown or self.tokens >= limits.tokens):
            return "tokens"
        # Not `cost >= limit`: a cost of NaN would never get there.
        if limits.cost is not None and (self.unpriced or not (self.cost or 0.0) < limits.cost):
            return "cost"
        if limits.seconds is not None and self.seconds >= limits.seconds:
            return "seconds"
        return None

    def missing(self, budget: str) -> str:
        """Return a description of the unknown part of the spending under *budget*; empty if all of it is known."""
        match budget:
            case "tokens" if self.unknown:
                return f"the tokens of {_replies(self.unknown)} are unknown"
            case "cost" if self.unpriced:
                return f"the cost of {_replies(self.unpriced)} is unknown"
            case _:
                return ""


class Costs(Struct):
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
    """Model replies."""
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


class Ledger:
    """The accounts of one run while it is driven: the time of the current step, and the spending that budgets limit.

    Spending counts for the run and for every run above it. *parent* is the ledger of the run directly above.
    """

    __slots__ = (
        "_began", "_children_s", "_mark", "_model_s", "_money", "_tokens", "_tools_s", "_unknown", "_unpriced",
        "costs", "parent", "total",
    )  # fmt: skip

    def __init__(self, parent: "Ledger | None" = None) -> None:
        self.parent = parent
        self.costs = Costs()
        self.total: Costs = parent.total if parent else self.costs
        """The costs of the main run, where saving is counted: an append holds the events of all runs."""
        self._model_s = self._tools_s = self._children_s = 0.0
        self._mark = self._began = perf_counter()
        self._tokens = self._unknown = self._unpriced = 0
        self._money: float | None = None

    @property
    def spent(self) -> Spent:
        return Spent(self._tokens, self._money, self.seconds, self._unknown, self._unpriced)

    @property
    def seconds(self) -> float:
        """Wall time since the input was accepted."""
        return perf_counter() - self._began

    def add_model(self, usage: Usage, cost: float | None, *, asked: bool = True) -> None:
        """Count the tokens and the money of a reply or a summary. *asked* is False if no model made it."""
        tokens, unknown, unpriced = usage.total, usage.unknown, cost is None and asked
        if cost is not None:
            self.costs.money = (self.costs.money or 0.0) + cost
        elif asked:
            self.costs.unpriced += 1
        ledger: Ledger | None = self
        while ledger is not None:
            ledger._tokens += tokens
            if cost is not None:
                ledger._money = (ledger._money or 0.0) + cost
            if unpriced or unknown:
                ledger._unknown += unknown
                ledger._unpriced += unpriced
            ledger = ledger.parent

    def add_model_time(self, seconds: float) -> None:
        self._model_s += seconds

    def add_tools_time(self, started: float, saved_before: float) -> None:
        """Count the time since *started* as spent in tools, without what saving took since: *saved_before* is the time
        that it had taken until then.
        """
        saving = self.total.save_s - saved_before
        self._tools_s += max(0.0, perf_counter() - started - saving)

    def add_result(self, size: int) -> None:
        """Count the characters of a tool result."""
        self.costs.tool_chars += size

    def add_child(self, child: "Ledger", started: float) -> None:
        """Subtract the time since *started* from this run's time in tools, and add what the *child* spent."""
        self._children_s += perf_counter() - started
        self.costs.add(child.costs)

    def add_saving(self, started: float) -> None:
        """Count the time since *started* as spent in saving."""
        seconds = perf_counter() - started
        self.total.save_s += seconds
        self._mark += seconds  # Or the harness would be charged for it as well.

    def add_saved(self, raw: int, stored: int, thread: int) -> None:
        """Count the bytes of an append, and those that the whole *thread* has now."""
        self.total.bytes_raw += raw
        self.total.bytes_stored += stored
        self.total.state_bytes = thread

    def close_step(self) -> None:
        """Close the accounts of a step. Time that was neither the model's nor the tools' is the harness's."""
        now, costs, model_s = perf_counter(), self.costs, self._model_s
        # Clocks are read at different moments, so a difference may fall a little below zero. `max` would cost a call.
        harness_s = harness_s if (harness_s := now - self._mark - model_s - self._tools_s) > 0.0 else 0.0
        tools_s = tools_s if (tools_s := self._tools_s - self._children_s) > 0.0 else 0.0
        costs.table.append(Step(model_s, tools_s, harness_s))
        costs.model_s += model_s
        costs.tools_s += tools_s
        costs.harness_s += harness_s
        self._model_s = self._tools_s = self._children_s = 0.0
        self._mark = now

    def close(self, steps: int, tool_calls: int, usage: Usage) -> None:
        """Add up the costs of a run that is over."""
        self.close_step()
        self.costs.steps += steps
        self.costs.tool_calls += tool_calls
        self.costs.usage += usage


def in_words(count: int, unknown: int) -> str:
    """Format a number of tokens for people. *count* does not include the tokens of *unknown* replies."""
    return f"{'at least ' if unknown else ''}{count:,}" if count or not unknown else "unknown"


def _replies(count: int) -> str:
    return "1 reply" if count == 1 else f"{count} replies"
