"""A recorded thread is run again without a key: replies, results, decisions, files and endings come from the log."""

import asyncio
import json
from pathlib import Path

import pytest
from harness.agents import sub, task, texts
from harness.blueprints import Parts, ask, end, plan, replan, research
from harness.stores import copy_of, plain
from msgspec import structs

from minideep import (
    Agent,
    Approve,
    ConfigError,
    DiskCheckpointer,
    Edit,
    HistoryCut,
    Interrupt,
    Limits,
    MemoryCheckpointer,
    Middleware,
    ModelError,
    RateLimited,
    Reject,
    Reply,
    Respond,
    Retention,
    Todo,
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
from minideep.checkpoint import open_store, thread_events
from minideep.events import Compacted, Noted, TextDelta, ToolReturned
from minideep.messages import AssistantMessage, ToolMessage, UserMessage
from minideep.middleware import HumanInTheLoopMiddleware
from minideep.middleware.context.summarizer import PROMPT
from minideep.models import FallbackModel, ScriptedModel
from minideep.replay import Recording
from minideep.testing import forbid_requests, recorded


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
async def broken(text: str = "") -> str:
    """Fail."""
    raise ValueError("no")


def unused(*tools, **options):
    """An agent as it is in production: nothing of it may be asked in a test."""
    return Agent("anthropic:claude-sonnet-4-6", tools, **options)


@tool(name="pay")
async def never(amount: int) -> str:
    """Never runs."""
    raise AssertionError("a recorded tool ran")


def alike(store, replay, thread="t"):
    """Check that both threads hold the same messages in the same runs, and end in the same state, clocks aside."""
    before = Recording(thread_events(open_store(store), thread), thread)
    new = replay.agent.checkpointer
    after = Recording(thread_events(open_store(new), thread), thread)
    assert replay.differences == []
    assert before.runs.keys() == after.runs.keys()
    for path, run in before.runs.items():
        assert [message for _, message in run.messages] == [message for _, message in after.runs[path].messages], path
    one = Agent("offline:", checkpointer=store).get_state(thread, subagents=True)
    other = replay.agent.get_state(thread, subagents=True)
    assert shown(one) == shown(other)


def untimed(value):
    if isinstance(value, dict):
        return {key: untimed(item) for key, item in value.items() if key != "seconds"}
    return [untimed(item) for item in value] if isinstance(value, list) else value


def shown(state):
    files = {path: (held.sha256, held.by, held.content) for path, held in state.files.items()}
    below = {key: shown(child) for key, child in state.subagents.items()}
    return (
        *(state.agent, state.said, state.status, state.messages, state.todos, files, untimed(state.notes), state.step),
        *(state.tool_calls, state.turn, state.usage, state.cost, state.unpriced, state.reason, state.detail, below),
        *(state.key, state.failure),
    )


class Remembering(MemoryCheckpointer):
    """Keeps a copy of the thread `t` after each append: what a process leaves that is killed then."""

    def __init__(self):
        super().__init__()
        self.copies = []

    async def append(self, *args, **kwargs):
        await super().append(*args, **kwargs)
        self.copies.append(copy_of(self))


# ---- the model and the tools


async def test_replies_and_results_make_an_agent_that_needs_neither_key_nor_tools():
    store = MemoryCheckpointer()
    model = ScriptedModel([ToolCall("pay", {"amount": 3}), Reply(AssistantMessage("Done."), Usage(7, 2), cost=0.5)])
    await Agent(model, [pay], checkpointer=store).run("Pay 3.", "t")
    model, tools = recorded(store, "t")
    turn = await Agent(model, tools).run("Pay 3.")
    assert texts(turn.messages) == ["Pay 3.", "", "paid 3", "Done."]
    assert (turn.usage, turn.costs.money) == (Usage(7, 2), 0.5)


async def test_a_request_past_the_recording_says_where_it_is():
    store = MemoryCheckpointer()
    await Agent(ScriptedModel(["Hello."]), checkpointer=store).run("Hi.", "t")
    agent = Agent(recorded(store, "t").model)
    assert (await agent.run("Hi.", "x")).text == "Hello."
    turn = await agent.run("And now?", "x")
    assert turn.status == "failed"
    assert "thread 't' has no reply for step 1 in turn 2 of the main run" in str(turn.error)


async def test_a_recorded_model_streams_its_text_and_names_the_model_that_answered():
    store = MemoryCheckpointer()
    answered = Reply(AssistantMessage("Hello."), Usage(1, 1), model="gpt-9")
    await Agent(ScriptedModel([answered]), checkpointer=store).run("Hi.", "t")
    stream = Agent(recorded(store, "t").model).stream("Hi.")
    events = [event async for event in stream]
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hello."]
    assert [event.model for event in events if hasattr(event, "model")] == ["gpt-9"]


async def test_subagents_that_run_side_by_side_get_their_own_replies_in_whatever_order_they_ask():
    store = MemoryCheckpointer()

    async def slow(request):
        await asyncio.sleep(0.02 if request.messages[0].text == "a" else 0)
        return ToolCall("pay", {"amount": 1}) if len(request.messages) == 1 else f"{request.messages[0].text} is done"

    def deep(model, below):
        return create_deep_agent(model, [pay], subagents=[sub("h", below)], checkpointer=store)

    both = [task("h", "t1", "a"), task("h", "t2", "b")]
    await deep(ScriptedModel([both, "Both."]), ScriptedModel(slow)).run("go", "t")
    with forbid_requests():
        replay = await recorded(store, "t").run(deep("openai:gpt-5", "openai:gpt-5-mini"))
    alike(store, replay)
    assert [call.agents for call in replay.turns[0].replayed.calls] == [(), ("h",), (), ("h",)]


async def test_a_call_with_the_same_place_has_its_own_result_even_if_another_run_has_the_same_call():
    store, counted = MemoryCheckpointer(), iter(range(100))

    @tool
    async def count() -> str:
        """Count."""
        return str(next(counted))

    model = ScriptedModel([[ToolCall("count"), ToolCall("count")], ToolCall("count"), "done"])
    await Agent(model, [count], checkpointer=store).run("go", "t")
    replay = await recorded(store, "t").run(unused(count))
    alike(store, replay)
    assert next(counted) == 3


# ---- inputs, decisions and endings


async def test_decisions_are_given_again_and_nothing_runs():
    store = MemoryCheckpointer()
    calls = [ToolCall("pay", {"amount": n}, f"p{n}") for n in range(1, 5)]

    def agent(model, tool):
        guard = HumanInTheLoopMiddleware({"pay": True})
        return Agent(model, [tool], middleware=[guard], checkpointer=store)

    mine = agent(ScriptedModel([calls, "All."]), pay)
    await mine.run("Pay.", "t")
    await mine.resume("t", {"p1": Approve(), "p2": Edit({"amount": 20})})
    turn = await mine.resume("t", {"p3": Reject("too much"), "p4": Respond("paid by me")})
    assert turn.status == "ended"
    replay = await recorded(store, "t").run(agent("openai:gpt-5", never))
    alike(store, replay)
    assert texts(replay.turn.messages)[-2:] == ["paid by me", "All."]


async def test_a_call_of_a_subagent_that_waited_gets_its_decision_again():
    store = MemoryCheckpointer()

    def deep(model, below, tool):
        agents = [sub("h", below, subagents=[sub("g", below)])]
        options = {"subagents": agents, "interrupt_on": {"pay": True}, "checkpointer": store}
        return create_deep_agent(model, [tool], **options)

    def says(request):
        if request.messages[-1].role == "tool":
            return "done below"
        return task("g", "g1", "deep") if request.messages[0].text == "do it" else ToolCall("pay", {"amount": 1}, "p")

    both = [task("h", "t1"), task("h", "t2", "shallow")]
    mine = deep(ScriptedModel([both, "All."]), ScriptedModel(says), pay)
    turn = await mine.run("go", "t")
    assert [wait.path for wait in turn.interrupts] == [("t1", "g1"), ("t2",)]
    first, second = turn.interrupts
    await mine.resume("t", {first.key: Approve()})
    turn = await mine.resume("t", {second.key: Edit({"amount": 9})})
    assert turn.status == "ended"
    alike(store, await recorded(store, "t").run(deep("openai:gpt-5", "openai:gpt-5", never)))


async def test_a_call_that_waited_when_a_message_came_is_not_completed_again():
    store = MemoryCheckpointer()

    def agent(model, tool):
        return Agent(model, [tool], middleware=[HumanInTheLoopMiddleware({"pay": True})], checkpointer=store)

    mine = agent(ScriptedModel([ToolCall("pay", {"amount": 1}), "Fine."]), pay)
    await mine.run("Pay.", "t")
    await mine.run("Stop, no.", "t")
    alike(store, await recorded(store, "t").run(agent("openai:gpt-5", never)))


async def test_a_question_and_its_answer_a_key_and_todos_come_again():
    store = MemoryCheckpointer()
    todos = ToolCall("write_todos", {"todos": [{"content": "a", "status": "in_progress"}]})

    def deep(model):
        return create_deep_agent(model, checkpointer=store)

    mine = deep(ScriptedModel([todos, "First.", "Second."]))
    await mine.run("go", "t", key="k1")
    await mine.run("on", "t", key="k2")
    replay = await recorded(store, "t").run(deep("openai:gpt-5"))
    alike(store, replay)
    assert replay.agent.get_state("t").todos == [Todo("a", "in_progress")]


async def test_a_turn_that_failed_fails_again_with_the_same_error_and_goes_on():
    store = MemoryCheckpointer()
    limited = RateLimited("slow down")
    limited.transient, limited.retry_after, limited.code = True, 3.5, "rate"
    mine = Agent(ScriptedModel([ToolCall("pay", {"amount": 1}), limited, "Now."]), [pay], checkpointer=store)
    turn = await mine.run("go", "t")
    assert turn.status == "failed"
    await mine.resume("t")
    replay = await recorded(store, "t").run(unused(never))
    alike(store, replay)
    assert replay.turn.text == "Now."


async def test_a_failed_turn_is_the_last_one_of_a_replay():
    store = MemoryCheckpointer()
    limited = RateLimited("slow down")
    limited.retry_after = 3.5
    await Agent(ScriptedModel([limited]), checkpointer=store).run("go", "t")
    replay = await recorded(store, "t").run(unused())
    assert isinstance(replay.turn.error, RateLimited)
    assert replay.turn.error.retry_after == 3.5


async def test_a_turn_that_was_cancelled_is_cancelled_at_the_same_place():
    store = MemoryCheckpointer()
    asked = asyncio.Event()

    async def says(request):
        if len(request.messages) == 1:
            return ToolCall("pay", {"amount": 1})
        asked.set()
        await asyncio.sleep(100)

    mine = Agent(ScriptedModel(says), [pay], checkpointer=store)
    running = asyncio.ensure_future(mine.run("go", "t"))
    await asked.wait()
    assert await mine.cancel("t", "enough")
    assert (await running).status == "cancelled"
    later = Agent(ScriptedModel(["Again."]), [pay], checkpointer=store)
    await later.run("More.", "t")
    replay = await recorded(store, "t").run(unused(never))
    alike(store, replay)
    assert [turn.replayed.status for turn in replay.turns] == ["cancelled", "ended"]


async def test_a_turn_that_was_cut_short_is_cut_short_and_goes_on():
    store = MemoryCheckpointer()
    asked = asyncio.Event()

    async def says(request):
        if len(request.messages) == 1:
            return [task("h", "t1", "a"), ToolCall("pay", {"amount": 1}, "p")]
        asked.set()
        await asyncio.sleep(100)

    def deep(model, below, tool):
        options = {"subagents": [sub("h", below)], "checkpointer": store, "durability": "tool"}
        return create_deep_agent(model, [tool], **options)

    below = ScriptedModel(["a is done"])
    mine = deep(ScriptedModel(says), below, pay)
    running = asyncio.ensure_future(mine.run("go", "t"))
    await asked.wait()
    await mine.aclose()
    assert (await running).reason == "interrupted"
    assert (await deep(ScriptedModel(["All."]), below, pay).resume("t")).text == "All."
    alike(store, await recorded(store, "t").run(deep("openai:gpt-5", "openai:gpt-5", never)))


async def test_a_thread_whose_turn_is_cut_short_replays_as_far_as_it_went():
    store = MemoryCheckpointer()
    asked = asyncio.Event()

    async def says(request):
        if len(request.messages) == 1:
            return ToolCall("pay", {"amount": 1})
        asked.set()
        await asyncio.sleep(100)

    mine = Agent(ScriptedModel(says), [pay], checkpointer=store, durability="tool")
    running = asyncio.ensure_future(mine.run("go", "t"))
    await asked.wait()
    while_it_runs = recorded(store, "t")
    replay = await while_it_runs.run(unused(never))
    assert (replay.turn.status, replay.turn.reason) == ("running", "interrupted")
    assert texts(replay.turn.messages) == ["go", "", "paid 1"]
    await mine.aclose()
    await running
    alike(store, await recorded(store, "t").run(unused(never)))


async def test_what_was_said_to_a_running_turn_is_said_again_at_the_same_place():
    store = MemoryCheckpointer()
    said = []

    async def says(request):
        heard = [message.text for message in request.messages if message.role == "user"]
        if len(heard) == 1 and not said:
            said.append(asyncio.ensure_future(mine.say("t", "and hurry")))
            await asyncio.sleep(0)
        if len(request.messages) < 4:
            return ToolCall("pay", {"amount": 1})
        if len(said) == 1:
            said.append(asyncio.ensure_future(mine.say("t", "really")))
            await asyncio.sleep(0)
        return f"heard {len(heard)}"

    mine = Agent(ScriptedModel(says), [pay], checkpointer=store)
    turn = await mine.run("go", "t")
    assert texts(message for message in turn.messages if message.role == "user") == ["go", "and hurry", "really"]
    alike(store, await recorded(store, "t").run(unused(never)))


async def test_what_was_said_before_the_first_reply_stands_before_it():
    store = MemoryCheckpointer()
    mine = Agent(ScriptedModel(["Heard."]), checkpointer=store)

    async def early():
        for _ in range(1_000):
            if await mine.say("t", "and hurry"):
                return
            await asyncio.sleep(0)

    saying = asyncio.ensure_future(early())
    await mine.run("go", "t")
    await saying
    assert texts(mine.transcript("t")) == ["go", "and hurry", "Heard."]
    alike(store, await recorded(store, "t").run(unused()))


@pytest.mark.parametrize("decision", [Reject("no"), Approve(), Respond("by me")])
async def test_a_kill_right_after_a_decision_comes_again(decision):
    store = Remembering()

    def agent(model, tool, store):
        guard = HumanInTheLoopMiddleware({"pay": True})
        return Agent(model, [tool], middleware=[guard], checkpointer=store)

    mine = agent(ScriptedModel([ToolCall("pay", {"amount": 1}, "p"), "Done."]), pay, store)
    await mine.run("Pay.", "t")
    count = len(store.copies)
    await mine.resume("t", {"p": decision})
    killed, other = store.copies[count], copy_of(store.copies[count])
    assert Agent("offline:", checkpointer=killed).get_state("t").status == "running"
    await agent(ScriptedModel(["Never mind."]), pay, killed).run("Something else.", "t")
    alike(killed, await recorded(killed, "t").run(agent("openai:gpt-5", never, None)))
    await agent(ScriptedModel(["Done."]), pay, other).resume("t")
    alike(other, await recorded(other, "t").run(agent("openai:gpt-5", never, None)))


async def test_a_cancellation_right_after_a_result_comes_right_after_it():
    store = MemoryCheckpointer()

    class Leaving(Middleware):
        async def after_tool(self, ctx, call, result):
            cancelling.append(asyncio.ensure_future(mine.cancel("t", "enough")))
            return result

    cancelling = []
    guard = HumanInTheLoopMiddleware({"pay": True})
    calls = [ToolCall("pay", {"amount": 1}), ToolCall("look", {})]

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    mine = Agent(ScriptedModel([calls]), [pay, look], middleware=[Leaving(), guard], checkpointer=store)
    turn = await mine.run("go", "t")
    assert turn.status == "cancelled"
    await asyncio.gather(*cancelling)
    replay = await recorded(store, "t").run(unused(never, look, middleware=[guard]))
    alike(store, replay)


async def test_a_turn_that_a_limit_stopped_stops_again():
    store = MemoryCheckpointer()

    def agent(model, tool):
        return Agent(model, [tool], limits=Limits(steps=2, tokens=100), checkpointer=store)

    call = Reply(AssistantMessage((ToolCall("pay", {"amount": 1}),)), Usage(40, 1), cost=0.1)
    mine = agent(ScriptedModel([call, call, call, "Done."]), pay)
    assert (await mine.run("go", "t")).reason == "steps"
    assert (await mine.resume("t")).status == "ended"
    alike(store, await recorded(store, "t").run(agent(ScriptedModel([]), never)))


# ---- what tools and hooks record


async def test_files_todos_and_notes_of_tools_come_from_the_recording():
    store = MemoryCheckpointer()

    @tool
    async def learn(what: str, ctx: ToolContext) -> str:
        """Learn."""
        ctx.record(Noted("mind", "last", what))
        ctx.record(Noted("mind", "all", what, "append"))
        return f"learnt {what}"

    calls = [ToolCall("learn", {"what": what}) for what in ("a", "b")]
    script = [
        [*calls, ToolCall("write_file", {"file_path": "/n.md", "content": "one\ntwo"})],
        ToolCall("edit_file", {"file_path": "/n.md", "old_string": "two", "new_string": "three"}),
        [ToolCall("read_file", {"file_path": "/n.md"}), ToolCall("learn", {"what": "c"})],
        ToolCall("delete", {"file_path": "/n.md"}),
        ToolCall("write_file", {"file_path": "/m.bin", "content": "x"}),
        "Done.",
    ]
    await create_deep_agent(ScriptedModel(script), [learn], checkpointer=store).run("go", "t")

    @tool(name="learn")
    async def other(what: str) -> str:
        """Learn."""
        raise AssertionError

    replay = await recorded(store, "t").run(create_deep_agent("openai:gpt-5", [other]))
    alike(store, replay)
    assert replay.agent.get_state("t").notes["mind"] == {"last": "c", "all": ["a", "b", "c"]}


async def test_a_file_that_is_written_again_with_the_same_content_is_an_artifact_again():
    store = MemoryCheckpointer()
    write = ToolCall("write_file", {"file_path": "/a.md", "content": "the same"})
    mine = create_deep_agent(ScriptedModel([write, "Once.", write, "Twice."]), checkpointer=store)
    await mine.run("go", "t")
    turn = await mine.run("go on", "t")
    replay = await recorded(store, "t").run(create_deep_agent("openai:gpt-5"))
    alike(store, replay)
    assert list(turn.artifacts) == list(replay.turn.artifacts) == ["/a.md"]
    again = await mine.replay("t", model=ScriptedModel([write, "Once.", write, "Twice."]))
    assert list(again.turn.artifacts) == ["/a.md"]


async def test_a_recorded_tool_writes_nothing_on_a_disk(tmp_path):
    store, root = MemoryCheckpointer(), tmp_path / "root"
    root.mkdir()
    (root / "old.txt").write_text("old")

    def deep(model, folder, *tools):
        return create_deep_agent(model, tools, backend=FilesystemBackend(folder), checkpointer=store)

    @tool
    async def much() -> str:
        """Say much."""
        return "word " * 60_000

    script = [
        [ToolCall("write_file", {"file_path": "/a.txt", "content": "new"}), ToolCall("read_file", {"file_path": "/old.txt"})],
        ToolCall("edit_file", {"file_path": "/old.txt", "old_string": "old", "new_string": "newer"}),
        [ToolCall("much"), ToolCall("delete", {"file_path": "/a.txt"})],
        "Done.",
    ]  # fmt: skip
    await deep(ScriptedModel(script), root, much).run("go", "t")
    other = tmp_path / "other"
    other.mkdir()
    replay = await recorded(store, "t").run(deep("openai:gpt-5", other, much))
    alike(store, replay)
    assert list(other.iterdir()) == []


@pytest.mark.parametrize("fails", [False, True])
async def test_a_compaction_comes_again_with_its_summary_and_nobody_is_asked(fails, tmp_path):
    store = MemoryCheckpointer()
    (tmp_path / "root").mkdir()
    (tmp_path / "other").mkdir()

    @tool
    async def look() -> str:
        """Look."""
        return "lorem ipsum dolor sit amet " * 150

    script = iter([["I look.", ToolCall("look")]] * 14 + ["Done."])

    def says(request):
        if request.system == PROMPT:
            return (
                ModelError("no summary") if fails else Reply(AssistantMessage("Known: a thing."), Usage(9, 9), cost=0.5)
            )
        return next(script)

    def deep(model, folder):
        return create_deep_agent(model, [look], backend=FilesystemBackend(folder), checkpointer=store)

    await deep(ScriptedModel(says, 9_000), tmp_path / "root").run("go", "t")
    events = [event for event in thread_events(open_store(store), "t") if isinstance(event, Compacted)]
    assert [event.asked for event in events] == [not fails] * len(events)
    assert events
    agent = deep(ScriptedModel([], 9_000), tmp_path / ("root" if fails else "other"))
    replay = await recorded(store, "t").run(agent)
    assert replay.differences == []
    assert fails == any("because the summarizer failed" in m.text for m in replay.agent.get_state("t").messages)
    if not fails:  # Otherwise the rules that picked something out then do so now, and their file is not written.
        before = Agent("offline:", checkpointer=store).get_state("t")
        after = replay.agent.get_state("t")
        assert (after.messages, after.files.keys(), after.usage) == (before.messages, before.files.keys(), before.usage)
        assert list((tmp_path / "other").iterdir()) == []


async def test_hooks_cannot_change_a_disk_either(tmp_path):
    store = MemoryCheckpointer()
    await Agent(ScriptedModel([ToolCall("pay", {"amount": 1}), "Done."]), [pay], checkpointer=store).run("go", "t")

    class Large(Middleware):
        async def after_tool(self, ctx, call, result):
            return ToolResult("word " * 60_000)

    agent = create_deep_agent("openai:gpt-5", [never], backend=FilesystemBackend(tmp_path), middleware=[Large()])
    replay = await recorded(store, "t").run(agent)
    assert replay.turn.status == "ended"
    assert list(tmp_path.iterdir()) == []


async def test_a_delegation_whose_answer_was_lost_in_a_crash_is_lost_again():
    store = Remembering()

    def boss(model, below, store):
        child = Agent(below, name="child")

        @tool
        async def delegate(ctx: ToolContext) -> str:
            """Delegate."""
            return (await ctx.run(child, "go")).text

        return Agent(model, [delegate], checkpointer=store, durability="tool")

    await boss(ScriptedModel([ToolCall("delegate", {}, "d"), "Done."]), ScriptedModel(["Below."]), store).run("go", "t")
    reader = Agent("offline:")
    for killed in store.copies:
        reader.checkpointer = killed
        if [run.status for run in reader.runs("t")] == ["ended"] and reader.get_state("t").open:
            break
    await boss(ScriptedModel(["Never mind."]), ScriptedModel([]), killed).run("Something else.", "t")
    replay = await recorded(killed, "t").run(boss("openai:gpt-5", "openai:gpt-5", None))
    alike(killed, replay)
    assert texts(replay.agent.transcript("t"))[2] == "this call did not complete: the turn went on without its result"


async def test_calls_whose_ids_are_made_of_numbers_are_found_where_the_numbers_are_others():
    class Flaky(MemoryCheckpointer):
        down = True

        async def append(self, *args, **kwargs):
            if self.down:
                self.down = False
                raise OSError("the disk is gone")
            await super().append(*args, **kwargs)

    store = Flaky()
    mine = Blueprint(Parts([plan(research("a.md"))]), approve_plan=True, checkpointer=store)
    turn = await mine.run("the goal", "t")
    await mine.resume("t", {turn.interrupts[0].key: Approve()})
    assert min(event.number for event in thread_events(open_store(store), "t")[1:]) > 2**20 - 5
    replay = await recorded(store, "t").run(Blueprint("openai:gpt-5", approve_plan=True))
    assert replay.differences == []
    assert replay.turn.text == "done"


async def test_hooks_run_again_and_a_changed_one_shows():
    store = MemoryCheckpointer()

    class Counting(Middleware):
        def __init__(self, word="seen"):
            self.word = word

        async def before_tool(self, ctx, call):
            count = ctx.state.notes.get("count", {}).get("calls", 0)
            ctx.record(Noted("count", "calls", count + 1))
            return call

        async def after_tool(self, ctx, call, result):
            ctx.record(Noted("count", "log", call.name, "append"))
            ctx.record(Noted("count", "last", self.word))
            return result

    def agent(model, hook, tool):
        return Agent(model, [tool], middleware=[hook], checkpointer=store)

    calls = [ToolCall("pay", {"amount": 1}), ToolCall("pay", {"amount": 1})]
    await agent(ScriptedModel([calls, ToolCall("pay", {"amount": 2}), "Done."]), Counting(), pay).run("go", "t")
    alike(store, await recorded(store, "t").run(agent("openai:gpt-5", Counting(), never)))

    class Loud(Counting):
        async def after_tool(self, ctx, call, result):
            return ToolResult(result.text.upper())

    replay = await recorded(store, "t").run(agent("openai:gpt-5", Loud(), never))
    assert replay.differences == [
        "turn 1: result of pay({\"amount\":1}): 'paid 1' -> 'PAID 1'",
        "turn 1: result of pay({\"amount\":1}): 'paid 1' -> 'PAID 1'",
        "turn 1: result of pay({\"amount\":2}): 'paid 2' -> 'PAID 2'",
    ]


async def test_a_guard_that_is_new_shows_as_a_difference():
    store = MemoryCheckpointer()

    class Closed(Middleware):
        async def before_tool(self, ctx, call):
            return ToolResult("closed", is_error=True)

    class Asking(Middleware):
        async def before_tool(self, ctx, call):
            return call if ctx.decision else Interrupt(call, "sure?")

    await Agent(ScriptedModel([ToolCall("pay", {"amount": 1}), "Done."]), [pay], checkpointer=store).run("go", "t")
    replay = await recorded(store, "t").run(unused(never, middleware=[Closed()]))
    assert replay.differences == ["turn 1: result of pay({\"amount\":1}): 'paid 1' -> 'closed'"]
    replay = await recorded(store, "t").run(unused(never, middleware=[Asking()]))
    assert replay.differences[0] == "turn 1: status: ended -> paused"


async def test_a_tool_that_is_gone_or_takes_other_arguments_shows_as_a_difference():
    store = MemoryCheckpointer()
    script = [[ToolCall("pay", {"amount": 3}), ToolCall("broken")], "Paid."]
    await Agent(ScriptedModel(script), [pay, broken], checkpointer=store).run("go", "t")

    @tool(name="pay")
    async def in_euros(euros: int) -> str:
        """Never runs."""
        raise AssertionError("a recorded tool ran")

    replay = await recorded(store, "t").run(unused(in_euros))
    [changed, gone] = replay.differences
    assert "'paid 3' -> \"pay: it takes no 'amount'; 'euros' is missing" in changed
    assert "-> \"no tool named 'broken'; there is pay\"" in gone


async def test_errors_unknown_tools_and_results_that_end_a_run_come_again():
    store = MemoryCheckpointer()

    @tool
    async def last() -> ToolResult:
        """Say the last word."""
        return ToolResult("the end", ends=True)

    script = [[ToolCall("broken"), ToolCall("nothing"), ToolCall("pay", {"amount": "much"})], ToolCall("last")]
    await Agent(ScriptedModel(script), [broken, pay, last], checkpointer=store).run("go", "t")
    replay = await recorded(store, "t").run(unused(broken, never, last))
    alike(store, replay)
    assert [call.is_error for call in replay.turns[0].replayed.calls] == [True, True, True, False]
    model, tools = recorded(store, "t")
    turn = await Agent(model, tools).run("go")
    assert (turn.status, turn.messages[-1].text) == ("ended", "the end")


async def test_a_tool_that_ran_other_agents_runs_again_with_their_recorded_replies():
    store = MemoryCheckpointer()
    begun = []

    def boss(model, below, tool_below):
        child = Agent(below, [tool_below], name="child")

        @tool
        async def both(ctx: ToolContext) -> str:
            """Ask two."""
            begun.append("both")
            one, two = await asyncio.gather(ctx.run(child, "a", key="a"), ctx.run(child, "b", key="b"))
            return f"{one.text} and {two.text}"

        return Agent(model, [both], checkpointer=store)

    def says(request):
        return ToolCall("pay", {"amount": 1}) if len(request.messages) == 1 else f"{request.messages[0].text}!"

    await boss(ScriptedModel([ToolCall("both"), "Done."]), ScriptedModel(says), pay).run("go", "t")
    replay = await recorded(store, "t").run(boss("openai:gpt-5", "openai:gpt-5", never))
    alike(store, replay)
    assert begun == ["both", "both"]


async def test_a_reply_of_a_fallback_and_one_that_a_hook_asked_for_twice_cost_what_they_did():
    store = MemoryCheckpointer()
    spare = ScriptedModel([Reply(AssistantMessage("Spare."), Usage(5, 5), cost=0.25, model="spare")])
    limited = RateLimited("no")
    limited.transient = True
    await Agent(FallbackModel([ScriptedModel([limited]), spare]), checkpointer=store).run("go", "t")

    class Twice(Middleware):
        async def wrap_model(self, ctx, request, ask):
            await ask(request)
            return await ask(request)

    for middleware in ([], [Twice()]):
        replay = await recorded(store, "t").run(unused(middleware=middleware))
        alike(store, replay)
        assert replay.turn.costs.money == 0.25


async def test_results_come_in_the_order_in_which_they_came():
    store = MemoryCheckpointer()

    def noting(seconds):
        @tool
        async def note(what: str, ctx: ToolContext) -> str:
            """Note."""
            await asyncio.sleep(seconds[what])
            ctx.record(Noted("mind", "all", what, "append"))
            return what

        return note

    calls = [ToolCall("note", {"what": what}, what) for what in "abc"]
    tool_then = noting({"a": 0.04, "b": 0.02, "c": 0})
    await Agent(ScriptedModel([calls, "Done."]), [tool_then], checkpointer=store).run("go", "t")
    replay = await recorded(store, "t").run(unused(noting({})))
    alike(store, replay)
    assert replay.agent.get_state("t").notes["mind"]["all"] == ["c", "b", "a"]
    # A limit that is lower now keeps the calls that were answered first from running, so nothing may wait for them.
    fewer = unused(noting({}), limits=Limits(tool_calls=1))
    replay = await asyncio.wait_for(recorded(store, "t").run(fewer), 20)
    assert (replay.turn.status, replay.turn.reason) == ("exhausted", "tool_calls")


async def test_an_approved_call_that_was_cut_short_and_asked_about_again_is_so_again():
    store, begun = MemoryCheckpointer(), asyncio.Event()

    @tool(name="pay")
    async def slowly(amount: int) -> str:
        """Pay."""
        begun.set()
        await asyncio.sleep(100)
        return "never"

    def agent(model, tool):
        return Agent(model, [tool], middleware=[HumanInTheLoopMiddleware({"pay": True})], checkpointer=store)

    first = agent(ScriptedModel([payment := ToolCall("pay", {"amount": 1}, "p")]), slowly)
    await first.run("Pay.", "t")
    running = asyncio.ensure_future(first.resume("t", {"p": Approve()}))
    await begun.wait()
    await first.aclose()
    await running
    second = agent(ScriptedModel(["Paid."]), pay)
    assert (await second.resume("t")).status == "paused"
    assert (await second.resume("t", {"p": Approve()})).text == "Paid."
    replay = await recorded(store, "t").run(agent("openai:gpt-5", never))
    alike(store, replay)
    assert payment.id == "p"


async def test_a_model_of_agent_override_is_not_asked():
    store = MemoryCheckpointer()
    mine = Agent(ScriptedModel(["Recorded."]), checkpointer=store)
    await mine.run("go", "t")
    other = ScriptedModel(["Overridden."])
    with mine.override(model=other):
        assert (await recorded(store, "t").run(mine)).turn.text == "Recorded."
        assert (await mine.replay("t", model=ScriptedModel(["Given."]))).turn.text == "Given."
    assert other.requests == []


async def test_the_model_lists_what_it_was_asked():
    store = MemoryCheckpointer()
    await Agent(ScriptedModel(["A."]), checkpointer=store).run("go", "t")
    model, _ = recorded(store, "t")
    await Agent(model, system_prompt="Be kind.").run("go")
    assert [request.system for request in model.requests] == ["Be kind."]


# ---- threads of other kinds


async def test_a_fork_and_a_redacted_thread_replay_as_they_were_kept():
    store = MemoryCheckpointer()

    def without(event):
        return structs.replace(event, content="(not kept)") if isinstance(event, ToolReturned) else event

    mine = Agent(ScriptedModel([ToolCall("pay", {"amount": 1}), "A.", "B.", "C."]), [pay], checkpointer=store)
    mine.redact = without
    await mine.run("one", "t")
    await mine.run("two", "t")
    mine.fork("t", at=1, thread_id="u")
    await mine.run("three", "u")
    for thread in ("t", "u"):
        replay = await recorded(store, thread).run(unused(never, redact=without))
        alike(store, replay, thread)
    assert texts(replay.agent.transcript("u")) == ["one", "", "(not kept)", "A.", "three", "C."]


async def test_a_truncated_thread_is_refused_with_one_clear_error(tmp_path):
    with DiskCheckpointer(tmp_path, retention=Retention(boundaries=2)) as store:
        mine = Agent(ScriptedModel(lambda request: "x" * 4_000), checkpointer=store)
        for number in range(40):
            await mine.run(f"message {number}", "t")
        await asyncio.to_thread(store.close)
    with DiskCheckpointer(tmp_path) as store, pytest.raises(HistoryCut, match="only a whole thread can be run again"):
        recorded(store, "t")


async def test_a_blueprint_replays_its_parts_each_from_its_place():
    store = MemoryCheckpointer()
    first = plan(research("a.md", task="a"), research("b.md", task="b"), research("c.md", "a.md", task="c"))
    parts = Parts([first, "no plan", "still none"], [replan("more"), ask(), end("{{a.md}}")])
    mine = Blueprint(parts, checkpointer=store, inline_limit=20)
    await mine.run("the goal", "t")
    parts._plans = Parts([plan(research("d.md"))])._plans
    turn = await mine.run("try again", "t")
    assert turn.status == "escalated"
    replay = await recorded(store, "t").run(Blueprint("openai:gpt-5", inline_limit=20))
    alike(store, replay)
    assert replay.agent.artifact("t", "a.md") == mine.artifact("t", "a.md")


async def test_a_plan_that_a_person_approved_is_approved_again():
    store = MemoryCheckpointer()
    mine = Blueprint(Parts([plan(research())]), approve_plan=True, checkpointer=store)
    turn = await mine.run("the goal", "t")
    turn = await mine.resume("t", {turn.interrupts[0].key: Approve()})
    assert turn.status == "ended"
    alike(store, await recorded(store, "t").run(Blueprint("openai:gpt-5", approve_plan=True)))


def test_a_store_needs_a_thread_and_a_thread_must_exist():
    with pytest.raises(ConfigError, match="thread_id"):
        recorded(MemoryCheckpointer())
    with pytest.raises(UnknownThread):
        recorded(MemoryCheckpointer(), "t")


async def test_a_history_and_files_come_with_their_input_again():
    store = MemoryCheckpointer()

    def deep(model):
        return create_deep_agent(model, [pay], checkpointer=store)

    history = [
        UserMessage("Pay."),
        AssistantMessage((ToolCall("pay", {"amount": 1}, "p"),)),
        ToolMessage("paid 1", "p", "pay"),
        AssistantMessage("Paid."),
        UserMessage("Nobody answered."),
        UserMessage("Read it."),
    ]
    files = {"/n.md": "a note", "/b.bin": b"\xff"}
    model = ScriptedModel(
        [ToolCall("read_file", {"file_path": "/n.md"}), ToolCall("pay", {"amount": 2}), "Read.", "B."]
    )
    mine = deep(model)
    await mine.run(history, "t", files=files)
    await mine.run("Another.", "t", files={"/n.md": "changed"})
    alike(store, await recorded(store, "t").run(deep("openai:gpt-5")))
    model, tools = recorded(store, "t")
    assert (await Agent(model, tools).run(history, files=None)).text == "Read."
    again = ScriptedModel([ToolCall("read_file", {"file_path": "/n.md"}), "Read!", "B."])
    replay = await mine.replay("t", model=again)
    assert texts(again.requests[0].messages) == texts(history[:2]) + texts(history[2:])
    assert "a note" in again.requests[1].messages[-1].text
    assert replay.turns[-1].replayed.answer == "B."
    mine.fork("t", at=2, thread_id="only a history")
    with pytest.raises(ConfigError, match="holds no input that was run, so there is nothing to run again"):
        recorded(store, "only a history")
    with pytest.raises(ConfigError, match="holds no input that was run"):
        await mine.replay("t", at=1)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"])
async def test_threads_of_older_formats_replay(version):
    frozen = json.loads((Path(__file__).parents[2] / "frozen" / f"{version}.json").read_text())
    store = MemoryCheckpointer()
    rows = {key: bytes.fromhex(value) for key, value in frozen["rows"].items()}
    plain(store).append("thread/ü", None, bytes.fromhex(frozen["head"]), rows)
    paid = Agent("openai:gpt-5", [never], middleware=[HumanInTheLoopMiddleware({"pay": True})], name="payer")

    def delegating(below, name):
        @tool
        async def delegate(ctx: ToolContext) -> str:
            """Have it done."""
            return (await ctx.run(below, "pay 5")).text

        return Agent("openai:gpt-5", [delegate, look], name=name, continues=["top"])

    @tool
    async def look() -> str:
        """Never runs."""
        raise AssertionError

    agent = delegating(delegating(paid, "agent-t2"), "agent-t1")
    replay = await recorded(store, "thread/ü").run(agent)
    assert replay.differences == []
    assert replay.turn.interrupts[0].path == ("t1", "t2")
    if version != "1.0":
        with pytest.raises(HistoryCut):
            recorded(store, "cut/ü")


# ---- files


async def test_a_saved_recording_is_a_file_that_can_be_committed(tmp_path):
    store = MemoryCheckpointer()
    call = ToolCall("pay", {"amount": 1})
    await Agent(ScriptedModel([call, "Done."]), [pay], checkpointer=store).run(UserMessage("go"), "t")
    recorded(store, "t").save(tmp_path / "t.jsonl")
    replay = await recorded(tmp_path / "t.jsonl").run(unused(never))
    alike(store, replay)
    # As `minideep run --json` prints a turn: with the calls that began and ended, pieces of text, and the turn.
    stream = Agent(ScriptedModel([call, "Done."]), [pay]).stream("go", "t")
    lines = [event.json() async for event in stream]
    (tmp_path / "u.jsonl").write_text("\n".join([*lines, stream.turn.json()]))
    replay = await recorded(tmp_path / "u.jsonl", "t").run(unused(never))
    assert (replay.turn.text, replay.differences) == ("Done.", [])
    assert replay.turn.text == "Done."


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "holds no input"),
        ("{", "line 1"),
        ('{"event": "TurnEnded", "number": 3, "at": 1.0, "path": [], "id": "3"}', "does not fit"),
        ('{"event": "Nothing", "number": 3}', "line 1"),
        ("[]", "line 1"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path, content, problem):
    (tmp_path / "t.jsonl").write_text(content)
    with pytest.raises(ConfigError, match=problem):
        recorded(tmp_path / "t.jsonl")
    with pytest.raises(ConfigError, match="cannot be read"):
        recorded(tmp_path / "none.jsonl")
