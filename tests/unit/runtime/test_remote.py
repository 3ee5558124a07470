"""Threads that another process runs: followed, stopped and spoken to over the exchange of the store."""

import asyncio
from contextlib import aclosing

import pytest
from harness.agents import Talker, hang, ping, sub, task
from harness.exchanges import LocalExchange, twins
from msgspec import msgpack

from minideep import (
    Agent,
    AssistantMessage,
    DiskCheckpointer,
    Reply,
    ThreadBusy,
    ToolCall,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.events import (
    ArgsDelta,
    ModelReplied,
    Restarted,
    Rewound,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    TurnCancelled,
    TurnEnded,
    UserSaid,
    with_path,
)
from minideep.models import ScriptedModel
from minideep.runtime.remote import MAX_QUESTION, Say, read_question, received, sent


@pytest.fixture(params=["local", "sockets"])
def pair(request, tmp_path):
    """Two stores, as of two processes that share a disk."""
    if request.param == "local":
        yield twins(LocalExchange())
    else:
        with DiskCheckpointer(tmp_path / "state") as one, DiskCheckpointer(tmp_path / "state") as other:
            if getattr(one, "exchange", None) is None:
                pytest.skip("no sockets here")
            yield one, other


async def told(agent, **about):
    return [event async for event in agent.follow("t", **about)]


async def test_a_follower_elsewhere_gets_what_one_here_gets(pair):
    let = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait until both follow."""
        await let.wait()
        return "waited"

    child = sub("critic", ScriptedModel([ToolCall("wait"), ToolCall("ping", {}, "p"), "critique"]))
    script = [task("critic", "t1"), "ok"]
    runner = create_deep_agent(ScriptedModel(script), [ping, wait], subagents=[child], checkpointer=pair[0])
    reader = Agent("offline:", checkpointer=pair[1])
    await runner.start("go", "t")
    asyncio.get_running_loop().call_later(0.1, let.set)
    here, there = await asyncio.gather(told(runner), told(reader))
    for events in (here, there):
        assert events[-1].reason == "done"
    assert [(type(event), event.path, event.number) for event in there if event.number] == [
        (type(event), event.path, event.number) for event in here if event.number
    ]
    assert [event.number for event in there if event.number] == [event.number for event in await told(reader)]
    assert any(isinstance(event, ToolStarted) and event.path == ("t1",) for event in there)


async def test_a_text_of_another_process_comes_whole(pair):
    talker = Talker("one ", "two ", "three")
    runner, reader = Agent(talker, checkpointer=pair[0]), Agent("offline:", checkpointer=pair[1])
    await runner.start("go", "t")
    await talker.say(2)
    async with aclosing(reader.follow("t")) as events:
        assert [type(await anext(events)) for _ in range(2)] == [UserSaid, Restarted]
        assert (await anext(events)).text == "one two "
        await talker.say(1)
        assert (await anext(events)).text == "three"
        talker.let.release()
        assert [type(event) async for event in events] == [ModelReplied, TurnEnded]


async def test_a_turn_is_cancelled_from_elsewhere_and_the_reason_is_saved(pair):
    runner, other = Agent(ScriptedModel(hang), checkpointer=pair[0]), Agent("offline:", checkpointer=pair[1])
    handle = await runner.start("go", "t")
    status = await other.status("t")
    assert (status.status, status.runs) == ("running", "elsewhere")
    with pytest.raises(ThreadBusy):
        await other.run("me too", "t")
    assert await other.cancel("t", "not needed")
    assert other.get_state("t").detail == "not needed"
    assert (await handle).status == "cancelled"
    assert not await other.cancel("t")


async def test_what_is_said_from_elsewhere_is_heard(pair):
    talker = Talker("one")
    runner, other = Agent(talker, checkpointer=pair[0]), Agent("offline:", checkpointer=pair[1])
    handle = await runner.start("go", "t")
    saying = asyncio.ensure_future(other.say("t", "and hurry"))
    await asyncio.sleep(0.2)
    await talker.say(1)
    talker.let.release()
    assert await saying
    await talker.say(1)
    talker.let.release()
    assert [message.text for message in (await handle).messages] == ["go", "one", "and hurry", "one"]
    assert not await other.say("t", "hello?")


async def test_a_follower_elsewhere_that_never_reads_slows_nobody(pair):
    runner = Agent(ScriptedModel([*[ToolCall("ping", {"text": "x" * 50_000}) for _ in range(20)], "done"]), [ping],
                   checkpointer=pair[0])  # fmt: skip
    reader = Agent("offline:", checkpointer=pair[1])
    handle = await runner.start("go", "t")
    idle = [reader.follow("t") for _ in range(10)]
    for events in idle:
        await anext(events)
    assert (await handle).status == "ended"
    for events in idle:
        assert [event async for event in events][-1].reason == "done"


@pytest.mark.parametrize("wait", [False, True])
async def test_the_events_of_a_runner_that_died_are_rewound(wait):
    exchange = LocalExchange()
    one, other = twins(exchange)
    talker = Talker("one ", "two")
    runner, reader = Agent(talker, checkpointer=one), Agent("offline:", checkpointer=other)
    handle = await runner.start("go", "t")
    await talker.say(1)
    events = reader.follow("t", wait=wait)
    assert [type(await anext(events)) for _ in range(3)] == [UserSaid, Restarted, TextDelta]
    exchange.kill()
    rewound = await anext(events)
    assert (rewound.to, rewound.id, rewound.number) == (1, "1", 0)
    await runner.cancel("t")
    rest = [await anext(events)] if wait else [event async for event in events]
    assert [type(event) for event in rest] == [TurnCancelled]
    assert (await handle).status == "cancelled"
    await events.aclose()


async def test_without_an_exchange_followers_look_at_the_log_and_nobody_can_be_told_anything():
    one, other = twins()
    runner = Agent(ScriptedModel([ToolCall("ping"), "done"]), [ping], checkpointer=one, durability="tool")
    reader, held = Agent("offline:", checkpointer=other), Agent(ScriptedModel(hang), checkpointer=one)
    handle = await runner.start("go", "t")
    events, turn = await asyncio.gather(told(reader), handle)
    assert turn.status == "ended"
    assert [event.number for event in events] == list(range(1, events[-1].number + 1))
    await held.start("go", "u")
    assert not await reader.cancel("u")
    assert not await reader.say("u", "hello?")
    await held.aclose()


@pytest.mark.parametrize(
    "event",
    [
        with_path(UserSaid(UserMessage("hi"), 1.0), ("a", "b"), 7, 2.0, "7"),
        with_path(TextDelta("x"), (), 0, 2.0),
        with_path(ThinkingDelta("x"), ("a",), 0, 2.0),
        with_path(ArgsDelta(1, "ls", "{", "c"), (), 0, 2.0),
        with_path(Restarted(), (), 0, 2.0),
        with_path(Rewound(5), (), 0, 2.0, "5"),
        with_path(ToolStarted(ToolCall("ls", {"path": "/"}, "c")), (), 0, 2.0, "7.1"),
        with_path(ToolEnded("c", "ls", False, 0.5, 3), (), 0, 2.0, "7.2"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_every_event_arrives_as_it_was_sent(event):
    arrived = received(sent(event))
    assert arrived == event
    about = ("path", "number", "id")
    assert [getattr(arrived, name) for name in about] == [getattr(event, name) for name in about]


def test_an_event_of_a_tools_own_class_stays_in_its_process():
    class Progress(StreamEvent, frozen=True, tag="progress"):
        percent: int

    assert sent(Progress(5)) is None


@pytest.mark.parametrize("question", [b"", b"nonsense", msgpack.encode(["shutdown"]), b"x" * (MAX_QUESTION + 1)])
def test_what_is_no_question_is_refused(question):
    with pytest.raises(ValueError, match=r"question|truncated|Invalid|Expected|malformed"):
        read_question(question)


def test_a_question_is_read_as_it_was_asked():
    assert read_question(msgpack.encode(Say("hi"))) == Say("hi")


async def test_a_follower_that_comes_back_elsewhere_with_an_id_that_is_not_saved_goes_on_from_there(pair):
    @tool
    async def wait() -> str:
        """Take a moment."""
        await asyncio.sleep(0.03)
        return "waited"

    runner = Agent(ScriptedModel([*[ToolCall("wait")] * 8, "done"]), [wait], checkpointer=pair[0])
    reader, ids, last = Agent("offline:", checkpointer=pair[1]), [], ""
    handle = await runner.start("go", "t")
    await asyncio.sleep(0.05)  # Now it can be asked.
    for _ in range(6):
        async with aclosing(reader.follow("t", after=last)) as events:
            async for event in events:
                assert not isinstance(event, Rewound)
                if event.id:
                    ids.append(event.id)
                    last = event.id
                if len(ids) % 3 == 0:
                    break
    assert len(ids) == len(set(ids))
    await runner.aclose()
    await handle


async def test_half_a_character_in_a_piece_of_text_cuts_no_follower_off(pair):
    class Halves:
        name = "halves"

        async def complete(self, request, emit):
            await asyncio.sleep(0.05)
            for text in ("\ud83d", "\ude00"):
                emit(TextDelta(text))
                await asyncio.sleep(0.02)
            return Reply(AssistantMessage("a face"))

    runner, reader = Agent(Halves(), checkpointer=pair[0]), Agent("offline:", checkpointer=pair[1])
    handle = await runner.start("go", "t")
    await asyncio.sleep(0.04)
    events = await told(reader)
    assert not [event for event in events if isinstance(event, Rewound)]
    assert isinstance(events[-1], TurnEnded)
    assert (await handle).text == "a face"
