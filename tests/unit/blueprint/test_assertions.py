"""The assertions about blueprints: each fails on one that breaks it."""

from itertools import count

import pytest
from harness.blueprints import asked, end, plan, research
from harness.evaluations import CAPITAL, each, failures, script
from msgspec import structs

from minideep import Agent, Middleware, ToolCall, ToolContext
from minideep.blueprint import (
    CODE_WRITER,
    CRITIC,
    RESEARCH_SPECIALIST,
    Blueprint,
    ends_by_decision,
    roles_are_themselves,
)
from minideep.evals import Golden
from minideep.events import Noted
from minideep.messages import AssistantMessage, UserMessage
from minideep.models import ScriptedModel


async def test_a_state_over_half_a_megabyte_fails():
    numbers = count()

    def long(request):
        return f"{next(numbers)} " + "é" * 45_000

    roomy = Blueprint(script(each(*"abcdef"), end(), long), state_limit=5_000_000)
    tight = Blueprint(script(each(*"abcdef"), end(), long))
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
    assert found["roles_are_themselves"] == problem


async def test_roles_with_tools_second_tries_and_files_pass():
    def role(request):
        if "code writer" in request.system:
            return "```python\n1\n```" if len(request.messages) > 1 else "no code"
        return looks_twice(request)

    both = plan(research(), research("more.md"), ("code-writer", "write", "a.py", ["facts.md"]))
    researcher = structs.replace(RESEARCH_SPECIALIST, tools=[look])
    blueprint = Blueprint(script(both, role=role), [researcher, CODE_WRITER, CRITIC])
    assert await failures(blueprint, structs.replace(CAPITAL, expected_artifact_set=("facts.md", "a.py"))) == {}


async def test_a_blueprint_that_ends_without_a_decision_fails():
    blueprint = Blueprint(script())
    model = ScriptedModel(["Paris."])
    blueprint.spec = structs.replace(blueprint.spec, model=model, before_model=(), wrap_model=())
    found = await failures(blueprint, Golden("x"), [ends_by_decision])
    assert found == {"ends_by_decision": "the turn ended without a decision to end; the last decision was None"}


async def test_a_plain_agent_passes_the_assertions_about_blueprints():
    assert await failures(Agent(ScriptedModel(["Paris"])), Golden("Where?")) == {}
