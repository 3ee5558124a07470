"""A thread is run again with other parts: what was done before is answered from its log, and the rest is refused."""

import asyncio
import json

import pytest
from harness.agents import sub, task, texts
from harness.blueprints import Parts, end, plan, research
from harness.stores import plain

from minideep import (
    Agent,
    Approve,
    ConfigError,
    DiskCheckpointer,
    Edit,
    HistoryCut,
    MemoryCheckpointer,
    Middleware,
    ModelError,
    Reject,
    Reply,
    Retention,
    ToolCall,
    ToolContext,
    ToolResult,
    UnknownThread,
    Usage,
    create_deep_agent,
    tool,
)
from minideep.backends import FilesystemBackend
from minideep.blueprint import Blueprint
from minideep.messages import AssistantMessage
from minideep.middleware import HumanInTheLoopMiddleware
from minideep.models import ScriptedModel
from minideep.replay.variant import NOBODY, REFUSED


@pytest.fixture
def paid():
    """The amounts that were really paid."""
    return []


@pytest.fixture
def pay(paid):
    @tool
    async def pay(amount: int, note: str = "") -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}, number {len(paid)}"

    return pay


def rows_of(store):
    return dict(plain(store).rows("", "\x7f"))


def payment(amount, **more):
    return ToolCall("pay", {"amount": amount, **more})


def results(replay):
    return [message.text for message in replay.turn.messages if message.role == "tool"]


async def test_the_same_call_is_answered_from_the_log_another_one_is_refused(pay, paid):
    agent = Agent(ScriptedModel([payment(1, note="a"), "Done."]), [pay])
    await agent.run("Pay.", "t")
    other = ScriptedModel([ToolCall("pay", b'{"note": "a",  "amount": 1}'), payment(2), "Paid."])
    replay = await agent.replay("t", model=other)
    assert results(replay) == ["paid 1, number 1", f"pay was not run: {REFUSED}"]
    assert paid == [1]
    assert replay.differences == [
        'turn 1: called now: pay({"amount":2})',
        "turn 1: answer: 'Done.' -> 'Paid.'",
    ]
    assert texts(agent.transcript("t")) == ["Pay.", "", "paid 1, number 1", "Done."]


async def test_others_run_if_they_may(pay, paid):
    agent = Agent(ScriptedModel([payment(1), "Done."]), [pay])
    await agent.run("Pay.", "t")
    replay = await agent.replay("t", model=ScriptedModel([[payment(1), payment(2)], "Done."]), others="run")
    assert results(replay) == ["paid 1, number 1", "paid 2, number 2"]
    assert paid == [1, 2]


async def test_a_call_that_was_made_twice_has_both_results_in_order_and_then_the_last_one_again(pay):
    agent = Agent(ScriptedModel([payment(1), payment(1), "Done."]), [pay])
    await agent.run("Pay.", "t")
    replay = await agent.replay("t", model=ScriptedModel([payment(1)] * 3 + ["Done."]))
    assert results(replay) == ["paid 1, number 1", "paid 1, number 2", "paid 1, number 2"]


async def test_without_a_model_the_agents_own_is_asked_with_the_other_prompt(pay):
    model = ScriptedModel([payment(1), "Done.", payment(1), "Done, briefly."])
    agent = create_deep_agent(model, [pay], "Be kind.")
    await agent.run("Pay.", "t")
    replay = await agent.replay("t", system_prompt="Be brief.")
    assert replay.turn.text == "Done, briefly."
    was, now = model.requests[0].system, model.requests[2].system
    assert was.startswith("Be kind.\n\n")
    assert now == was.replace("Be kind.", "Be brief.")


