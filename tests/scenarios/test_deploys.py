"""Deploys: a thread goes on with a newer version of its agent, and with another agent only if that is allowed."""

import pytest
from harness.middleware import AskFirst
from harness.stores import copy_of, plain

from minideep import (
    Agent,
    Approve,
    ConfigError,
    Edit,
    MemoryCheckpointer,
    Subagent,
    ToolCall,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.blueprint import Blueprint
from minideep.checkpoint.layout import after, log_prefix
from minideep.models import ScriptedModel


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def agent(*replies, store, tools=(pay,), **about):
    return Agent(ScriptedModel(replies), tools, middleware=[AskFirst("pay")], checkpointer=store, **about)


def test_the_log_says_which_version_ran_each_turn():
    store = MemoryCheckpointer()
    for version in ("", "1", "1", "2", ""):
        agent("hi", store=store, version=version).run_sync("hello", "t")
    versions = [agent(store=store).get_state("t", at=at).notes.get("agent", {}).get("version") for at in range(1, 6)]
    assert versions == [None, "1", "1", "2", ""]


def test_a_version_is_saved_with_the_input_that_brings_it():
    store, seen = MemoryCheckpointer(), []

    def reply(request):
        seen.append(agent(store=store).get_state("t").notes["agent"])
        return "hi"

    Agent(ScriptedModel(reply), checkpointer=store, version="7").run_sync("hello", "t")
    assert seen == [{"version": "7"}]


async def test_a_resume_records_the_version_that_goes_on():
    store = MemoryCheckpointer()
    await agent(ToolCall("pay", {"amount": 5}, "p"), store=store, version="1").run("pay", "t")
    newer = agent("done", store=store, version="2")
    assert (await newer.resume("t", {"p": Approve()})).text == "done"
    assert newer.get_state("t").notes["agent"] == {"version": "2"}
    assert newer.get_state("t", at=1).notes["agent"] == {"version": "1"}


@pytest.mark.parametrize("make", [create_deep_agent, Blueprint])
def test_deep_agents_and_blueprints_have_versions_too(make):
    store = MemoryCheckpointer()
    made = make(ScriptedModel(["hi"]), checkpointer=store, version="3")
    made.run_sync("hello", "t")
    assert made.get_state("t").notes["agent"] == {"version": "3"}


async def test_a_thread_of_another_agent_goes_on_only_with_continues(store):
    first = agent(ToolCall("pay", {"amount": 5}, "p"), store=store, name="till")
    await first.run("pay", "t")
    before = plain(store).rows("", "\x7f")
    other = agent("mine now", store=store, name="desk")
    for go_on in (other.run("hello", "t"), other.resume("t", {"p": Approve()}), other.resume("t")):
        with pytest.raises(ConfigError, match=r"of agent 'till', and this one is 'desk'.*continues=\['till'\]"):
            await go_on
    assert plain(store).rows("", "\x7f") == before
    assert other.get_state("t").agent == "till"
    told = agent("mine now", store=store, name="desk", continues=["till"])
    assert (await told.resume("t", {"p": Approve()})).text == "mine now"


async def test_a_waiting_call_whose_tool_is_gone_is_answered_with_an_error_that_names_it(store):
    await agent(ToolCall("pay", {"amount": 5}, "p"), store=store).run("pay", "t")
    newer = agent("sorry", store=store, tools=[])
    turn = await newer.resume("t", {"p": Approve()})
    assert (turn.status, turn.text) == ("ended", "sorry")
    result = turn.messages[0]
    assert result.is_error
    assert result.text == "no tool named 'pay'; there is none"


@pytest.mark.parametrize("decision", [Approve(), Edit({"amount": 6})])
async def test_a_waiting_call_whose_tool_has_other_arguments_is_answered_with_an_error_that_names_them(store, decision):
    @tool(name="pay")
    async def newer_pay(euros: float) -> str:
        """Pay."""
        raise AssertionError("never run")

    await agent(ToolCall("pay", {"amount": 5}, "p"), store=store).run("pay", "t")
    newer = agent("sorry", store=store, tools=[newer_pay])
    turn = await newer.resume("t", {"p": decision})
    assert (turn.status, turn.messages[0].is_error) == ("ended", True)
    assert "it takes no 'amount'; 'euros' is missing" in turn.messages[0].text
    assert "it takes euros (number)" in turn.messages[0].text


@pytest.mark.parametrize("gone", ["the subagent", "its tool", "task"])
async def test_a_waiting_call_whose_subagent_is_gone_is_answered_with_an_error_that_names_it(store, gone):
    def deployed(tools, subagents, *replies, child=()):
        clerk = Subagent(name="clerk", description="pays", model=ScriptedModel(child), tools=tools)
        helper = Subagent(name="helper", description="helps", model=ScriptedModel([]))
        chosen = [{"clerk": clerk, "helper": helper}[name] for name in subagents]
        main = ScriptedModel(replies)
        if not subagents:
            return Agent(main, [pay], checkpointer=store)
        return create_deep_agent(main, subagents=chosen, middleware=[AskFirst("pay")], checkpointer=store)

    asking = ToolCall("task", {"description": "pay 5", "subagent_type": "clerk"}, "t1")
    first = deployed([pay], ["clerk"], asking, child=[ToolCall("pay", {"amount": 5}, "p")])
    turn = await first.run("pay", "t")
    assert turn.interrupts[0].path == ("t1",)
    newer = {
        "the subagent": lambda: deployed([pay], ["helper"], "sorry"),
        "its tool": lambda: deployed([], ["clerk"], "sorry", child=["cannot pay"]),
        "task": lambda: deployed([pay], [], "sorry"),
    }[gone]()
    turn = await newer.resume("t", {"p": Approve()})
    assert (turn.status, turn.text) == ("ended", "sorry")
    said = {
        "the subagent": 'subagent_type must be "general-purpose" | "helper", not \'clerk\'',
        "its tool": "cannot pay",
        "task": "no tool named 'task'",
    }[gone]
    assert said in turn.messages[0].text
    state = newer.get_state("t", subagents=True)
    assert state.subagents["t1"].status == ("ended" if gone == "its tool" else "cancelled")
    if gone == "its tool":
        assert "no tool named 'pay'" in state.subagents["t1"].messages[-2].text


async def test_a_killed_turn_goes_on_without_the_tools_that_are_gone():
    store, copies = MemoryCheckpointer(), []

    @tool
    async def look() -> str:
        """Look."""
        copies.append(copy_of(store))
        return "seen"

    first = Agent(ScriptedModel([ToolCall("look", {}, "a"), "so"]), [look], checkpointer=store, durability="tool")
    await first.run("look", "t")
    newer = Agent(ScriptedModel(["never mind"]), [pay], checkpointer=copies[0])
    turn = await newer.resume("t")
    assert turn.text == "never mind"
    assert turn.messages[-2].text == "no tool named 'look'; there is pay"


def test_a_thread_without_the_name_of_an_agent_goes_on_with_any_agent():
    store = MemoryCheckpointer()
    Agent(ScriptedModel(["one"]), checkpointer=store, name="").run_sync("hi", "t")
    assert Agent(ScriptedModel(["two"]), checkpointer=store, name="desk").run_sync(UserMessage("hi"), "t").text == "two"
    prefix = log_prefix("t", ())
    assert len(plain(store).keys(prefix, after(prefix))) > 0
