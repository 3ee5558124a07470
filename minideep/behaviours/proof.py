"""The results of playing shapes: as data, as a table, and with what a run of the tasks would cost."""

from ..columns import aligned
from ..documented import Struct
from ..evals import Case
from ..messages import Usage
from ..models import model_info
from .shapes import Shape

HEADS = ("result", "steps", "calls", "tokens", "task and shape")
PRICED = ("claude-sonnet-4-6", "claude-haiku-4-5", "gpt-5", "gpt-5-mini")
"""Models whose list price an estimate is made for."""


class Played(Struct, frozen=True):
    """One shape that was played: what its task's assertions said of it."""

    task: str
    shape: Shape
    case: Case
    usage: Usage
    """Tokens, estimated at four characters each."""

    @property
    def caught(self) -> tuple[str, ...]:
        """The assertions that failed, without their arguments."""
        return tuple(failure.assertion.partition("(")[0] for failure in self.case.failures)

    @property
    def as_expected(self) -> bool:
        """True if exactly those assertions failed that the shape names."""
        return set(self.caught) == set(self.shape.fails)


class Proof(Struct, frozen=True):
    """The result of playing all shapes: good ones pass, and every bad one is caught by the right assertions."""

    played: tuple[Played, ...]

    @property
    def passed(self) -> bool:
        return all(one.as_expected for one in self.played)

    def table(self) -> str:
        """Return a line for each shape with what caught it, and the totals."""
        return _table(self)

    @property
    def usage(self) -> Usage:
        """The tokens of one run of each task as it should be, estimated."""
        first = {one.task: one.usage for one in reversed(self.played) if not one.shape.fails}
        return sum(first.values(), Usage())

    def prices(self) -> dict[str, float]:
        """Return what one run of each task costs at the list prices of some models, in US dollars: an estimate from the
        tokens of the shapes, without a cache. A model that needs more steps than they do costs more.
        """
        known = {name: info.price for name in PRICED if (info := model_info(name))}
        costs = {name: price.of(self.usage) for name, price in known.items() if price}
        return {name: cost for name, cost in costs.items() if cost is not None}


def _table(proof: Proof) -> str:
    """Return a line for each shape, with what caught it below it, and the totals."""
    heads, *lines = aligned([HEADS, *map(_row, proof.played)])
    found = [heads]
    for line, one in zip(lines, proof.played, strict=True):
        found += [line, *(f"     {problem}" for problem in _below(one))]
    return "\n".join([*found, *_totals(proof)])


def _row(one: Played) -> tuple[str, ...]:
    result = "WRONG" if not one.as_expected else "caught" if one.shape.fails else "pass"
    case = one.case
    return result, f"{case.steps}", f"{case.tool_calls}", f"{case.tokens:,}", f"{one.task}: {one.shape.name}"


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
