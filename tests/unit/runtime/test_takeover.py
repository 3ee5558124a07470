"""A turn that a crash cut short goes on with what is left of its limits, in whatever process."""

import asyncio

import pytest
from harness.agents import ping, sub, task
from harness.middleware import AskFirst
from harness.stores import InstrumentedStore, copy_of, plain

from minideep import Agent, Limits, ToolCall, ToolContext, Usage, create_deep_agent, tool
from minideep.events import TurnEscalated
from minideep.messages import AssistantMessage
from minideep.models import ScriptedModel
from minideep.ports import Reply


@tool(name="ask_user")
async def asks(question: str, ctx: ToolContext) -> str:
    """Ask."""
    ctx.record(TurnEscalated(0.0, question))
    return ""


def endless(copies, store, after, usage=None, cost=None):
    """A model that goes on for ever, and whose process is killed after each *after* replies."""
    asked = []

    def model(request):
        asked.append(request)
        if len(asked) == after + 1:
            copies.append(copy_of(store))
        return Reply(AssistantMessage((ToolCall("ping"),)), usage=usage or Usage(0, 0), cost=cost)

    return ScriptedModel(model), asked


async def lives(limits, usage=None, cost=None, after=2):
    """Run a turn of which each process dies after *after* replies, and return how many replies there were in all."""
    store, replies, turn = InstrumentedStore(), 0, None
    for _ in range(9):
        copies = []
        model, asked = endless(copies, store, after, usage, cost)
        agent = Agent(model, [ping], checkpointer=store, limits=limits, durability="step")
        turn = await agent.run("go", "t", key="k")
        if not copies:
            return replies + len(asked), turn
        replies += after
        store = InstrumentedStore()
        rows = dict(plain(copies[0]).rows("", "\x7f"))
        head = rows.pop("head/t")
        plain(store).append("t", None, head, rows)
    raise AssertionError("the turn never reached its limit")


async def test_a_limit_of_steps_holds_over_all_processes():
    replies, turn = await lives(Limits(steps=5))
    assert (replies, turn.status, turn.reason, turn.costs.steps) == (5, "exhausted", "steps", 5)


async def test_a_limit_of_calls_holds_over_all_processes():
    replies, turn = await lives(Limits(tool_calls=4))
    assert (turn.status, turn.reason, turn.costs.tool_calls) == ("exhausted", "tool_calls", 4)
    assert replies <= 6


async def test_budgets_of_tokens_and_money_hold_over_all_processes():
    replies, turn = await lives(Limits(tokens=50), usage=Usage(7, 3))
    assert (replies, turn.reason, turn.usage.total) == (5, "tokens", 50)
    replies, turn = await lives(Limits(cost=1.0), cost=0.25)
    assert (replies, turn.reason, turn.costs.money) == (4, "cost", 1.0)


async def test_a_person_who_resumes_a_turn_at_its_limit_renews_it():
    store = InstrumentedStore()
    model, asked = endless([], store, 100)
    agent = Agent(model, [ping], checkpointer=store, limits=Limits(steps=3))
    await agent.run("go", "t")
    turn = await agent.resume("t")
    assert (len(asked), turn.reason, turn.costs.steps) == (6, "steps", 3)


async def test_what_a_subagent_spent_before_the_crash_counts_for_the_turn_and_for_its_own_limits():
    store, copies, replies = InstrumentedStore(), [], []

    def inner(request):
        replies.append("inner")
        if len(replies) == 4:
            copies.append(copy_of(store))
        return Reply(AssistantMessage((ToolCall("ls", {"path": "/"}),)), usage=Usage(7, 3))

    def outer(request):
        if request.messages[-1].role == "user":
            return task("digger")
        return "it gave up"

    def agent(at):
        digger = sub("digger", ScriptedModel(inner), limits=Limits(steps=5))
        return create_deep_agent(ScriptedModel(outer), subagents=[digger], checkpointer=at, durability="step")

    await agent(store).run("go", "t", key="k")
    assert replies.count("inner") == 5
    turn = await agent(copies[0]).run("go", "t", key="k")
    # Three of its five replies were saved when the process died.
    assert replies.count("inner") == 5 + 2
    assert (turn.text, turn.usage.total) == ("it gave up", 50)
    assert turn.costs.steps == 2 + 5


async def test_the_costs_of_a_turn_stand_in_its_boundary(store):
    model = ScriptedModel([ToolCall("ping"), "done", "next"])
    agent = Agent(model, [ping], checkpointer=store)
    turn = await agent.run("go", "t")
    reader = Agent("offline:", checkpointer=store)
    kept = reader.get_state("t").costs
    assert (kept.steps, kept.tool_calls, kept.usage) == (2, 1, turn.usage)
    assert (kept.model_s, kept.harness_s) == (turn.costs.model_s, turn.costs.harness_s)
    await agent.run("more", "t")
    assert reader.get_state("t").costs.steps == 1
    assert reader.get_state("t", at=1).costs.steps == 2


@pytest.mark.parametrize("ending", ["paused", "failed", "cancelled", "exhausted", "escalated"])
async def test_every_boundary_of_a_turn_has_its_costs(ending):
    def broken(request):
        raise RuntimeError("broken")

    async def slow(request):
        asyncio.get_running_loop().call_soon(turn.cancel)
        await asyncio.sleep(60)

    models = {"failed": broken, "cancelled": slow, "escalated": lambda request: ToolCall("ask_user", {"question": "?"})}
    model = ScriptedModel(models.get(ending, lambda request: ToolCall("ping")))
    hooks = [AskFirst("ping")] if ending == "paused" else []
    tools = [ping] if ending != "escalated" else [asks]
    agent = Agent(model, tools, middleware=hooks, limits=Limits(steps=1))
    turn = asyncio.ensure_future(agent.run("go", "t"))
    await asyncio.wait([turn])
    state = agent.get_state("t")
    assert state.status == ending
    assert state.costs is not None
    assert state.costs.harness_s > 0
    assert state.costs.steps == state.step
    # The call that escalates has not returned yet when the boundary is recorded.
    assert state.costs.tool_calls == state.tool_calls - (ending == "escalated")
