"""The stock assertions: each fails on a blueprint that breaks it."""

import pytest
from harness.blueprints import ask, asked, end, plan, replan, research
from harness.evaluations import CAPITAL, each, failures, script
from msgspec import structs

from minideep import Agent, Limits, Middleware, Reply, ToolCall, ToolContext
from minideep.blueprint import CODE_WRITER, CRITIC, RESEARCH_SPECIALIST, Blueprint
from minideep.errors import RateLimited
from minideep.evals import Golden, ends_honestly, roles_are_themselves
from minideep.events import Noted, TurnEscalated
from minideep.messages import AssistantMessage, UserMessage
from minideep.models import ScriptedModel


async def test_a_state_over_half_a_megabyte_fails():
    roomy = Blueprint(script(each(*"abcdef"), end(), "é" * 45_000), state_limit=5_000_000)
    tight = Blueprint(script(each(*"abcdef"), end(), "é" * 45_000))
    assert list(await failures(roomy, Golden("x"))) == ["state_is_small"]
    assert await failures(tight, Golden("x")) == {}


async def test_notes_count_as_state():
    async def hoard(ctx: ToolContext) -> str:
        ctx.record(Noted("hoard", "all", "x" * 500_000))
        return "kept"

    agent = Agent(ScriptedModel([ToolCall("hoard"), "done"]), [hoard])
    found = await failures(agent, Golden("x"))
    assert found["state_is_small"].startswith("the state has 500,")


async def test_a_role_whose_prompt_follows_the_planners_fails():
    good, bad = Blueprint(script()), Blueprint(script())
    planner, role = (bad.agents[name] for name in ("planner", "research-specialist"))
    role.spec = structs.replace(role.spec, system=f"{planner.spec.system}\n\n{role.spec.system}")
    found = await failures(bad, assertions=[roles_are_themselves])
    assert found["roles_are_themselves"].startswith("research-specialist: its system text is not its prompt: ")
    assert await failures(good, assertions=[roles_are_themselves]) == {}


async def test_a_role_made_with_the_planners_prompt_and_its_own_fails():
    planner = Blueprint(script()).agents["planner"].spec.system
    composed = structs.replace(RESEARCH_SPECIALIST, prompt=f"{planner}\n\n{RESEARCH_SPECIALIST.prompt}")
    found = await failures(Blueprint(script(), [composed, CODE_WRITER, CRITIC]), assertions=[roles_are_themselves])
    assert found["roles_are_themselves"].startswith("research-specialist: its prompt contains another agent's text: ")


async def test_a_role_with_a_single_line_of_another_parts_prompt_fails():
    for part in ("planner", "reflection"):
        other = Blueprint(script()).agents[part].spec.system.splitlines()[0]
        role = structs.replace(RESEARCH_SPECIALIST, prompt=f"{RESEARCH_SPECIALIST.prompt}\n{other}")
        found = await failures(Blueprint(script(), [role, CODE_WRITER, CRITIC]), assertions=[roles_are_themselves])
        assert found["roles_are_themselves"].startswith(
            "research-specialist: its prompt contains another agent's text: "
        )
        assert other[:60] in found["roles_are_themselves"]


async def test_a_role_that_sees_the_planners_message_fails():
    blueprint = Blueprint(script(lambda request: plan(research(task=asked(request)))))
    found = await failures(blueprint, assertions=[roles_are_themselves])
    assert found["roles_are_themselves"].startswith(
        "research-specialist: its message contains another agent's text: '# Goal"
    )


class Shows(Middleware):
    """Puts foreign messages before an agent's own."""

    def __init__(self, *messages):
        self.messages = messages

    async def before_model(self, ctx, request):
        return structs.replace(request, messages=[*self.messages, *request.messages])


@pytest.mark.parametrize(
    ("shown", "problem"),
    [
        ((UserMessage("hello"),), "expected one user message, and it first; found user, user"),
        ((AssistantMessage("hello"),), "expected one user message, and it first; found assistant, user"),
    ],
)
async def test_a_role_that_sees_foreign_messages_fails(shown, problem):
    blueprint = Blueprint(script())
    agent = blueprint.agents["research-specialist"]
    agent.spec = structs.replace(agent.spec, before_model=(Shows(*shown),))
    found = await failures(blueprint, assertions=[roles_are_themselves])
    assert found == {"roles_are_themselves": f"research-specialist: {problem}"}


