"""Redacted text never reaches the store, whenever it is saved, and the thread can go on."""

import pytest
from harness.agents import ok, pay, pays, sub, task, texts
from harness.middleware import AskFirst
from harness.stores import InstrumentedStore

from minideep import (
    Agent,
    Approve,
    CheckpointError,
    UserMessage,
    create_deep_agent,
)
from minideep.checkpoint import format as codec
from minideep.models import ScriptedModel


def masked(event):
    return codec.decode(codec.encode(1, event).replace(b"SECRET", b"XXXXXX"))


async def test_what_is_unsaved_is_still_redacted_after_a_decision_that_was_refused():
    store = InstrumentedStore()
    store.down = {"append"}
    agent = Agent(ScriptedModel(pays), [pay], middleware=[AskFirst()], checkpointer=store, redact=masked)
    assert (await agent.run("my SECRET", "t")).saved is False
    with pytest.raises(CheckpointError):
        await agent.resume("t", {"p": Approve()})
    store.down.clear()
    await agent.save("t")
    assert agent.get_state("t").said == UserMessage("my XXXXXX")


async def test_the_hook_sees_each_event_once_though_an_append_failed_in_between():
    store, seen = InstrumentedStore(), []
    store.failing_appends = {1}
    agent = Agent(ScriptedModel(ok), checkpointer=store, redact=lambda event: seen.append(event) or event)
    assert (await agent.run("go", "t")).saved
    assert [type(event).__name__ for event in seen] == ["UserSaid", "ModelReplied", "TurnEnded"]


async def test_save_redacts_what_was_said_before_redaction_was_switched_on():
    store = InstrumentedStore()
    agent = Agent(ScriptedModel(ok), checkpointer=store)
    store.down = {"append"}
    await agent.run("my SECRET", "t")
    store.down.clear()
    agent.redact = masked
    await agent.save("t")
    assert agent.get_state("t").said == UserMessage("my XXXXXX")


async def test_a_subagent_whose_task_is_redacted_can_be_resumed():
    helper, script = sub("helper", ScriptedModel(pays), tools=[pay]), [task("helper", "t1", "use SECRET"), "ok"]
    agent = create_deep_agent(
        ScriptedModel(script), [pay], subagents=[helper], interrupt_on={"pay": True}, redact=masked
    )
    await agent.run("go", "t")
    turn = await agent.resume("t", {"p": Approve()})
    assert texts(turn.messages) == ["done", "ok"]
