"""A store that fails costs `turn.saved`, never the answer, and what could not be saved follows with the next save."""

import asyncio
import logging
import threading

import pytest
from harness.agents import ok, pay, pays, ping, stored, sub, task, texts
from harness.middleware import AskFirst
from harness.stores import InstrumentedStore

from minideep import (
    Agent,
    Approve,
    CheckpointError,
    ConfigError,
    DiskCheckpointer,
    MemoryCheckpointer,
    Overloaded,
    ToolCall,
    UnknownThread,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.models import ScriptedModel
from minideep.ports import Retention


async def test_a_turn_appends_twice_whatever_its_number_of_steps():
    for steps in (1, 40):
        store = InstrumentedStore()
        await Agent(ScriptedModel([ToolCall("ping")] * steps + ["ok"]), [ping], checkpointer=store).run("go")
        assert store.appends == 2


async def test_a_failed_save_costs_no_answer_and_the_next_boundary_saves_what_is_missing():
    store = InstrumentedStore()
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
    store.failing_appends = {2}
    turn = await agent.run("first", "t")
    assert (turn.status, turn.text, turn.saved) == ("ended", "one", False)
    assert str(turn.error) == "the store failed: OSError: no space left"
    turn = await agent.run("second", "t")
    assert (turn.saved, turn.error) == (True, None)
    state = Agent(ScriptedModel([]), checkpointer=store).get_state("t")
    assert texts(state.messages) == ["first", "one", "second", "two"]


async def test_what_subagents_did_follows_with_the_next_save_too():
    store = InstrumentedStore()
    child, script = sub("critic", ScriptedModel(["bad"])), [task("critic", "t1"), "one", "two"]
    agent = create_deep_agent(ScriptedModel(script), subagents=[child], checkpointer=store)
    store.failing_appends = {2}
    assert not (await agent.run("first", "t")).saved
    assert (await agent.run("second", "t")).saved
    assert agent.get_state("t", subagents=True).subagents["t1"].text == "bad"


async def test_a_store_that_cannot_write_at_all_does_not_stop_a_turn():
    store = InstrumentedStore()
    store.failing_appends = {1, 2}
    turn = await Agent(ScriptedModel(["one"]), checkpointer=store).run("first", "t")
    assert (turn.status, turn.text, turn.saved) == ("ended", "one", False)


async def test_a_number_that_an_unsaved_input_may_have_used_elsewhere_is_not_used_again():
    store = InstrumentedStore()
    store.failing_appends = {1}
    agent = Agent(ScriptedModel(["one"]), checkpointer=store)
    assert (await agent.run("first", "t")).saved
    assert agent.get_state("t").number > 2**20  # A follower may have been shown the numbers after the input.


async def test_an_append_that_was_written_but_reported_as_failed_is_not_repeated():
    def break_off(operation, *args):
        if operation == "append":
            raise OSError("the connection broke after the commit")

    store = InstrumentedStore()
    store.after = break_off
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
    assert (await agent.run("first", "t")).saved
    assert (await agent.run("second", "t")).saved
    assert len(agent.get_state("t").messages) == 4


def losing_the_connection():
    """A store that writes its second append, and then can neither say so nor be asked."""

    def lose(operation, *args):
        if operation == "append" and store.appends == 2:
            store.before = silent
            raise OSError("connection lost")

    def silent(operation, *args):
        if operation == "head":
            store.before = None
            raise OSError("connection lost")

    store = InstrumentedStore()
    store.after = lose
    return store


async def test_an_append_in_doubt_that_was_written_is_found_by_the_next_turn():
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=losing_the_connection())
    assert (await agent.run("go", "t")).saved is False
    assert (await agent.run("go on", "t")).saved is True
    assert texts(agent.get_state("t").messages) == ["go", "one", "go on", "two"]


async def test_an_append_in_doubt_that_was_written_is_found_within_the_turn():
    agent = Agent(ScriptedModel([ToolCall("pay"), ToolCall("pay"), "done"]), [pay], checkpointer=losing_the_connection(),
                  durability="step")  # fmt: skip
    turn = await agent.run("go", "t")
    assert (turn.status, turn.saved, len(agent.transcript("t"))) == ("ended", True, 6)


async def test_a_decision_that_follows_an_append_in_doubt_and_is_not_saved_can_be_given_again():
    store = losing_the_connection()
    agent = Agent(ScriptedModel(pays), [pay], middleware=[AskFirst()], checkpointer=store)
    assert (await agent.run("go", "t")).saved is False
    store.down = {"append"}
    with pytest.raises(CheckpointError):
        await agent.resume("t", {"p": Approve()})
    store.down.clear()
    turn = await agent.resume("t", {"p": Approve()})
    assert (turn.status, turn.saved) == ("ended", True)


async def test_a_hundred_calls_that_save_one_after_the_other_do_not_spin():
    store = InstrumentedStore()
    store.inline = 0

    @tool
    async def hop(times: int) -> str:
        """Take a while."""
        for _ in range(times):
            await asyncio.sleep(0)
        return "x" * 10_000

    script = [[ToolCall("hop", {"times": n}) for n in range(100)], "done"]
    turn = await Agent(ScriptedModel(script), [hop], checkpointer=store, durability="tool").run("go", "t")
    assert (turn.text, turn.saved) == ("done", True)


async def unsaved():
    """An agent whose first turn was not saved."""
    store = InstrumentedStore()
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
    store.down = {"append"}
    assert not (await agent.run("first", "t")).saved
    return agent, store


