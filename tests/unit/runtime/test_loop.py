"""Whole turns with a scripted model: how they end and fail, ids of calls, limits, requests and costs."""

import asyncio

import pytest
from harness.agents import ping, pings, results

from minideep import (
    Agent,
    LimitExceeded,
    Limits,
    ModelError,
    Overloaded,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    tool,
)
from minideep.checkpoint import open_store
from minideep.models import ScriptedModel


async def test_a_turn_ends_with_the_last_reply():
    turn = await Agent(ScriptedModel(["42"])).run("what?")
    assert (turn.status, turn.reason, turn.text, turn.saved, turn.error) == ("ended", "done", "42", True, None)
    assert [(m.role, m.text) for m in turn.messages] == [("user", "what?"), ("assistant", "42")]


# ---- ids


async def test_calls_get_ids_that_tell_them_apart_when_a_server_repeats_call_0():
    same = ToolCall("ping", {"text": "a"}, "call_0")
    model = ScriptedModel([[same, same], same, [ToolCall("ping"), same], "ok"])
    turn = await Agent(model, [ping]).run("go")
    ids = [call.id for message in turn.messages if message.role == "assistant" for call in message.calls]
    assert ids[0] == "call_0"
    assert len(set(ids)) == 5
    assert [message.call_id for message in results(turn)] == ids
    assert [m.call_id for m in model.requests[-1].messages if isinstance(m, ToolMessage)] == ids


async def test_an_id_is_not_used_again_in_later_turns_and_processes(store):
    def agent():
        return Agent(ScriptedModel([ToolCall("ping", {}, "call_0"), "ok"]), [ping], checkpointer=store)

    await agent().run("go", "t")
    turn = await agent().run("go on", "t")
    assert results(turn)[0].call_id != "call_0"


async def test_the_ids_of_a_thread_are_collected_once_and_not_in_each_turn():
    agent = Agent(ScriptedModel(lambda r: "ok" if r.messages[-1].role == "tool" else ToolCall("ping")), [ping])
    await agent.run("go", "t")
    known = agent._turns._kept[open_store(agent._own), "t"]._ids._by_run[()]
    await agent.run("go", "t")
    assert agent._turns._kept[open_store(agent._own), "t"]._ids._by_run[()] is known
    assert len(known) == 2


# ---- limits and failures


async def test_a_turn_at_its_limit_is_exhausted_and_can_be_resumed():
    agent = Agent(ScriptedModel([*pings("a", "b", "c"), "done"]), [ping], limits=Limits(steps=2))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.reason) == ("exhausted", "steps")
    with pytest.raises(LimitExceeded, match="limit of steps"):
        turn.raise_for_status()
    turn = await agent.resume("t")
    assert (turn.status, turn.text) == ("ended", "done")


async def test_the_default_limit_is_a_thousand_steps():
    turn = await Agent(ScriptedModel(lambda request: ToolCall("ping")), [ping]).run("go")
    assert (turn.status, turn.reason, turn.costs.steps) == ("exhausted", "steps", 1000)


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (Overloaded("busy"), Overloaded, "busy"),
        (ValueError("bad"), ModelError, "scripted: ValueError: bad"),
        (asyncio.CancelledError(), ModelError, "the model, or a hook, cancelled itself"),
    ],
)
async def test_a_failing_model_fails_the_turn_and_resume_asks_it_again(raised, kind, text):
    agent = Agent(ScriptedModel([*pings("a"), raised, "done"]), [ping])
    turn = await agent.run("go", "t")
    assert (turn.status, turn.reason, str(turn.error)) == ("failed", kind.__name__, text)
    with pytest.raises(kind, match=text):
        turn.raise_for_status()
    turn = await agent.resume("t")
    assert (turn.status, turn.text) == ("ended", "done")


async def test_a_script_that_is_asked_past_its_end_says_so():
    turn = await Agent(ScriptedModel(pings("a")), [ping]).run("go")
    assert str(turn.error).startswith("scripted: the script has 1 reply and was asked for one more, after the result ")


@pytest.mark.parametrize("junk", [7, None, ToolResult("no reply")])
async def test_a_model_that_returns_no_reply_fails_the_turn(junk):
    class Junk:
        name = "junk"

        async def complete(self, request, emit):
            return junk

    turn = await Agent(Junk()).run("go", "t")
    assert turn.status == "failed"
    assert isinstance(turn.error, ModelError)


# ---- what a request shows


async def test_a_request_shows_what_was_said_when_it_was_made():
    model = ScriptedModel([*pings("a", "b"), "ok"])
    await Agent(model, [ping], system_prompt="Be brief.").run("go")
    first, second, third = model.requests
    assert (first.system, [item.name for item in first.tools]) == ("Be brief.", ["ping"])
    assert list(first.messages) == [UserMessage("go")]
    assert [len(request.messages) for request in (first, second, third)] == [1, 3, 5]
    assert repr(first.messages) == "[UserMessage(content='go')]"
    assert second.messages[-1] == third.messages[2]
    assert (third.messages[1:3], third.messages == list(third.messages)) == (list(third.messages)[1:3], True)
    with pytest.raises(IndexError):
        first.messages[1]


async def test_the_tools_of_two_requests_are_the_same_objects():
    model = ScriptedModel([*pings("a"), "ok"])
    await Agent(model, [ping]).run("go")
    assert model.requests[0].tools is model.requests[1].tools


# ---- costs


async def test_the_ledger_shows_where_the_time_went():
    @tool
    async def nap() -> str:
        await asyncio.sleep(0.02)
        return "x" * 10

    async def slow(request):
        await asyncio.sleep(0.02)
        return ToolCall("nap") if len(request.messages) < 3 else "ok"

    costs = (await Agent(ScriptedModel(slow), [nap]).run("go")).costs
    assert (costs.steps, costs.tool_calls, costs.tool_chars) == (2, 1, 10)
    assert costs.model_s >= 0.04
    assert costs.tools_s >= 0.02
    assert 0 < costs.harness_s < 0.04
    assert costs.save_s > 0
    assert costs.bytes_raw > 0
    assert costs.bytes_stored == costs.state_bytes > 0
    assert sum(step.model_s for step in costs.table) == pytest.approx(costs.model_s)
