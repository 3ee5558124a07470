"""The results of an evaluation, case by case and golden by golden; as JSON, text and JUnit XML."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import field

from ..checks import check_fields, checked
from ..documented import Struct
from ..errors import ConfigError
from ..plain_json import from_json, to_json
from .golden import Golden
from .scores import Failure, Score

if TYPE_CHECKING:  # Loaded when it is used.
    from .comparison import Comparison

NOT_RUN = "not run"
RAISED = "raised"


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

    def spread(self, value: Callable[[Case], float | None]) -> Spread | None:
        """Return the spread of a number over the cases that were run and have it; None if none has it."""
        values = [found for case in self.ran if (found := value(case)) is not None]
        return Spread.of(values) if values else None


class Report(Struct, frozen=True):
    """The results of a golden set, in its order: of each golden all its runs."""

    cases: tuple[Case, ...]
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What was evaluated, and how: `agents`, `minideep` (its version), `repeat`, `concurrency`, `timeout`, `budget`,
    `kept` (True if the threads are in a store that the caller gave) and `at`, in seconds since 1970.
    """

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def passed(self) -> bool:
        """True if every case was run and passed."""
        return all(case.passed for case in self.cases)

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

    def table(self) -> str:
        """Return a line for each golden with its failures below it, and the totals. Control characters are escaped."""
        from .tables import report_table  # Only a reader needs it.

        return report_table(self)

    def junit(self) -> str:
        """Return JUnit XML: one suite with a test for each case, and a failure for each failed assertion."""
        from .junit import junit

        return junit(self)

    def json(self) -> str:
        """Return the report as JSON, with every field by its name."""
        return to_json(msgspec.to_builtins(self)).decode()

    @classmethod
    @checked
    def from_json(cls, raw: str | bytes) -> "Report":
        """Return the report that `json` wrote. Fields that this version does not know are ignored.

        Raises:
            ConfigError: it is not a report.
        """
        try:
            return msgspec.convert(from_json(raw), cls)
        except (msgspec.ValidationError, ValueError, RecursionError) as exc:
            raise ConfigError(f"this is not a report that `Report.json` wrote: {exc}") from None

    @checked
    def compare(self, baseline: "Report") -> "Comparison":
        """Compare this report with an earlier one, golden by golden."""
        from .comparison import compared

        return compared(self, baseline)