class GoesOn(Middleware):
    """Appends a reply that the agent never gave, once it has *most* messages."""

    def __init__(self, most):
        self.most = most

    async def before_model(self, ctx, request):
        more = [AssistantMessage("I am another.")] if len(request.messages) == self.most else []
        return structs.replace(request, messages=[*request.messages, *more])


def look(where: str) -> str:
    return f"{where}: Paris"


def looks_twice(request):
    """A role that looks at two maps before it answers."""
    said = sum(message.role == "tool" for message in request.messages)
    return ToolCall("look", {"where": f"map {said}"}) if said < 2 else request.messages[-1].text


@pytest.mark.parametrize("most", [1, 3, 5])
async def test_a_role_that_sees_a_foreign_exchange_fails(most):
    researcher = structs.replace(RESEARCH_SPECIALIST, tools=[look])
    blueprint = Blueprint(script(role=looks_twice), [researcher, CODE_WRITER, CRITIC])
    agent = blueprint.agents["research-specialist"]
    agent.spec = structs.replace(agent.spec, before_model=(GoesOn(most),))
    found = await failures(blueprint, assertions=[roles_are_themselves])
    problem = f"research-specialist: its {most + 1} messages do not continue any of its own requests"
    assert found == {"roles_are_themselves": problem}


async def test_roles_with_tools_second_tries_and_files_pass():
    def role(request):
        if "code writer" in request.system:
            return "```python\n1\n```" if len(request.messages) > 1 else "no code"
        return looks_twice(request)

    both = plan(research(), research("more.md"), ("code-writer", "write", "a.py", ["facts.md"]))
    researcher = structs.replace(RESEARCH_SPECIALIST, tools=[look])
    blueprint = Blueprint(script(both, role=role), [researcher, CODE_WRITER, CRITIC])
    assert await failures(blueprint, structs.replace(CAPITAL, expected_artifact_set=("facts.md", "a.py"))) == {}


def stuck(blueprint):
    blueprint.spec = structs.replace(blueprint.spec, model=ScriptedModel(["Paris."]), before_model=(), wrap_model=())
    return blueprint


def mute(ctx: ToolContext) -> str:
    ctx.record(TurnEscalated(1.0, " "))
    return "asked"


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        (lambda: Blueprint(ScriptedModel([RateLimited("wait")])), "the turn is failed (RateLimited: planner: wait)"),
        (lambda: Blueprint(script(), approve_plan=True), "the turn is paused (it waits for a person)"),
        (lambda: stuck(Blueprint(script())), "the turn ended without a decision to end; the last decision was None"),
        (lambda: Agent(ScriptedModel(["a"]), limits=Limits(steps=0)), "the turn is exhausted (steps)"),
        (lambda: Agent(ScriptedModel([" "])), "the turn ended with an empty answer"),
        (lambda: Agent(ScriptedModel([ToolCall("mute")]), [mute]), "the turn escalated without a question"),
        (
            lambda: Agent(ScriptedModel([Reply(AssistantMessage("It i"), stop="truncated")])),
            "the turn ended because the last reply was truncated",
        ),
    ],
)
async def test_a_turn_that_just_stops_fails(agent, problem):
    found = await failures(agent(), assertions=[ends_honestly])
    assert found["ends_honestly"].endswith(problem)


@pytest.mark.parametrize("reflection", [ask("Which France?"), replan("again"), "no such"])
async def test_a_turn_that_ends_with_a_question_ends_honestly(reflection):
    assert await failures(Blueprint(script(reflection=reflection), max_reflection_depth=2), Golden("x")) == {}


async def test_an_answer_other_than_expected_fails():
    found = await failures(Blueprint(script(role="London.")))
    assert found == {"answers_as_expected": "expected 'paris' in the answer, found 'It is London.'"}
    assert await failures(Blueprint(script()), Golden("x", " PARIS, it\nis")) == {}


async def test_an_artifact_that_is_missing_or_not_done_fails():
    def role(request):
        draft = '{"artifact_name": "draft.md", "content": "so far", "status": "active"}'
        return draft if "draft" in asked(request) else "Paris"

    two = plan(research(), research("draft.md", task="write a draft"))
    names = ("facts.md", "research-specialist_1_facts.md", "/research-specialist_1_facts.md", "draft.md", "report.md")
    found = await failures(Blueprint(script(two, role=role)), Golden("x", "", names))
    assert found == {
        "delivers_the_artifacts": "'draft.md' is active, 'report.md' is missing; delivered: "
        "'research-specialist_1_facts.md', 'research-specialist_2_draft.md', 'facts.md', 'draft.md'"
    }
