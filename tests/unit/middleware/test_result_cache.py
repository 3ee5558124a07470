"""The cache of results: what is answered from it, for whom, for how long, and what never is."""

import asyncio

import pytest
from harness.agents import answers, sub, task

from minideep import Agent, ConfigError, Middleware, ToolCall, ToolError, ToolResult, create_deep_agent, tool
from minideep.middleware import ToolResultCache, result_cache
from minideep.models import ScriptedModel


def searching(answer=lambda query, count: f"{query}: {count}"):
    found = []

    @tool
    async def search(query: str, most: int = 5) -> ToolResult:
        """Search."""
        found.append(query)
        said = answer(query, len(found))
        return said if isinstance(said, ToolResult) else ToolResult(said)

    return search, found


def asks(query="a", **more):
    return ToolCall("search", {"query": query, **more})


async def test_the_same_tool_and_arguments_get_the_earlier_result_which_is_recorded_like_any(store):
    search, found = searching()
    script = [asks(most=7), ToolCall("search", {"most": 7, "query": "a"}), asks(most=8), asks("b", most=7), "ok"]
    agent = Agent(ScriptedModel(script), [search], middleware=[ToolResultCache(["search"])], checkpointer=store)
    turn = await agent.run("go", "t")
    assert answers(turn) == ["a: 1", "a: 1", "a: 2", "b: 3"]
    assert len(found) == 3
    assert turn.costs.tool_calls == 4
    assert [message.text for message in agent.transcript("t") if message.role == "tool"] == answers(turn)


async def test_only_tools_that_are_named_are_answered_from_it():
    search, found = searching()
    agent = Agent(ScriptedModel([asks(), asks(), "ok"]), [search], middleware=[ToolResultCache(["fetch"])])
    await agent.run("go")
    assert len(found) == 2


async def test_the_runs_of_one_agent_share_it_and_other_agents_and_threads_do_not():
    """A subagent may be forbidden to read what the result of its parent holds."""
    search, found = searching()
    child = ScriptedModel([asks(), "done", asks(), "done"])
    main = ScriptedModel([asks(), "ok", task("one"), task("one"), asks(), "ok", asks(), "ok"])
    agent = create_deep_agent(main, [search], subagents=[sub("one", child)], middleware=[ToolResultCache(["search"])])
    await agent.run("go", "t")
    await agent.run("go on", "t")
    assert len(child.requests) == 4
    assert len(found) == 2  # Once for the main agent, and once for the other.
    await agent.run("go", "another")
    assert len(found) == 3


async def test_a_thread_that_is_deleted_and_begun_again_has_none_of_its_old_results(store):
    search, found = searching()
    agent = Agent(
        ScriptedModel([asks(), "ok"] * 2), [search], middleware=[ToolResultCache(["search"])], checkpointer=store
    )
    await agent.run("go", "t")
    agent.delete("t")
    await agent.run("go", "t")
    assert len(found) == 2


async def test_errors_and_results_that_end_the_turn_are_not_kept():
    def fails(query, count):
        if count == 1:
            raise ToolError("busy")
        return ToolResult("last", ends=True) if count == 2 else "found"

    search, found = searching(fails)
    agent = Agent(ScriptedModel([asks(), asks(), asks(), "ok"]), [search], middleware=[ToolResultCache(["search"])])
    await agent.run("go", "t")
    await agent.run("go on", "t")
    assert len(found) == 3


async def test_a_result_is_kept_for_its_time_to_live():
    search, found = searching()

    async def say(request):
        await asyncio.sleep(0.01)
        return asks() if len(request.messages) < 5 else "ok"

    for ttl, count in ((0.001, 2), (3_600, 1)):
        found.clear()
        agent = Agent(ScriptedModel(say), [search], middleware=[ToolResultCache(["search"], ttl=ttl)])
        await agent.run("go")
        assert len(found) == count


async def test_the_oldest_results_go_when_there_are_too_many_bytes():
    large = result_cache.MAX_SIZE // 3
    search, found = searching(lambda query, count: "x" * large)
    script = [*map(asks, "abc"), asks("c"), asks("a"), "ok"]
    cache = ToolResultCache(["search"])
    await Agent(ScriptedModel(script), [search], middleware=[cache]).run("go")
    assert found == [*"abc", "a"]
    assert cache._size <= result_cache.MAX_SIZE


async def test_hooks_before_it_see_the_result_as_they_see_any():
    class Shout(Middleware):
        async def after_tool(self, ctx, call, result):
            return ToolResult(result.text.upper())

    search, found = searching()
    agent = Agent(ScriptedModel([asks(), asks(), "ok"]), [search], middleware=[Shout(), ToolResultCache(["search"])])
    assert answers(await agent.run("go")) == ["A: 1", "A: 1"]
    assert len(found) == 1


async def test_two_equal_calls_at_the_same_time_both_run():
    both = asyncio.Barrier(2)

    @tool
    async def search(query: str) -> str:
        """Search."""
        await both.wait()
        return "found"

    agent = Agent(ScriptedModel([[asks(), asks()], asks(), "ok"]), [search], middleware=[ToolResultCache(["search"])])
    assert answers(await agent.run("go")) == ["found"] * 3  # The third would wait for ever.


@pytest.mark.parametrize("wrong", [{"tools": "search"}, {"ttl": 0}, {"ttl": "x"}, {"tools": [5]}])
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ConfigError):
        ToolResultCache(**{"tools": ["search"], **wrong})
