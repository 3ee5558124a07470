"""`Agent.override`: every request of a turn goes to another model, and to the agent's own ones afterwards."""

import asyncio
from contextlib import ExitStack, suppress
from contextvars import copy_context
from copy import copy
from threading import Thread

import pytest
from harness.blueprints import Parts, plan

from minideep import (
    Agent,
    Approve,
    ConfigError,
    Limits,
    Middleware,
    ModelError,
    Subagent,
    ToolCall,
    ToolContext,
    create_deep_agent,
    tool,
)
from minideep.backends import StateBackend
from minideep.blueprint import Blueprint, Role
from minideep.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from minideep.models import ScriptedModel


class Real:
    """A model that must not be asked."""

    name = "real"

    async def complete(self, request, emit):
        raise ModelError("the real model was asked")


def said(turn):
    return turn.status, turn.text


@pytest.fixture
def agent():
    return Agent(Real())


async def test_inside_the_other_model_answers_and_outside_the_agents_own(agent):
    with agent.override(model=ScriptedModel(["scripted"])) as nothing:
        assert nothing is None
        assert said(await agent.run("go")) == ("ended", "scripted")
    assert (await agent.run("go")).status == "failed"


async def test_it_ends_with_an_exception_and_the_inner_one_of_two_wins(agent):
    first, second = ScriptedModel(["outer", "outer"]), ScriptedModel(["inner"])
    with agent.override(model=first):
        with suppress(KeyError), agent.override(model=second):
            assert (await agent.run("go")).text == "inner"
            raise KeyError
        assert (await agent.run("go")).text == "outer"
    assert (await agent.run("go")).status == "failed"


async def test_overrides_may_end_in_another_order_than_they_began(agent):
    outer, inner = ExitStack(), ExitStack()
    outer.enter_context(agent.override(model=ScriptedModel(["outer"])))
    inner.enter_context(agent.override(model=ScriptedModel(["inner"])))
    outer.close()
    assert (await agent.run("go")).text == "inner"
    inner.close()
    assert (await agent.run("go")).status == "failed"


async def test_a_model_may_be_named(agent):
    with agent.override(model="offline:"):
        assert (await agent.run("go")).status == "ended"
    with pytest.raises(ConfigError, match="unknown model 'nobody'"), agent.override(model="nobody"):
        pass
    with pytest.raises(ConfigError, match=r"override: model must be text or a `Model`"), agent.override(model=5):
        pass


async def test_stream_start_resume_and_run_sync_use_it_and_a_turn_that_began_inside_keeps_it(agent):
    def ask(_):
        return "hello"

    with agent.override(model=ScriptedModel(ask)):
        stream = agent.stream("go")
        assert [event.text for event in [one async for one in stream] if hasattr(event, "text")] == ["hello"]
        handle = await agent.start("go")
        assert agent.run_sync("go").text == "hello"
    assert (await handle).text == "hello"
    failed = await agent.run("go", "t")
    assert failed.status == "failed"
    with agent.override(model=ScriptedModel(ask)):
        assert said(await agent.resume("t")) == ("ended", "hello")


async def test_a_decision_resumes_with_it():
    @tool
    def pay() -> str:
        """Pay."""
        return "paid"

    agent = Agent(Real(), [pay], middleware=[HumanInTheLoopMiddleware({"pay": True})])
    with agent.override(model=ScriptedModel([ToolCall("pay", {}, "c"), "done"])):
        assert (await agent.run("go", "t")).status == "paused"
        assert (await agent.resume("t", {"c": Approve()})).text == "done"


async def test_tasks_that_run_side_by_side_have_their_own_and_do_not_disturb_others(agent):
    entered = asyncio.Event()

    async def test(text):
        with agent.override(model=ScriptedModel([text])):
            entered.set()
            await asyncio.sleep(0)
            return (await agent.run("go")).text

    async def without():
        await entered.wait()
        return (await agent.run("go")).status

    assert await asyncio.gather(test("a"), test("b"), without()) == ["a", "b", "failed"]


async def test_an_override_may_end_in_another_task_than_it_began_in(agent):
    holding = ExitStack()

    async def enter():
        holding.enter_context(agent.override(model=ScriptedModel([])))

    await asyncio.create_task(enter())
    holding.close()
    assert (await agent.run("go")).status == "failed"


def in_a_thread(function):
    found = []
    thread = Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_in_plain_code_it_holds_in_threads_and_in_contexts_that_are_older(agent):
    older = copy_context()
    with agent.override(model=ScriptedModel(["in a thread", "in a context"])):
        assert in_a_thread(lambda: agent.run_sync("go").text) == "in a thread"
        assert older.run(lambda: agent.run_sync("go").text) == "in a context"
    assert in_a_thread(lambda: agent.run_sync("go").status) == "failed"


