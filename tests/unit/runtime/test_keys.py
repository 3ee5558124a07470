"""An input with a key is accepted once: its turn is handed back, or continued, however often it is sent."""

import asyncio

import pytest
from harness.agents import ok, pay, ping
from harness.middleware import AskFirst
from harness.stores import InstrumentedStore, copy_of, plain

from minideep import (
    Agent,
    Approve,
    CheckpointError,
    ConfigError,
    HistoryCut,
    MemoryCheckpointer,
    Middleware,
    Retention,
    ThreadBusy,
    ToolCall,
    ToolContext,
    Usage,
    create_deep_agent,
    tool,
)
from minideep.events import Noted, UserSaid
from minideep.messages import AssistantMessage, UserMessage
from minideep.models import ScriptedModel
from minideep.ports import Reply


def agent(store, *script, **more):
    return Agent(ScriptedModel(list(script)), [ping], checkpointer=store, **more)


def pinging(text):
    return ToolCall("ping", {"text": text})


async def test_a_key_that_was_accepted_gives_that_turn_back_with_its_costs(store):
    first = agent(store, Reply(AssistantMessage((pinging("a"),)), usage=Usage(7, 3)), "done")
    turn = await first.run("go", "t", key="k")
    for other in (first, agent(store)):
        again = await other.run("go", "t", key="k")
        assert (again.status, again.text, again.messages) == ("ended", "done", turn.messages)
        assert (again.costs.steps, again.costs.tool_calls, again.usage) == (2, 1, turn.usage)
        assert again.saved
    assert len(agent(store).transcript("t")) == 4


async def test_an_older_turn_is_handed_back_as_it_stood_at_its_own_end(store):
    both = agent(store, "one", pinging("two"), "two", "three")
    for text in ("first", "second", "third"):
        await both.run(text, "t", key=f"key of {text}")
    for other in (both, agent(store)):
        turn = await other.run("second", "t", key="key of second")
        assert (turn.text, turn.costs.steps) == ("two", 2)
        assert [message.role for message in turn.messages] == ["user", "assistant", "tool", "assistant"]
        assert (await other.run("first", "t", key="key of first")).text == "one"
    assert agent(store).get_state("t").text == "three"


async def test_a_turn_that_a_crash_cut_short_goes_on_under_its_key_and_nothing_finished_runs_again():
    store, ran, copies = InstrumentedStore(), [], []

    @tool
    async def book(room: int) -> str:
        """Book."""
        ran.append(room)
        if room == 2:
            copies.append(copy_of(store))
        return f"booked {room}"

    def booking(request):
        done = sum(message.role == "tool" for message in request.messages)
        return ToolCall("book", {"room": done + 1}) if done < 3 else "all booked"

    def worker(at):
        return Agent(ScriptedModel(booking), [book], checkpointer=at, durability="tool")

    whole = await worker(store).run("go", "t", key="k")
    assert ran == [1, 2, 3]
    again = await worker(copies[0]).run("go", "t", key="k")
    assert ran == [1, 2, 3, 2, 3]
    assert (again.status, again.text, again.costs.steps) == ("ended", whole.text, 4)
    assert sum(message.role == "user" for message in worker(copies[0]).transcript("t")) == 1


async def test_two_equal_inputs_with_two_keys_are_two_turns(store):
    both = agent(store, "first yes", "second yes")
    turns = [await both.run("yes", "t", key=key) for key in ("1", "2", "1", "2")]
    assert [turn.text for turn in turns] == ["first yes", "second yes"] * 2


async def test_a_key_with_another_input_is_refused_and_leaves_the_thread_as_it_was(store):
    both = agent(store, "one", "two")
    await both.run("go", "t", key="k")
    with pytest.raises(ConfigError, match="key='k' was accepted with another input"):
        await both.run("stop", "t", key="k")
    assert (await both.run("next", "t")).text == "two"


