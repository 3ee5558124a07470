"""What a thread has cost, as data: time, bytes, tokens and money by turn, run, step and call."""

from typing import Literal

from msgspec import field

from ..documented import Struct
from ..events import Compacted, ModelReplied
from ..messages import Usage
from ..state import Path, Status

POLICY = "policy"
"""The name under which a `Policy`, such as the graph of a blueprint, replies."""


class Spending(Struct):
    """Amounts that can be added up. Work that was done at the same time counts with each of its times."""

    replies: int = 0
    """Replies of models; a summary is none, and neither is a reply that a policy has computed."""
    tool_calls: int = 0
    """Calls that were answered."""
    tool_chars: int = 0
    """Characters of their results."""
    model_s: float = 0.0
    """Seconds of waiting for replies and summaries."""
    tools_s: float = 0.0
    """Seconds in tools, without those that ran subagents: that time is the subagents'."""
    usage: Usage = Usage()
    """Tokens; a lower bound if those of any reply are unknown (`usage.unknown`)."""
    cost: float | None = None
    """US dollars: at least, if any reply is `unpriced`; None if no cost is known."""
    unpriced: int = 0
    """Replies and summaries of unknown cost."""
    bytes_raw: int = 0
    """Bytes of events, before compression."""
    bytes_stored: int = 0
    """Bytes that those take in the store. The events of a segment share its bytes by their sizes."""

    def add(self, other: "Spending") -> None:
        self.replies += other.replies
        self.tool_calls += other.tool_calls
        self.tool_chars += other.tool_chars
        self.model_s += other.model_s
        self.tools_s += other.tools_s
        self.usage += other.usage
        self.add_cost(other.cost)
        self.unpriced += other.unpriced
        self.bytes_raw += other.bytes_raw
        self.bytes_stored += other.bytes_stored

    def add_model(self, event: ModelReplied | Compacted) -> None:
        """Add a reply or a summary."""
        self.replies += isinstance(event, ModelReplied) and event.model != POLICY
        self.model_s += event.seconds
        self.usage += event.usage
        self.add_cost(event.cost)
        self.unpriced += event.cost is None and event.asked

    def add_cost(self, cost: float | None) -> None:
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost


class CallCosts(Struct):
    """A tool call and the subagents that it ran."""

    id: str
    name: str
    """Empty if it was made in a turn of which no events are kept."""
    seconds: float | None = None
    """None if it has no result in this turn."""
    is_error: bool = False
    runs: "list[RunCosts]" = field(default_factory=lambda: list[RunCosts]())
    """What the subagents below the call did in this turn."""


class StepCosts(Struct):
    """One model reply with its calls; or a summary; or calls of an earlier turn that this one went on with."""

    kind: Literal["reply", "summary", "continued"]
    number: int = 0
    """The number of the reply in its turn and run, from 1; 0 for the other two kinds."""
    model: str = ""
    replied: float | None = None
    """When the model had answered, in seconds since 1970; None if no model was asked, or if the log does not hold the
    times of events.
    """
    ended: float | None = None
    """When the last call was answered, or else the model had; None as above."""
    calls: list[CallCosts] = field(default_factory=list[CallCosts])
    own: Spending = field(default_factory=Spending)
    """Without subagents."""


class RunCosts(Struct):
    """What one run did in one turn: the main run or a subagent."""

    path: Path
    agent: str
    status: Status = "running"
    """Its status when the turn was over."""
    start: float | None = None
    end: float | None = None
    """Seconds since 1970; None if the log does not hold the times of events."""
    steps: list[StepCosts] = field(default_factory=list[StepCosts])
    own: Spending = field(default_factory=Spending)
    """Without subagents."""
    total: Spending = field(default_factory=Spending)
    """With subagents."""


class TurnCosts(Struct):
    """What one turn has cost."""

    number: int
    """The number of its boundary, as in `Agent.history`."""
    run: RunCosts
    """The main run."""
    said: str = ""
    """The beginning of its input; empty if it was resumed."""
    status: Status = "running"
    start: float = 0.0
    end: float | None = None
    """Seconds since 1970; None if the turn runs or was cut short."""
    seconds: float = 0.0
    """The time that it took, as far as it is saved; not the time between a crash and what followed it."""
    waited_s: float | None = 0.0
    """Seconds from its end until a person answered, if it waited for one; None while it waits."""
    harness_s: float | None = None
    """Seconds in minideep itself, subagents included; None if that is not recorded."""
    save_s: float | None = None
    """Seconds of writing to the store, without the last append; None if that is not recorded."""
    unanswered_s: float = 0.0
    """Seconds of requests that no reply answered, because they failed or were cut off, as far as that is recorded."""
    timed: bool = True
    """False if the log does not hold the times of the turn's events."""
    cut_short: int = 0
    """How often a crash cut it short. What it spent after it was last saved is in no log."""
    removed: int = 0
    """The turns that this entry stands for, if retention removed their events. Of those only the tokens and the money
    of the main run are known.
    """


class AgentCosts(Struct):
    """What all runs of one agent have cost, without subagents."""

    agent: str
    models: tuple[str, ...]
    runs: int
    own: Spending


class ThreadCosts(Struct):
    """What a thread has cost."""

    thread_id: str
    status: Status
    turns: list[TurnCosts]
    agents: list[AgentCosts]
    total: Spending
    seconds: float
    """The time of its turns."""
    waited_s: float
    """Seconds until a person answered; time that one still waits is not counted."""
    snapshots: int
    """Bytes of the snapshots that compactions and retention have written."""
