"""The `interrupt_on` of an agent and of its subagents: whose calls wait for a person."""

import pytest
from harness.office import Office, pay, plan, waiting, work, worker

from minideep import (
    Agent,
    Approve,
    ConfigError,
    MemoryCheckpointer,
    ToolCall,
    tool,
)
from minideep.middleware import HumanInTheLoopMiddleware
from minideep.models import ScriptedModel


async def statuses(office):
    """Return which of the main agent (1), a worker (2) and its worker (3) wait to pay."""
    turn = await office.run([pay(1), work("a", [pay(2), work("b", [pay(3)])])])
    return [wait.call.args["n"] for wait in turn.interrupts]


@pytest.mark.parametrize(
    ("main", "child", "grandchild", "waits"),
    [
        ({"pay": True}, None, None, [1, 2, 3]),
        ({"pay": True}, {"pay": False}, None, [1]),
        ({"pay": True}, {"note": True}, None, [1, 2, 3]),
        ({"pay": True}, {}, {"pay": False}, [1, 2]),
        ({"pay": True}, {"pay": False}, {"pay": True}, [1, 3]),
        (None, {"pay": True}, None, [2, 3]),
        (None, None, {"pay": True}, [3]),
        ({"pay": False}, None, None, []),
        (None, None, None, []),
    ],
)
async def test_a_subagent_says_only_what_differs_from_its_parent(main, child, grandchild, waits):
    below = worker(interrupt_on=child, subagents=[worker(interrupt_on=grandchild)])
    assert await statuses(Office(MemoryCheckpointer(), interrupt_on=main, subagents=[below])) == waits


async def test_the_general_purpose_subagent_asks_too():
    office = Office(MemoryCheckpointer())
    call = ["task", {"description": plan([pay(1)]), "subagent_type": "general-purpose"}, "g"]
    assert waiting(await office.run([call])) == ["g/p1"]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"interrupt_on": {"buy": True}}, "agent 'main': interrupt_on names 'buy', which neither it nor a subagent"),
        (
            {"interrupt_on": {"buy": False}},
            "the tools are compact_conversation, delete, edit_file, glob, grep, ls, note, pay, read_file, ",
        ),
        (
            {"interrupt_on": {"pay": "yes"}},
            r"create_deep_agent: interrupt_on\['pay'\] must be True or False or an `Approval`, not 'yes'",
        ),
        ({"interrupt_on": {"pay": lambda call: True}}, r"\['pay'\] must be True or False or an `Approval`, not <fun"),
        ({"interrupt_on": ["pay"]}, r"interrupt_on must be a mapping, or None, not \['pay'\]"),
        ({"subagents": [worker(interrupt_on={"buy": True})]}, "agent 'worker': interrupt_on names 'buy'"),
        ({"subagents": [worker(interrupt_on={"task": True})]}, "agent 'worker': interrupt_on names 'task'"),
        ({"subagents": [worker(tools=[], interrupt_on={"pay": True})]}, "agent 'worker': interrupt_on names 'pay'"),
    ],
)
def test_an_interrupt_on_that_could_not_work_is_refused_when_the_agent_is_built(more, problem):
    with pytest.raises(ConfigError, match=problem):
        assert Office(MemoryCheckpointer(), **more).agent


def test_a_tool_that_only_a_subagent_deep_below_has_may_be_named():
    below = [worker(subagents=[worker(tools=[rare])])]
    assert Office(MemoryCheckpointer(), interrupt_on={"rare": True}, subagents=below).agent
    below = [worker(interrupt_on={"rare": True}, subagents=[worker(tools=[rare])])]
    assert Office(MemoryCheckpointer(), interrupt_on=None, subagents=below).agent


def test_without_interrupt_on_no_hook_runs():
    def asking(**more):
        hooks = Office(MemoryCheckpointer(), **more).agent.spec.tool_hooks
        return [hook.middleware.name for hook in hooks if hook.before]

    assert asking() == ["HumanInTheLoopMiddleware"]
    assert asking(interrupt_on=None) == asking(interrupt_on={"pay": False}) == []


async def test_the_middleware_works_on_a_bare_agent():
    script = ScriptedModel([ToolCall("rare", {}, "r"), "ok"])
    agent = Agent(script, [rare], middleware=[HumanInTheLoopMiddleware({"rare": True})])
    assert (await agent.run("go", "t")).status == "paused"
    assert (await agent.resume("t", {"r": Approve()})).text == "ok"


@tool
async def rare() -> str:
    """Do something that only one subagent can do."""
    return "done"
