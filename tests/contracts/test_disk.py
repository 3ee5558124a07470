"""Stores: one contract for each of them, and what only a disk can suffer."""

import asyncio
import os

import pytest
from harness.agents import LONG
from harness.stores import plain
from hypothesis import given, settings, strategies as st

from minideep import (
    Agent,
    CorruptSegment,
    DiskCheckpointer,
    ToolCall,
    ToolContext,
    UnknownVersion,
    create_deep_agent,
    tool,
)
from minideep.events import FileWritten, Noted
from minideep.middleware.subagents import Subagent
from minideep.models import ScriptedModel


@tool
async def ping(text: str = "pong") -> str:
    """Answer."""
    return text


def kept(agent):
    """The one thread that the agent has in memory."""
    (journal,) = agent._turns._kept.values()
    return journal


async def test_a_turn_with_subagents_is_one_transaction(tmp_path):
    appends = []

    class Watched(DiskCheckpointer):
        async def append(self, thread, expected, head, rows, deletes=(), **how):
            appends.append(sorted(key.split("/")[0] + "/" + key.split("/")[2] for key in rows))
            await super().append(thread, expected, head, rows, deletes, **how)

    child = Subagent(name="critic", description="", model=ScriptedModel(["bad"]))
    task = ToolCall("task", {"description": "a", "subagent_type": "critic"}, "t1")
    with Watched(tmp_path) as store:
        agent = create_deep_agent(ScriptedModel([task, "ok"]), subagents=[child], checkpointer=store)
        await agent.run("go", "t")
    assert appends == [["log/"], ["log/", "log/t1", "run/t1"]]


async def test_large_turns_are_cut_into_segments_and_read_back(store):
    big = [ToolCall("ping", {"text": f"{n}" + os.urandom(40_000).hex()}) for n in range(20)]
    agent = Agent(ScriptedModel([*big, "ok"]), [ping], checkpointer=store)
    turn = await agent.run("go", "t")
    assert len(plain(store).rows("log/t//", "log/t/0")) > 3  # The input, and 3.2 MB a MiB at a time.
    assert tuple(agent.get_state("t").messages) == turn.messages


async def test_the_live_state_is_the_fold_of_the_log_after_every_turn(store):
    script = []
    for n in range(5):
        script += [[ToolCall("write_file", {"file_path": f"/{n}", "content": "x"}), ToolCall("glob", {"pattern": "*"})],
                   ToolCall("edit_file", {"file_path": f"/{n}", "old_string": "x", "new_string": "yy"}), "ok"]  # fmt: skip
    agent = create_deep_agent(ScriptedModel(script), checkpointer=store)
    for _ in range(5):
        await agent.run("go", "t")
        assert kept(agent).root == agent.get_state("t")


STEP = st.lists(
    st.sampled_from(
        [
            ToolCall("write_file", {"file_path": "/a", "content": "one"}),
            ToolCall("write_file", {"file_path": "/b", "content": "two"}),
            ToolCall("edit_file", {"file_path": "/a", "old_string": "one", "new_string": "three"}),
            ToolCall("delete", {"file_path": "/b"}),
            ToolCall("write_todos", {"todos": [{"content": "a", "status": "completed"}]}),
            ToolCall("wait", {"turns": 3}),
            ToolCall("wait", {"turns": 1}),
            ToolCall("task", {"description": "a", "subagent_type": "critic"}),
            ToolCall("nope", {}),
        ]
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, min_size=1, max_size=4))
def test_whatever_runs_side_by_side_the_log_folds_to_the_live_state(script):
    @tool
    async def wait(turns: int, ctx: ToolContext) -> str:
        """Wait."""
        for number in range(turns):
            await asyncio.sleep(0)
            ctx.record(Noted("wait", f"{turns}", number, "append"))
        return "waited"

    child = [ToolCall("write_file", {"file_path": "/c", "content": "child"}), ToolCall("wait", {"turns": 2}), "ok"]

    def say(request):
        steps = child if "find faults" in request.system else [*script, "done"]
        return steps[sum(message.role == "assistant" for message in request.messages)]

    critic = Subagent(name="critic", description="", system_prompt="find faults")
    agent = create_deep_agent(ScriptedModel(say), [wait], subagents=[critic])
    turn = agent.run_sync("go", "t")
    assert (turn.status, turn.saved) == ("ended", True)
    assert kept(agent).root == agent.get_state("t")
    children = agent.get_state("t", subagents=True).subagents
    assert len(children) == sum(call.name == "task" for step in script for call in step)
    assert all(state.text == "ok" for state in children.values())


async def damaged(store, change):
    """A thread of two turns, the second turn's boundary changed by *change*."""
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
    await agent.run("first", "t")
    await agent.run("second", "t")
    key, value = plain(store).rows("log/t/", "log/t0")[-1]
    plain(store).append("t", plain(store).head("t"), plain(store).head("t"), {key: change(value)})
    return Agent(ScriptedModel(["never"]), checkpointer=store)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda data: data[:-3], CorruptSegment),
        (lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:], CorruptSegment),
        (lambda data: data[:3] + b"\x09" + data[4:], UnknownVersion),
        (lambda data: b"", CorruptSegment),
    ],
)
async def test_a_damaged_segment_is_a_named_error_for_who_reads_and_who_runs(store, change, error):
    agent = await damaged(store, change)
    with pytest.raises(error, match="segment 'log/t//"):
        agent.get_state("t")
    with pytest.raises(error, match="segment 'log/t//"):
        await agent.run("third", "t")


async def test_a_segment_of_another_thread_or_a_missing_one_is_found(store):
    for thread in ("t", "u"):
        agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
        await agent.run("first" + LONG, thread)
        await agent.run("second" + LONG, thread)
    mine, theirs = plain(store).rows("log/t/", "log/t0"), plain(store).rows("log/u/", "log/u0")
    plain(store).append("t", plain(store).head("t"), plain(store).head("t"), {mine[0][0]: theirs[0][1]})
    with pytest.raises(CorruptSegment, match="belongs to thread 'u'"):
        agent.get_state("t")
    plain(store).append("u", plain(store).head("u"), plain(store).head("u"), {}, [theirs[1][0]])
    with pytest.raises(CorruptSegment, match="is missing: it follows event 4, not 1"):
        agent.get_state("u")


async def test_a_tool_may_record_only_what_can_be_saved(store):
    @tool
    async def bad(kind: str, ctx: ToolContext) -> str:
        """Record something wrong."""
        events = {"object": Noted("me", "k", object()), "type": FileWritten("/a", "x", "7", "s", 1.0)}
        ctx.record(events[kind])
        return "recorded"

    script = [[ToolCall("bad", {"kind": "object"}), ToolCall("bad", {"kind": "type"})], "ok"]
    agent = Agent(ScriptedModel(script), [bad], checkpointer=store)
    turn = await agent.run("go", "t")
    assert [message.is_error for message in turn.messages if message.role == "tool"] == [True, True]
    assert turn.saved
    assert agent.get_state("t").messages == list(turn.messages)
