"""Compares two reports golden by golden: what became better or worse by more than chance explains."""

from collections.abc import Callable
from math import sqrt
from typing import Literal, cast

from ..documented import Struct
from .report import Case, Report, Result, Spread

Change = Literal["better", "worse", "same", "new", "missing", "not run"]
NOISE = 2.0
"""Standard errors by which two means must differ. About one difference in twenty is larger by chance alone."""
_LOWEST = 1e-9
IGNORED = {"at", "budget", "concurrency", "kept"}
"""Settings that change no result."""


class Delta(Struct, frozen=True):
    """A number before and now; None where it is not known."""

    before: Spread | None
    now: Spread | None

    @property
    def change(self) -> float | None:
        """The mean now less the mean before."""
        return None if self.before is None or self.now is None else self.now.mean - self.before.mean

    @property
    def is_clear(self) -> bool:
        """True if the means differ by more than twice the standard error of their difference.

        Of numbers that were measured once nothing is known about chance, so any difference is clear.
        """
        if self.before is None or self.now is None:
            return False
        error = sqrt(sum(one.deviation**2 / one.count for one in (self.before, self.now)))
        return abs(self.now.mean - self.before.mean) > NOISE * error + _LOWEST


class Compared(Struct, frozen=True):
    """One golden in two reports."""

    name: str
    verdict: Change
    """`worse` if the pass rate or any score is clearly lower; `better` if none is, and any is clearly higher."""
    passes: Delta
    """The pass rate."""
    scores: dict[str, Delta]
    steps: Delta
    cost: Delta
    """US dollars of one run, where all of them are known."""
    seconds: Delta


class Comparison(Struct, frozen=True):
    """A report and an earlier one, in the order of the goldens."""

    goldens: tuple[Compared, ...]
    settings: tuple[str, ...] = ()
    """What was not the same: `model: a -> b`."""

    def of(self, *verdicts: Change) -> tuple[Compared, ...]:
        """Return the goldens with one of these verdicts."""
        return tuple(one for one in self.goldens if one.verdict in verdicts)

    @property
    def regressed(self) -> bool:
        """True if a golden became worse, is missing or was not run; or if a new one does not always pass."""
        new = (one.passes.now for one in self.of("new"))
        return bool(self.of("worse", "missing", "not run")) or any(now is None or now.mean < 1 for now in new)

    def table(self) -> str:
        """Return a line for each golden, and the totals. Control characters are escaped."""
        from .tables import comparison_table

        return comparison_table(self)


def compared(report: Report, baseline: Report) -> Comparison:
    """Compare *report* with *baseline*."""
    now, before = ({result.golden.name: result for result in one.results} for one in (report, baseline))
    names = [*now, *(name for name in before if name not in now)]
    goldens = tuple(_one(name, before.get(name), now.get(name)) for name in names)
    return Comparison(goldens, tuple(_settings(baseline, report)))


def _one(name: str, before: Result | None, now: Result | None) -> Compared:
    def delta(value: Callable[[Case], float | None]) -> Delta:
        return Delta(before and before.spread(value), now and now.spread(value))

    passes = delta(lambda case: float(case.passed))
    both = [result.scores if result else {} for result in (before, now)]
    scores = {score: Delta(both[0].get(score), both[1].get(score)) for score in dict.fromkeys([*both[0], *both[1]])}
    return Compared(
        name,
        "missing" if now is None else _verdict(passes, scores),
        passes,
        scores,
        steps=delta(lambda case: case.steps),
        cost=delta(lambda case: None if case.unpriced else case.cost),
        seconds=delta(lambda case: case.seconds),
    )


def _verdict(passes: Delta, scores: dict[str, Delta]) -> Change:
    if passes.now is None:
        return "not run"
    if passes.before is None:
        return "new"
    clear = [delta.change or 0.0 for delta in (passes, *scores.values()) if delta.is_clear]
    if any(change < 0 for change in clear):
        return "worse"
    return "better" if clear else "same"


def _settings(before: Report, now: Report) -> list[str]:
    """Return what the two reports did not have in common: a difference may come from there."""
    both: list[dict[str, object]] = []
    for report in (before, now):
        models = sorted({model for case in report.cases for model in case.models})
        about = {name: value for name, value in report.about.items() if name not in IGNORED}
        both.append({"models": models, **about})
    names = dict.fromkeys([*both[0], *both[1]])
    return [
        f"{name}: {_shown(both[0].get(name))} -> {_shown(both[1].get(name))}"
        for name in names
        if both[0].get(name) != both[1].get(name)
    ]


def _shown(value: object) -> str:
    return ", ".join(map(str, cast(list[object], value))) if isinstance(value, list) else str(value)
