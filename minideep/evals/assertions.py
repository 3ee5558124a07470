"""Assertions about what a turn has spent, and those made of other assertions."""

from inspect import isawaitable
from typing import Annotated

from msgspec import Meta

from ..checks import check, checked
from ..costs import Costs
from ..errors import ConfigError
from .scores import Failure, Score, Verdict, read_verdict
from .trajectory import Assertion, Trajectory

Amount = Annotated[float, Meta(ge=0)]


@checked
def stays_within(
    *,
    steps: Amount | None = None,
    tool_calls: Amount | None = None,
    tokens: Amount | None = None,
    cost: Amount | None = None,
    seconds: Amount | None = None,
) -> Assertion:
    """Return an assertion: the turn, its subagents included, takes at most that many replies of models, tool calls,
    tokens, US dollars and seconds. Tokens or dollars that are unknown exceed every bound.
    """
    bounds = {"steps": steps, "tool_calls": tool_calls, "tokens": tokens, "cost": cost, "seconds": seconds}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    if not given:
        raise ConfigError(f"stays_within: give at least one bound: {', '.join(bounds)}")

    def within(trajectory: Trajectory) -> str | None:
        spent = _spent(trajectory)
        return "; ".join(filter(None, (_beyond(name, bound, spent[name]) for name, bound in given.items()))) or None

    within.__name__ = f"stays_within({', '.join(f'{name}={bound}' for name, bound in given.items())})"
    return within


def _beyond(name: str, bound: float, spent: float | None) -> str:
    if spent is not None and spent <= bound:
        return ""
    found = "an unknown amount" if spent is None else f"{spent:,.6g}"
    return f"{name}: expected at most {bound:,.6g}, found {found}"


def _spent(trajectory: Trajectory) -> dict[str, float | None]:
    costs = trajectory.turn.costs
    return {
        "steps": costs.steps,
        "tool_calls": costs.tool_calls,
        "tokens": None if costs.usage.unknown else costs.usage.total,
        "cost": dollars_of(costs),
        "seconds": trajectory.seconds,
    }


def dollars_of(costs: Costs) -> float | None:
    """Return what was spent; None if the cost of any reply is unknown."""
    return None if costs.unpriced else costs.money or 0.0


@checked
def any_of(*assertions: Assertion) -> Assertion:
    """Return an assertion: at least one of *assertions* passes. The others may fail, but not raise."""
    if not assertions:
        raise ConfigError("any_of: give at least one assertion")
    for place, assertion in enumerate(assertions):
        check(assertion, Assertion, f"assertions[{place}]", "any_of")

    async def one(trajectory: Trajectory) -> str | None:
        problems: list[str] = []
        for assertion in assertions:
            match read_verdict(await ask(assertion, trajectory), name_of(assertion)):
                case Score(passed=False) as found:
                    problems.append(f"{found.name}: {found}")
                case Failure() as found:
                    problems.append(str(found))
                case _:
                    return None
        return "; ".join(problems)

    one.__name__ = f"any_of({', '.join(map(name_of, assertions))})"
    return one


@checked
def only_for(golden: str, assertion: Assertion) -> Assertion:
    """Return an assertion: *assertion* holds for the golden of that name. All others pass."""

    async def one(trajectory: Trajectory) -> Verdict:
        return await ask(assertion, trajectory) if trajectory.golden.name == golden else None

    one.__name__ = name_of(assertion)
    return one


def name_of(assertion: Assertion) -> str:
    """Return the name by which reports know an assertion."""
    return getattr(assertion, "__name__", type(assertion).__name__)


async def ask(assertion: Assertion, trajectory: Trajectory) -> Verdict:
    """Return what *assertion* says, whether it is a coroutine function or a plain one."""
    found = assertion(trajectory)
    return await found if isawaitable(found) else found
