"""Reports as text for people: each text on one line, with control characters escaped."""

from collections import Counter
from collections.abc import Iterable, Sequence

from ..costs import in_words
from .comparison import Compared, Comparison, Delta
from .report import Case, Report, Result, Spread

NAME_SHOWN, PROBLEM_SHOWN, ANSWER_SHOWN = 60, 300, 200
"""Characters of a golden's name, of a problem and of an answer in a table."""
WORDS = ("result", "status", "verdict", "passed")
"""The columns of words, which are aligned left; those of numbers are aligned right."""


def report_table(report: Report) -> str:
    """Return a line for each golden with its failures below it, and the totals."""
    results = report.results
    scores = list(dict.fromkeys(name for result in results for name in result.scores))
    heads = ("#", "result", "status", "seconds", "steps", "tokens", "cost", *scores, "golden")
    rows = [_row(place, result, scores) for place, result in enumerate(results, start=1)]
    first, *lines = aligned([[one_line(head, NAME_SHOWN) for head in heads], *rows])
    found = [first]
    for line, result in zip(lines, results, strict=True):
        found += [line, *_problems(result, kept=bool(report.about.get("kept")))]
    return "\n".join([*found, *_totals(report)])


def _row(place: int, result: Result, scores: Sequence[str]) -> list[str]:
    unknown, unpriced = (sum(getattr(case, name) for case in result.cases) for name in ("unknown", "unpriced"))
    tokens = result.spread(lambda case: case.tokens)
    found = result.scores
    return [
        str(place),
        _result(result),
        _statuses(result),
        with_spread(result.spread(lambda case: case.seconds), ".2f"),
        with_spread(result.spread(lambda case: case.steps), ",.4g"),
        in_words(round(tokens.mean), unknown) if tokens and unknown else with_spread(tokens, ",.0f"),
        dollars(result.spread(lambda case: case.cost), unpriced),
        *(with_spread(found.get(name), ".2f") for name in scores),
        one_line(result.golden.name, NAME_SHOWN),
    ]


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


def _totals(report: Report) -> list[str]:
    ran = [case for case in report.cases if case.ran]
    done = f"{sum(case.passed for case in ran)} of {len(ran)} passed"
    left = f", {len(report.not_run)} not run" if report.not_run else ""
    tokens = in_words(report.tokens, report.unknown)
    cost = money(report.cost, report.unpriced)
    line = f"{done}{left}, {report.seconds:.1f} s, {report.steps:,} steps, {tokens} tokens, {cost}"
    return [line if report.judging == 0 else f"{line}; judging: {money(report.judging, 0)}"]


def comparison_table(comparison: Comparison) -> str:
    """Return a line for each golden with what is clearly other than before below it, and the totals."""
    heads = ("verdict", "passed", "steps", "cost", "seconds", "golden")
    first, *lines = aligned([heads, *map(_compared_row, comparison.goldens)])
    found = [first]
    for line, one in zip(lines, comparison.goldens, strict=True):
        changes = [f"{name} {_change(delta, '.2f')}" for name, delta in one.scores.items() if delta.is_clear]
        found += [line, *(f"     {one_line(change, PROBLEM_SHOWN)}" for change in changes)]
    counts = Counter(one.verdict for one in comparison.goldens)
    found.append(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    steps, cost = _total(comparison, "steps", ",.4g"), _total(comparison, "cost", ".4f")
    found.append(f"of those in both: steps {steps}, cost {cost}")
    return "\n".join([*found, *(one_line(f"not the same: {text}", PROBLEM_SHOWN) for text in comparison.settings)])


def _compared_row(one: Compared) -> list[str]:
    passes = [f"{one.mean * one.count:.0f}/{one.count}" if one else "-" for one in (one.passes.before, one.passes.now)]
    numbers = (_change(one.steps, ",.4g"), _change(one.cost, ".4f"), _change(one.seconds, ".2f"))
    return [one.verdict, _arrow(one.passes, *passes), *numbers, one_line(one.name, NAME_SHOWN)]


def _change(delta: Delta, form: str) -> str:
    return _arrow(delta, with_spread(delta.before, form), with_spread(delta.now, form))


def _arrow(delta: Delta, before: str, now: str) -> str:
    """Return a number before and now; one that chance explains has a `~`."""
    if before == now:
        return now
    return f"{before} -> {now}{'' if delta.is_clear or not delta.change else ' ~'}"


def _total(comparison: Comparison, name: str, form: str) -> str:
    """Return the sum of the means before and now, and its change in percent, of the goldens that have both."""
    deltas: list[Delta] = [getattr(one, name) for one in comparison.goldens]
    both = [(delta.before.mean, delta.now.mean) for delta in deltas if delta.before and delta.now]
    before, now = (sum(column) for column in zip(*both, strict=True)) if both else (0.0, 0.0)
    share = f" ({(now - before) / before:+.0%})" if before else ""
    return f"{before:{form}} -> {now:{form}}{share}" if both else "unknown"


# ---- numbers


def with_spread(spread: Spread | None, form: str) -> str:
    """Return a mean, and its deviation if there is any."""
    if spread is None:
        return "-"
    mean, deviation = f"{spread.mean:{form}}", f"{spread.deviation:{form}}"
    return mean if deviation == f"{0:{form}}" else f"{mean} ±{deviation}"


def money(amount: float | None, unpriced: int) -> str:
    """Return an amount of US dollars in words. *amount* does not include that of *unpriced* replies."""
    if amount is None or (unpriced and not amount):
        return "cost unknown" if unpriced or amount is None else "$0"
    return f"{'at least ' if unpriced else ''}{_rounded(amount)}"


def dollars(spread: Spread | None, unpriced: int) -> str:
    """Return a mean amount for a column; `?` is an unknown one, and `+` means at least."""
    if spread is None or (unpriced and not spread.mean):
        return "?"
    more = f" ±{_rounded(spread.deviation)}" if spread.deviation else ""
    return f"{_rounded(spread.mean)}{more}{'+' if unpriced else ''}"


def _rounded(amount: float) -> str:
    return f"${amount:.4f}" if amount else "$0"


# ---- text


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return *rows*, the first of which are the heads, as lines; the last column is not padded."""
    heads, widths = rows[0], [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for row in rows:
        cells = [
            cell.ljust(width) if head in WORDS else cell.rjust(width)
            for head, cell, width in zip(heads[:-1], row[:-1], widths[:-1], strict=True)
        ]
        lines.append("  ".join([*cells, row[-1]]))
    return lines


def one_line(text: str, limit: int) -> str:
    """Return *text* on one line of at most *limit* characters, with control characters escaped."""
    flat = "".join(letter if letter.isprintable() else escaped(letter) for letter in " ".join(text.split()))
    return flat if len(flat) <= limit else f"{flat[: limit - 3]}..."


def escaped(letters: Iterable[str]) -> str:
    return "".join(letters).encode("unicode_escape").decode()
