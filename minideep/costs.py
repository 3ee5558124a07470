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
    """Input and output of all replies."""
    cost: float | None
    """US dollars, as far as they are known; None where no reply had a price."""
    seconds: float
    """Wall time."""

    def reached(self, limits: Limits) -> str | None:
        """The first budget of *limits* that is spent."""
        for name in self.__struct_fields__:
            most, spent = getattr(limits, name), getattr(self, name)
            if most is not None and spent is not None and spent >= most:
                return name
        return None


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
    money: float | None = None
    """US dollars, as far as they are known; None where no reply had a price."""
    bytes_raw: int = 0
    """Bytes of events appended by this turn, before compression."""
    bytes_stored: int = 0
    """Bytes of segments appended by this turn."""
    state_bytes: int = 0
    """Bytes of segments of the whole thread."""
    table: list[Step] = field(default_factory=list[Step])
    """The steps of the main run, one by one."""

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
