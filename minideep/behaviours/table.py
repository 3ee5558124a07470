"""The result of playing all shapes, as text."""

from .running import Played, Proof

HEADS = ("result", "steps", "calls", "tokens", "task and shape")


def proof_table(proof: Proof) -> str:
    """Return a line for each shape, with what caught it below it, and the totals."""
    rows = [HEADS, *map(_row, proof.played)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADS) - 1)]
    lines: list[str] = []
    for row, one in zip(rows, (None, *proof.played), strict=True):
        first, *numbers = (cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=True))
        lines.append("  ".join([row[0].ljust(len(first)), *numbers, row[-1]]))
        lines += [f"     {line}" for line in _below(one)] if one else []
    return "\n".join([*lines, *_totals(proof)])


def _row(one: Played) -> tuple[str, ...]:
    result = "WRONG" if not one.as_expected else "caught" if one.shape.fails else "pass"
    case = one.case
    return result, f"{case.steps}", f"{len(case.calls)}", f"{case.tokens:,}", f"{one.task}: {one.shape.name}"


def _below(one: Played) -> list[str]:
    expected = [f"expected, but did not fail: {name}" for name in one.shape.fails if name not in one.caught]
    return [*expected, *(str(failure)[:200] for failure in one.case.failures)]


def _totals(proof: Proof) -> list[str]:
    good = [one for one in proof.played if not one.shape.fails]
    bad = [one for one in proof.played if one.shape.fails]
    passed, caught = (sum(one.as_expected for one in some) for some in (good, bad))
    tasks = len({one.task for one in proof.played})
    prices = ", ".join(f"{name} ${cost:.2f}" for name, cost in proof.prices().items())
    usage = proof.usage
    return [
        f"{tasks} tasks: {passed} of {len(good)} right shapes pass, {caught} of {len(bad)} wrong ones are caught",
        f"one run of each task as it should be: about {usage.input:,} tokens in and {usage.output:,} out; at list",
        f"prices and without a cache {prices}",
    ]