@pytest.mark.parametrize(
    "fail",
    [
        lambda agent: agent.resume("t", {"typo": Approve()}),
        lambda agent: agent.run("x" * 17_000_000, "t"),
        lambda agent: agent.run("", "t"),
    ],
)
@pytest.mark.parametrize("down", [{"append"}, {"append", "head"}])
async def test_a_refused_input_does_not_drop_what_is_unsaved(fail, down):
    agent, store = await unsaved()
    store.down = set(down)
    with pytest.raises((ConfigError, CheckpointError)):
        await fail(agent)
    store.down.clear()
    assert (await agent.run("second", "t")).saved
    assert texts(stored(agent).messages) == ["first", "one", "second", "two"]


async def test_resume_of_an_ended_turn_saves_what_was_unsaved():
    agent, store = await unsaved()
    assert not (await agent.resume("t")).saved
    store.down.clear()
    assert (await agent.resume("t")).saved
    assert stored(agent).text == "one"


async def test_a_store_that_fails_in_the_middle_of_a_turn_costs_the_save_and_not_the_answer():
    store = InstrumentedStore()

    def say(request):
        store.down = {"append", "head"}
        return "the answer"

    turn = await Agent(ScriptedModel(say), checkpointer=store).run("go", "t")
    assert (turn.text, turn.saved, str(turn.error)) == ("the answer", False, "the store failed: OSError: no space left")


async def test_a_decision_that_could_not_be_saved_can_be_given_again():
    store = InstrumentedStore()
    agent = Agent(ScriptedModel(pays), [pay], middleware=[AskFirst()], checkpointer=store)
    await agent.run("go", "t")
    store.down = {"append"}
    with pytest.raises(CheckpointError):
        await agent.resume("t", {"p": Approve()})
    store.down.clear()
    assert (await agent.resume("t", {"p": Approve()})).status == "ended"


async def test_a_message_after_an_unsaved_pause_cancels_the_subagent_that_waited():
    store = InstrumentedStore()
    child = sub("critic", ScriptedModel(pays), tools=[pay], middleware=[AskFirst()])
    agent = create_deep_agent(ScriptedModel([task("critic", "t1"), "fine"]), subagents=[child], checkpointer=store)
    store.down = {"append"}
    assert (await agent.run("go", "t")).status == "paused"
    store.down.clear()
    turn = await agent.run("never mind", "t")
    assert (turn.status, turn.saved) == ("ended", True)
    assert stored(agent).subagents["t1"].status == "cancelled"


async def test_a_cancel_keeps_what_earlier_turns_left_unsaved():
    def wait_at_the_head(operation, *args):
        if operation == "head":
            asked.set()
            gate.wait(10)

    store, asked, gate = InstrumentedStore(), threading.Event(), threading.Event()
    store.inline, store.down = 0, {"append"}
    agent = Agent(ScriptedModel(pays), [pay], middleware=[AskFirst()], checkpointer=store)
    await agent.run("precious", "t")
    store.down.clear()
    task = asyncio.ensure_future(agent.resume("t", {"p": Approve()}))
    await asyncio.sleep(0)
    store.down, store.before = {"append"}, wait_at_the_head
    while not asked.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0.01)
    gate.set()
    with pytest.raises((asyncio.CancelledError, CheckpointError)):
        await task
    store.down.clear()
    await agent.save("t")
    assert agent.get_state("t").said == UserMessage("precious")


async def test_a_store_that_closes_during_a_turn_costs_no_answer():
    store = MemoryCheckpointer(retention=Retention(seconds=60))

    def reply(request):
        store.close()
        return "ok"

    turn = await Agent(ScriptedModel(reply), checkpointer=store).run("go", "t")
    assert (turn.text, turn.saved) == ("ok", True)


async def test_a_thread_that_was_never_saved_can_be_deleted():
    store = InstrumentedStore()
    agent = Agent(ScriptedModel(ok), checkpointer=store)
    store.down = {"append"}
    await agent.run("go", "t")
    store.down.clear()
    agent.delete("t")
    with pytest.raises(UnknownThread):
        await agent.save("t")


def test_an_unsaved_turn_says_so_in_its_repr_and_in_a_warning(tmp_path, caplog):
    (tmp_path / "state").write_text("a file where a folder should be")
    with DiskCheckpointer(tmp_path / "state" / "store") as store, caplog.at_level(logging.WARNING, "minideep"):
        try:
            turn = Agent(ScriptedModel(["so"]), checkpointer=store).run_sync("go", "t")
        except Exception as exc:
            pytest.fail(f"the answer was lost: {exc}")
    assert repr(turn).startswith("<Turn of 't': ended, unsaved, CheckpointError: cannot write the state in ")
    assert repr(turn).endswith("…, 2 messages, 'so'>")
    assert any("thread 't' is not saved: cannot write the state" in record.getMessage() for record in caplog.records)


def test_the_repr_of_a_failed_turn_shows_its_error():
    turn = Agent(ScriptedModel([Overloaded("no capacity")])).run_sync("go", "t")
    assert repr(turn) == "<Turn of 't': failed, Overloaded: no capacity, 1 messages, ''>"


def test_the_repr_of_a_saved_turn_does_not_mention_it():
    assert repr(Agent(ScriptedModel(["so"])).run_sync("go", "t")) == "<Turn of 't': ended, 2 messages, 'so'>"