async def test_both_runs_stand_side_by_side_with_what_they_took():
    @tool
    async def look(at: str) -> str:
        """Look."""
        return "seen"

    def replied(content, *usage, cost):
        return Reply(AssistantMessage(content), Usage(*usage), cost=cost)

    agent = Agent(ScriptedModel([ToolCall("look", {"at": "a"}), replied("A.", 100, 20, cost=0.5), "B."]), [look])
    await agent.run("one", "t")
    await agent.run("two", "t")
    replay = await agent.replay("t", model=ScriptedModel([replied("A!", 10, 2, cost=0.05), "B."]))
    first, second = replay.turns
    assert (first.said, first.recorded.steps, first.replayed.steps) == ("one", 2, 1)
    assert (first.recorded.usage.total, first.replayed.usage.total) == (120, 12)
    assert (first.recorded.cost, first.replayed.cost) == (0.5, 0.05)
    assert second.recorded.answer == second.replayed.answer == "B."
    assert replay.differences == [
        'turn 1: no longer called: look({"at":"a"})',
        "turn 1: answer: 'A.' -> 'A!'",
    ]
    lines = replay.table().splitlines()
    assert lines[1].split() == ["1", "recorded", "ended", "1", "2", "120", "$0.5000", "0.0", "A."]
    assert lines[2].split() == ["replayed", "ended", "0", "1", "12", "$0.0500", "0.0", "A!"]
    found = json.loads(replay.json())
    assert found["thread_id"] == "t"
    assert found["turns"][0]["recorded"]["calls"] == [
        {"agents": [], "tool": "look", "args": {"at": "a"}, "result": "seen", "is_error": False}
    ]
    assert found["differences"] == replay.differences


async def test_at_leaves_out_what_came_later():
    agent = Agent(ScriptedModel(["A.", "B.", "C."]))
    for text in ("one", "two", "three"):
        await agent.run(text, "t")
    model = ScriptedModel(["A.", "B!"])
    replay = await agent.replay("t", at=2, model=model)
    assert replay.differences == ["turn 2: answer: 'B.' -> 'B!'"]
    assert len(replay.turns) == len(model.requests) == 2
    with pytest.raises(ConfigError, match="no boundary 4; its newest one is 3"):
        await agent.replay("t", at=4, model=model)


async def test_the_thread_is_only_read_also_while_it_runs(tmp_path, pay):
    store, asked, go_on = DiskCheckpointer(tmp_path / "store"), asyncio.Event(), asyncio.Event()

    async def says(request):
        if len(request.messages) == 1:
            return payment(1)
        asked.set()
        await go_on.wait()
        return "Done."

    agent = create_deep_agent(ScriptedModel(says), [pay], checkpointer=store, durability="tool")
    running = asyncio.ensure_future(agent.run("Pay.", "t"))
    await asked.wait()
    before = rows_of(store)
    replay = await agent.replay("t", model=ScriptedModel([payment(1), "Again."]))
    assert rows_of(store) == before
    assert replay.differences == ["turn 1: status: running -> ended", "turn 1: answer: '' -> 'Again.'"]
    go_on.set()
    assert (await running).text == "Done."
    store.close()
    before = rows_of(store)
    other = Agent(ScriptedModel([]), [pay], checkpointer=DiskCheckpointer(tmp_path / "store"))
    replay = await other.replay("t", model=ScriptedModel([payment(1), "Done."]))
    assert replay.differences == []
    assert rows_of(store) == before


async def test_tools_that_change_only_the_thread_run_and_files_of_the_state_are_the_replays_own(pay):
    def write(text):
        return ToolCall("write_file", {"file_path": "/n.md", "content": text})

    todos = [ToolCall("write_todos", {"todos": [{"content": text, "status": "pending"}]}) for text in "ab"]
    read = ToolCall("read_file", {"file_path": "/n.md"})
    agent = create_deep_agent(ScriptedModel([todos[0], write("one"), read, "Done."]), [pay])
    await agent.run("Go.", "t")
    replay = await agent.replay("t", model=ScriptedModel([todos[1], write("two"), read, "Done."]))
    assert "two" in results(replay)[-1]
    assert replay.agent.get_state("t").todos[0].content == "b"
    assert agent.read_file("t", "/n.md") == "one"