async def test_a_key_belongs_to_its_thread():
    both = agent(MemoryCheckpointer(), "one", "two")
    with pytest.raises(ConfigError, match="key='k' needs a thread_id"):
        await both.run("go", key="k")
    assert (await both.run("go", "t", key="k")).text == "one"
    assert (await both.run("go", "u", key="k")).text == "two"


@pytest.mark.parametrize("key", ["", " ", "x" * 201, 7, "\ud800"])
async def test_a_key_is_text_of_1_to_200_characters(key):
    with pytest.raises(ConfigError, match="key"):
        await agent(MemoryCheckpointer()).run("go", "t", key=key)


async def test_while_its_turn_runs_a_key_is_busy_or_waited_for(store):
    began, may_end = asyncio.Event(), asyncio.Event()

    async def slow(request):
        began.set()
        await may_end.wait()
        return "done"

    def one():
        return Agent(ScriptedModel(slow), checkpointer=store)

    running = asyncio.ensure_future(one().run("go", "t", key="k"))
    await began.wait()
    with pytest.raises(ThreadBusy):
        await one().run("go", "t", key="k")
    waiting = asyncio.ensure_future(one().run("go", "t", key="k", wait=True))
    await asyncio.sleep(0.01)
    may_end.set()
    turns = await asyncio.gather(running, waiting)
    assert [turn.text for turn in turns] == ["done", "done"]
    assert len(one().transcript("t")) == 2


async def test_of_many_who_send_one_key_at_once_one_runs_it(store):
    asked = []

    async def model(request):
        asked.append(request)
        await asyncio.sleep(0)
        return "done"

    def one():
        return Agent(ScriptedModel(model), checkpointer=store)

    turns = await asyncio.gather(*(one().run("go", "t", key="k", wait=True) for _ in range(20)))
    assert ({turn.text for turn in turns}, len(asked)) == ({"done"}, 1)


async def test_a_turn_that_waits_for_a_person_is_handed_back_waiting_and_once_decided_as_it_ended(store):
    def one(*script):
        return Agent(ScriptedModel(list(script)), [pay], middleware=[AskFirst("pay")], checkpointer=store)

    paused = await one(ToolCall("pay", {}, "p")).run("go", "t", key="k")
    again = await one().run("go", "t", key="k")
    assert (again.status, again.interrupts) == ("paused", paused.interrupts)
    await one("done").resume("t", {"p": Approve()})
    again = await one().run("go", "t", key="k")
    assert (again.status, again.text) == ("ended", "done")


async def test_a_failed_turn_is_handed_back_as_failed_and_can_be_resumed(store):
    def broken(request):
        raise RuntimeError("out of order")

    turn = await Agent(ScriptedModel(broken), checkpointer=store).run("go", "t", key="k")
    assert turn.status == "failed"
    again = await agent(store).run("go", "t", key="k")
    assert (again.status, str(again.error)) == ("failed", str(turn.error))
    assert (await agent(store, "done").resume("t")).text == "done"
    assert (await agent(store).run("go", "t", key="k")).text == "done"


async def test_a_turn_whose_files_are_asked_for_again_names_them(store):
    def one(*script):
        return create_deep_agent(ScriptedModel(list(script)), checkpointer=store)

    write = ToolCall("write_file", {"file_path": "/a.md", "content": "text"})
    turn = await one(write, "written").run("go", "t", key="k")
    assert list((await one().run("go", "t", key="k")).artifacts) == list(turn.artifacts) == ["/a.md"]


async def test_a_key_is_known_by_what_redact_leaves_of_the_input(store):
    def hidden(event):
        if hasattr(event, "message") and isinstance(event.message, UserMessage):
            return type(event)(UserMessage("***"), event.at, event.limits, event.by, event.agent, event.key)
        return event

    one = agent(store, "done", redact=hidden)
    await one.run("my password is 123", "t", key="k")
    assert (await one.run("my password is 123", "t", key="k")).text == "done"


