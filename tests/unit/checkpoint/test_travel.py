"""Going back to a step in the middle of a turn: `fork(after=)` and `get_state(after=)`."""

import asyncio

import pytest

from minideep import (
    Agent,
    ConfigError,
    DiskCheckpointer,
    HistoryCut,
    MemoryCheckpointer,
    Retention,
    Subagent,
    ToolCall,
    create_deep_agent,
    events,
    tool,
)
from minideep.models import ScriptedModel


@pytest.fixture(params=["memory", "disk"])
def store(request, tmp_path):
    return MemoryCheckpointer() if request.param == "memory" else DiskCheckpointer(tmp_path / "s")


def recorded(agent, thread_id="t"):
    async def read():
        return [event async for event in agent.follow(thread_id) if event.number]

    return asyncio.run(read())


def stepping(store, *replies, done=None, **more):
    @tool
    async def add(number: int) -> str:
        """Add."""
        done.append(number)
        return f"added {number}"

    return Agent(ScriptedModel([*replies]), [add], checkpointer=store, **more)


def numbers_of(found, kind):
    return [event.number for event in found if isinstance(event, kind)]


@pytest.mark.parametrize("durability", ["turn", "tool"])
def test_a_fork_after_a_step_goes_on_from_there_with_another_reply(store, durability):
    done = []
    script = [ToolCall("add", {"number": 1}), ToolCall("add", {"number": 2}), "three"]
    agent = stepping(store, *script, done=done, durability=durability)
    agent.run_sync("count", "t")
    after = numbers_of(recorded(agent), events.ToolReturned)[0]
    forked = agent.fork("t", after=after)
    state = agent.get_state(forked)
    assert (state.status, [message.text for message in state.messages]) == ("running", ["count", "", "added 1"])
    other = stepping(store, ToolCall("add", {"number": 9}), "nine", done=done)
    turn = other.resume_sync(forked)
    assert (turn.text, done) == ("nine", [1, 2, 9])  # The first step did not run again.
    assert agent.get_state("t").text == "three"


def test_a_call_that_was_asked_for_and_not_made_runs_in_the_fork(store):
    done = []
    agent = stepping(store, ToolCall("add", {"number": 1}), "one", done=done)
    agent.run_sync("count", "t")
    forked = agent.fork("t", after=numbers_of(recorded(agent), events.ModelReplied)[0])
    assert stepping(store, "done", done=done).resume_sync(forked).status == "ended"
    assert done == [1, 1]


def test_each_event_of_a_thread_with_subagents_and_files_is_a_place_to_go_back_to(store):
    write = ToolCall("write_file", {"file_path": "/a.md", "content": "x" * 200_000})
    script = [
        write,
        ToolCall("task", {"description": "look", "subagent_type": "reader"}),
        ToolCall("write_file", {"file_path": "/b.md", "content": "b"}),
        "read it",
        "all done",
    ]
    reader = Subagent(name="reader", description="reads")
    agent = create_deep_agent(ScriptedModel(script), subagents=[reader], checkpointer=store, durability="tool")
    agent.run_sync("go", "t")
    agent.checkpointer.close()
    found = recorded(agent)
    for event in found:
        forked = agent.fork("t", after=event.number, thread_id=f"f{event.number}")
        assert agent.get_state(forked, subagents=True) == agent.get_state("t", after=event.number, subagents=True)
        assert [one.number for one in recorded(agent, forked)] == [
            one.number for one in found if one.number <= event.number
        ]
    state = agent.get_state("t", after=numbers_of(found, events.FileWritten)[0])
    assert set(state.files) == {"/a.md"}
    assert agent.read_file(f"f{found[-1].number}", "/a.md") == "x" * 200_000


def test_an_event_that_does_not_exist_or_was_removed_is_named(store):
    agent = stepping(store, "one", "two", "three", done=[])
    agent.run_sync("count", "t")
    with pytest.raises(ConfigError, match="has no event 99; its last one is 3"):
        agent.get_state("t", after=99)
    with pytest.raises(ConfigError, match="give one of them"):
        agent.fork("t", at=1, after=2)
    store.retention = Retention(boundaries=1)
    agent.run_sync("on", "t")
    agent.run_sync("on", "t")
    store.close()
    with pytest.raises(HistoryCut, match="retention removed event 2"):
        agent.get_state("t", after=2)
    with pytest.raises(HistoryCut):
        agent.fork("t", after=2)
