"""Two reports: what became better or worse, by more than chance explains."""

from math import comb

import pytest

from minideep.evals import Case, Delta, Failure, Golden, Report, Score, Spread
from minideep.evals.cases import NOT_RUN

FAILED = (Failure("a", "b"),)


def runs(name, passes, scores=None, *, steps=2, cost=0.5):
    """A case for each run: *passes* is a text of `.` and `F`, and of `-` for a run that the budget left out."""
    for run, mark in enumerate(passes, start=1):
        status = NOT_RUN if mark == "-" else "ended"
        found = () if scores is None else (Score(scores[run - 1], name="style"),)
        spent = {} if mark == "-" else {"steps": steps, "cost": cost, "seconds": 1.0}
        yield Case(Golden(name), "t", status, () if mark == "." else FAILED, found, run=run, **spent)


def compare(before, now):
    """Compare two reports, each a mapping of goldens to the arguments of `runs`."""
    one, other = (
        Report(tuple(case for name, about in report.items() for case in runs(name, *about))) for report in (before, now)
    )
    return other.compare(one)


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        (".", ".", "same"),
        (".", "F", "worse"),
        ("F", ".", "better"),
        ("F", "F", "same"),
        (".....", "....F", "same"),
        (".....", "...FF", "same"),
        (".....", "..FFF", "worse"),
        ("FFFFF", "...FF", "better"),
        ("..FF", ".FFF", "same"),
        ("...", "FFF", "worse"),
        ("...", "..-", "same"),
        ("...", "---", "not run"),
    ],
)
def test_a_change_of_the_pass_rate_counts_if_chance_does_not_explain_it(before, now, verdict):
    comparison = compare({"a": (before,)}, {"a": (now,)})
    assert [one.verdict for one in comparison.goldens] == [verdict]
    assert comparison.regressed == (verdict in ("worse", "not run"))


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        ([0.5, 0.5], [0.75, 0.75], "better"),
        ([0.5, 0.9], [0.7, 0.9], "same"),
        ([0.9, 0.9, 0.9], [0.6, 0.7, 0.6], "worse"),
        ([0.5, 0.5], [0.5, 0.5], "same"),
    ],
)
def test_a_change_of_a_score_counts_in_the_same_way(before, now, verdict):
    marks = "." * len(before)
    assert compare({"a": (marks, before)}, {"a": (marks, now)}).goldens[0].verdict == verdict


def test_a_golden_that_passes_more_often_with_a_lower_score_is_worse():
    (one,) = compare({"a": ("FF", [0.9, 0.9])}, {"a": ("..", [0.6, 0.6])}).goldens
    assert (one.verdict, one.passes.change, round(one.scores["style"].change, 6)) == ("worse", 1.0, -0.3)


def test_goldens_that_are_new_or_missing_are_named():
    comparison = compare({"a": (".",), "gone": (".",)}, {"new": (".",), "a": (".",)})
    assert [(one.name, one.verdict) for one in comparison.goldens] == [
        ("new", "new"), ("a", "same"), ("gone", "missing"),
    ]  # fmt: skip
    assert comparison.of("missing")[0].passes.change is None
    assert comparison.regressed


@pytest.mark.parametrize(("passes", "regressed"), [("..", False), (".F", True), ("F", True), ("-", True)])
def test_a_new_golden_must_pass(passes, regressed):
    assert compare({"a": (".",)}, {"a": (".",), "new": (passes,)}).regressed == regressed


def test_a_golden_that_failed_before_and_still_fails_is_no_regression():
    assert not compare({"a": ("F",)}, {"a": ("F",)}).regressed


def test_the_table_says_what_changed_with_steps_and_cost():
    before = Report((*runs("a", "..", [0.5, 0.5], steps=4, cost=0.5), *runs("b", "..")), {"repeat": 2, "at": 1.0})
    now = Report((*runs("a", "..", [0.9, 0.9], steps=2, cost=0.25), *runs("b", "F.")), {"repeat": 2, "at": 2.0})
    assert now.compare(before).table() == (
        "verdict  passed         steps                cost  seconds  golden\n"
        "better   2/2           4 -> 2  $0.5000 -> $0.2500     1.00  a\n"
        "     style 0.50 -> 0.90\n"
        "same     2/2 -> 1/2 ~       2             $0.5000     1.00  b\n"
        "1 better, 1 same\n"
        "of those in both: steps 6 -> 4 (-33%), cost $1.0000 -> $0.7500 (-25%)"
    )


def test_settings_that_differ_are_named_since_a_difference_may_come_from_there():
    before = Report((Case(Golden("a"), models=("m1",)),), {"minideep": "0.2.0", "at": 1.0, "repeat": 1})
    now = Report((Case(Golden("a"), models=("m2", "m3")),), {"minideep": "0.3.0", "at": 2.0, "repeat": 1})
    assert now.compare(before).settings == ("models: m1 -> m2, m3", "minideep: 0.2.0 -> 0.3.0")
    assert now.compare(before).table().splitlines()[-1] == "not the same: minideep: 0.2.0 -> 0.3.0"


def test_an_unknown_cost_is_not_compared():
    (one,) = compare({"a": (".",)}, {"a": (".",)}).goldens
    assert one.cost.change == 0
    unpriced = Report((Case(Golden("a"), "t", "ended", cost=0.1, unpriced=1),))
    assert unpriced.compare(unpriced).goldens[0].cost.now is None


@pytest.mark.parametrize(("count", "most"), [(2, 0.125), (3, 0.032), (4, 0.071), (5, 0.11), (8, 0.084), (20, 0.055)])
def test_a_golden_that_has_not_changed_is_seldom_taken_for_changed(count, most):
    """Computed over all outcomes of two reports with the same chance to pass."""

    def chance(passed, rate):
        return comb(count, passed) * rate**passed * (1 - rate) ** (count - passed)

    spreads = [Spread.of([1.0] * passed + [0.0] * (count - passed)) for passed in range(count + 1)]
    for rate in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
        wrong = sum(
            chance(before, rate) * chance(now, rate)
            for before in range(count + 1)
            for now in range(count + 1)
            if Delta(spreads[before], spreads[now]).is_clear
        )
        assert wrong <= most
