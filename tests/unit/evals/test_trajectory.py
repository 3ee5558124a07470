"""Trajectories: a copy of the agent notes every request, and the agent stays as it was."""

import pytest
from harness.evaluations import CAPITAL, END, PLAN, script

from minideep import ConfigError, Reply, Usage
from minideep.blueprint import STOCK_ROLES, Blueprint, Role
from minideep.errors import RateLimited
from minideep.evals import evaluate
from minideep.evals.trajectory import Recording
from minideep.events import TextDelta
from minideep.messages import AssistantMessage, UserMessage
from minideep.models import ScriptedModel
from minideep.ports import Request


async def test_a_copy_with_other_models_shares_the_threads_and_leaves_the_blueprint_as_it_was():
    own, other = script(), script(role="Rome")
    roles = [*STOCK_ROLES, Role("chef", "You cook.", model=ScriptedModel(["soup"]))]
    blueprint = Blueprint(own, roles, approve_plan=True)
    before, wrapped = blueprint.spec, []

    def wrap(name, model):
        wrapped.append((name, model))
        return other

    copied = blueprint.with_models(wrap)
    assert wrapped == [(name, agent.spec.model) for name, agent in blueprint.agents.items()]
    assert {agent.spec.model for agent in copied.agents.values()} == {other}
    assert list(copied.spec.tools) == list(before.tools)
    assert copied.spec.tool_list == tuple(copied.spec.tools.values())
    assert (await copied.run(CAPITAL.goal, "t")).status == "paused"
    assert blueprint.get_state("t").status == "paused"
    assert (blueprint.spec, own.requests, len(other.requests)) == (before, [], 1)


def test_with_models_refuses_what_is_not_a_model():
    with pytest.raises(ConfigError, match="what wrap returns must be a `Model`, not None"):
        Blueprint(script()).with_models(lambda name, model: None)


async def test_a_recording_otherwise_behaves_as_its_model():
    class Warm(ScriptedModel):
        free = True

        async def preload(self):
            self.name = "preload"

    asked, told = [], []
    inner = Warm(["hello", RateLimited("wait")], window=1000)
    model = Recording("main", inner, asked)
    await model.preload()
    assert (model.name, model.window, model.free, hasattr(model, "cold")) == ("preload", 1000, True, False)
    request = Request("system", [UserMessage("hi")])
    assert (await model.complete(request, told.append)).message.text == "hello"
    assert told == [TextDelta("hello")]
    with pytest.raises(RateLimited):
        await model.complete(request, None)
    assert asked == [("main", request)] * 2


async def test_tokens_and_bytes_are_those_of_the_turn():
    def reply(text):
        return lambda _: Reply(AssistantMessage(text), Usage(90, 10))

    model = script(reply(PLAN), reply(END), reply("Paris"))
    (case,) = (await evaluate(Blueprint(model), [CAPITAL])).cases
    assert (case.passed, case.tokens, case.seconds > 0) == (True, 300, True)
    assert case.steps == 3 + 5  # Each part, and the policy before it and for the answer.
    assert 1_000 < case.state_bytes < 10_000
