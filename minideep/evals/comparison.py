"""Compares two reports golden by golden: what became better or worse by more than chance explains."""

from collections import Counter
from collections.abc import Callable
from math import sqrt
from typing import Literal, cast

from ..checks import check
from ..columns import aligned
from ..documented import Struct
from .cases import Cases, Number, Result, Spread
from .texts import NAME_SHOWN, PROBLEM_SHOWN, counted, dollars, one_line, with_spread

Change = Literal["better", "worse", "same", "new", "missing", "not run"]
NOISE = 2.0
"""Standard errors by which two means must differ. Of many runs, one difference in twenty is larger by chance alone."""
_LOWEST = 1e-9
"""A smaller difference is one of rounding."""
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
    """US dollars of one run; unknown if any reply is unpriced."""
    seconds: Delta


class Comparison(Struct, frozen=True):
    """A report and an earlier one, in the order of the goldens."""

    goldens: tuple[Compared, ...]
    settings: tuple[str, ...] = ()
    """What was not the same: `model: a -> b`."""

    def of(self, *verdicts: Change) -> tuple[Compared, ...]:
        """Return the goldens with one of these verdicts."""
        for place, verdict in enumerate(verdicts):
            check(verdict, Change, f"verdicts[{place}]", "Comparison.of")
        return tuple(one for one in self.goldens if one.verdict in verdicts)

    @property
    def regressed(self) -> bool:
        """True if a golden became worse, is missing or was not run; or if a new one does not always pass."""
        new = (one.passes.now for one in self.of("new"))
        return bool(self.of("worse", "missing", "not run")) or any(now is None or now.mean < 1 for now in new)

    def table(self) -> str:
        """Return a line for each golden, and the totals. Control characters are escaped."""
        return _table(self)


def compared(report: Cases, baseline: Cases) -> Comparison:
    """Compare *report* with *baseline*."""
    now, before = ({result.golden.name: result for result in one.results} for one in (report, baseline))
    names = [*now, *(name for name in before if name not in now)]
    goldens = tuple(_one(name, before.get(name), now.get(name)) for name in names)
    return Comparison(goldens, tuple(_settings(baseline, report)))


def _one(name: str, before: Result | None, now: Result | None) -> Compared:
    def delta(number: Number) -> Delta:
        return Delta(before and before.spread(number), now and now.spread(number))

    passes = delta("passed")
    both = [result.scores if result else {} for result in (before, now)]
    scores = {score: Delta(both[0].get(score), both[1].get(score)) for score in dict.fromkeys([*both[0], *both[1]])}
    return Compared(
        name,
        "missing" if now is None else _verdict(passes, scores),
        passes,
        scores,
        steps=delta("steps"),
        cost=delta("cost") if all(map(_is_priced, (before, now))) else Delta(None, None),
        seconds=delta("seconds"),
    )


def _is_priced(result: Result | None) -> bool:
    return result is None or not any(case.unpriced for case in result.cases)


def _verdict(passes: Delta, scores: dict[str, Delta]) -> Change:
    if passes.now is None:
        return "not run"
    if passes.before is None:
        return "new"
    clear = [delta.change or 0.0 for delta in (passes, *scores.values()) if delta.is_clear]
    if any(change < 0 for change in clear):
        return "worse"
    return "better" if clear else "same"


def _settings(before: Cases, now: Cases) -> list[str]:
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


# ---- the table


def _table(comparison: Comparison) -> str:
    """Return a line for each golden with what is clearly other than before below it, and the totals."""
    heads = ("verdict", "passed", "steps", "cost", "seconds", "golden")
    first, *lines = aligned([heads, *map(_compared_row, comparison.goldens)])
    found = [first]
    for line, one in zip(lines, comparison.goldens, strict=True):
        changes = [f"{name} {_change(delta, '.2f')}" for name, delta in one.scores.items() if delta.is_clear]
        found += [line, *(f"     {one_line(change, PROBLEM_SHOWN)}" for change in changes)]
    counts = Counter(one.verdict for one in comparison.goldens)
    found.append(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    steps, cost = _total(comparison, "steps", counted), _total(comparison, "cost", dollars)
    found.append(f"of those in both: steps {steps}, cost {cost}")
    return "\n".join([*found, *(one_line(f"not the same: {text}", PROBLEM_SHOWN) for text in comparison.settings)])


def _compared_row(one: Compared) -> list[str]:
    passes = [f"{one.mean * one.count:.0f}/{one.count}" if one else "-" for one in (one.passes.before, one.passes.now)]
    steps, cost = (_arrow(one.steps, *map(counted, _both(one.steps))), _arrow(one.cost, *map(dollars, _both(one.cost))))
    seconds = _change(one.seconds, ".2f")
    return [one.verdict, _arrow(one.passes, *passes), steps, cost, seconds, one_line(one.name, NAME_SHOWN)]


def _both(delta: Delta) -> tuple[Spread | None, Spread | None]:
    return delta.before, delta.now


def _change(delta: Delta, form: str) -> str:
    return _arrow(delta, with_spread(delta.before, form), with_spread(delta.now, form))


def _arrow(delta: Delta, before: str, now: str) -> str:
    """Return a number before and now; one that chance explains has a `~`."""
    if before == now:
        return now
    return f"{before} -> {now}{'' if delta.is_clear or not delta.change else ' ~'}"


def _total(comparison: Comparison, name: str, form: Callable[[Spread], str]) -> str:
    """Return the sum of the means before and now, and its change in percent, of the goldens that have both."""
    deltas: list[Delta] = [getattr(one, name) for one in comparison.goldens]
    both = [(delta.before.mean, delta.now.mean) for delta in deltas if delta.before and delta.now]
    before, now = (sum(column) for column in zip(*both, strict=True)) if both else (0.0, 0.0)
    share = f" ({(now - before) / before:+.0%})" if before else ""
    return f"{form(Spread(before))} -> {form(Spread(now))}{share}" if both else "unknown"
