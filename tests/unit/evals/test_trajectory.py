"""Trajectories: a copy of the agent notes every request, and the agent stays as it was."""

from harness.evaluations import CAPITAL, END, PLAN, script

from minideep import Reply, Usage
from minideep.blueprint import STOCK_ROLES, Blueprint, Role
from minideep.evals import evaluate
from minideep.evals.trajectory import _recorded
from minideep.messages import AssistantMessage
from minideep.models import ScriptedModel


async def test_the_requests_of_every_part_are_noted_and_the_blueprint_stays_as_it_was():
    model, requests = script(), []
    roles = [*STOCK_ROLES, Role("chef", "You cook.", model=ScriptedModel(["soup"]))]
    blueprint = Blueprint(model, roles, approve_plan=True)
    before = blueprint.spec
    copied = _recorded(blueprint, requests)
    assert (await copied.run(CAPITAL.goal, "t")).status == "paused"
    assert blueprint.get_state("t").status == "paused"
    assert requests == [("planner", request) for request in model.requests]
    assert blueprint.spec is before


async def test_tokens_and_bytes_are_those_of_the_turn():
    def reply(text):
        return lambda _: Reply(AssistantMessage(text), Usage(90, 10))

    model = script(reply(PLAN), reply(END), reply("Paris"))
    (case,) = (await evaluate(Blueprint(model), [CAPITAL])).cases
    assert (case.passed, case.tokens, case.seconds > 0) == (True, 300, True)
    assert case.steps == 3  # Planner, role and reflection; the replies of the graph are computed.
    assert 1_000 < case.state_bytes < 10_000
