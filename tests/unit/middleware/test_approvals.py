"""The `interrupt_on` of an agent and of its subagents: whose calls wait for a person."""

import pytest
from harness.office import Office, pay, plan, waiting, work, worker

from minideep import (
    Agent,
    Approval,
    Approve,
    ConfigError,
    Edit,
    MemoryCheckpointer,
    Reject,
    Respond,
    ToolCall,
    create_deep_agent,
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


# ---- approvals that say more


def sums(limit):
    return lambda ctx, call: call.args["n"] > limit


def agent_with(*calls, **more):
    """Return an agent whose first reply makes *calls*, and what the tools did."""
    did = []

    async def pay(n: int) -> str:
        """Pay."""
        did.append(n)
        return f"paid {n}"

    script = ScriptedModel([list(calls), "done"])
    return create_deep_agent(script, [pay], checkpointer=MemoryCheckpointer(), **more), did


def pays(n):
    return ToolCall("pay", {"n": n}, f"p{n}")


async def test_only_the_calls_that_the_function_picks_wait_for_a_person():
    agent, did = agent_with(pays(5), pays(900), interrupt_on={"pay": Approval(when=sums(100))})
    turn = await agent.run("go", "t")
    assert [wait.call_id for wait in turn.interrupts] == ["p900"]
    assert did == [5]
    assert (await agent.resume("t", {"p900": Approve()})).text == "done"
    assert did == [5, 900]


@pytest.mark.parametrize(
    ("describe", "reads"),
    [
        ("", "pay runs only when a person has decided"),
        ("Pay an invoice?", "Pay an invoice?"),
        (lambda ctx, call: f"Pay {call.args['n']} for {ctx.thread_id}?", "Pay 1 for t?"),
    ],
)
async def test_the_person_reads_what_the_approval_says_about_the_call(describe, reads):
    agent, _ = agent_with(pays(1), interrupt_on={"pay": Approval(describe=describe)})
    assert [wait.reason for wait in (await agent.run("go", "t")).interrupts] == [reads]


async def test_only_the_decisions_that_the_approval_allows_are_taken():
    agent, did = agent_with(pays(1), interrupt_on={"pay": Approval(decisions=["approve", "reject"])})
    turn = await agent.run("go", "t")
    assert [wait.decisions for wait in turn.interrupts] == [("approve", "reject")]
    for other in (Edit({"n": 2}), Respond("paid")):
        with pytest.raises(ConfigError, match="give Approve or Reject"):
            await agent.resume("t", {"p1": other})
    assert (await agent.resume("t", {"p1": Reject("no")})).text == "done"
    assert not did


async def test_the_approval_of_a_subagent_replaces_that_of_its_parent():
    own = worker(interrupt_on={"pay": Approval(when=sums(10))})
    office = Office(MemoryCheckpointer(), interrupt_on={"pay": Approval(describe="above")}, subagents=[own])
    turn = await office.run([pay(1), work("a", [pay(2), pay(20)])])
    assert [(wait.call.args["n"], wait.reason) for wait in turn.interrupts] == [
        (1, "above"),
        (20, "pay runs only when a person has decided"),
    ]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Approval(decisions=("approve", "approve")), "Approval.decisions names a kind twice"),
        (lambda: Approval(decisions=("allow",)), r"Approval: decisions\[0\] must be"),
        (lambda: Approval(when="big"), "Approval: when must be a plain function"),
        (lambda: Approval(describe=5), "Approval: describe must be"),
    ],
)
def test_an_approval_that_could_not_work_is_refused_when_it_is_made(make, problem):
    with pytest.raises(ConfigError, match=problem):
        make()


async def test_a_description_that_is_no_text_fails_the_turn_and_nothing_runs():
    agent, did = agent_with(pays(1), interrupt_on={"pay": Approval(describe=lambda ctx, call: 5)})
    turn = await agent.run("go", "t")
    assert (turn.status, did) == ("failed", [])


# ---- the first plan


