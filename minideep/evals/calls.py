"""Assertions about the calls of a turn: which tools were called, in which order, with which arguments, how often.

Each function takes the names of tools, or `ExpectedCall`s with some of their arguments, and returns an assertion.
*agent* selects the runs that it is about: None the main run, a name those of that subagent, and `*` all runs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, cast

from msgspec import Meta

from ..checks import check, checked
from ..errors import ConfigError
from .golden import CallPattern, ExpectedCall, as_expected
from .trajectory import Assertion, Call, Trajectory

ALL = "*"
"""All runs of a turn."""
SHOWN = 30
"""Calls that a problem lists."""
Compare = Callable[[Sequence[ExpectedCall], Sequence[Call]], str | None]


@checked
def calls_in_order(*calls: CallPattern, agent: str | None = None) -> Assertion:
    """Return an assertion: one of the runs makes these calls, in this order. Others may stand between."""

    def compare(expected: Sequence[ExpectedCall], made: Sequence[Call]) -> str | None:
        left = list(expected)
        for call in made:
            if left and _is(call, left[0]):
                del left[0]
        if not left:
            return None
        place = len(expected) - len(left)
        return f"no {left[0]}{f' after {expected[place - 1]}' if place else ''}"

    return _of_one_run("calls_in_order", calls, agent, compare)


@checked
def calls_exactly(*calls: CallPattern, agent: str | None = None) -> Assertion:
    """Return an assertion: one of the runs makes these calls, in this order, and no others."""

    def compare(expected: Sequence[ExpectedCall], made: Sequence[Call]) -> str | None:
        for place, (call, one) in enumerate(zip(made, expected, strict=False), start=1):
            if not _is(call, one):
                return f"call {place} is {_shown(call)} instead of {one}"
        return None if len(made) == len(expected) else f"{len(made)} calls instead of {len(expected)}"

    return _of_one_run("calls_exactly", calls, agent, compare)


@checked
def calls_all(*calls: CallPattern, agent: str | None = None) -> Assertion:
    """Return an assertion: one of the runs makes each of these calls, in any order, besides any others. A call that is
    listed twice must be made twice.
    """

    def compare(expected: Sequence[ExpectedCall], made: Sequence[Call]) -> str | None:
        left = list(made)
        # Those with the most arguments first, as a mere name would take a call that only they fit.
        for one in sorted(expected, key=lambda one: -len(one.args)):
            found = next((call for call in left if _is(call, one)), None)
            if found is None:
                return f"no {one}"
            left.remove(found)
        return None

    return _of_one_run("calls_all", calls, agent, compare)


@checked
def calls_only(*calls: CallPattern, agent: str | None = None) -> Assertion:
    """Return an assertion: one of the runs makes no calls but these, each as often as it likes."""

    def compare(expected: Sequence[ExpectedCall], made: Sequence[Call]) -> str | None:
        found = next((call for call in made if not any(_is(call, one) for one in expected)), None)
        return f"it also makes {_shown(found)}" if found else None

    return _of_one_run("calls_only", calls, agent, compare)


@checked
def calls_at_most(count: Annotated[int, Meta(ge=0)], *calls: CallPattern, agent: str | None = ALL) -> Assertion:
    """Return an assertion: the runs make these calls, or any calls if none is given, at most *count* times together."""
    expected = _patterns("calls_at_most", calls)

    def found(trajectory: Trajectory) -> str | None:
        those = _among(expected, _runs(trajectory, agent))
        return None if len(those) <= count else f"expected at most {count:,}, found {len(those):,}: {_listed(those)}"

    return _named(found, "calls_at_most", (count, *expected), agent, ALL)


@checked
def never_calls(*calls: CallPattern, agent: str | None = ALL) -> Assertion:
    """Return an assertion: none of the runs makes any of these calls."""
    expected = _patterns("never_calls", calls)
    if not expected:
        raise ConfigError("never_calls: name at least one call")

    def found(trajectory: Trajectory) -> str | None:
        those = _among(expected, _runs(trajectory, agent))
        return f"found {_listed(those)}" if those else None

    return _named(found, "never_calls", expected, agent, ALL)


def _of_one_run(name: str, calls: Sequence[CallPattern], agent: str | None, compare: Compare) -> Assertion:
    """Return an assertion that holds if *compare* has no objection to one of the runs."""
    expected = _patterns(name, calls)

    def objection(trajectory: Trajectory) -> str | None:
        runs = _runs(trajectory, agent)
        if not runs:
            return f"there is no run of agent {agent!r}"
        problems = [compare(expected, run) for run in runs]
        if None in problems:
            return None
        said = (f"{problem}; calls: {_listed(run)}" for problem, run in zip(problems, runs, strict=True))
        return "; another run: ".join(said)

    return _named(objection, name, expected, agent, None)


def _named(
    assertion: Callable[[Trajectory], str | None],
    name: str,
    about: Iterable[object],
    agent: str | None,
    default: str | None,
) -> Assertion:
    """Give an assertion the name by which reports know it: how it was made."""
    parts = [*map(str, about), *([f"agent={agent!r}"] if agent != default else [])]
    assertion.__name__ = f"{name}({', '.join(parts)})"
    return assertion


def _patterns(owner: str, calls: Sequence[CallPattern]) -> list[ExpectedCall]:
    for place, call in enumerate(calls):
        check(call, CallPattern, f"calls[{place}]", owner)
    return [as_expected(call) for call in calls]


def _runs(trajectory: Trajectory, agent: str | None) -> list[list[Call]]:
    """Return the calls of each run that *agent* selects; a run that makes none is an empty list."""
    selected = {
        path: list[Call]()
        for path, name in trajectory.runs.items()
        if (not path if agent is None else agent in (ALL, name))
    }
    for call in trajectory.calls:
        if call.path in selected:
            selected[call.path].append(call)
    return [*selected.values()]


def _among(expected: Sequence[ExpectedCall], runs: Iterable[Sequence[Call]]) -> list[Call]:
    """Return the calls of *runs* that are expected; all, if no calls are named."""
    return [call for run in runs for call in run if not expected or any(_is(call, one) for one in expected)]


def _is(call: Call, expected: ExpectedCall) -> bool:
    return call.name == expected.name and fits(expected.args, call.args)


def fits(expected: Any, found: Any) -> bool:
    """Return whether an argument is the one that is expected; see `ExpectedCall.args`."""
    if isinstance(expected, Mapping):
        wanted = cast(Mapping[str, Any], expected)
        return isinstance(found, Mapping) and all(
            name in found and fits(value, found[name]) for name, value in wanted.items()
        )
    if callable(expected):
        return bool(cast(Callable[[Any], object], expected)(found))
    # Equal is not enough: 1 is equal to True.
    return expected == found and isinstance(expected, bool) == isinstance(found, bool)


def _listed(calls: Sequence[Call]) -> str:
    """List calls, with the number of those that follow each other and look the same."""
    shown = [(text, len([*same])) for text, same in groupby(map(_shown, calls))]
    texts = [f"{text} ×{count}" if count > 1 else text for text, count in shown[:SHOWN]]
    return ", ".join([*texts, *([f"... ({len(calls):,} calls)"] if len(shown) > SHOWN else [])]) or "none"


def _shown(call: Call) -> str:
    text = str(call)
    return text if len(text) <= 120 else f"{text[:117]}..."
