"""A report as text for people."""

from collections import Counter
from collections.abc import Sequence

from ..columns import aligned
from ..costs import in_words
from .cases import Case, Cases, Result, Spread
from .texts import ANSWER_SHOWN, NAME_SHOWN, PROBLEM_SHOWN, counted, dollars, money, one_line, with_spread


def table(report: Cases) -> str:
    """Return a line for each golden with its failures below it, and the totals."""
    results = report.results
    scores = list(dict.fromkeys(name for result in results for name in result.scores))
    heads = ("#", "result", "status", "seconds", "steps", "calls", "tokens", "cost", *scores, "golden")
    rows = [_row(place, result, scores) for place, result in enumerate(results, start=1)]
    first, *lines = aligned([[one_line(head, NAME_SHOWN) for head in heads], *rows])
    found = [first]
    for line, result in zip(lines, results, strict=True):
        found += [line, *_problems(result, kept=bool(report.about.get("kept")))]
    return "\n".join([*found, *_totals(report)])


def _row(place: int, result: Result, scores: Sequence[str]) -> list[str]:
    unknown, unpriced = (sum(getattr(case, name) for case in result.cases) for name in ("unknown", "unpriced"))
    tokens = result.spread("tokens")
    found = result.scores
    return [
        str(place),
        _result(result),
        _statuses(result),
        with_spread(result.spread("seconds"), ".2f"),
        counted(result.spread("steps")),
        counted(result.spread("tool_calls")),
        in_words(round(tokens.mean), unknown) if tokens and unknown else with_spread(tokens, ",.0f"),
        dollars(result.spread("cost"), unpriced),
        *(_score(found.get(name), len(result.ran)) for name in scores),
        one_line(result.golden.name, NAME_SHOWN),
    ]


def _score(spread: Spread | None, ran: int) -> str:
    """Return a mean score. If not every run has one, it says how many: runs that failed early do not lower it."""
    count = f" ({spread.count} of {ran})" if spread and spread.count < ran else ""
    return f"{with_spread(spread, '.2f')}{count}"


def _result(result: Result) -> str:
    if any(case.run > 1 for case in result.cases):
        left = len(result.cases) - len(result.ran)
        return f"{result.passed}/{len(result.ran)}{f', {left} not run' if left else ''}"
    case = result.cases[0]
    return "pass" if case.passed else "FAIL" if case.ran else "not run"


def _statuses(result: Result) -> str:
    counts = Counter(case.status for case in result.ran)
    if len(counts) < 2:
        return next(iter(counts), "-")
    return ", ".join(f"{status} ×{count}" for status, count in counts.most_common())


def _problems(result: Result, *, kept: bool) -> list[str]:
    """Return each problem once, with the number of runs that have it, and what the first run that failed answered.

    Its thread is named if there is a store in which it can be read.
    """
    counts = Counter(_problem(case, str(failure)) for case in result.cases for failure in case.failures)
    lines = [f"     {text}{f' ({count} runs)' if count > 1 else ''}" for text, count in counts.items()]
    failed = next((case for case in result.ran if not case.passed), None)
    if failed is None:
        return lines
    answer = [f"     answer: {one_line(failed.answer, ANSWER_SHOWN)}"] if failed.answer else []
    return [*lines, *answer, *([f"     thread {failed.thread_id}"] if kept else [])]


def _problem(case: Case, text: str) -> str:
    return one_line(text if case.ran else f"not run: {text}", PROBLEM_SHOWN)


def _totals(report: Cases) -> list[str]:
    ran = [case for case in report.cases if case.ran]
    done = f"{sum(case.passed for case in ran)} of {len(ran)} passed"
    left = f", {len(report.not_run)} not run" if report.not_run else ""
    tokens = in_words(report.tokens, report.unknown)
    cost = money(report.cost, report.unpriced)
    line = f"{done}{left}, {report.seconds:.1f} s, {report.steps:,} steps, {tokens} tokens, {cost}"
    return [line if report.judging == 0 else f"{line}; judging: {money(report.judging, 0)}"]
