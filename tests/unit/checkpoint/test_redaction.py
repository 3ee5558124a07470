"""What is redacted never reaches the store, whenever it is saved, and a thread goes on all the same."""

import pytest

from minideep import (
    Agent,
    Approve,
    CheckpointError,
    Subagent,
    ToolCall,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.checkpoint import format as codec
from minideep.middleware import HumanInTheLoopMiddleware
from minideep.models import ScriptedModel


def masked(event):
    return codec.decode(codec.encode(1, event).replace(b"SECRET", b"XXXXXX"))


async def test_what_is_unsaved_is_redacted_also_after_a_refused_decision():
    store = Failing()
    store.down = True
    agent = Agent(
        ScriptedModel(payer), [pay], middleware=[HumanInTheLoopMiddleware({"pay": True})],
        checkpointer=store, redact=masked,
    )  # fmt: skip
    assert (await agent.run("my SECRET", "t")).saved is False
    with pytest.raises(CheckpointError):
        await agent.resume("t", {"p": Approve()})
    store.down = False
    await agent.save("t")
    assert agent.get_state("t").said == UserMessage("my XXXXXX")


async def test_save_redacts_what_was_said_before_there_was_a_redaction():
    store = Failing()
    agent = Agent(ScriptedModel(ok), checkpointer=store)
    store.down = True
    await agent.run("my SECRET", "t")
    store.down, agent.redact = False, masked
    await agent.save("t")
    assert agent.get_state("t").said == UserMessage("my XXXXXX")


async def test_a_child_that_waits_goes_on_though_what_it_was_told_is_redacted():
    helper = Subagent(name="helper", description="", model=ScriptedModel(payer), tools=[pay])
    task = ToolCall("task", {"description": "use SECRET", "subagent_type": "helper"}, "t1")
    agent = create_deep_agent(
        ScriptedModel([task, "ok"]), [pay], subagents=[helper], interrupt_on={"pay": True}, redact=masked
    )
    await agent.run("go", "t")
    turn = await agent.resume("t", {"p": Approve()})
    assert texts(turn.messages) == ["done", "ok"]


def payer(request):
    return ToolCall("pay", {}, "p") if request.messages[-1].role == "user" else "done"


@tool
async def pay() -> str:
    """Pay."""
    return "paid"
