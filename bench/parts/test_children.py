"""Children: an agent delegates to subagents, and waits for what they answer. Each child answers at once."""

from collections.abc import Callable
from typing import Any

import pytest
from work import counted, done

from minideep import Agent, DiskCheckpointer, Subagent, ToolCall, ToolContext, create_deep_agent, tool
from minideep.models import ScriptedModel
from minideep.ports import Request


def delegating(count: int) -> Callable[[Request], Any]:
    """Return what a model does that gives *count* tasks at once to the subagent `worker`, and is done."""
    calls = [ToolCall("task", {"description": "do it", "subagent_type": "worker"}) for _ in range(count)]
    return lambda request: calls if request.messages[-1].role == "user" else "done"


def worker(**more: Any) -> Subagent:
    return Subagent(name="worker", description="works", model=ScriptedModel(done), **more)


async def turn(agent: Agent, thread: str | None = None) -> None:
    """Run a turn in which every child answers."""
    turn = await agent.run("go", thread)
    results = [message for message in turn.messages if message.role == "tool"]
    assert results, turn.error
    assert not any(result.is_error for result in results), results


FAN_OUTS = pytest.mark.parametrize(
    "count", [1, 4, 16, pytest.param(128, marks=pytest.mark.full)], ids=counted("subagent")
)


@FAN_OUTS
def test_fan_out(measure, runner, store, count):
    """A turn that delegates to several subagents at once."""
    agent = create_deep_agent(ScriptedModel(delegating(count)), subagents=[worker()], checkpointer=store)
    measure(lambda: runner.run(turn(agent)), rounds=20)


@pytest.mark.parametrize("levels", [1, 2, 4], ids=counted("level"))
def test_children_of_children(measure, runner, levels):
    """A turn that delegates to a subagent, which delegates in turn."""
    below = worker()
    for _ in range(levels - 1):
        below = Subagent(name="worker", description="delegates", subagents=[below])
    agent = create_deep_agent(ScriptedModel(delegating(1)), subagents=[below])
    measure(lambda: runner.run(turn(agent)), rounds=20)


@pytest.mark.parametrize("count", [1, 4, 16], ids=counted("agent"))
def test_agents_that_a_tool_runs(measure, runner, count):
    """A turn whose tool runs several agents, one after another, with `ctx.run`; everything bare."""
    child = Agent(ScriptedModel(done))

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask others."""
        return " ".join([(await ctx.run(child, "go", str(number))).text for number in range(count)])

    agent = Agent(ScriptedModel(lambda request: ToolCall("ask") if len(request.messages) == 1 else "done"), [ask])
    measure(lambda: runner.run(turn(agent)), rounds=20)


@FAN_OUTS
def test_subagents_are_read_again(measure, runner, tmp_path, count):
    """Reading the state of a thread with its subagents."""
    with DiskCheckpointer(tmp_path) as store:
        agent = create_deep_agent(ScriptedModel(delegating(count)), subagents=[worker()], checkpointer=store)
        runner.run(turn(agent, "t"))
        measure(lambda: agent.get_state("t", subagents=True), rounds=20)
