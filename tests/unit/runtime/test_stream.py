"""Streams: which events come in which order, slow consumers, and consumers that break out early."""

import asyncio
import gc
import itertools
import json
import logging
import threading
from dataclasses import replace
from itertools import groupby

import pytest
from harness.agents import hang, ping, sub, task
from harness.providers import Provider, cut
from harness.wires import FORMATS, connected, ls, reply
from hypothesis import given, strategies as st

from minideep import (
    Agent,
    ConfigError,
    MemoryCheckpointer,
    Overloaded,
    Reply,
    ThreadBusy,
    ToolCall,
    ToolContext,
    Usage,
    create_deep_agent,
    tool,
)
from minideep.checkpoint import Journal, open_store
from minideep.events import (
    ArgsDelta,
    FileWritten,
    ModelReplied,
    Noted,
    Restarted,
    TextDelta,
    ThinkingDelta,
    TodosWritten,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    TurnEnded,
    TurnFailed,
    UserSaid,
    with_path,
)
from minideep.models import ScriptedModel
from minideep.models.scripted import as_reply
from minideep.runtime.feed import Feed


def todos(what, id=None):
    return ToolCall("write_todos", {"todos": [{"content": what, "status": "in_progress"}]}, id)


def joined(events, kind):
    return "".join(event.text for event in events if isinstance(event, kind))


# ---- events and their order


async def test_a_stream_yields_events_in_order_and_then_has_the_turn():
    stream = Agent(ScriptedModel([ToolCall("ping", {}, "c"), "done"]), [ping]).stream("go")
    kinds = [type(event) async for event in stream]
    assert kinds == [
        UserSaid, ModelReplied, ToolStarted, ToolReturned, ToolEnded, TextDelta, ModelReplied, TurnEnded,
    ]  # fmt: skip
    assert stream.turn.text == "done"


async def test_a_stream_raises_what_run_would_raise():
    with pytest.raises(ConfigError, match="the input is empty"):
        async for _ in Agent(ScriptedModel([])).stream(""):
            pass


@pytest.mark.parametrize("kind", FORMATS)
async def test_the_deltas_of_text_thinking_and_arguments_add_up_to_the_reply(kind):
    call = ("a", {"path": "/x"})
    with Provider(reply(kind, call, text="I look", stream=True), reply(kind, text="done", stream=True)) as provider:
        async with connected(kind, provider.url) as model:
            stream = Agent(model, [ls]).stream("look")
            heard = [event async for event in stream]
    first = heard[: [type(event) for event in heard].index(ModelReplied)]
    assert (joined(first, TextDelta), joined(first, ThinkingDelta)) == ("I look", "let me look")
    arguments = [event for event in first if isinstance(event, ArgsDelta)]
    assert {(event.index, event.name) for event in arguments} == {(0, "ls")}
    assert json.loads(joined(arguments, ArgsDelta)) == {"path": "/x"}
    assert (joined(heard, TextDelta), stream.turn.text) == ("I lookdone", "done")


async def test_the_events_of_each_run_come_in_order_with_the_path_of_the_run():
    inner = sub("inner", ScriptedModel([todos("inner", "i1"), "in"]))
    outer = sub("outer", ScriptedModel([task("inner", "t2"), "out"]), subagents=[inner])
    write = ToolCall("write_file", {"file_path": "/a", "content": "A"}, "w")
    agent = create_deep_agent(ScriptedModel([todos("mine", "d"), write, task("outer", "t1"), "ok"]), subagents=[outer])
    runs = {}
    async for event in agent.stream("go"):
        runs.setdefault(event.path, []).append(type(event))
    called, ended = [ModelReplied, ToolStarted], [ToolReturned, ToolEnded]
    said = [TextDelta, ModelReplied, TurnEnded]
    assert runs == {
        (): [
            UserSaid,
            *called,
            TodosWritten,
            *ended,
            *called,
            FileWritten,
            Noted,
            *ended,
            *called,
            *ended,
            *said,
        ],
        ("t1",): [UserSaid, *called, *ended, *said],
        ("t1", "t2"): [UserSaid, *called, TodosWritten, *ended, *said],
    }