async def test_subagents_run_with_the_other_model_and_their_calls_come_from_the_log(pay, paid):
    def says(answer):
        def reply(request):
            if request.messages[0].text == "go":
                return task("h", "t1", f"{answer} work") if len(request.messages) == 1 else answer
            return payment(5) if len(request.messages) == 1 else f"{answer} below"

        return ScriptedModel(reply)

    agent = create_deep_agent(says("first"), [pay], subagents=[sub("h", None)])
    await agent.run("go", "t")
    replay = await agent.replay("t", model=says("second"))
    assert paid == [5]
    calls = replay.turns[0].replayed.calls
    assert [(call.agents, call.tool, call.result) for call in calls] == [
        ((), "task", "second below"),
        (("h",), "pay", "paid 5, number 1"),
    ]


async def test_decisions_are_those_about_the_same_call_and_nobody_decides_about_another_one(pay, paid):
    guard = HumanInTheLoopMiddleware({"pay": True})
    agent = Agent(ScriptedModel([[payment(1), payment(2), payment(3)], "Done."]), [pay], middleware=[guard])
    turn = await agent.run("Pay.", "t")
    one, two, three = turn.interrupts
    await agent.resume("t", {one.key: Approve(), two.key: Edit({"amount": 20}), three.key: Reject("no")})
    before = list(paid)
    replay = await agent.replay("t", model=ScriptedModel([[payment(n) for n in (3, 2, 1, 4)], "Done."]))
    assert paid == before
    found = [message.text for message in replay.agent.transcript("t") if message.role == "tool"]
    assert found[0] == "a person rejected this call: no"
    assert found[1].startswith("paid 20, number ")
    assert found[1].count("A person changed this call") == 1
    assert found[2].startswith("paid 1, number ")
    assert found[3] == f"a person rejected this call: {NOBODY}"


async def test_a_decision_comes_with_its_own_result_also_for_calls_that_are_alike(pay, paid):
    guard = HumanInTheLoopMiddleware({"pay": True})
    agent = Agent(ScriptedModel([[payment(1)] * 4, "Done."]), [pay], middleware=[guard])
    turn = await agent.run("Pay.", "t")
    decisions = [Reject("no"), Approve(), Edit({"amount": 9}), Approve()]
    await agent.resume("t", {wait.key: one for wait, one in zip(turn.interrupts, decisions, strict=True)})
    before = [message.text for message in agent.transcript("t") if message.role == "tool"]
    replay = await agent.replay("t", model=ScriptedModel([[payment(1)], [payment(1)] * 2, [payment(1)], "Done."]))
    assert [message.text for message in replay.agent.transcript("t") if message.role == "tool"] == before
    assert len(paid) == 3


async def test_a_call_that_still_waits_waits_in_the_replay(pay):
    guard = HumanInTheLoopMiddleware({"pay": True})
    agent = Agent(ScriptedModel([payment(1)]), [pay], middleware=[guard])
    await agent.run("Pay.", "t")
    replay = await agent.replay("t", model=ScriptedModel([payment(1)]))
    assert (replay.turn.status, replay.differences) == ("paused", [])


async def test_after_a_failure_that_is_new_the_later_messages_are_not_run():
    agent = Agent(ScriptedModel(["A.", "B."]))
    await agent.run("one", "t")
    await agent.run("two", "t")
    replay = await agent.replay("t", model=ScriptedModel([ModelError("down")]))
    assert replay.differences == [
        "turn 1: status: ended -> failed",
        "turn 1: answer: 'A.' -> ''",
        "turn 2: status: ended -> not run",
        "turn 2: answer: 'B.' -> ''",
    ]
    assert "not run" in replay.table()


async def test_a_turn_that_failed_and_was_resumed_goes_on_if_it_fails_again():
    agent = Agent(ScriptedModel([ModelError("down"), "A."]))
    await agent.run("one", "t")
    await agent.resume("t")
    replay = await agent.replay("t", model=ScriptedModel([ModelError("down"), "A."]))
    assert replay.differences == []
    replay = await agent.replay("t", model=ScriptedModel(["A."]))
    assert replay.differences == []