def todos(*items, id):
    return ToolCall("write_todos", {"todos": [{"content": item, "status": "pending"} for item in items]}, id)


def planner(*replies, **more):
    did = []

    async def act(n: int) -> str:
        """Do something."""
        did.append(n)
        return f"did {n}"

    script = ScriptedModel([*replies])
    agent = create_deep_agent(script, [act], approve_plan=True, checkpointer=MemoryCheckpointer(), **more)
    return agent, did


def acts(n):
    return ToolCall("act", {"n": n}, f"a{n}")


def told(turn):
    return {message.call_id: message.text for message in turn.messages if message.role == "tool"}


async def test_the_first_plan_of_a_thread_waits_and_no_tool_runs_before_the_decision():
    agent, did = planner([acts(0)], [todos("x", id="w"), acts(1)], [acts(2)], "done")
    turn = await agent.run("go", "t")
    assert [(wait.call_id, wait.decisions) for wait in turn.interrupts] == [("w", ("approve", "edit", "reject"))]
    assert did == [0]  # What the agent looked at before it had a plan.
    turn = await agent.resume("t", {"w": Approve()})
    assert (turn.text, did) == ("done", [0, 2])
    assert told(turn)["a1"] == (
        "act was not run: the user decides about the plan of this reply first; once it is approved, call again"
    )
    assert [todo.content for todo in agent.get_state("t").todos] == ["x"]


async def test_a_rejected_plan_runs_nothing_and_the_next_one_waits_again():
    agent, did = planner([todos("x", id="w"), acts(1)], [todos("y", id="v"), acts(2)], "done")
    await agent.run("go", "t")
    turn = await agent.resume("t", {"w": Reject("too vague")})
    assert [wait.call_id for wait in turn.interrupts] == ["v"]
    assert did == []
    assert "too vague" in told(turn)["w"]
    assert agent.get_state("t").todos == []


async def test_a_plan_that_a_person_edits_is_written_as_edited():
    agent, _ = planner([todos("x", id="w")], "done")
    await agent.run("go", "t")
    await agent.resume("t", {"w": Edit({"todos": [{"content": "mine", "status": "pending"}]})})
    assert [todo.content for todo in agent.get_state("t").todos] == ["mine"]


async def test_later_plans_of_the_thread_do_not_wait_not_even_after_the_list_was_cleared():
    agent, did = planner([todos("x", id="w")], [todos(id="v")], [todos("y", id="u"), acts(1)], "done", "ok")
    await agent.run("go", "t")
    assert (await agent.resume("t", {"w": Approve()})).status == "ended"
    assert did == [1]
    assert [todo.content for todo in agent.get_state("t").todos] == ["y"]


async def test_a_plan_that_is_refused_as_wrong_is_no_plan_yet():
    wrong = ToolCall("write_todos", {"todos": [{"content": "x", "status": "later"}]}, "w")
    agent, _ = planner([wrong], [todos("y", id="v")], "done")
    await agent.run("go", "t")
    turn = await agent.resume("t", {"w": Approve()})
    assert [wait.call_id for wait in turn.interrupts] == ["v"]


async def test_plans_of_subagents_do_not_wait():
    def say(request):
        last = request.messages[-1]
        if last.role != "user":
            return "done"
        if last.text == "go":
            return [ToolCall("task", {"description": "below", "subagent_type": "general-purpose"}, "t1")]
        return [todos("x", id="w")]

    agent = create_deep_agent(ScriptedModel(say), approve_plan=True)
    assert (await agent.run("go")).status == "ended"


def test_an_agent_without_plans_has_none_to_approve():
    with pytest.raises(ConfigError, match="approve_plan waits for 'write_todos', which `without` leaves out"):
        planner(without=("write_todos",))


def test_the_prompt_says_that_the_first_plan_waits_only_if_it_does():
    with_approval, without = (
        create_deep_agent(ScriptedModel([]), approve_plan=wanted).spec.system for wanted in (True, False)
    )
    assert "The user decides about your first plan before any work starts" in with_approval
    assert "first plan" not in without