async def test_the_todos_and_texts_of_a_subagent_are_told_apart_from_those_of_its_parent():
    child = sub("critic", ScriptedModel([[todos("the child's", "c1"), "I plan"], "done"]))
    agent = create_deep_agent(
        ScriptedModel([todos("the parent's", "p1"), task("critic", "t1"), "ok"]), subagents=[child]
    )
    lists, text = {}, {}
    async for event in agent.stream("go", "t"):
        match event:
            case TodosWritten(written):
                lists[event.path] = [todo.content for todo in written]
            case TextDelta(piece):
                text[event.path] = text.get(event.path, "") + piece
    assert lists == {(): ["the parent's"], ("t1",): ["the child's"]}
    assert text == {(): "ok", ("t1",): "I plandone"}
    assert [todo.content for todo in agent.get_state("t").todos] == ["the parent's"]


async def test_a_stream_says_which_subagent_did_what_and_how_each_ended():
    """Two at once, one of which fails: their calls and their ends are told apart by their paths."""

    def work(request):
        if len(request.messages) == 1:
            return ToolCall("ping", {"text": request.messages[0].text})
        if request.messages[0].text == "bad":
            raise Overloaded("busy")
        return "fine"

    script = [[task("critic", "a", "good"), task("critic", "b", "bad")], "ok"]
    agent = create_deep_agent(ScriptedModel(script), subagents=[sub("critic", ScriptedModel(work), tools=[ping])])
    seen = [event async for event in agent.stream("go")]
    below = {path: [event for event in seen if event.path == path] for path in (("a",), ("b",))}
    assert [[type(events[0]), type(events[-1])] for events in below.values()] == [
        [UserSaid, TurnEnded],
        [UserSaid, TurnFailed],
    ]
    called = [
        event.call.args["text"] for events in below.values() for event in events if isinstance(event, ToolStarted)
    ]
    assert called == ["good", "bad"]
    assert below["b",][-1].text == "busy"


async def test_usage_and_cost_of_the_replies_add_up_to_the_ledger_of_the_turn():
    def dear(say, cost):
        return Reply(as_reply(say).message, Usage(7, 3, 5), cost=cost)

    child = sub("critic", ScriptedModel([dear("done", 0.25)]))
    agent = create_deep_agent(ScriptedModel([dear(task("critic", "t1"), None), dear("ok", 0.5)]), subagents=[child])
    stream = agent.stream("go", "t")
    replies = [event async for event in stream if isinstance(event, ModelReplied)]
    assert {event.path: event.cost for event in replies} == {("t1",): 0.25, (): 0.5}
    assert sum((event.usage for event in replies), Usage()) == stream.turn.costs.usage == Usage(21, 9, 15)
    assert sum(event.cost or 0 for event in replies) == stream.turn.costs.money == 0.75
    (run,) = agent.runs("t")
    assert (run.tokens, run.cost, agent.get_state("t").cost) == (10, 0.25, 0.5)


