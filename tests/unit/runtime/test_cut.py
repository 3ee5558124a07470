"""Why a turn was cut: by its caller, by `agent.cancel`, or by a shutdown, which leaves it to be resumed."""

import asyncio

from harness.agents import answers, hang, ping, pings, sub, task

from minideep import Agent, ToolCall, create_deep_agent, tool
from minideep.events import TurnCancelled, UserSaid
from minideep.models import ScriptedModel
from minideep.runtime.live import find


async def waiting_turn(agent, thread_id="t"):
    """Begin a turn; return its task once its input is saved."""
    turn = asyncio.ensure_future(agent.run("go", thread_id))
    while not ((live := find(agent._store, thread_id)) and live.accepted):
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    return turn


def recorded(agent, kind):
    from minideep.checkpoint.replay import read_consistently, segments

    def read(log):
        paths = [(), *log.runs]
        return [event for path in paths for _, entries in segments(log, path) for _, event, _ in entries]

    return [event for event in read_consistently(agent._store, "t", read) if isinstance(event, kind)]


async def test_who_awaits_a_turn_that_is_cancelled_by_name_gets_a_turn_with_the_reason(store):
    agent = Agent(ScriptedModel(hang), checkpointer=store)
    turn = await waiting_turn(agent)
    assert await agent.cancel("t", "the order was withdrawn")
    result = await turn
    assert (result.status, result.reason, result.saved) == ("cancelled", "cancelled", True)
    state = Agent("offline:", checkpointer=store).get_state("t")
    assert (state.status, state.detail) == ("cancelled", "the order was withdrawn")
    assert [event.reason for event in recorded(agent, TurnCancelled)] == ["the order was withdrawn"]


async def test_a_cancel_by_name_keeps_what_was_done_and_ends_the_runs_below(store):
    @tool
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(60)
        return "waited"

    child = sub("critic", ScriptedModel([ToolCall("wait"), "critique"]))
    agent = create_deep_agent(
        ScriptedModel([[*pings("a"), task("critic", "t1")], "fine"]),
        [ping, wait],
        subagents=[child],
        checkpointer=store,
    )
    turn = await waiting_turn(agent)
    await asyncio.sleep(0.05)
    assert await agent.cancel("t")
    assert (await turn).status == "cancelled"
    left = agent.get_state("t", subagents=True)
    assert (left.status, left.subagents["t1"].status) == ("cancelled", "cancelled")
    assert [entry.result and entry.result.text for entry in left.open.values()] == ["a", None]


async def test_a_cancelled_task_still_raises_and_records_that_its_caller_cut_it(store):
    agent = Agent(ScriptedModel(hang), checkpointer=store)
    turn = await waiting_turn(agent)
    turn.cancel()
    await asyncio.wait([turn])
    assert turn.cancelled()
    assert agent.get_state("t").status == "cancelled"
    assert [event.reason for event in recorded(agent, TurnCancelled)] == [""]


async def test_a_shutdown_leaves_the_turn_cut_short_and_it_can_be_resumed(store):
    runs = []

    @tool
    async def wait() -> str:
        """Wait once."""
        runs.append("wait")
        await asyncio.sleep(60 if len(runs) == 1 else 0)
        return "waited"

    agent = Agent(ScriptedModel([ToolCall("wait"), "done"]), [wait], checkpointer=store)
    turn = await waiting_turn(agent)
    await agent.aclose()
    result = await turn
    assert (result.status, result.reason, result.saved) == ("running", "interrupted", True)
    assert recorded(agent, TurnCancelled) == []
    assert (await agent.status("t")).status == "interrupted"
    other = Agent(ScriptedModel(["done"]), [wait], checkpointer=store)
    resumed = await other.resume("t")
    assert (resumed.status, answers(resumed)) == ("ended", ["waited"])
    assert len(recorded(agent, UserSaid)) == 1


def test_a_loop_that_is_closed_records_no_cancellation(store):
    agent = Agent(ScriptedModel(hang), checkpointer=store)

    async def leave_it_running():
        await waiting_turn(agent)

    asyncio.run(leave_it_running())
    assert agent.get_state("t").status == "running"
    assert recorded(agent, TurnCancelled) == []


async def test_a_cancel_that_comes_while_the_input_is_saved_counts(store):
    agent = Agent(ScriptedModel(hang), checkpointer=store)
    turn = asyncio.ensure_future(agent.run("go", "t"))
    while (live := find(agent._store, "t")) is None:
        await asyncio.sleep(0)
    live.scope.request_cancel("agent", "too late")
    result = await turn
    assert (result.status, agent.get_state("t").detail) == ("cancelled", "too late")


async def test_a_cancel_of_a_thread_that_nobody_runs_changes_nothing(store):
    agent = Agent(ScriptedModel(["done"]), checkpointer=store)
    assert not await agent.cancel("t")
    await agent.run("go", "t")
    assert not await agent.cancel("t", "late")
    assert agent.get_state("t").status == "ended"
