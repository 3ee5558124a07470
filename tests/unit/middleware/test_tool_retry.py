"""Retries of tools: which calls run again, how often, and what ends the waiting."""

import asyncio

import pytest
from harness.agents import answers, cancelled, results, sub, task

from minideep import Agent, ConfigError, Limits, ToolCall, ToolContext, ToolError, Usage, create_deep_agent, tool
from minideep.middleware import ToolRetry
from minideep.models import ScriptedModel
from minideep.models.scripted import as_reply
from minideep.ports import Reply

SOON = {"initial_backoff": 0.001, "max_backoff": 0.001}
FETCH = ToolCall("fetch", {"url": "x"})


def fetching(*outcomes):
    """A tool with these outcomes, an error or a text each, and a list of the calls that it got."""
    called, left = [], iter(outcomes)

    @tool
    async def fetch(url: str, ctx: ToolContext) -> str:
        """Fetch."""
        called.append(ctx.idempotency_key)
        if isinstance(outcome := next(left), BaseException):
            raise outcome
        return outcome

    return fetch, called


async def test_a_tool_that_raised_runs_again_and_only_the_last_result_is_recorded():
    fetch, called = fetching(ConnectionError("reset"), TimeoutError(), "page")
    agent = Agent(ScriptedModel([FETCH, "ok"]), [fetch], middleware=[ToolRetry(["fetch"], **SOON)])
    turn = await agent.run("go")
    assert [(result.text, result.is_error) for result in results(turn)] == [("page", False)]
    assert len(called) == 3
    assert len(set(called)) == 1


async def test_after_the_last_retry_the_model_reads_the_error():
    fetch, called = fetching(*[ConnectionError("reset")] * 9)
    agent = Agent(ScriptedModel([FETCH, "ok"]), [fetch], middleware=[ToolRetry(["fetch"], 3, **SOON)])
    assert answers(await agent.run("go")) == ["fetch failed: ConnectionError: reset"]
    assert len(called) == 4


async def test_a_tool_that_did_not_end_in_time_runs_again():
    called = []

    @tool(timeout=0.01)
    async def fetch(url: str) -> str:
        """Fetch."""
        called.append(url)
        await asyncio.sleep(60 if len(called) == 1 else 0)
        return "page"

    agent = Agent(ScriptedModel([FETCH, "ok"]), [fetch], middleware=[ToolRetry(["fetch"], **SOON)])
    assert answers(await agent.run("go")) == ["page"]
    assert len(called) == 2


@pytest.mark.parametrize(
    ("call", "outcome"),
    [
        (FETCH, ToolError("no such page; try another")),
        (FETCH, ToolError("fetch failed: the page is gone")),
        (ToolCall("fetch", {"uri": "x"}), "page"),
    ],
)
async def test_what_the_tool_says_to_the_model_and_wrong_arguments_are_no_reason(call, outcome):
    fetch, called = fetching(outcome)
    agent = Agent(ScriptedModel([call, "ok"]), [fetch], middleware=[ToolRetry(["fetch"], **SOON)])
    assert results(await agent.run("go"))[0].is_error
    assert len(called) == isinstance(outcome, ToolError)


async def test_other_tools_run_once():
    fetch, called = fetching(ConnectionError("reset"))
    agent = Agent(ScriptedModel([FETCH, "ok"]), [fetch], middleware=[ToolRetry(["search"], **SOON)])
    await agent.run("go")
    assert len(called) == 1


async def test_when_decides_by_the_result():
    fetch, called = fetching(ToolError("503: busy"), ToolError("404: gone"))
    retry = ToolRetry(["fetch"], **SOON, when=lambda result: result.text.startswith("503"))
    agent = Agent(ScriptedModel([FETCH, "ok"]), [fetch], middleware=[retry])
    assert answers(await agent.run("go")) == ["404: gone"]
    assert len(called) == 2


async def test_a_cancel_ends_the_wait(store):
    failed = asyncio.Event()

    @tool
    async def fetch(url: str) -> str:
        """Fetch."""
        failed.set()
        raise ConnectionError("reset")

    retry = ToolRetry(["fetch"], initial_backoff=3_600, max_backoff=3_600)
    agent = Agent(ScriptedModel([FETCH, "ok"]), [fetch], middleware=[retry], checkpointer=store)
    await cancelled(agent, failed)
    assert agent.get_state("t").status == "cancelled"


async def test_once_a_budget_is_spent_nothing_is_tried_again():
    fetch, called = fetching(*[ConnectionError("reset")] * 3)
    model = ScriptedModel([Reply(as_reply(FETCH).message, Usage(7, 3))])
    agent = Agent(model, [fetch], middleware=[ToolRetry(["fetch"], **SOON)], limits=Limits(tokens=10))
    assert (await agent.run("go")).reason == "tokens"
    assert len(called) == 1


async def test_the_call_beside_it_is_not_held_up():
    fetch, _ = fetching(ConnectionError("reset"), "page")
    order = []

    @tool
    async def ping() -> str:
        """Answer."""
        order.append("ping")
        return "pong"

    retry = ToolRetry(["fetch"], **SOON, when=lambda result: order.append("retry") or result.is_error)
    agent = Agent(ScriptedModel([[FETCH, ToolCall("ping")], "ok"]), [fetch, ping], middleware=[retry])
    assert answers(await agent.run("go")) == ["page", "pong"]
    assert "ping" in order[:2]


async def test_it_holds_in_runs_below():
    fetch, called = fetching(ConnectionError("reset"), "page")
    child = ScriptedModel([FETCH, "done"])
    agent = create_deep_agent(
        ScriptedModel([task("one"), "ok"]),
        [fetch],
        subagents=[sub("one", child)],
        middleware=[ToolRetry(["fetch"], **SOON)],
    )
    assert (await agent.run("go")).status == "ended"
    assert len(called) == 2


@pytest.mark.parametrize("wrong", [{"tools": "fetch"}, {"retries": 0}, {"initial_backoff": 0}, {"when": 5}])
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ConfigError):
        ToolRetry(**{"tools": ["fetch"], **wrong})
