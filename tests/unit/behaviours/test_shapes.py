"""Shapes: scripts that read the requests, in the main run and below it, and whose verdicts can be wrong."""

import asyncio

import pytest

from minideep import Agent, Subagent, create_deep_agent, tool
from minideep.behaviours import Shape, Task, prove
from minideep.behaviours.checks import answers_with, changes_nothing
from minideep.behaviours.shapes import ShapeModel, call, delegate, read, says, write
from minideep.errors import ConfigError


@tool
async def double(number: int) -> str:
    """Double a number."""
    return str(number * 2)


def doubles(request):
    (four,) = yield call("double", number=2)
    eight, nothing = yield [call("double", number=int(four)), call("double", number=0)]
    return f"{eight} and {nothing}"


def test_a_script_is_sent_the_results_of_its_calls_in_their_order():
    model = ShapeModel(Shape("doubles", doubles))
    turn = asyncio.run(Agent(model, [double]).run("Go."))
    assert (turn.text, turn.costs.steps, turn.costs.money) == ("8 and 0", 3, 0.0)
    assert turn.usage.total == model.usage.total > 0


def test_a_script_begins_anew_with_each_thing_that_the_person_says():
    agent = Agent(ShapeModel(Shape("doubles", doubles)), [double])
    texts = [asyncio.run(agent.run(said, "t")).text for said in ("Go.", "Again.")]
    assert texts == ["8 and 0", "8 and 0"]


def test_a_script_speaks_for_the_subagents():
    def leads(request):
        (answer,) = yield delegate("Say a number.", to="helper")
        return f"The helper says {answer}."

    shape = Shape("leads", leads, subagent=says("7"))
    agent = create_deep_agent(ShapeModel(shape), subagents=[Subagent(name="helper", description="helps")])
    assert asyncio.run(agent.run("Go.")).text == "The helper says 7."


def writes(request):
    (page,) = yield read("/a.txt")
    yield write("/b.txt", page)
    return "yes"


def test_a_shape_that_is_not_caught_as_it_says_is_shown_as_wrong():
    """What `prove` says of a set can be no."""
    right, wrong = Shape("answers", says("yes")), Shape("writes", writes, ("changes_nothing",))

    def proof(*shapes):
        checks = (changes_nothing, answers_with("yes"))
        task = Task(name="t", shows="s", prompt="p", files={"/a.txt": "a"}, checks=checks, shapes=shapes)
        return asyncio.run(prove([task]))

    assert proof(right, wrong).passed
    for shapes in [
        (right, Shape("writes", writes, ("answers_with",))),  # Caught, but not by that.
        (right, Shape("writes", writes, ("changes_nothing", "answers_with"))),  # Not by all of them.
        (right, Shape("answers", says("yes"), ("changes_nothing",))),  # Not at all.
        (Shape("writes", writes), wrong),  # The right one fails.
    ]:
        found = proof(*shapes)
        assert not found.passed
        assert "WRONG" in found.table()
    assert "expected, but did not fail: answers_with" in proof(right, Shape("w", writes, ("answers_with",))).table()


@pytest.mark.parametrize("shapes", [(), (Shape("a", says("x")),), (Shape("a", says("x"), ("b",)),)])
def test_a_task_without_a_right_and_a_wrong_shape_is_refused(shapes):
    with pytest.raises(ConfigError, match="task 't': give a shape that passes and one that fails"):
        Task(name="t", shows="s", prompt="p", checks=(), shapes=shapes)