async def test_no_file_on_a_disk_changes_unless_others_run(tmp_path):
    def write(name):
        return ToolCall("write_file", {"file_path": name, "content": "new"})

    agent = create_deep_agent(ScriptedModel([write("/a"), "Done."]), backend=FilesystemBackend(tmp_path))
    await agent.run("Go.", "t")
    (tmp_path / "a").write_text("changed since")
    replay = await agent.replay("t", model=ScriptedModel([write("/a"), write("/b"), "Done."]))
    assert results(replay) == ["created '/a' (3 bytes)", f"write_file was not run: {REFUSED}"]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "changed since"}
    await agent.replay("t", model=ScriptedModel([write("/b"), "Done."]), others="run")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "changed since", "b": "new"}


async def test_a_tool_that_runs_agents_cannot_change_a_disk_either(tmp_path):
    backend = FilesystemBackend(tmp_path)

    def boss(said):
        child = Agent(ScriptedModel(lambda request: said), name="child")

        @tool
        async def delegate(ctx: ToolContext) -> str:
            """Delegate and write."""
            turn = await ctx.run(child, "go")
            backend.write(ctx, "/out", turn.text.encode())
            return turn.text

        return Agent(ScriptedModel([ToolCall("delegate"), "Done."]), [delegate], checkpointer=store)

    store = MemoryCheckpointer()
    await boss("one").run("Go.", "t")
    replay = await boss("two").replay("t")
    assert results(replay) == ["'/out' was not changed: a replay changes no files on a disk"]
    assert (tmp_path / "out").read_text() == "one"


async def test_a_large_result_stays_in_context_where_no_file_may_be_written(tmp_path):
    @tool
    async def much() -> str:
        """Say much."""
        return "word " * 60_000

    backend = FilesystemBackend(tmp_path)
    agent = create_deep_agent(ScriptedModel([ToolCall("much"), "Done."]), [much], backend=backend)
    await agent.run("Go.", "t")
    before = sorted(tmp_path.rglob("*"))

    class Larger(Middleware):
        async def after_tool(self, ctx, call, result):
            return ToolResult("other " * 60_000)

    other = create_deep_agent(ScriptedModel([]), [much], backend=backend, middleware=[Larger()])
    other.checkpointer = agent._own
    replay = await other.replay("t", model=ScriptedModel([ToolCall("much"), "Done."]))
    assert replay.turn.status == "ended"
    assert sorted(tmp_path.rglob("*")) == before


async def test_a_blueprint_is_run_again_with_another_model():
    agent = Blueprint(Parts([plan(research("a.md"))], [end("one")]))
    turn = await agent.run("the goal", "t")
    replay = await agent.replay("t", model=Parts([plan(research("b.md"))], [end("two")]))
    (both,) = replay.turns
    # A planner, a role and reflection; the graph that leads from one to the next is no model.
    assert (turn.costs.steps, both.recorded.steps, both.replayed.steps) == (3, 3, 3)
    assert replay.turn.text == "two"
    assert "turn 1: answer: 'one' -> 'two'" in replay.differences
    assert replay.agent.board("t").plan["subtasks"][0]["expected_artifact"] == "b.md"
    assert agent.board("t").plan["subtasks"][0]["expected_artifact"] == "a.md"
    with pytest.raises(ConfigError, match="no system_prompt to replace"):
        await agent.replay("t", system_prompt="x")


async def test_what_cannot_be_replayed_is_refused_with_one_clear_error(tmp_path):
    with pytest.raises(UnknownThread):
        await Agent("offline:").replay("t")
    with DiskCheckpointer(tmp_path, retention=Retention(boundaries=2)) as store:
        agent = Agent(ScriptedModel(lambda request: "x" * 4_000), checkpointer=store)
        for number in range(40):
            await agent.run(f"message {number}", "t")
        await asyncio.to_thread(store.close)
        with pytest.raises(HistoryCut, match="only a whole thread can be run again"):
            await agent.replay("t")


async def test_a_thread_of_another_agent_can_be_run_with_this_one(pay):
    store = MemoryCheckpointer()
    await Agent(ScriptedModel([payment(1), "Done."]), [pay], checkpointer=store, name="one").run("Pay.", "t")
    other = Agent(ScriptedModel([payment(1), "Done."]), [pay], checkpointer=store, name="two")
    assert (await other.replay("t")).differences == []