async def test_a_fork_knows_the_keys_of_the_turns_that_it_has(store):
    one = agent(store, "one", "two")
    await one.run("first", "t", key="1")
    await one.run("second", "t", key="2")
    one.fork("t", at=1, thread_id="u")
    both = agent(store, "another")
    assert (await both.run("first", "u", key="1")).text == "one"
    assert (await both.run("second", "u", key="2")).text == "another"


async def test_a_turn_that_retention_removed_is_not_run_again(tmp_path):
    store = MemoryCheckpointer(retention=Retention(boundaries=1))
    one = agent(store, "one", "two", "three")
    for text in ("first", "second", "third"):
        await one.run(text, "t", key=text)
        store.close()
    with pytest.raises(HistoryCut):
        await one.run("first", "t", key="first")
    assert (await one.run("third", "t", key="third")).text == "three"


async def test_a_deleted_thread_forgets_its_keys(store):
    one = agent(store, "one", "two")
    await one.run("go", "t", key="k")
    one.delete("t")
    assert (await one.run("go", "t", key="k")).text == "two"
    assert not store.verify()


async def test_an_input_that_could_not_be_saved_is_known_by_its_key_all_the_same():
    store = InstrumentedStore()
    one = agent(store, "one", "two")
    store.down = {"append"}
    turn = await one.run("go", "t", key="k")
    assert (turn.text, turn.saved) == ("one", False)
    assert (await one.run("go", "t", key="k")).text == "one"
    other = await one.run("more", "t")
    assert (other.text, other.saved) == ("two", False)
    with pytest.raises(CheckpointError, match="not saved yet"):
        await one.run("go", "t", key="k")
    store.down = set()
    await one.save("t")
    assert (await one.run("go", "t", key="k")).text == "one"
    assert (await agent(store).run("go", "t", key="k")).text == "one"


async def test_a_tool_sees_one_idempotency_key_for_one_call_only():
    """A process that is killed may have run a call that it never saved; the next one may make another call there."""
    store, seen, copies = InstrumentedStore(), [], []

    @tool
    async def charge(amount: int, ctx: ToolContext) -> str:
        """Charge."""
        seen.append((amount, ctx.idempotency_key))
        copies.append(copy_of(store))
        return "charged"

    class Notes(Middleware):
        async def before_model(self, ctx, request):
            ctx.record(Noted("notes", "seen", 1))
            return request

    def charging(*amounts):
        return ScriptedModel([*(ToolCall("charge", {"amount": amount}) for amount in amounts), "done"])

    # The second call of one process and the first one of the next come at the same place of the log.
    await Agent(charging(0, 5), [charge], checkpointer=store).run("go", "t")
    await Agent(charging(7), [charge], middleware=[Notes()], checkpointer=copies[0]).resume("t")
    assert seen.pop(0)[0] == 0
    (five, first), (seven, second) = seen
    assert (five, seven) == (5, 7)
    assert first != second


async def test_the_calls_of_a_thread_that_was_deleted_and_begun_again_have_other_idempotency_keys(store):
    """A provider that knows the first payment would drop the second one, and the model would read that it was paid."""
    seen = []

    @tool
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        seen.append(ctx.idempotency_key)
        return "paid"

    for _ in range(2):
        agent = Agent(ScriptedModel([ToolCall("pay", {}, "p1"), "done"]), [pay], checkpointer=store)
        await agent.run("go", "customer-7")
        agent.delete("customer-7")
    assert len(set(seen)) == 2


async def test_the_numbers_of_events_go_on_far_above_those_of_a_process_that_died():
    store, copies = InstrumentedStore(), []

    def model(request):
        copies.append(copy_of(store))
        return "done"

    await Agent(ScriptedModel(model), checkpointer=store).run("go", "t")
    resumed = Agent(ScriptedModel(ok), checkpointer=copies[0])
    await resumed.resume("t")
    assert 2**20 <= resumed.get_state("t").number < 2**20 + 10
    before = resumed.get_state("t").number
    await resumed.run("more", "t")
    assert resumed.get_state("t").number < before + 10
    assert not copies[0].verify()


