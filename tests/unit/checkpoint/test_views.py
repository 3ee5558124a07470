"""A thread that runs in this process is shown as it is, though nothing of it is saved before its boundary."""

import asyncio
import threading

import pytest

from minideep import (
    Agent,
    DiskCheckpointer,
    MemoryCheckpointer,
    Subagent,
    ToolCall,
    ToolContext,
    create_deep_agent,
    tool,
)
from minideep.blueprint import Blueprint
from minideep.events import FileWritten, Noted
from minideep.models import ScriptedModel


def brief(state):
    return state.status, [message.role for message in state.messages]


def reading(store):
    """Another agent of the same process, which only reads."""
    return Agent("offline:", checkpointer=store)


async def watched(store, **more):
    """A turn whose subagent waits, what a reader sees meanwhile, and what it sees afterwards."""
    waits, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def wait(ctx: ToolContext) -> str:
        """Wait."""
        ctx.record(Noted("me", "seen", 1))
        ctx.record(
            FileWritten("/a", "text", 4, "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1", 1.0)
        )
        waits.set()
        await go_on.wait()
        return "waited"

    worker = Subagent(name="worker", description="works", model=ScriptedModel([ToolCall("wait", {}, "w"), "done"]))
    script = [ToolCall("task", {"description": "work", "subagent_type": "worker"}, "t1"), "so"]
    agent = create_deep_agent(ScriptedModel(script), [wait], subagents=[worker], checkpointer=store, **more)
    turn = asyncio.create_task(agent.run("go", "t"))
    await waits.wait()
    reader = reading(store)
    during = reader.get_state("t", subagents=True), reader.runs("t"), agent.get_state("t")
    go_on.set()
    await turn
    return during, (reader.get_state("t", subagents=True), reader.runs("t"))


@pytest.mark.parametrize("durability", ["turn", "step", "tool"])
async def test_a_reader_sees_the_runs_that_are_under_way(store, durability):
    (state, runs, own), (after, runs_after) = await watched(store, durability=durability)
    assert brief(state) == brief(own) == ("running", ["user", "assistant"])
    child = state.subagents["t1"]
    assert brief(child) == ("running", ["user", "assistant"])
    assert child.notes == {"me": {"seen": 1}}
    assert child.files is state.files
    assert state.files["/a"].content == "text"
    assert [(info.path, info.agent, info.status, info.steps) for info in runs] == [(("t1",), "worker", "running", 1)]
    assert runs[0].created > 1e9
    assert brief(after.subagents["t1"]) == ("ended", ["user", "assistant", "tool", "assistant"])
    assert [info.status for info in runs_after] == ["ended"]


async def test_what_is_shown_changes_no_more_and_changes_nothing():
    store = MemoryCheckpointer()
    (state, _, _), (after, _) = await watched(store)
    assert state.status == "running"
    state.messages.clear()
    state.files.clear()
    assert brief(reading(store).get_state("t")) == brief(after) == ("ended", ["user", "assistant", "tool", "assistant"])
    assert list(reading(store).get_state("t").files) == ["/a"]


async def test_runs_of_earlier_turns_are_shown_beside_those_that_are_under_way(store):
    seen = []

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        child = Agent(ScriptedModel([f"answer {ctx.call_id}"]), name="child")
        said = (await ctx.run(child, "go")).text
        seen.append([(info.path, info.status) for info in reading(store).runs("t")])
        seen.append(list(reading(store).get_state("t", subagents=True).subagents))
        return said

    for call_id in ("first", "second"):
        await Agent(ScriptedModel([ToolCall("ask", {}, call_id), "so"]), [ask], checkpointer=store).run("go", "t")
    first, second = (("first",), "ended"), (("second",), "ended")
    assert seen == [[first], ["first"], [first, second], ["first", "second"]]


async def test_a_boundary_is_read_from_the_log_while_a_turn_runs():
    store, seen = MemoryCheckpointer(), []

    def reply(request):
        seen.append([len(reading(store).get_state("t", at=1).messages), len(reading(store).get_state("t").messages)])
        return "so"

    await Agent(ScriptedModel(["one"]), checkpointer=store).run("go", "t")
    await Agent(ScriptedModel(reply), checkpointer=store).run("again", "t")
    assert seen == [[2, 3]]


async def test_what_is_redacted_is_not_shown_before_it_is_saved():
    (state, runs, _), _ = await watched(MemoryCheckpointer(), redact=lambda event: event)
    assert brief(state) == ("running", ["user"])
    assert runs == []


def test_other_threads_may_read_while_the_turn_runs(tmp_path):
    with DiskCheckpointer(tmp_path / "state") as store:
        over, problems, most = threading.Event(), [], [0]

        def read():
            while not over.is_set():
                try:
                    state = reading(store).get_state("t", subagents=True)
                    most[0] = max(most[0], len(state.messages))
                    reading(store).runs("t")
                except Exception as exc:
                    if type(exc).__name__ != "UnknownThread":
                        problems.append(exc)

        @tool
        async def ask(ctx: ToolContext) -> str:
            """Ask."""
            await asyncio.sleep(0)
            return (await ctx.run(Agent(ScriptedModel(["yes"]), name="child"), "go")).text

        script = [[ToolCall("ask"), ToolCall("ask")] for _ in range(60)]
        agent = Agent(ScriptedModel([*script, "so"]), [ask], checkpointer=store, durability="step")
        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        agent.run_sync("go", "t")
        over.set()
        for reader in readers:
            reader.join()
        assert problems == []
        assert 2 < most[0] <= 182


async def test_the_board_of_a_blueprint_is_shown_while_it_works():
    seen = []

    def team_says(request):
        if request.system.startswith("You are the planner"):
            return '{"subtasks": [{"role": "critic", "instruction": "look", "expected_artifact": "a.md"}]}'
        if request.system.startswith("You judge"):
            return '{"decision": "end", "final_answer": "done"}'
        seen.append(team.board("t").plan["subtasks"][0]["role"])
        return "[]"

    team = Blueprint(ScriptedModel(team_says), checkpointer=MemoryCheckpointer())
    await team.run("go", "t")
    assert seen == ["critic"]
