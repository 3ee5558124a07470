"""The results of an evaluation: of each case, of each golden over its runs, and their sums."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, Literal

from msgspec import field

from ..checks import check_fields, checked
from ..documented import Struct
from .golden import Golden
from .scores import Failure, Score

NOT_RUN = "not run"
RAISED = "raised"
Number = Literal["passed", "seconds", "steps", "tool_calls", "tokens", "cost", "judging", "state_bytes"]
"""What is known of a case as a number; `passed` is 0 or 1."""


class Case(Struct, frozen=True):
    """The result of one run of one golden."""

    golden: Golden
    thread_id: str = ""
    """The thread in the store of the evaluation; empty if the case was not run."""
    status: str = RAISED
    """The status of the turn, `raised` if there was none, or `not run`."""
    failures: tuple[Failure, ...] = ()
    """What went wrong; the reason, if the case was not run."""
    scores: tuple[Score, ...] = ()
    seconds: float = 0.0
    """Time that the turns and their assertions took."""
    steps: int = 0
    """Model replies, with those of subagents."""
    tool_calls: int = 0
    """Calls that were answered, with those of subagents."""
    tokens: int = 0
    """A lower bound if the tokens of any reply are `unknown`."""
    unknown: int = 0
    """Replies whose tokens are unknown or not fully reported."""
    cost: float | None = None
    """US dollars that the agent spent: at least, if any reply is `unpriced`; None if no cost is known."""
    unpriced: int = 0
    """Replies and summaries of unknown cost."""
    judging: float | None = 0.0
    """US dollars that the assertions spent on models of their own; None if unknown."""
    state_bytes: int = 0
    run: int = 1
    """The number of the run: 1 for the first of its golden."""
    answer: str = ""
    """The answer or the question of the turn: its first 2,000 characters."""
    models: tuple[str, ...] = ()
    """The models that answered."""
    calls: tuple[str, ...] = ()
    """The first 200 calls of the turn, each with at most 200 characters."""

    @property
    def ran(self) -> bool:
        return self.status != NOT_RUN

    @property
    def passed(self) -> bool:
        return self.ran and not self.failures


class Spread(Struct, frozen=True):
    """A number that was measured once or several times."""

    mean: float
    deviation: float = 0.0
    """The standard deviation of the sample; 0 for one value."""
    count: int = 1

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of at least one value."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else 0.0, len(values))


class Result(Struct, frozen=True):
    """The cases of one golden."""

    golden: Golden
    cases: tuple[Case, ...]

    @property
    def ran(self) -> tuple[Case, ...]:
        """The cases that were run."""
        return tuple(case for case in self.cases if case.ran)

    @property
    def passed(self) -> int:
        """How many cases passed."""
        return sum(case.passed for case in self.cases)

    @property
    def pass_rate(self) -> float | None:
        """The share of the cases that were run which passed; None if none was."""
        return self.passed / len(self.ran) if self.ran else None

    @property
    def scores(self) -> dict[str, Spread]:
        """Each score by its name, over the cases that have it."""
        found: dict[str, list[float]] = {}
        for score in (score for case in self.ran for score in case.scores):
            found.setdefault(score.name, []).append(score.value)
        return {name: Spread.of(values) for name, values in found.items()}

    @checked
    def spread(self, number: Number) -> Spread | None:
        """Return the spread of a number of the cases that were run; None if it is known of none."""
        values: list[float] = [found for case in self.ran if (found := getattr(case, number)) is not None]
        return Spread.of(values) if values else None


class Cases(Struct, frozen=True):
    """The cases of an evaluation, and their sums."""

    cases: tuple[Case, ...]
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What was evaluated, and how: `agents` with their versions, `minideep` (its version), `repeat`, `concurrency`,
    `timeout`, `budget`, `kept` (True if the threads are in a store that the caller gave) and `at`, in seconds since
    1970.
    """

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def passed(self) -> bool:
        """True if there are cases, and every one was run and passed."""
        return bool(self.cases) and all(case.passed for case in self.cases)

    @property
    def failed(self) -> tuple[Case, ...]:
        """The cases that were run and did not pass."""
        return tuple(case for case in self.cases if case.ran and not case.passed)

    @property
    def not_run(self) -> tuple[Case, ...]:
        """The cases for which the budget was too small."""
        return tuple(case for case in self.cases if not case.ran)

    @property
    def results(self) -> tuple[Result, ...]:
        """The results by golden."""
        found: dict[str, list[Case]] = {}
        for case in self.cases:
            found.setdefault(case.golden.name, []).append(case)
        return tuple(Result(cases[0].golden, tuple(cases)) for cases in found.values())

    @property
    def seconds(self) -> float:
        """The sum over all cases, including those that ran at the same time."""
        return sum(case.seconds for case in self.cases)

    @property
    def steps(self) -> int:
        return sum(case.steps for case in self.cases)

    @property
    def tokens(self) -> int:
        return sum(case.tokens for case in self.cases)

    @property
    def unknown(self) -> int:
        """Replies whose tokens are unknown or not fully reported."""
        return sum(case.unknown for case in self.cases)

    @property
    def cost(self) -> float | None:
        """US dollars that the agent spent: at least, if any reply is `unpriced`; None if no cost is known."""
        known = [case.cost for case in self.cases if case.cost is not None]
        return sum(known) if known else None

    @property
    def unpriced(self) -> int:
        """Replies and summaries of unknown cost."""
        return sum(case.unpriced for case in self.cases)

    @property
    def judging(self) -> float | None:
        """US dollars that the assertions spent; None if that of any case is unknown."""
        spent = [case.judging for case in self.cases]
        return None if None in spent else sum(filter(None, spent))