async def test_in_a_coroutine_it_holds_in_what_begins_there_and_nowhere_else(agent):
    older = copy_context()
    with agent.override(model=ScriptedModel(["in a worker"])):
        assert await asyncio.to_thread(lambda: agent.run_sync("go").text) == "in a worker"
        assert in_a_thread(lambda: agent.run_sync("go").status) == "failed"
        assert older.run(lambda: agent.run_sync("go").status) == "failed"


def test_that_of_a_coroutine_wins_over_that_of_the_process(agent):
    async def test():
        with agent.override(model=ScriptedModel(["inner"])):
            return (await agent.run("go")).text

    with agent.override(model=ScriptedModel(["outer"])):
        assert asyncio.run(test()) == "inner"
        assert agent.run_sync("go").text == "outer"


@pytest.fixture
def overridden(agent):
    with agent.override(model=ScriptedModel(["from a fixture"])):
        yield agent


async def test_a_fixture_may_override_for_an_async_test(overridden):
    assert (await overridden.run("go")).text == "from a fixture"


def test_a_fixture_may_override_for_a_plain_test(overridden):
    assert overridden.run_sync("go").text == "from a fixture"


# ---- all models of an agent


async def test_subagents_with_and_without_a_model_of_their_own_use_it():
    helper = Subagent(name="helper", description="helps", system_prompt="You help.", model=Real())
    agent = create_deep_agent(Real(), subagents=[helper])
    model = ScriptedModel(
        [
            [
                ToolCall("task", {"description": "a", "subagent_type": "helper"}, "a"),
                ToolCall("task", {"description": "b", "subagent_type": "general-purpose"}, "b"),
            ],
            "done below",
            "done below",
            "done",
        ]
    )
    with agent.override(model=model):
        turn = await agent.run("go", "t")
    assert said(turn) == ("ended", "done")
    assert sum("You help." in request.system for request in model.requests) == 1
    assert {info.agent: info.status for info in agent.runs("t")} == {"helper": "ended", "general-purpose": "ended"}


async def test_an_agent_below_with_an_override_of_its_own_uses_that():
    inner = Agent(Real(), name="inner")

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask another agent."""
        return (await ctx.run(inner, "a question")).text

    outer = Agent(Real(), [ask])
    with inner.override(model=ScriptedModel(["inner"])), outer.override(model=ScriptedModel([ToolCall("ask"), "end"])):
        turn = await outer.run("go")
    assert [message.text for message in turn.messages] == ["go", "", "inner", "end"]


async def test_a_summarizer_and_a_hook_that_asks_a_model_of_its_own_use_it():
    class Router(Middleware):
        async def wrap_model(self, ctx, request, ask):
            return await ask(request, model=Real())

    @tool
    async def look() -> str:
        """Look at something large."""
        return "word " * 500

    parts = [SummarizationMiddleware(Real(), StateBackend(), summarizer=Real(), trigger=1_000, keep=1), Router()]
    agent = Agent(Real(), [look], middleware=parts)

    def answer(request):
        if "You write the summary" in request.system:
            return "## Goal\nlooked"
        return "done" if len(model.requests) > 3 else ToolCall("look")

    model = ScriptedModel(answer)
    with agent.override(model=model):
        turn = await agent.run("go")
    assert said(turn) == ("ended", "done")
    assert any("You write the summary" in request.system for request in model.requests)
    assert (await agent.run("go")).status == "failed"


async def test_planner_roles_and_reflection_of_a_blueprint_use_it():
    roles = [Role(name, f"You are {name}.", model=Real()) for name in ("one", "two", "three")]
    blueprint = Blueprint(Real(), roles, planner_model=Real(), reflection_model=Real(), limits=Limits(tokens=10_000))
    model = Parts([plan(("one", "write", "out.md"))], role="the text")
    with blueprint.override(model=model):
        turn = await blueprint.run("go")
    assert turn.status == "ended", turn.error
    assert len(model.requests) == 3
    with blueprint.agents["one"].override(model=ScriptedModel(["never"])):
        assert (await blueprint.run("go")).status == "failed"


async def test_a_copy_of_the_agent_uses_it_too(agent):
    with agent.override(model=ScriptedModel(["x"])):
        assert (await copy(agent).run("go")).text == "x"


async def test_a_budget_of_cost_needs_a_model_that_states_its_cost():
    agent = Agent(ScriptedModel([]), limits=Limits(cost=1.0))
    with pytest.raises(ConfigError, match="model 'real' has no price"), agent.override(model=Real()):
        pass


async def test_preload_loads_the_other_model():
    loaded = []

    class Slow(Real):
        async def preload(self):
            loaded.append(self)

    own, other = Slow(), Slow()
    agent = Agent(own)
    with agent.override(model=other):
        await agent.preload()
    await agent.preload()
    assert loaded == [other, own]
    blueprint = Blueprint(own)
    with blueprint.override(model=other):
        await blueprint.preload()
    assert loaded == [other, own]
    await blueprint.preload()
    assert set(loaded[2:]) == {own}
