"""What a golden expects is checked in every evaluation: status, answer, artifacts and calls."""

import pytest
from harness.blueprints import ask, plan, replan, research
from harness.evaluations import CAPITAL, script
from msgspec import Struct

from minideep import Agent, Limits, Reply, ToolCall, ToolContext
from minideep.blueprint import Blueprint
from minideep.errors import RateLimited
from minideep.evals import ExpectedCall, Golden, calls_exactly, evaluate
from minideep.events import TurnEscalated
from minideep.messages import AssistantMessage
from minideep.middleware import HumanInTheLoopMiddleware
from minideep.models import ScriptedModel


async def unmet(agent, golden):
    """What the turn of a golden lacks, without any assertion of one's own."""
    report = await evaluate(agent, [golden])
    return {failure.assertion: failure.problem for failure in report.cases[0].failures}


def look(where: str = "", deep: int = 0) -> str:
    """Look."""
    return "nothing"


def mute(ctx: ToolContext) -> str:
    """Escalate without a question."""
    ctx.record(TurnEscalated(1.0, " "))
    return "asked"


def asking():
    return Agent(ScriptedModel([ToolCall("look")]), [look], middleware=[HumanInTheLoopMiddleware({"look": True})])


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        (lambda: Blueprint(ScriptedModel([RateLimited("wait")])), "but it is failed (RateLimited: planner: wait)"),
        (asking, "expected the turn to be ended, but it is paused (it waits for a decision about look)"),
        (lambda: Agent(ScriptedModel(["a"]), limits=Limits(steps=0)), "but it is exhausted (steps)"),
        (lambda: Blueprint(script(reflection=ask("Which France?"))), "but it is escalated (Which France?)"),
        (lambda: Agent(ScriptedModel([" "])), "the turn ended with an empty answer"),
        (
            lambda: Agent(ScriptedModel([Reply(AssistantMessage("It i"), stop="truncated")])),
            "the turn ended because the last reply was truncated",
        ),
        (
            lambda: Agent(ScriptedModel([Reply(AssistantMessage("No."), stop="refused")])),
            "the turn ended because the last reply was refused",
        ),
    ],
)
async def test_a_turn_that_answers_nothing_does_not_pass_whatever_is_asserted(agent, problem):
    found = await unmet(agent(), Golden("x"))
    assert [*found] == ["ends_as_expected"]
    assert found["ends_as_expected"].endswith(problem)


@pytest.mark.parametrize(
    ("agent", "status"),
    [
        (lambda: Agent(ScriptedModel([RateLimited("wait")])), "failed"),
        (asking, "paused"),
        (lambda: Agent(ScriptedModel(["a"]), limits=Limits(steps=0)), "exhausted"),
        (lambda: Blueprint(script(reflection=ask("Which France?"))), "escalated"),
        (lambda: Blueprint(script(reflection=replan("again")), max_reflection_depth=2), "escalated"),
    ],
)
async def test_a_turn_passes_with_the_status_that_its_golden_expects_and_with_no_other(agent, status):
    assert await unmet(agent(), Golden("x", expected_status=status)) == {}
    found = await unmet(Agent(ScriptedModel(["yes"])), Golden("x", expected_status=status))
    assert found == {"ends_as_expected": f"expected the turn to be {status}, but it is ended (done)"}


async def test_a_turn_that_escalates_without_a_question_fails():
    agent = Agent(ScriptedModel([ToolCall("mute")]), [mute])
    assert (await unmet(agent, Golden("x", expected_status="escalated"))) == {
        "ends_as_expected": "the turn escalated without a question"
    }


async def test_a_letter_with_an_accent_is_one_however_it_is_written():
    agent = Agent(ScriptedModel(["It is the Cafe\u0301 Zoe\u0308."]))
    assert (await evaluate(agent, [Golden("Which?", "caf\u00e9 zo\u00eb")])).passed


async def test_an_answer_other_than_expected_fails():
    found = await unmet(Blueprint(script(role="London.")), CAPITAL)
    assert found == {"answers_as_expected": "expected 'paris' in the answer, found 'It is London.'"}
    assert await unmet(Blueprint(script()), Golden("x", " PARIS, it\nis")) == {}


async def test_a_question_is_the_answer_of_a_turn_that_escalates():
    golden = Golden("x", "which france", expected_status="escalated")
    assert await unmet(Blueprint(script(reflection=ask("Which France?"))), golden) == {}


async def test_an_artifact_that_is_missing_or_not_done_fails():
    def role(request):
        draft = '{"artifact_name": "draft.md", "content": "so far", "status": "active"}'
        return draft if "draft" in str(request.messages) else "Paris"

    two = plan(research(), research("draft.md", task="write a draft"))
    names = ("facts.md", "research-specialist_1_facts.md", "/research-specialist_1_facts.md", "draft.md", "report.md")
    found = await unmet(Blueprint(script(two, role=role)), Golden("x", "", names))
    assert found == {
        "delivers_the_artifacts": "'draft.md' is active, 'report.md' is missing; delivered: "
        "'research-specialist_1_facts.md', 'research-specialist_2_draft.md', 'facts.md', 'draft.md'"
    }


async def test_calls_that_are_expected_must_be_made_in_their_order():
    agent = Agent(ScriptedModel([ToolCall("look", {"where": "a", "deep": 1}), ToolCall("look"), "x"] * 3), [look])
    calls = (ExpectedCall("look", {"where": "a"}), "look")
    assert await unmet(agent, Golden("x", expected_calls=calls)) == {}
    (problem,) = (await unmet(agent, Golden("x", expected_calls=calls[::-1]))).items()
    assert problem == (
        "calls_in_order(look, look(where='a'))",
        "no look(where='a') after look; calls: look(where='a', deep=1), look()",
    )
    assert await unmet(agent, Golden("x", expected_calls=("look",) * 3)) != {}


class Author(Struct):
    name: str
    born: int


@pytest.mark.parametrize(
    "reply", ['{"name": "Austen", "born": 1775}', ToolCall("final_answer", {"name": "Austen", "born": 1775})]
)
async def test_a_typed_result_is_an_answer_and_giving_it_is_no_call(reply):
    agent = Agent(ScriptedModel([ToolCall("look"), reply] * 2), [look], response_format=Author)
    report = await evaluate(agent, [Golden("Who wrote Emma?", "1775")], [calls_exactly("look")])
    assert report.passed, report.table()
    assert "Austen" in report.cases[0].answer
    assert await unmet(agent, Golden("Who wrote Emma?", "1776")) != {}


async def test_a_typed_result_that_is_never_given_fails():
    (problem,) = (await unmet(Agent(ScriptedModel(["Austen"] * 3), response_format=Author), Golden("Who?"))).values()
    assert problem.startswith("expected the turn to be ended, but it is failed (OutputViolation: ")
