"""The accounts of a run while it is driven: where its time, its tokens and its money go, and what budgets limit."""

from time import perf_counter

from .costs import Costs, Step
from .documented import Struct
from .messages import Usage
from .state import Limits


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


class Ledger:
    """The accounts of one run while it is driven: the time of the current step, and the spending that budgets limit.

    Spending counts for the run and for every run above it. *parent* is the ledger of the run directly above.
    """

    __slots__ = (
        "_began", "_children_s", "_mark", "_money", "_tokens", "_tools_s", "_unknown", "_unpriced",
        "costs", "model_s", "parent", "total",
    )  # fmt: skip

    def __init__(self, parent: "Ledger | None" = None) -> None:
        self.parent: Ledger | None = parent
        self.costs: Costs = Costs()
        self.total: Costs = parent.total if parent else self.costs
        """The costs of the main run, where saving is counted: an append holds the events of all runs."""
        self.model_s: float = 0.0
        """Seconds of the current step that were spent waiting for models."""
        self._tools_s = self._children_s = 0.0
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
        tokens, unknown, unpriced = usage.input + usage.output, usage.unknown, cost is None and asked
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

    def carry(self, costs: Costs, seconds: float) -> None:
        """Count against the budgets of this run what it had spent before its process took it over."""
        self._tokens += costs.usage.total
        self._unknown += costs.usage.unknown
        self._unpriced += costs.unpriced
        if costs.money is not None:
            self._money = (self._money or 0.0) + costs.money
        self._began -= seconds

    def add_tools_time(self, started: float, saved_before: float) -> None:
        """Count the time since *started* as spent in tools, without what saving took since: *saved_before* is the time
        that it had taken until then.
        """
        saving = self.total.save_s - saved_before
        self._tools_s += max(0.0, perf_counter() - started - saving)

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
        now, costs, model_s = perf_counter(), self.costs, self.model_s
        # Clocks are read at different moments, so a difference may fall a little below zero. `max` would cost a call.
        harness_s = harness_s if (harness_s := now - self._mark - model_s - self._tools_s) > 0.0 else 0.0
        tools_s = tools_s if (tools_s := self._tools_s - self._children_s) > 0.0 else 0.0
        costs.table.append(Step(model_s, tools_s, harness_s))
        costs.model_s += model_s
        costs.tools_s += tools_s
        costs.harness_s += harness_s
        self.model_s = self._tools_s = self._children_s = 0.0
        self._mark = now

    def close(self, steps: int, tool_calls: int, usage: Usage) -> None:
        """Add up the costs of a run that is over."""
        self.close_step()
        self.costs.steps += steps
        self.costs.tool_calls += tool_calls
        self.costs.usage += usage


def _replies(count: int) -> str:
    return "1 reply" if count == 1 else f"{count} replies"
