"""Live turns: started, followed, spoken to, asked about and stopped, by others than their callers."""

import asyncio
import gc
import threading
from contextlib import aclosing

import pytest
from harness.agents import Talker, hang, ping, sub, task
from harness.stores import InstrumentedStore, plain

from minideep import (
    Agent,
    AssistantMessage,
    ConfigError,
    Middleware,
    MinideepError,
    Reply,
    ThreadBusy,
    ToolCall,
    ToolResult,
    UnknownThread,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.events import (
    FileEdited,
    FileWritten,
    ModelReplied,
    Restarted,
    Rewound,
    TextDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    TurnCancelled,
    TurnEnded,
    UserSaid,
)
from minideep.models import ScriptedModel
from minideep.models.scripted import as_reply
from minideep.runtime.feed import position
from minideep.runtime.turns import Turns


async def numbers(agent, thread_id="t", **about):
    return [event.number async for event in agent.follow(thread_id, **about) if event.number]


async def told(agent, thread_id="t", **about):
    return [event async for event in agent.follow(thread_id, **about)]


def text(events):
    """What a client shows: pieces are added, and `Restarted` begins anew."""
    shown = ""
    for event in events:
        shown = "" if isinstance(event, Restarted) else shown + (event.text if isinstance(event, TextDelta) else "")
    return shown


# ---- start


async def test_a_started_turn_outlives_its_caller_and_its_handle_gives_the_turn(store):
    agent = Agent(ScriptedModel([ToolCall("ping", {}, "c"), "done", "more"]), [ping], checkpointer=store)
    handle = await agent.start("go", "t")
    assert agent.get_state("t").said == UserMessage("go")  # It is saved.
    turn = await handle
    assert (turn.status, turn.text, handle.thread_id, handle.number) == ("ended", "done", "t", 0)
    again = await agent.start("more", "t")
    assert again.number == len(await numbers(agent, after=0)) - len(await numbers(agent, after=again.number))


async def test_letting_a_handle_go_or_cancelling_who_awaits_it_changes_nothing(store):
    talker = Talker("a")
    agent = Agent(talker, checkpointer=store)
    handle = await agent.start("go", "t")
    waiting = asyncio.ensure_future(asyncio.wait_for(handle, 0.01))
    await asyncio.wait([waiting])
    assert isinstance(waiting.exception(), TimeoutError)
    del handle, waiting
    gc.collect()
    await talker.say()
    talker.let.release()
    while (await agent.status("t")).runs:
        await asyncio.sleep(0.001)
    assert agent.get_state("t").status == "ended"


async def test_start_raises_itself_what_refuses_the_turn(store):
    agent = Agent(ScriptedModel(hang), checkpointer=store)
    with pytest.raises(ConfigError, match="empty"):
        await agent.start("", "t")
    with pytest.raises(UnknownThread):
        await agent.start_resume("t")
    await agent.start("go", "t")
    with pytest.raises(ThreadBusy):
        await agent.start("me too", "t")
    await agent.aclose()


async def test_a_turn_that_was_cut_short_is_resumed_by_its_twin(store):
    first = Agent(ScriptedModel(hang), checkpointer=store)
    await first.start("go", "t")
    await first.aclose()
    second = Agent(ScriptedModel(["done"]), checkpointer=store)
    turn = await (await second.start_resume("t"))
    assert (turn.status, turn.text) == ("ended", "done")
    assert (await (await second.start_resume("t"))).text == "done"  # Nothing is left to do.


async def test_a_start_that_is_cancelled_while_it_waits_begins_nothing(store):
    agent = Agent(ScriptedModel(hang), checkpointer=store)
    await agent.start("go", "t")
    waiting = asyncio.ensure_future(agent.start("next", "t", wait=True))
    await asyncio.sleep(0.02)
    waiting.cancel()
    await asyncio.wait([waiting])
    await agent.aclose()
    assert [message.text for message in agent.transcript("t")] == ["go"]


async def test_a_start_that_still_waits_when_its_agent_is_closed_is_refused(store):
    agent = Agent(ScriptedModel(hang), checkpointer=store)
    await agent.start("go", "t")
    waiting = asyncio.ensure_future(agent.start("next", "t", wait=True))
    await asyncio.sleep(0.02)
    await agent.aclose()
    with pytest.raises(ThreadBusy, match="was closed"):
        await waiting


async def test_closing_an_agent_waits_for_the_turns_that_end_in_time(store):
    quick = Agent(ScriptedModel([ToolCall("ping"), "done"]), [ping], checkpointer=store)
    handle = await quick.start("go", "t")
    await quick.aclose(grace=10)
    assert (await handle).status == "ended"


# ---- follow


async def test_a_follower_gets_the_recorded_events_of_the_log_and_of_the_turn_that_runs(store):
    talker = Talker("one ", "two")
    await Agent(ScriptedModel(["hello"]), checkpointer=store).run("hi", "t")
    agent = Agent(talker, checkpointer=store)
    handle = await agent.start("go", "t")
    following = asyncio.ensure_future(told(agent))
    await talker.say(2)
    talker.let.release()
    events = await following
    recorded = [event for event in events if event.number]
    assert [event.number for event in recorded] == list(range(1, recorded[-1].number + 1))
    assert [type(event) for event in recorded] == [UserSaid, ModelReplied, TurnEnded] * 2
    assert [event.id for event in recorded] == [str(event.number) for event in recorded]
    assert all(event.at > 1e9 for event in events)
    assert text(events) == "one two"
    assert await numbers(agent, after=handle.number) == [4, 5, 6]
    assert await numbers(agent) == [1, 2, 3, 4, 5, 6]


async def test_a_text_under_way_comes_whole_behind_a_restart_and_its_last_piece_before_its_reply(store):
    talker = Talker("one ", "two ", "three")
    agent = Agent(talker, checkpointer=store)
    await agent.start("go", "t")
    await talker.say(2)
    events = agent.follow("t")
    assert [type(await anext(events)) for _ in range(2)] == [UserSaid, Restarted]
    assert (await anext(events)).text == "one two "
    waiting = asyncio.ensure_future(anext(events))
    await talker.say(1)
    assert (await waiting).text == "three"
    talker.let.release()
    assert [type(event) async for event in events] == [ModelReplied, TurnEnded]


async def test_pieces_that_come_with_the_reply_are_not_lost(store):
    class Hasty:
        name = "hasty"

        async def complete(self, request, emit):
            await asyncio.sleep(0)
            for piece in "abc":
                emit(TextDelta(piece))
            return as_reply("abc")

    agent = Agent(Hasty(), checkpointer=store)
    await agent.start("go", "t")
    followers = [asyncio.ensure_future(told(agent)) for _ in range(20)]
    for events in await asyncio.gather(*followers):
        assert [type(event) for event in events if event.number] == [UserSaid, ModelReplied, TurnEnded]
        assert text(events) in ("abc", "")


async def test_a_follower_of_a_turn_that_run_began_gets_its_events(store):
    agent = Agent(ScriptedModel(hang), checkpointer=store)
    running = asyncio.ensure_future(agent.run("go", "t"))
    while not agent.threads():
        await asyncio.sleep(0.001)
    events = agent.follow("t")
    assert type(await anext(events)) is UserSaid
    await agent.cancel("t", "enough")
    assert [type(event) async for event in events] == [TurnCancelled]
    assert (await running).status == "cancelled"


async def test_a_follower_that_waits_goes_on_with_the_next_turn(store):
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
    found = []

    async def follow():
        async for event in agent.follow("t", wait=True):
            found.append(event)

    following = asyncio.ensure_future(follow())
    await asyncio.sleep(0.01)
    for said in ("first", "second"):
        await agent.run(said, "t")
    while len([event for event in found if event.number]) < 6:
        await asyncio.sleep(0.01)
    following.cancel()
    assert [event.number for event in found if event.number] == [1, 2, 3, 4, 5, 6]


async def test_following_an_unknown_thread_is_an_error_and_so_is_a_position_that_is_none(store):
    agent = Agent(ScriptedModel([]), checkpointer=store)
    with pytest.raises(UnknownThread):
        await told(agent)
    with pytest.raises(ConfigError, match="is not the number or the id"):
        agent.follow("t", after="17.x")


async def test_the_input_and_the_boundary_are_told_when_the_store_has_them(store):
    agent = Agent(ScriptedModel(["done"]), checkpointer=store)
    found = {}
    async for event in agent.stream("go", "t"):
        if event.number:
            found[type(event)] = agent.threads()[0].status if agent.threads() else "unknown"
    assert (found[UserSaid] in ("running", "ended"), found[TurnEnded]) == (True, "ended")


async def test_a_follower_has_the_events_of_the_runs_below_with_their_paths_and_numbers(store):
    child = sub("critic", ScriptedModel([ToolCall("ping", {}, "p"), "critique"]))
    agent = create_deep_agent(
        ScriptedModel([task("critic", "t1"), "ok"]), [ping], subagents=[child], checkpointer=store
    )
    handle = await agent.start("go", "t")
    live = await told(agent, after=handle.number)
    saved = await told(agent)
    shown = [(event.number, event.path, type(event)) for event in live if event.number]
    assert shown == [(event.number, event.path, type(event)) for event in saved]
    assert {path for _, path, _ in shown} == {(), ("t1",)}
    marks = [event for event in live if isinstance(event, ToolStarted | ToolEnded)]
    assert [(event.path, event.id.split(".")[1]) for event in marks][:1] == [((), "1")]
    assert len({event.id for event in live if event.id}) == len([event for event in live if event.id])


@pytest.mark.parametrize("after", range(9))
async def test_a_follower_that_returns_misses_nothing_and_gets_nothing_twice(store, after):
    agent = Agent(ScriptedModel([ToolCall("ping", {}, "a"), ToolCall("ping", {}, "b"), "done"]), [ping],
                  checkpointer=store)  # fmt: skip
    await agent.start("go", "t")
    whole = [event.id for event in await told(agent) if event.id]
    await agent.run("more", "t") if after == 8 else None
    recorded = [event_id for event_id in whole if "." not in event_id]
    place = min(after, len(whole) - 1)
    rest = [event.id async for event in agent.follow("t", after=whole[place])]
    wanted = [event_id for event_id in recorded if position(event_id) > position(whole[place])]
    assert rest[: len(wanted)] == wanted


async def test_an_event_that_did_not_last_is_rewound_for_who_returns(store):
    agent = Agent(ScriptedModel(["done"]), checkpointer=store)
    await agent.run("go", "t")
    events = await told(agent, after=99)
    assert [(type(event), event.to, event.id) for event in events] == [(Rewound, 3, "3")]


async def test_followers_that_never_read_slow_nobody_and_hold_no_queue(store):
    agent = Agent(ScriptedModel([ToolCall("ping"), "done"]), [ping], checkpointer=store)
    await agent.start("go", "t")
    idle = [agent.follow("t") for _ in range(50)]
    for follower in idle:
        assert type(await anext(follower)) is UserSaid
    assert (await told(agent))[-1].reason == "done"
    for follower in idle:
        kinds = [type(event) async for event in follower if event.number]
        assert kinds == [ModelReplied, ToolReturned, ModelReplied, TurnEnded]


async def test_a_follower_on_another_event_loop_gets_the_same(store):
    talker = Talker("one ", "two")
    agent = Agent(talker, checkpointer=store)
    await agent.start("go", "t")
    found, began = [], threading.Event()

    async def follow():
        async with aclosing(agent.follow("t")) as events:
            async for event in events:
                began.set()
                found.append(event)

    thread = threading.Thread(target=lambda: asyncio.run(follow()))
    thread.start()
    while not began.is_set():
        await asyncio.sleep(0.001)
    await talker.say(2)
    talker.let.release()
    while thread.is_alive():
        await asyncio.sleep(0.001)
    assert [event.number for event in found if event.number] == [1, 2, 3]
    assert text(found) == "one two"


async def test_followers_get_what_redact_leaves_and_no_text(store):
    from msgspec import structs

    def hide(event):
        if isinstance(event, ToolReturned):
            return structs.replace(event, content="(hidden)")
        if isinstance(event, ModelReplied):
            return structs.replace(event, message=as_reply("(hidden)").message) if not event.message.calls else event
        return event

    agent = Agent(ScriptedModel([ToolCall("ping", {}, "c"), "secret"]), [ping], checkpointer=store, redact=hide)
    handle = await agent.start("go", "t")
    events = await told(agent)
    assert (await handle).text == "secret"
    assert not [event for event in events if isinstance(event, TextDelta)]
    assert [event.content for event in events if isinstance(event, ToolReturned)] == ["(hidden)"]
    assert "secret" not in repr(events)
    assert [event.number for event in events if event.number] == await numbers(agent)
    own = [event async for event in agent.stream("go", "u")]
    assert [event.number for event in own if event.number] == [1, 2]


# ---- what is told of tools


class Denied(Middleware):
    async def before_tool(self, ctx, call):
        return ToolResult("denied")


async def test_a_call_that_a_hook_answers_has_not_started(store):
    agent = Agent(ScriptedModel([ToolCall("ping", {}, "c"), "done"]), [ping], middleware=[Denied()])
    kinds = [type(event) async for event in agent.stream("go")]
    assert ToolStarted not in kinds
    assert ToolEnded in kinds


# ---- say


async def test_what_is_said_during_a_turn_is_heard_with_the_next_request(store):
    going, let = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        """Work."""
        going.set()
        await let.wait()
        return "worked"

    seen = []

    def answer(request):
        seen.append([message.text for message in request.messages])
        return [ToolCall("work")] if len(seen) == 1 else "done"

    agent = Agent(ScriptedModel(answer), [work], checkpointer=store)
    handle = await agent.start("go", "t")
    await going.wait()
    saying = asyncio.ensure_future(agent.say("t", "and hurry"))
    await asyncio.sleep(0.01)
    assert not saying.done()
    let.set()
    assert await saying
    turn = await handle
    assert seen[1][-1] == "and hurry"
    assert (turn.status, agent.get_state("t").turn) == ("ended", 1)
    said = [event async for event in agent.follow("t") if isinstance(event, UserSaid)]
    assert [(event.message.text, event.by) for event in said] == [("go", ""), ("and hurry", "say")]


async def test_what_is_said_at_the_end_of_a_turn_keeps_it_from_ending(store):
    talker = Talker("one")
    agent = Agent(talker, checkpointer=store)
    handle = await agent.start("go", "t")
    saying = asyncio.ensure_future(agent.say("t", "wait"))
    await talker.say(1)
    talker.let.release()
    assert await saying
    await talker.say(1)
    talker.let.release()
    turn = await handle
    assert [message.text for message in turn.messages] == ["go", "one", "wait", "one"]


async def test_nobody_hears_what_is_said_to_a_thread_that_is_not_run(store):
    agent = Agent(ScriptedModel(hang), checkpointer=store)
    assert not await agent.say("t", "hello?")
    await agent.start("go", "t")
    saying = asyncio.ensure_future(agent.say("t", "hello?"))
    await asyncio.sleep(0.01)
    await agent.cancel("t")
    assert not await saying
    assert not await agent.say("t", "hello?")
    assert [message.text for message in agent.transcript("t")] == ["go"]


async def test_who_gives_up_saying_something_has_not_said_it(store):
    talker = Talker("one")
    agent = Agent(talker, checkpointer=store)
    handle = await agent.start("go", "t")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(agent.say("t", "never mind"), 0.01)
    await talker.say(1)
    talker.let.release()
    assert [message.text for message in (await handle).messages] == ["go", "one"]


# ---- status


async def test_the_status_says_where_a_thread_runs_and_takes_nothing(store):
    agent = Agent(ScriptedModel(hang), checkpointer=store)
    with pytest.raises(UnknownThread):
        await agent.status("t")
    await agent.start("go", "t")
    status = await agent.status("t")
    assert (status.status, status.runs, status.number, status.turn) == ("running", "here", 1, 1)
    await agent.cancel("t")
    status = await agent.status("t")
    assert (status.status, status.runs, status.agent) == ("cancelled", "", "main")


async def test_a_loop_of_status_disturbs_no_turn(store):
    agent = Agent(ScriptedModel(lambda request: "done"), checkpointer=store)
    asking = True

    def ask():
        while asking:
            plain(store).held("t")

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for _ in range(100):
            assert (await agent.run("go", "t")).saved
    finally:
        asking = False
        thread.join()


async def test_who_comes_while_tools_run_gets_the_events_before_too(store):
    @tool
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(0.05)
        return "waited"

    agent = Agent(ScriptedModel([ToolCall("wait"), "done"]), [wait], checkpointer=store)
    running = asyncio.ensure_future(agent.run("go", "t"))
    while not agent.threads():
        await asyncio.sleep(0.001)
    first = agent.follow("t")
    await anext(first)
    await asyncio.sleep(0.01)
    assert await numbers(agent) == [1, 2, 3, 4, 5]
    assert (await running).text == "done"
    await first.aclose()


# ---- what must not harm a turn


async def test_a_reason_or_a_text_that_cannot_be_stored_is_written_as_it_can(store):
    talker = Talker("one")
    agent = Agent(talker, checkpointer=store)
    handle = await agent.start("go", "t")
    saying = asyncio.ensure_future(agent.say("t", "\ud800"))
    await talker.say(1)
    talker.let.release()
    assert await saying
    assert await agent.cancel("t", "\ud800" + "x" * 20_000)
    turn = await handle
    assert (turn.status, turn.messages[-1].text) == ("cancelled", "\\ud800")
    assert agent.get_state("t").detail.startswith("\\ud800xxx")


async def test_a_text_that_is_too_long_to_be_said_is_refused(store):
    agent = Agent(ScriptedModel(hang), checkpointer=store)
    await agent.start("go", "t")
    with pytest.raises(ConfigError, match="at most 250,000"):
        await agent.say("t", "x" * 250_001)
    with pytest.raises(ConfigError, match="text"):
        await agent.say("t", "")
    await agent.aclose()


async def test_a_turn_that_was_cut_short_is_no_success(store):
    agent = Agent(ScriptedModel(hang), checkpointer=store)
    handle = await agent.start("go", "t")
    await agent.aclose()
    with pytest.raises(MinideepError, match="cut short"):
        (await handle).raise_for_status()


async def test_the_follower_of_a_turn_that_lost_its_thread_is_told_what_did_not_last():
    store = InstrumentedStore()
    talker = Talker("one")
    agent = Agent(talker, checkpointer=store)
    handle = await agent.start("go", "t")
    events = agent.follow("t")
    assert type(await anext(events)) is UserSaid
    store.locks = False
    await Agent(ScriptedModel(["other"]), checkpointer=store).run("me too", "t")
    await talker.say(1)
    talker.let.release()
    found = [await anext(events)]
    while not isinstance(found[-1], Rewound):
        found.append(await anext(events))
    assert found[-1].to == 1
    turn = await handle
    assert (turn.status, turn.saved, turn.reason) == ("failed", False, "ThreadConflict")
    rest = [event async for event in events if event.number]
    assert [type(event) for event in rest][-3:] == [UserSaid, ModelReplied, TurnEnded]


async def test_a_turn_whose_store_fails_is_followed_to_its_end():
    store = InstrumentedStore()
    agent = Agent(ScriptedModel(["done"]), checkpointer=store)
    store.down = {"append"}
    handle = await agent.start("go", "t")
    events = agent.follow("t")
    assert type(await anext(events)) is UserSaid
    turn = await handle
    assert (turn.text, turn.saved) == ("done", False)
    await events.aclose()


async def test_a_file_event_names_the_call_that_made_it(store):
    script = [ToolCall("write_file", {"file_path": "/a", "content": "x"}, "w"),
              ToolCall("edit_file", {"file_path": "/a", "old_string": "x", "new_string": "y"}, "e"), "done"]  # fmt: skip
    agent = create_deep_agent(ScriptedModel(script), checkpointer=store)
    await agent.run("go", "t")
    changes = [event for event in await told(agent) if isinstance(event, FileWritten | FileEdited)]
    assert [event.call_id for event in changes] == ["w", "e"]


async def test_a_redact_that_fails_shows_followers_nothing_and_disturbs_no_turn(store):
    def fail(event):
        if isinstance(event, ModelReplied):
            raise ValueError("a bug")
        return event

    agent = Agent(ScriptedModel(["secret"]), checkpointer=store, redact=fail)
    handle = await agent.start("go", "t")
    following = asyncio.ensure_future(told(agent))
    turn = await handle
    assert (turn.text, turn.saved) == ("secret", False)
    assert "secret" not in repr(await following)


# ---- what outlasts a turn, and what comes back


async def test_a_tool_that_outlasts_the_grace_does_not_keep_a_cancelled_turn_from_who_awaits_it(store):
    done = threading.Event()

    @tool
    def stuck() -> str:
        """Wait."""
        done.wait(5)
        return "late"

    agent = Agent(ScriptedModel([ToolCall("stuck"), "never"]), [stuck], checkpointer=store)
    agent._turns = Turns(grace=0.05)
    handle = await agent.start("go", "t")
    await asyncio.sleep(0.02)
    assert await agent.cancel("t", "enough")
    assert (await handle).status == "cancelled"
    done.set()


async def test_who_comes_back_between_a_restart_and_its_first_piece_starts_the_text_anew():
    class Breaks:
        name = "breaks"

        async def complete(self, request, emit):
            emit(TextDelta("Hel"))
            await shown.wait()
            emit(Restarted())
            await back.wait()
            emit(TextDelta("Hello"))
            return Reply(AssistantMessage("Hello"))

    shown, back, text = asyncio.Event(), asyncio.Event(), ""
    agent = Agent(Breaks())
    await agent.start("go", "t")
    async with aclosing(agent.follow("t")) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                text += event.text
                break
    shown.set()
    await asyncio.sleep(0.01)
    asyncio.get_running_loop().call_later(0.02, back.set)
    async for event in agent.follow("t", after="1"):
        text = "" if isinstance(event, Restarted) else text + getattr(event, "text", "")
    assert text == "Hello"


def test_a_loop_that_is_closed_under_its_turns_frees_their_threads(store):
    async def begin():
        running.append(asyncio.ensure_future(Agent(ScriptedModel(hang), checkpointer=store).run("go", "t")))
        await asyncio.sleep(0.05)

    running, loop = [], asyncio.new_event_loop()
    loop.run_until_complete(begin())
    running[0]._log_destroy_pending = False  # asyncio would say so of each task, and it is meant here.
    running.clear()
    loop.close()
    gc.collect()
    again = Agent(ScriptedModel(["done"]), checkpointer=store)
    assert again.get_state("t").status == "running"  # Cut short, and not cancelled.
    assert again.run_sync("more", "t").text == "done"


@pytest.mark.parametrize("after", ["-5", "1_0", "x", "1.2.3", "\u0663"])
async def test_what_is_no_id_of_an_event_is_refused(after):
    with pytest.raises(ConfigError, match="after"):  # A client's header may hold anything.
        Agent("offline:").follow("t", after=after)