async def test_a_broken_stream_of_a_subagent_restarts_under_its_path():
    whole = reply("anthropic", text="a long answer that is cut", stream=True)
    with Provider(cut(whole, len(whole.body) // 2), reply("anthropic", text="whole", stream=True)) as provider:
        async with connected("anthropic", provider.url) as model:
            child = sub("critic", model)
            agent = create_deep_agent(ScriptedModel([task("critic", "t1"), "ok"]), subagents=[child])
            events = [event async for event in agent.stream("go") if event.path == ("t1",)]
    assert [event.path for event in events if isinstance(event, Restarted)] == [("t1",)]
    again = next(place for place, event in enumerate(events) if isinstance(event, Restarted))
    assert joined(events[again:], TextDelta) == "whole"


# ---- slow consumers


async def test_a_slow_consumer_receives_fewer_larger_deltas_and_the_whole_text():
    class Talker:
        name = "talker"

        async def complete(self, request, emit):
            for number in range(20_000):
                emit(TextDelta(f"{number % 10}"))
            return as_reply("0123456789" * 2000)

    stream = Agent(Talker()).stream("go")
    await anext(stream)
    while any(other is not asyncio.current_task() for other in asyncio.all_tasks()):
        await asyncio.sleep(0.01)  # The whole turn happens, and nobody takes anything.
    pieces = [event.text async for event in stream if isinstance(event, TextDelta)]
    assert "".join(pieces) == stream.turn.text
    assert [len(piece) for piece in pieces] == [4096] * 4 + [20_000 - 4 * 4096]


PIECES = st.builds(TextDelta, st.text(max_size=3)) | st.builds(ThinkingDelta, st.text(max_size=3))
ARGS = st.builds(ArgsDelta, st.integers(0, 1), st.sampled_from(["ls", "cat"]), st.text(max_size=3))
OTHERS = st.sampled_from([Restarted(), ToolStarted(ToolCall("ls")), Noted("me", "key", 1)])
HAPPENED = st.lists(st.tuples(PIECES | ARGS | OTHERS, st.sampled_from([(), ("a",), ("a", "b")])), max_size=40)


@given(HAPPENED, st.lists(st.booleans(), max_size=10))
def test_a_consumer_of_any_speed_receives_all_of_each_run_in_order(happened, pauses):
    async def turn(feed):
        for (event, path), pause in itertools.zip_longest(happened, pauses[: len(happened)]):
            feed.emit(path, event)
            feed.show()
            await asyncio.sleep(0) if pause else None
        feed.close(shown=True)

    async def heard():
        feed = Feed(Journal("t", open_store(MemoryCheckpointer())))
        reader, telling, events = feed.reader(), asyncio.ensure_future(turn(feed)), []
        while (event := await reader.get()) is not None:
            events.append(event)
        await telling
        return events

    def runs(events):
        """Return the events of each run, with consecutive deltas of one text joined."""
        by_run = {}
        for event in events:
            by_run.setdefault(event.path, []).append(event)
        return {path: [part(group) for group in groupby(own, text_of)] for path, own in by_run.items()}

    def text_of(event):
        if isinstance(event, TextDelta | ThinkingDelta | ArgsDelta):
            return type(event), getattr(event, "index", 0), getattr(event, "name", "")
        return id(object())

    def part(group):
        key, events = group
        events = list(events)
        return (key, "".join(event.text for event in events)) if isinstance(key, tuple) else events

    told = [with_path(event, path) for event, path in happened if getattr(event, "text", "some")]
    assert runs(asyncio.run(heard())) == runs(told)


async def test_a_tool_on_a_thread_never_waits_for_the_consumer():
    @tool
    def work(ctx: ToolContext) -> str:
        """Tell and record much."""
        for number in range(200):
            ctx.emit(TextDelta("x"))
            ctx.record(Noted("me", "count", number))
        return "worked"

    stream = Agent(ScriptedModel([ToolCall("work"), "done"]), [work]).stream("go")
    await anext(stream)
    while any(other is not asyncio.current_task() for other in asyncio.all_tasks()):
        await asyncio.sleep(0.01)
    kinds = [type(event) async for event in stream]
    assert (kinds.count(Noted), stream.turn.text) == (200, "done")


# ---- consumers that break out early


async def begun(stream):
    """Listen until a tool of the subagent runs."""
    async for event in stream:
        if isinstance(event, ToolStarted) and event.path:
            break


async def closes(stream):
    await begun(stream)
    await stream.aclose()


async def fails(stream):
    async def listen():
        async with stream:
            await begun(stream)
            raise ValueError("of my own")

    with pytest.raises(ValueError, match="of my own"):
        await listen()


async def is_cancelled(stream):
    async def listen():
        async for _ in stream:
            pass

    listening = asyncio.ensure_future(listen())
    await asyncio.sleep(0.05)
    listening.cancel()
    await asyncio.wait([listening])
    assert listening.cancelled()


async def runs_out_of_time(stream):
    async def listen():
        async for _ in stream:
            pass

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(listen(), 0.05)


async def lets_go(stream):
    await begun(stream)
    del stream
    gc.collect()
    while any(other is not asyncio.current_task() for other in asyncio.all_tasks()):
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("leaves", [closes, fails, is_cancelled, runs_out_of_time, lets_go])
async def test_a_consumer_that_breaks_out_cancels_the_turn_and_the_thread_can_go_on(store, leaves, caplog):
    caplog.set_level(logging.WARNING)
    waiting = asyncio.Event()

    @tool
    async def wait(ctx: ToolContext) -> str:
        """Wait, unless nobody has to."""
        await waiting.wait()
        return "waited"

    def agent():
        child = sub("critic", ScriptedModel([ToolCall("wait"), "critique"] if not waiting.is_set() else ["critique"]))
        script = [task("critic", "t1"), "fine"] if not waiting.is_set() else ["fine"]
        return create_deep_agent(ScriptedModel(script), [wait], subagents=[child], checkpointer=store)

    await leaves(agent().stream("go", "t"))
    assert asyncio.all_tasks() == {asyncio.current_task()}
    left = agent().get_state("t", subagents=True)
    assert (left.status, left.subagents["t1"].status) == ("cancelled", "cancelled")
    waiting.set()
    async with agent().resume_stream("t") as stream:
        kinds = [(event.path, type(event)) async for event in stream]
    assert stream.turn.text == "fine"
    assert (("t1",), ToolReturned) in kinds
    gc.collect()
    assert caplog.messages == []


async def test_breaking_out_closes_the_connection_to_the_provider():
    speaking = reply("anthropic", text="a very long answer", stream=True)
    with Provider(replace(cut(speaking), cut=False, hold=True)) as provider:
        async with connected("anthropic", provider.url) as model:
            agent = Agent(model)
            async with agent.stream("go", "t") as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        break
            assert provider.left.wait(5)
            state = agent.get_state("t")
    assert (state.status, [message.text for message in state.messages]) == ("cancelled", ["go"])


@pytest.mark.parametrize("ticks", range(5))
async def test_an_error_that_comes_after_the_consumer_left_is_no_warning(ticks, caplog):
    agent = Agent(ScriptedModel(hang))
    async with agent.stream("go", "t") as first:
        await anext(first)
        listening = asyncio.ensure_future(anext(agent.stream("me too", "t")))  # Which is refused: the thread is busy.
        for _ in range(ticks):
            await asyncio.sleep(0)
        listening.cancel()
        await asyncio.wait([listening])
        if not listening.cancelled():
            assert isinstance(listening.exception(), ThreadBusy)
    del listening
    gc.collect()
    assert caplog.messages == []


async def test_a_tool_that_is_left_behind_on_its_thread_changes_nothing(store):
    release, tried = threading.Event(), []

    @tool(timeout=0.05)
    def stubborn(ctx: ToolContext) -> str:
        """Go on after everybody has left."""
        release.wait(10)
        try:
            ctx.record(Noted("me", "late", True))
        except Exception as exc:
            tried.append(type(exc).__name__)
        return "late"

    agent = Agent(ScriptedModel([ToolCall("stubborn"), "done"]), [stubborn], checkpointer=store)
    async with agent.stream("go", "t") as stream:
        async for event in stream:
            if isinstance(event, ToolEnded):
                break
    release.set()
    while not tried:
        await asyncio.sleep(0.01)
    assert tried == ["ToolError"]
    assert "late" not in agent.get_state("t").notes.get("me", {})


async def test_a_stream_that_is_closed_early_leaves_a_cancelled_thread_that_can_go_on(store):
    stream = Agent(ScriptedModel(hang), checkpointer=store).stream("go", "t")
    async for event in stream:
        assert isinstance(event, UserSaid)
        break
    await stream.aclose()
    agent = Agent(ScriptedModel(["done"]), checkpointer=store)
    assert agent.get_state("t").status == "cancelled"
    events = [event async for event in agent.resume_stream("t")]
    assert isinstance(events[-1], TurnEnded)


async def test_a_stream_that_is_dropped_without_being_closed_cancels_its_turn(store):
    agent = Agent(ScriptedModel(hang), checkpointer=store)
    async for _ in agent.stream("go", "t"):
        break
    for _ in range(200):
        if [info.status for info in agent.threads()] == ["cancelled"]:
            break
        await asyncio.sleep(0.01)
    assert agent.get_state("t").status == "cancelled"
    async with agent.resume_stream("t") as stream:
        await anext(stream)
    assert agent.get_state("t").status == "cancelled"


async def test_a_stream_has_a_turn_once_it_is_over_and_says_so_before():
    agent = Agent(ScriptedModel(["done", "more"]))
    async with agent.stream("go", "t") as stream:
        with pytest.raises(ConfigError, match="read it to its end"):
            _ = stream.turn
        async for _ in stream:
            break
    with pytest.raises(ConfigError, match="left early"):
        _ = stream.turn