async def test_a_turn_that_is_started_again_by_its_key_is_followed_from_its_beginning(store):
    both = agent(store, "one", "two")
    first = await both.start("first", "t", key="1")
    assert (await first).text == "one"
    await (await both.start("second", "t", key="2"))
    again = await agent(store).start("first", "t", key="1")
    assert again.number == first.number
    assert ((await again).text, (await again).costs.steps) == ("one", 1)
    texts = [event.message.text async for event in both.follow("t", after=again.number) if isinstance(event, UserSaid)]
    assert texts == ["first", "second"]


async def test_a_started_turn_with_another_input_under_its_key_is_refused_by_start_itself(store):
    both = agent(store, "one")
    await (await both.start("first", "t", key="1"))
    with pytest.raises(ConfigError, match="another input"):
        await both.start("other", "t", key="1")


# ---- what came between


async def test_a_turn_that_another_input_has_replaced_is_handed_back_as_cancelled_and_not_with_the_others_answer():
    store, copies = InstrumentedStore(), []

    def dying(request):
        copies.append(copy_of(store))
        return "ordered"

    await Agent(ScriptedModel(dying), checkpointer=store).run("Order a lamp.", "t", key="1")
    left = copies[0]  # Its process died while it asked the model.
    assert (await agent(left, "ten").run("What time is it?", "t", key="2")).text == "ten"
    lamp = await agent(left).run("Order a lamp.", "t", key="1")
    assert (lamp.status, lamp.text) == ("cancelled", "")
    assert (await agent(left).run("What time is it?", "t", key="2")).text == "ten"


async def test_the_key_of_a_thread_that_was_deleted_without_its_rows_is_that_of_no_other():
    """An earlier version does not know them."""
    store = MemoryCheckpointer()
    both = agent(store, "one", "two", "three")
    await both.run("order", "t", key="k")
    rows = plain(store).rows("key/", "key0")
    both.delete("t")
    await both.run("hello", "t")
    head = plain(store).head("t")
    plain(store).append("t", head, head, dict(rows))
    assert (await agent(store, "ordered").run("order", "t", key="k")).text == "ordered"


async def test_an_input_that_redact_changes_is_known_by_its_key_after_a_save_that_failed():
    def hidden(event):
        if isinstance(event, UserSaid):
            return UserSaid(UserMessage("***"), event.at, event.limits, event.by, event.agent, event.key)
        return event

    store = InstrumentedStore()
    one = agent(store, "one", redact=hidden)
    store.down = {"append"}
    assert not (await one.run("secret", "t", key="k")).saved
    store.down = set()
    assert (await one.run("secret", "t", key="k")).text == "one"


async def test_a_turn_whose_input_could_not_be_saved_shares_no_number_with_one_of_another_process():
    store, seen = InstrumentedStore(), []

    @tool
    async def charge(amount: int, ctx: ToolContext) -> str:
        """Charge."""
        seen.append(ctx.idempotency_key)
        return "charged"

    def charging(amount, at):
        return Agent(ScriptedModel([ToolCall("charge", {"amount": amount}), "done"]), [charge], checkpointer=at)

    await charging(1, store).run("first", "t")
    other = copy_of(store)
    store.down = {"append"}
    await charging(100, store).run("second", "t")
    await charging(200, other).run("third", "t")
    assert len(set(seen)) == 3


async def test_the_key_of_the_oldest_turn_that_retention_keeps_gives_it_back():
    store = MemoryCheckpointer(retention=Retention(boundaries=2))
    texts = [f"text {number}" for number in range(12)]
    one = agent(store, *(f"answer to {text}" for text in texts))
    for text in texts:
        await one.run(text, "t", key=text)
        store.close()
    kept = [boundary.said for boundary in one.history("t")]
    for text in kept:
        assert (await agent(store).run(text, "t", key=text)).text == f"answer to {text}"
