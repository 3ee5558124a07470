"""A guard holds in every run below its agent; the rest of a middleware is inherited where its class says so."""

import pytest
from harness.agents import PING, delete, deleting, ping, sub, task, writing
from harness.middleware import AskFirst

from minideep import (
    Agent,
    Approve,
    ConfigError,
    Middleware,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolResult,
    create_deep_agent,
    tool,
)
from minideep.backends import StateBackend
from minideep.blueprint import Blueprint, Role
from minideep.middleware import OffloadMiddleware
from minideep.models import ScriptedModel


class NoDelete(Middleware):
    """Nothing is deleted; keeps which runs it was asked in."""

    def __init__(self):
        self.asked = []

    async def before_tool(self, ctx, call):
        self.asked.append((call.name, ctx.path))
        return ToolResult("deleting is forbidden", is_error=True) if call.name == "delete" else call


def delegating(name="general-purpose"):
    return task(name, "t1")


def by_prompt(**scripts):
    """A model whose script is chosen by a word in the system prompt, or else by `main`."""
    left = {word: iter(script) for word, script in scripts.items()}

    def reply(request):
        found = next((word for word in left if word in request.system), "main")
        return next(left[found])

    return ScriptedModel(reply)


@pytest.mark.parametrize("name", ["general-purpose", "cleaner", "boss"])
def test_what_a_guard_of_the_main_agent_forbids_is_forbidden_to_every_subagent(name):
    guard = NoDelete()
    cleaner = sub("cleaner", ScriptedModel([deleting(), "tried"]))
    boss = sub("boss", ScriptedModel([delegating("cleaner"), "tried"]), subagents=[cleaner])
    script = {"main": [writing(), delegating(name), "so"], "one task for another agent": [deleting(), "tried"]}
    agent = create_deep_agent(by_prompt(**script), subagents=[cleaner, boss], middleware=[guard])
    turn = agent.run_sync("delete it", "t")
    assert turn.status == "ended"
    assert "/keep.txt" in agent.get_state("t").files
    path = ("t1", "t1") if name == "boss" else ("t1",)
    assert [place for called, place in guard.asked if called == "delete"] == [path]


async def test_what_a_guard_forbids_is_forbidden_to_any_agent_that_a_tool_runs(store):
    guard, inner = NoDelete(), Agent(ScriptedModel([deleting(), "tried"]), [delete], name="inner")

    @tool
    async def ask_inner(ctx: ToolContext) -> str:
        """Ask another agent."""
        return (await ctx.run(inner, "delete it")).messages[-2].text

    script = ScriptedModel([ToolCall("ask_inner", {}, "c1"), "so"])
    turn = await Agent(script, [ask_inner], middleware=[guard], checkpointer=store).run("go", "t")
    assert turn.messages[-2].text == "deleting is forbidden"
    assert guard.asked == [("ask_inner", ()), ("delete", ("c1",))]


def test_a_guard_holds_for_the_roles_of_a_blueprint_that_a_tool_runs():
    def team_says(request):
        if request.system.startswith("You are the planner"):
            return '{"subtasks": [{"role": "cleaner", "instruction": "clean", "expected_artifact": "a.md"}]}'
        if request.system.startswith("You judge"):
            return '{"decision": "end", "final_answer": "We tried."}'
        asked = [message for message in request.messages if isinstance(message, ToolMessage)]
        return asked[-1].text if asked else deleting()

    guard = NoDelete()
    with pytest.warns(UserWarning, match="roles"):
        team = Blueprint(ScriptedModel(team_says), [Role("cleaner", "You clean.", tools=[delete])])

    @tool
    async def ask_team(ctx: ToolContext) -> str:
        """Ask the team."""
        return (await ctx.run(team, "clean up")).text

    agent = Agent(ScriptedModel([ToolCall("ask_team", {}, "c1"), "so"]), [ask_team], middleware=[guard])
    turn = agent.run_sync("go", "t")
    assert (turn.status, turn.messages[-2].text) == ("ended", "We tried.")
    assert [called for called, _ in guard.asked].count("delete") == 1


async def test_a_guard_that_asks_a_person_pauses_a_run_below_until_a_decision_comes(store):
    def agent():
        script = {"main": [writing(), delegating(), "so"], "one task for another": [deleting(), "gone"]}
        script = script if first else {"main": ["so"], "one task for another": ["gone"]}
        return create_deep_agent(by_prompt(**script), middleware=[AskFirst("delete")], checkpointer=store)

    first = True
    turn = await agent().run("delete it", "t")
    assert (turn.status, turn.interrupts[0].path) == ("paused", ("t1",))
    first = False
    turn = await agent().resume("t", {"d1": Approve()})
    assert (turn.status, "/keep.txt" in agent().get_state("t").files) == ("ended", False)


