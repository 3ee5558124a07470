"""Assertions about what a turn spends, and those made of others; what an assertion may return."""

import pytest
from harness.evaluations import failures

from minideep import Agent, ConfigError, Reply, ToolCall, Usage
from minideep.evals import Golden, Score, any_of, evaluate, only_for, stays_within
from minideep.messages import AssistantMessage
from minideep.models import ScriptedModel

GO = Golden("go")


def look() -> str:
    """Look."""
    return "nothing"


def agent():
    """An agent of two steps with 300 tokens and $0.75."""
    first = Reply(AssistantMessage((ToolCall("look", id="c1"),)), Usage(90, 10), cost=0.25)
    return Agent(ScriptedModel([first, Reply(AssistantMessage("done"), Usage(190, 10), cost=0.5)]), [look])


async def problems(*assertions, of=None, golden=GO):
    return await failures(of or agent(), golden, assertions)


async def test_a_turn_stays_within_its_bounds_or_fails_with_what_it_took():
    assert await problems(stays_within(steps=2, tool_calls=1, tokens=300, cost=0.75, seconds=60)) == {}
    assert await problems(stays_within(steps=1, tokens=299, cost=0.7499)) == {
        "stays_within(steps=1, tokens=299, cost=0.7499)": "steps: expected at most 1, found 2; "
        "tokens: expected at most 299, found 300; cost: expected at most 0.7499, found 0.75"
    }


async def test_what_is_unknown_is_within_no_bound():
    class Silent:
        name = "silent"

        async def complete(self, request, emit):
            return Reply(AssistantMessage("done"))

    found = await problems(stays_within(tokens=10**9, cost=10**6), of=Agent(Silent()))
    (problem,) = found.values()
    assert problem == (
        "tokens: expected at most 1e+09, found an unknown amount; cost: expected at most 1e+06, found an unknown amount"
    )


async def test_one_of_several_assertions_is_enough():
    async def late(_):
        return Score(0.2, "weak", name="late")

    def no(_):
        return "no"

    def yes(_):
        return 0.5

    assert await problems(any_of(no, late, yes)) == {}
    assert await problems(any_of(no, late)) == {"any_of(no, late)": "no: no; late: 0.2, expected at least 0.5: weak"}


async def test_an_assertion_about_one_golden_says_nothing_of_others():
    def is_x(_):
        return 0.0

    report = await evaluate(
        Agent(ScriptedModel(lambda request: "y")), [Golden("a", id="first"), Golden("b")], [only_for("b", is_x)]
    )
    assert [[score.name for score in case.scores] for case in report.cases] == [[], ["is_x"]]
    assert [case.passed for case in report.cases] == [True, False]


async def test_assertions_may_be_async_and_objects():
    class IsDone:
        async def __call__(self, trajectory):
            return trajectory.turn.text == "done"

    assert await problems(IsDone()) == {}
    assert await problems(IsDone(), of=Agent(ScriptedModel(["x"]))) == {"IsDone": "it returned False"}


async def test_a_score_has_the_name_and_the_threshold_that_it_says():
    def two(_):
        return Score(0.9, "nearly", name="style", threshold=0.95)

    def whole(_):
        return 1

    report = await evaluate(agent(), [GO], [two, whole])
    assert report.cases[0].scores == (Score(0.9, "nearly", "style", 0.95), Score(1.0, name="whole"))
    assert [str(one) for one in report.cases[0].failures] == ["style: 0.9, expected at least 0.95: nearly"]


@pytest.mark.parametrize("value", [1.01, -0.01, float("nan"), float("inf"), [0.5], {}, b"x"])
async def test_what_is_no_verdict_fails_the_case(value):
    (problem,) = (await problems(lambda _: value)).values()
    assert problem.endswith("return None, what is wrong, or a score from 0 to 1")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Score(1.5), "Score: value must be a number of 0 or more and of at most 1, not 1.5"),
        (lambda: Score(0.5, threshold=2), "Score: threshold must be a number of 0 or more and of at most 1, not 2"),
        (lambda: stays_within(), "stays_within: give at least one bound: steps, tool_calls, tokens, cost, seconds"),
        (lambda: stays_within(steps=-1), "steps must be a number of 0 or more, or None, not -1"),
        (lambda: any_of(), "any_of: give at least one assertion"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_made(make, problem):
    with pytest.raises(ConfigError, match=problem):
        make()
