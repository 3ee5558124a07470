"""What bounds the parts of a blueprint: stray tool calls, timeouts, subtasks at a time, and the hooks of its author."""

import asyncio

import pytest
from harness.blueprints import Parts, asked, blueprint, end, outcomes, plan, research

from minideep import Approve, Middleware, ModelError, ToolCall, ToolResult, tool
from minideep.blueprint import STOCK_ROLES, Blueprint, Role

STRAY = ToolCall("search", {"query": "who?"})


@pytest.mark.parametrize("part", ["planner", "reflection"])
async def test_a_part_that_calls_tools_it_does_not_have_is_stopped_after_five_replies(part):
    fixed = [False]

    def reply():
        return good if fixed[0] else STRAY

    good = plan(research()) if part == "planner" else end("so")
    parts = Parts(reply if part == "planner" else [plan(research())], reply if part == "reflection" else [end("so")])
    agent = Blueprint(parts)
    turn = await agent.run("go", "t")
    assert len(parts.planned if part == "planner" else parts.reflected) == 5
    assert (turn.status, type(turn.error)) == ("failed", ModelError)
    assert f"{part}: it reached its limit of steps" in str(turn.error)
    fixed[0] = True
    turn = await agent.resume("t")
    assert (turn.status, turn.text) == ("ended", "so")


async def test_a_stray_tool_call_or_two_cost_no_try():
    parts = Parts([STRAY, STRAY, "no plan", plan(research())])
    turn = await Blueprint(parts).run("go", "t")
    assert (turn.status, len(parts.planned)) == ("ended", 4)
    assert "no tool named 'search'; there is none" in asked(parts.planned[1])


@pytest.mark.parametrize("part", ["planner", "reflection"])
async def test_a_part_that_takes_too_long_fails_the_turn_which_can_be_resumed(part):
    late = [True]

    async def reply():
        if late[0]:
            await asyncio.sleep(60)
        return plan(research()) if part == "planner" else end("so")

    parts = {"plans": [plan(research())], "reflections": [end("so")]}
    parts["plans" if part == "planner" else "reflections"] = reply
    agent = Blueprint(Parts(**parts), **{f"{part}_timeout": 0.05})
    turn = await agent.run("go", "t")
    assert (turn.status, f"{part}: it took longer than 0.05 s" in str(turn.error)) == ("failed", True)
    late[0] = False
    turn = await agent.resume("t")
    assert (turn.status, turn.text) == ("ended", "so")


@pytest.mark.parametrize(("given", "most"), [({}, 8), ({"max_parallel": 3}, 3), ({"max_parallel": 1}, 1)])
async def test_a_wave_of_a_hundred_runs_some_at_a_time_and_is_recorded_in_the_order_of_the_plan(given, most):
    running, highest = [0], [0]

    async def role(request):
        running[0] += 1
        highest[0] = max(highest[0], running[0])
        await asyncio.sleep(0.001 * (len(asked(request)) % 3))
        running[0] -= 1
        return "done"

    names = [f"{number}.md" for number in range(100)]
    bp = blueprint([plan(*map(research, names))], role=role, **given)
    turn = await bp.run("go", "t")
    assert (turn.status, highest[0]) == ("ended", most)
    assert [artifact for artifact, _, _ in outcomes(bp)] == names


async def test_subtasks_that_wait_for_a_slot_run_before_a_person_is_asked():
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    def role(request):
        if "bank" not in request.system:
            return "done"
        return "paid" if request.messages[-1].role == "tool" else ToolCall("pay", {"amount": 5})

    bank = Role("bank", "You are a bank.", [pay], interrupt_on={"pay": True})
    subtasks = [("bank", "pay", "0.md"), *[research(f"{number}.md") for number in range(1, 5)]]
    parts = Parts([plan(*subtasks)], role=role)
    bp = Blueprint(parts, [*STOCK_ROLES, bank], max_parallel=1)
    turn = await bp.run("go", "t")
    assert (turn.status, len(turn.interrupts), len(parts.delegated)) == ("paused", 1, 5)
    turn = await bp.resume("t", {turn.interrupts[0].call_id: Approve()})
    assert (turn.status, len(parts.delegated)) == ("ended", 6)
    assert [artifact for artifact, _, _ in outcomes(bp)] == [f"{number}.md" for number in range(5)]


# ---- middleware


def search(query: str) -> str:
    """Search the web."""
    return "a page"


def searching(request):
    """A role that searches once and replies with what it found."""
    last = request.messages[-1]
    return last.text if last.role == "tool" else ToolCall("search", {"query": "x"})


class Denies(Middleware):
    """Denies every search."""

    async def before_tool(self, ctx, call):
        return ToolResult("denied", is_error=True) if call.name == "search" else call


class Counts(Middleware):
    """Counts the requests of all runs."""

    inherit = True

    def __init__(self):
        self.agents = []

    async def before_model(self, ctx, request):
        self.agents.append(ctx.state.agent)
        return request


async def test_the_middleware_of_a_blueprint_guards_the_tools_of_every_role():
    parts = Parts([plan(("worker", "w", "a.md"))], [end("{{a.md}}")], searching)
    roles = [*STOCK_ROLES, Role("worker", "You work.", [search])]
    counts = Counts()
    turn = await Blueprint(parts, roles, middleware=[Denies(), counts]).run("go")
    assert turn.text == "denied"
    assert [name for name in counts.agents if name != "blueprint"] == ["planner", "worker", "worker", "reflection"]
    assert (
        await Blueprint(Parts([plan(("worker", "w", "a.md"))], [end("{{a.md}}")], searching), roles).run("go")
    ).text == "a page"


class Searches(Middleware):
    """Brings a tool and says how to use it."""

    prompt = "\nSearch before you answer.\n"
    tools = (tool(search),)


async def test_the_middleware_of_a_role_is_its_own():
    parts = Parts(
        [plan(("worker", "w", "a.md"), research())],
        [end("{{a.md}}")],
        lambda request: searching(request) if request.tools else "fact",
    )
    worker = Role("worker", " You work. ", middleware=[Searches(), Denies()])
    turn = await Blueprint(parts, [*STOCK_ROLES, worker]).run("go")
    assert turn.text == "denied"
    own, other = parts.delegated[0], next(request for request in parts.delegated if "research" in request.system)
    assert (own.system, [tool.name for tool in own.tools]) == (" You work. \n\nSearch before you answer.", ["search"])
    assert (other.system, other.tools) == (STOCK_ROLES[0].prompt, ())
