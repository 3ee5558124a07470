"""Limits of single tools: in calls side by side, after a restart, behind a compaction, and in runs below."""

import asyncio

import pytest
from harness.agents import answers, pings, sub, task
from harness.middleware import AskFirst
from harness.stores import copy_of

from minideep import Agent, Approve, ConfigError, ToolCall, create_deep_agent, tool
from minideep.backends import StateBackend
from minideep.middleware import SummarizationMiddleware, ToolCallLimits
from minideep.models import ScriptedModel

REFUSED = "not run: search may be called 2 times in a turn, and this is one more; go on with what you have"


def searching():
    found = []

    @tool
    async def search(query: str) -> str:
        """Search."""
        found.append(query)
        return f"found {query}"

    return search, found


def asking(*queries):
    return [ToolCall("search", {"query": query}) for query in queries]


async def test_calls_beyond_the_limit_get_an_error_result_that_says_so():
    search, found = searching()
    script = [asking("a"), [*asking("b", "c"), *pings("x")], asking("d"), "done"]

    @tool
    async def ping(text: str) -> str:
        """Answer."""
        return text

    agent = Agent(ScriptedModel(script), [search, ping], middleware=[ToolCallLimits({"search": 2})])
    turn = await agent.run("go")
    assert answers(turn) == ["found a", "found b", REFUSED, "x", REFUSED]
    assert (turn.text, found) == ("done", ["a", "b"])


async def test_the_calls_of_one_reply_count_in_the_order_of_the_reply():
    search, found = searching()
    agent = Agent(ScriptedModel([asking(*"abcd"), "ok"]), [search], middleware=[ToolCallLimits({"search": 2})])
    turn = await agent.run("go")
    assert [text[:5] for text in answers(turn)] == ["found", "found", "not r", "not r"]
    assert sorted(found) == ["a", "b"]


async def test_each_turn_has_calls_of_its_own():
    search, found = searching()
    script = [asking(*"abc"), "ok", asking(*"de"), "ok"]
    agent = Agent(ScriptedModel(script), [search], middleware=[ToolCallLimits({"search": 2})])
    await agent.run("go", "t")
    await agent.run("go on", "t")
    assert found == [*"ab", *"de"]


async def test_a_limit_of_0_closes_a_tool():
    search, found = searching()
    agent = Agent(ScriptedModel([asking("a"), "ok"]), [search], middleware=[ToolCallLimits({"search": 0})])
    assert answers(await agent.run("go"))[0].startswith("not run: search may be called 0 times")
    assert not found


async def test_a_compaction_in_between_does_not_make_the_count_begin_again():
    search, found = searching()
    model = ScriptedModel(
        [asking("a"), asking("b"), ToolCall("compact_conversation"), asking("c"), "ok"], window=10_000
    )
    compaction = SummarizationMiddleware(model, StateBackend(), summarizer=ScriptedModel(["short"]), keep=1)
    agent = Agent(model, [search], middleware=[ToolCallLimits({"search": 2}), compaction])
    turn = await agent.run("x" * 4_000, "t")
    assert agent.get_state("t").messages[0].text.startswith("[Summary")
    assert (answers(turn)[-1], found) == (REFUSED, ["a", "b"])


async def test_a_turn_that_is_cut_short_goes_on_with_its_count_in_another_process(store):
    search, found = searching()
    started, left = asyncio.Event(), []

    async def hang(request):
        if len(request.messages) < 5:
            return asking(f"q{len(request.messages)}")
        left.append(copy_of(store))
        started.set()
        await asyncio.Event().wait()

    limits = [ToolCallLimits({"search": 2})]
    agent = Agent(ScriptedModel(hang), [search], middleware=limits, checkpointer=store, durability="step")
    turn = asyncio.ensure_future(agent.run("go", "t"))
    await started.wait()
    turn.cancel()
    await asyncio.wait([turn])
    other = Agent(
        ScriptedModel([asking("c"), "ok"]), [search], middleware=[ToolCallLimits({"search": 2})], checkpointer=left[0]
    )
    assert answers(await other.resume("t"))[-1] == REFUSED
    assert found == ["q1", "q3"]


async def test_a_call_that_waited_for_a_person_counts_once(store):
    search, found = searching()

    def agent(script):
        middleware = [ToolCallLimits({"search": 2}), AskFirst("search")]
        return Agent(ScriptedModel(script), [search], middleware=middleware, checkpointer=store)

    call = ToolCall("search", {"query": "a"}, "s1")
    assert (await agent([call]).run("go", "t")).status == "paused"
    turn = await agent(["ok"]).resume("t", {"s1": Approve()})
    assert (turn.status, found) == ("ended", ["a"])


async def test_a_run_below_has_the_same_limits_for_itself():
    search, found = searching()
    child = ScriptedModel([asking(*"abc"), "found enough"])
    main = ScriptedModel([task("finder"), asking(*"def"), "ok"])
    agent = create_deep_agent(
        main, [search], subagents=[sub("finder", child)], middleware=[ToolCallLimits({"search": 2})]
    )
    assert (await agent.run("go")).status == "ended"
    assert sorted(found) == ["a", "b", "d", "e"]


@pytest.mark.parametrize("limits", [{"search": -1}, {"search": "x"}, ["search"], {5: 5}, None])
def test_limits_that_are_none_are_refused(limits):
    with pytest.raises(ConfigError, match="limits"):
        ToolCallLimits(limits)
