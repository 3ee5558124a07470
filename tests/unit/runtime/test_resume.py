"""Decisions about the calls of one agent: what each does, and which are refused before anything is recorded."""

import pytest
from harness.agents import PING, pay, pays, ping, results, stored, writing
from harness.middleware import AskFirst
from harness.stores import InstrumentedStore, copy_of

from minideep import (
    Agent,
    Approve,
    ConfigError,
    Edit,
    Interrupt,
    Middleware,
    Reject,
    Respond,
    ToolCall,
    create_deep_agent,
    tool,
)
from minideep.models import ScriptedModel


@pytest.mark.parametrize(
    ("decision", "told", "is_error"),
    [
        (Approve(), "a", False),
        (Edit({"text": "b"}), 'b\n[A person changed this call; its arguments were {"text":"b"}]', False),
        (Reject("too late"), "a person rejected this call: too late", True),
        (Respond("42"), "42", False),
    ],
)
async def test_a_waiting_call_is_decided_by_another_agent_object_and_nothing_else_runs_again(
    store, decision, told, is_error
):
    ran = []

    @tool
    async def safe() -> str:
        ran.append("safe")
        return "safe"

    def agent(*script):
        return Agent(ScriptedModel(script), [ping, safe], middleware=[AskFirst("ping")], checkpointer=store)

    turn = await agent([ToolCall("ping", {"text": "a"}, "p"), ToolCall("safe")]).run("go", "t")
    assert (turn.status, [wait.call_id for wait in turn.interrupts]) == ("paused", ["p"])
    assert turn.interrupts[0].reason == "may I ping?"
    turn = await agent("done").resume("t", {"p": decision})
    assert [(m.text, m.is_error) for m in results(turn)] == [(told, is_error), ("safe", False)]
    assert (turn.status, turn.text, ran) == ("ended", "done", ["safe"])


async def test_an_interrupt_with_a_new_call_object_keeps_the_id_of_the_call():
    class Renew(Middleware):
        async def before_tool(self, ctx, call):
            return call if ctx.decision else Interrupt(ToolCall(call.name, {"text": "asked"}), "sure?")

    agent = Agent(ScriptedModel([ToolCall("ping", {"text": "a"}, "c"), "ok"]), [ping], middleware=[Renew()])
    turn = await agent.run("go", "t")
    assert turn.interrupts[0].call_id == "c"
    assert results(await agent.resume("t", {"c": Approve()}))[0].text == "a"


async def test_the_model_and_the_export_are_told_which_arguments_of_an_edited_call_ran():
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = ScriptedModel([ToolCall("pay", {"amount": 5}, "p"), "so"])
    agent = Agent(model, [pay], middleware=[AskFirst("pay")])
    await agent.run("go", "t")
    await agent.resume("t", {"p": Edit({"amount": 3})})
    told = 'paid 3\n[A person changed this call; its arguments were {"amount":3}]'
    assert model.requests[1].messages[-1].text == told
    assert agent.transcript("t")[2].text == told
    assert '"type":"tool"' in agent.export("t")[2]
    assert 'were {\\"amount\\":3}]' in agent.export("t")[2]


async def test_long_arguments_of_an_edit_are_shortened_for_the_model():
    agent = create_deep_agent(ScriptedModel([writing(), "so"]), middleware=[AskFirst("write_file")])
    await agent.run("go", "t")
    turn = await agent.resume("t", {"w1": Edit({"file_path": "/keep.txt", "content": "x" * 100_000})})
    assert len(turn.messages[0].text) < 2_300
    assert turn.messages[0].text.endswith("(100,038 characters)]")


@pytest.mark.parametrize(
    ("decisions", "problem"),
    [
        ({"p": Reject(None)}, r"decisions\['p'\]\.reason must be text, not None"),
        ({"p": Reject("\ud800")}, "cannot be kept"),
        ({"p": Approve(), "q": Approve()}, "no pending call 'q'"),
        ({"p": Approve(), "/p": Approve()}, "two decisions are for the pending call '/p'"),
    ],
)
async def test_a_decision_of_the_wrong_form_is_refused_before_anything_is_recorded(decisions, problem):
    agent = Agent(ScriptedModel(pays), [pay], middleware=[AskFirst()])
    await agent.run("go", "t")
    with pytest.raises(ConfigError, match=problem):
        await agent.resume("t", decisions)
    assert stored(agent).status == "paused"


async def test_a_decision_for_a_turn_that_was_killed_is_refused_with_the_remedy():
    copies, store = [], InstrumentedStore()
    store.before = lambda operation, *args: copies.append(copy_of(store)) if operation == "append" and args[1] else None
    first = Agent(ScriptedModel([[ToolCall("pay", {}, "p"), PING]]), [pay, ping], middleware=[AskFirst("pay")],
                  checkpointer=store, durability="tool")  # fmt: skip
    await first.run("go", "t")
    agent = Agent(ScriptedModel(pays), [pay], checkpointer=copies[-1])  # As a kill before the boundary leaves it.
    assert (agent.get_state("t").status, len(agent.get_state("t").interrupts)) == ("running", 1)
    with pytest.raises(ConfigError, match="`resume` it without decisions, then decide"):
        await agent.resume("t", {"p": Approve()})


async def test_a_decision_before_the_call_waits_again_is_refused_with_the_remedy():
    copies, store = [], InstrumentedStore()
    store.before = lambda operation, *args: copies.append(copy_of(store)) if operation == "append" and args[1] else None
    first = Agent(ScriptedModel([ToolCall("pay", {}, "p"), "paid"]), [pay], middleware=[AskFirst("pay")],
                  checkpointer=store)  # fmt: skip
    await first.run("go", "t")
    await first.resume("t", {"p": Approve()})

    def begun(store):
        entry = Agent(ScriptedModel(pays), [pay], checkpointer=store).get_state("t").open.get("p")
        return entry is not None and entry.started

    killed = next(copy for copy in copies[1:] if begun(copy))  # As a kill in the approved tool leaves it.
    agent = Agent(ScriptedModel(["paid"]), [pay], middleware=[AskFirst("pay")], checkpointer=killed)
    with pytest.raises(ConfigError, match="`resume` it without decisions, then decide"):
        await agent.resume("t", {"p": Approve()})
    assert (await agent.resume("t")).status == "paused"
    assert (await agent.resume("t", {"p": Approve()})).status == "ended"