def test_results_of_a_subagent_pass_its_own_hooks_first_and_then_the_inherited_ones():
    class Ends(Middleware):
        def __init__(self, mark):
            self.mark = mark

        async def after_tool(self, ctx, call, result):
            return ToolResult(f"{result.text} {self.mark}")

    below = sub("below", ScriptedModel([PING, "ok"]), tools=[ping], middleware=[Ends("own")])
    agent = create_deep_agent(
        ScriptedModel([delegating("below"), "so"]), subagents=[below], middleware=[Ends("outer"), Ends("inner")]
    )
    agent.run_sync("go", "t")
    child = agent.get_state("t", subagents=True).subagents["t1"]
    assert child.messages[-2].text == "pong own inner outer"


@pytest.mark.parametrize(("inherit", "asked"), [(None, 1), (True, 1), (False, 0)])
def test_a_class_says_whether_its_guards_are_inherited(inherit, asked):
    class Guard(NoDelete):
        pass

    Guard.inherit = inherit
    guard = Guard()
    script = by_prompt(main=[writing(), delegating(), "so"], **{"one task for another": [deleting(), "tried"]})
    create_deep_agent(script, middleware=[guard]).run_sync("delete it", "t")
    assert [called for called, _ in guard.asked].count("delete") == asked


def test_inherit_true_hands_down_prompt_tools_and_all_hooks_and_none_only_the_hooks_of_tools():
    @tool
    async def note() -> str:
        """Note it."""
        return "noted"

    class Everything(Middleware):
        prompt = "Be brief."
        tools = (note,)
        inherit = True

        def __init__(self):
            self.seen = []

        async def before_model(self, ctx, request):
            self.seen.append(ctx.path)
            return request

        async def before_finish(self, ctx):
            self.seen.append(("finish", *ctx.path))

    class Usual(Everything):
        inherit = None

    for kind in (Everything, Usual):
        child = ScriptedModel(["ok"])
        below = Agent(child, [], "You work.", name="below")

        @tool
        async def ask(ctx: ToolContext) -> str:
            """Ask."""
            return (await ctx.run(below, "work")).text  # noqa: B023

        part = kind()
        Agent(ScriptedModel([ToolCall("ask", {}, "c1"), "so"]), [ask], middleware=[part]).run_sync("go")
        request = child.requests[0]
        if kind is Everything:
            assert request.system == "You work.\n\nBe brief."
            assert [one.name for one in request.tools] == ["note"]
            assert part.seen == [(), ("c1",), ("finish", "c1"), (), ("finish",)]
        else:
            assert (request.system, request.tools) == ("You work.", ())
            assert part.seen == [(), (), ("finish",)]


def test_an_agent_does_not_inherit_a_middleware_that_it_has_itself():
    seen = []

    class Count(Middleware):
        async def before_tool(self, ctx, call):
            seen.append((call.name, ctx.path))
            return call

    count = Count()
    below = sub("below", ScriptedModel([ToolCall("ls"), "ok"]), middleware=[count], tools=[])
    agent = create_deep_agent(ScriptedModel([delegating("below"), "so"]), subagents=[below], middleware=[count])
    agent.run_sync("go")
    assert seen == [("task", ()), ("ls", ("t1",))]


def test_the_offloading_of_the_main_agent_does_not_touch_results_of_subagents():
    @tool
    async def tell() -> str:
        """Tell much."""
        return "word " * 200

    offload = OffloadMiddleware(StateBackend(), result_tokens=10)
    below = sub("below", ScriptedModel([ToolCall("tell"), "ok"]), tools=[tell])
    script = ScriptedModel([[delegating("below"), ToolCall("tell", {}, "c1")], "so"])
    agent = create_deep_agent(script, [tell], subagents=[below], middleware=[offload])
    agent.run_sync("go", "t")
    state = agent.get_state("t", subagents=True)
    assert state.messages[3].text.startswith("This result is too large to be shown")
    assert state.subagents["t1"].messages[2].text == "word " * 200


def test_a_wrong_value_of_inherit_is_refused():
    class Odd(Middleware):
        inherit = "yes"

    with pytest.raises(ConfigError, match="inherit"):
        Agent(ScriptedModel([]), middleware=[Odd()])


async def test_interrupt_on_holds_in_any_agent_that_a_tool_runs_and_a_subagent_can_lift_it():
    paid, asked = [], []

    @tool
    def pay(amount: int) -> str:
        """Pay an invoice."""
        paid.append(amount)
        return "paid"

    @tool
    async def office(ctx: ToolContext) -> str:
        """Let another agent pay."""
        script = [ToolCall("pay", {"amount": 7}, "p1")] if not asked else []
        asked.append(1)
        clerk = Agent(ScriptedModel([*script, "done"]), [pay], name="clerk")
        return (await ctx.run(clerk, "pay")).text

    free = sub("free", ScriptedModel([ToolCall("pay", {"amount": 8}, "p2"), "done"]), interrupt_on={"pay": False})
    script = [ToolCall("office", {}, "o1"), task("free", "t1"), "so"]
    agent = create_deep_agent(ScriptedModel(script), [pay, office], subagents=[free], interrupt_on={"pay": True})
    turn = await agent.run("go", "t")
    assert (turn.status, [wait.call_id for wait in turn.interrupts], paid) == ("paused", ["p1"], [])
    turn = await agent.resume("t", {"p1": Approve()})
    assert (turn.status, paid) == ("ended", [7, 8])
