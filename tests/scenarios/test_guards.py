"""What a middleware forbids holds wherever the work is done, and what a request shows is what may run."""

import pytest

from minideep import (
    Agent,
    Approve,
    ConfigError,
    Interrupt,
    MemoryCheckpointer,
    Middleware,
    Respond,
    Subagent,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolResult,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.backends import StateBackend
from minideep.blueprint import Blueprint, Role
from minideep.middleware import OffloadMiddleware
from minideep.models import ScriptedModel
from minideep.ports import Request


class NoDelete(Middleware):
    """Nothing is deleted; keeps which runs it was asked in."""

    def __init__(self):
        self.asked = []

    async def before_tool(self, ctx, call):
        self.asked.append((call.name, ctx.path))
        return ToolResult("deleting is forbidden", is_error=True) if call.name == "delete" else call


class Capitals(Middleware):
    async def after_tool(self, ctx, call, result):
        return ToolResult(result.text.upper(), result.is_error)


def deleting(path="/keep.txt"):
    return ToolCall("delete", {"file_path": path}, "d1")


def delegating(name="general-purpose"):
    return ToolCall("task", {"description": "delete it", "subagent_type": name}, "t1")


def writing():
    return ToolCall("write_file", {"file_path": "/keep.txt", "content": "dear"}, "w1")


def by_prompt(**scripts):
    """A model whose script is chosen by a word in the system prompt, or else by `main`."""
    left = {word: iter(script) for word, script in scripts.items()}

    def reply(request):
        found = next((word for word in left if word in request.system), "main")
        return next(left[found])

    return ScriptedModel(reply)


@tool
async def delete(file_path: str) -> str:
    """Delete a file."""
    raise AssertionError("it was run")


# ---- guards hold below


@pytest.mark.parametrize("name", ["general-purpose", "cleaner", "boss"])
def test_what_the_main_agent_may_not_do_no_subagent_does(name):
    guard = NoDelete()
    cleaner = Subagent(name="cleaner", description="cleans", model=ScriptedModel([deleting(), "tried"]))
    boss = Subagent(
        name="boss",
        description="delegates",
        model=ScriptedModel([delegating("cleaner"), "tried"]),
        subagents=[cleaner],
    )
    script = {"main": [writing(), delegating(name), "so"], "one task for another agent": [deleting(), "tried"]}
    agent = create_deep_agent(by_prompt(**script), subagents=[cleaner, boss], middleware=[guard])
    turn = agent.run_sync("delete it", "t")
    assert turn.status == "ended"
    assert "/keep.txt" in agent.get_state("t").files
    path = ("t1", "t1") if name == "boss" else ("t1",)
    assert [place for called, place in guard.asked if called == "delete"] == [path]


async def test_what_it_forbids_is_forbidden_to_any_agent_that_its_tools_run(store):
    guard, inner = NoDelete(), Agent(ScriptedModel([deleting(), "tried"]), [delete], name="inner")

    @tool
    async def ask_inner(ctx: ToolContext) -> str:
        """Ask another agent."""
        return (await ctx.run(inner, "delete it")).messages[-2].text

    script = ScriptedModel([ToolCall("ask_inner", {}, "c1"), "so"])
    turn = await Agent(script, [ask_inner], middleware=[guard], checkpointer=store).run("go", "t")
    assert turn.messages[-2].text == "deleting is forbidden"
    assert guard.asked == [("ask_inner", ()), ("delete", ("c1",))]


def test_it_holds_for_the_roles_of_a_blueprint_that_is_run_below():
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


async def test_a_guard_that_asks_pauses_a_run_below_and_lets_it_go_on_once_a_person_decided(store):
    class AskFirst(Middleware):
        async def before_tool(self, ctx, call):
            return Interrupt(call, "sure?") if call.name == "delete" and ctx.decision is None else call

    def agent():
        script = {"main": [writing(), delegating(), "so"], "one task for another": [deleting(), "gone"]}
        script = script if first else {"main": ["so"], "one task for another": ["gone"]}
        return create_deep_agent(by_prompt(**script), middleware=[AskFirst()], checkpointer=store)

    first = True
    turn = await agent().run("delete it", "t")
    assert (turn.status, turn.interrupts[0].path) == ("paused", ("t1",))
    first = False
    turn = await agent().resume("t", {"d1": Approve()})
    assert (turn.status, "/keep.txt" in agent().get_state("t").files) == ("ended", False)


def test_results_below_pass_the_own_hooks_first_and_then_the_inherited_ones():
    class Ends(Middleware):
        def __init__(self, mark):
            self.mark = mark

        async def after_tool(self, ctx, call, result):
            return ToolResult(f"{result.text} {self.mark}")

    @tool
    async def ping() -> str:
        """Answer."""
        return "pong"

    below = Subagent(
        name="below",
        description="pings",
        tools=[ping],
        model=ScriptedModel([ToolCall("ping"), "ok"]),
        middleware=[Ends("own")],
    )
    agent = create_deep_agent(
        ScriptedModel([delegating("below"), "so"]), subagents=[below], middleware=[Ends("outer"), Ends("inner")]
    )
    agent.run_sync("go", "t")
    child = agent.get_state("t", subagents=True).subagents["t1"]
    assert child.messages[-2].text == "pong own inner outer"


@pytest.mark.parametrize(("inherit", "asked"), [(None, 1), (True, 1), (False, 0)])
def test_a_class_says_what_of_it_is_inherited(inherit, asked):
    class Guard(NoDelete):
        pass

    Guard.inherit = inherit
    guard = Guard()
    script = by_prompt(main=[writing(), delegating(), "so"], **{"one task for another": [deleting(), "tried"]})
    create_deep_agent(script, middleware=[guard]).run_sync("delete it", "t")
    assert [called for called, _ in guard.asked].count("delete") == asked


def test_with_inherit_prompt_tools_and_all_hooks_hold_below_without_it_only_those_of_tools():
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


def test_an_agent_that_has_a_middleware_itself_does_not_inherit_it_again():
    seen = []

    class Count(Middleware):
        async def before_tool(self, ctx, call):
            seen.append((call.name, ctx.path))
            return call

    count = Count()
    below = Subagent(
        name="below", description="d", model=ScriptedModel([ToolCall("ls"), "ok"]), middleware=[count], tools=[]
    )
    agent = create_deep_agent(ScriptedModel([delegating("below"), "so"]), subagents=[below], middleware=[count])
    agent.run_sync("go")
    assert seen == [("task", ()), ("ls", ("t1",))]


# ---- answers of hooks are results like others


def test_what_a_hook_answers_passes_the_hooks_outside_it_and_none_inside():
    class Answers(Middleware):
        async def before_tool(self, ctx, call):
            return ToolResult("from a cache")

        async def after_tool(self, ctx, call, result):
            raise AssertionError("its own answer does not come back to it")

    class Inside(Middleware):
        async def before_tool(self, ctx, call):
            raise AssertionError("it was answered before")

        async def after_tool(self, ctx, call, result):
            raise AssertionError("it was answered before")

    hooks = [Capitals(), Answers(), Inside()]
    turn = Agent(ScriptedModel([ToolCall("delete", {"file_path": "/a"}), "so"]), [delete], middleware=hooks).run_sync(
        "go"
    )
    assert (turn.status, turn.messages[-2].text) == ("ended", "FROM A CACHE")


def test_a_large_answer_of_a_hook_goes_into_a_file_as_others_do():
    class Answers(Middleware):
        async def before_tool(self, ctx, call):
            return ToolResult("x" * 500_000)

    model = ScriptedModel([ToolCall("look", {}, "c1"), "so"])
    agent = create_deep_agent(model, [look], middleware=[Answers()])
    turn = agent.run_sync("go", "t")
    assert len(turn.messages[2].text) < 2_000
    assert agent.read_file("t", "/large_tool_results/c1") == "x" * 500_000


async def test_what_a_person_answers_in_the_place_of_a_tool_passes_the_hooks():
    class AskFirst(Middleware):
        async def before_tool(self, ctx, call):
            return Interrupt(call, "sure?") if ctx.decision is None else call

    agent = Agent(ScriptedModel([deleting(), "so"]), [delete], middleware=[Capitals(), AskFirst()])
    await agent.run("go", "t")
    turn = await agent.resume("t", {"d1": Respond("leave it")})
    assert turn.messages[0].text == "LEAVE IT"


# ---- very large results


def test_a_result_over_a_million_characters_goes_into_a_file():
    @tool
    async def dump() -> str:
        """Give much."""
        return "0123456789" * 250_000

    agent = create_deep_agent(ScriptedModel([ToolCall("dump", {}, "c1"), "so"]), [dump])
    turn = agent.run_sync("go", "t")
    result = turn.messages[2]
    assert not result.is_error
    assert result.text.startswith("This result is too large to be shown: 2,500,000 characters")
    assert len(agent.read_file("t", "/large_tool_results/c1")) == 2_500_000


@pytest.mark.parametrize("size", [2_500_000, 12_000_000, 40_000_000])
def test_a_result_that_no_file_takes_is_an_error_that_shows_how_it_begins(size):
    @tool
    async def dump() -> str:
        """Give much."""
        return "0123456789" * (size // 10)

    make = create_deep_agent if size > 10_000_000 else Agent
    turn = make(ScriptedModel([ToolCall("dump", {}, "c1"), "so"]), [dump]).run_sync("go", "t")
    result = turn.messages[2]
    assert result.is_error
    assert result.text.startswith(f"the tool answered {size:,} characters, more than the 1,000,000 that fit")
    assert len(result.text) < 2_000


def test_a_hook_may_make_a_result_small_enough():
    class Head(Middleware):
        async def after_tool(self, ctx, call, result):
            return ToolResult(result.text[:10])

    @tool
    async def dump() -> str:
        """Give much."""
        return "0123456789" * 250_000

    turn = Agent(ScriptedModel([ToolCall("dump"), "so"]), [dump], middleware=[Head()]).run_sync("go")
    assert (turn.messages[2].text, turn.messages[2].is_error) == ("0123456789", False)


# ---- what a request shows


class Hide(Middleware):
    def __init__(self, *names):
        self.names = names

    async def before_model(self, ctx, request):
        from msgspec import structs

        return structs.replace(request, tools=tuple(one for one in request.tools if one.name not in self.names))


@tool
async def look() -> str:
    """Look."""
    return "seen"


def test_a_call_of_a_tool_that_was_not_shown_is_refused_when_the_reply_is_recorded(store):
    script = ScriptedModel([[deleting(), ToolCall("look", {}, "l1"), ToolCall("nothing", {}, "n1")], deleting(), "so"])
    agent = Agent(script, [delete, look], middleware=[Hide("delete")], checkpointer=store)
    turn = agent.run_sync("go", "t")
    told = {message.call_id: message.text for message in turn.messages if isinstance(message, ToolMessage)}
    assert turn.status == "ended"
    assert told["d1"] == "'delete' cannot be used at this point; there is look"
    assert (told["l1"], told["n1"]) == ("seen", "no tool named 'nothing'; there is delete, look")
    assert [message.is_error for message in turn.messages if isinstance(message, ToolMessage)] == [1, 0, 1, 1]


def test_a_hidden_tool_is_back_once_it_is_shown():
    class Once(Hide):
        async def before_model(self, ctx, request):
            return await super().before_model(ctx, request) if ctx.state.step == 0 else request

    script = ScriptedModel([ToolCall("look"), ToolCall("look"), "so"])
    turn = Agent(script, [look], middleware=[Once("look")]).run_sync("go")
    assert [message.text for message in turn.messages if isinstance(message, ToolMessage)] == [
        "'look' cannot be used at this point; there is none",
        "seen",
    ]


def test_a_hook_cannot_show_a_tool_that_the_agent_does_not_have():
    class Adds(Middleware):
        async def before_model(self, ctx, request):
            from msgspec import structs

            return structs.replace(request, tools=(*request.tools, delete))

    model = ScriptedModel(["never asked"])
    turn = Agent(model, [look], middleware=[Adds()]).run_sync("go")
    assert (turn.status, turn.reason, model.requests) == ("failed", "MiddlewareError", [])
    assert str(turn.error) == (
        "Adds.before_model shows 'delete', which the agent does not have; give it in the `tools` of the agent or of a"
        " middleware"
    )


# ---- edited calls


async def test_the_model_and_the_export_are_told_what_was_run_instead_of_an_edited_call():
    from minideep import Edit
    from minideep.middleware import HumanInTheLoopMiddleware

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = ScriptedModel([ToolCall("pay", {"amount": 5}, "p"), "so"])
    agent = Agent(model, [pay], middleware=[HumanInTheLoopMiddleware({"pay": True})])
    await agent.run("go", "t")
    await agent.resume("t", {"p": Edit({"amount": 3})})
    told = 'paid 3\n[A person changed this call; its arguments were {"amount":3}]'
    assert model.requests[1].messages[-1].text == told
    assert agent.transcript("t")[2].text == told
    assert '"type":"tool"' in agent.export("t")[2]
    assert 'were {\\"amount\\":3}]' in agent.export("t")[2]


async def test_long_arguments_of_an_edit_are_told_in_part():
    from minideep import Edit
    from minideep.middleware import HumanInTheLoopMiddleware

    agent = create_deep_agent(
        ScriptedModel([writing(), "so"]), middleware=[HumanInTheLoopMiddleware({"write_file": True})]
    )
    await agent.run("go", "t")
    turn = await agent.resume("t", {"w1": Edit({"file_path": "/keep.txt", "content": "x" * 100_000})})
    assert len(turn.messages[0].text) < 2_300
    assert turn.messages[0].text.endswith("(100,038 characters)]")


def test_the_main_agents_offload_leaves_results_below_as_they_are():
    @tool
    async def tell() -> str:
        """Tell much."""
        return "word " * 200

    offload = OffloadMiddleware(StateBackend(), result_tokens=10)
    below = Subagent(name="below", description="d", model=ScriptedModel([ToolCall("tell"), "ok"]), tools=[tell])
    script = ScriptedModel([[delegating("below"), ToolCall("tell", {}, "c1")], "so"])
    agent = create_deep_agent(script, [tell], subagents=[below], middleware=[offload])
    agent.run_sync("go", "t")
    state = agent.get_state("t", subagents=True)
    assert state.messages[3].text.startswith("This result is too large to be shown")
    assert state.subagents["t1"].messages[2].text == "word " * 200


def test_wrong_values_of_inherit_are_refused():
    class Odd(Middleware):
        inherit = "yes"

    with pytest.raises(ConfigError, match="inherit"):
        Agent(ScriptedModel([]), middleware=[Odd()])


def test_a_store_keeps_what_was_refused():
    store = MemoryCheckpointer()
    agent = Agent(ScriptedModel([deleting(), "so"]), [delete, look], middleware=[Hide("delete")], checkpointer=store)
    agent.run_sync("go", "t")
    fresh = Agent("offline:", checkpointer=store).transcript("t")
    assert fresh[2].text == "'delete' cannot be used at this point; there is look"


# ---- hooks that give what cannot be kept


def giving(hook, value):
    async def give(self, ctx, *rest):
        return value

    return type("Odd", (Middleware,), {hook: give})()


@pytest.mark.parametrize(
    ("hook", "value", "told"),
    [
        ("before_tool", ToolResult(5), "Odd.before_tool: the returned value.content must be text or a list, not 5"),
        ("before_tool", Interrupt("x"), "Odd.before_tool: the returned value.call must be a `ToolCall`, not 'x'"),
        ("before_tool", ToolCall(5), "Odd.before_tool: the returned value.name must be text, not 5"),
        ("after_tool", ToolResult(None), "Odd.after_tool: the returned value.content must be text or a list, not None"),
        (
            "before_finish",
            UserMessage(5),
            "Odd.before_finish: the returned value.content must be text or a list, not 5",
        ),
        ("before_model", Request("", (), None), "Odd.before_model: tools must be a list, not None"),
        ("before_model", Request("", (), (5,)), "Odd.before_model: tools[0] must be a `Tool`, not 5"),
    ],
)
def test_a_hook_that_gives_what_was_made_wrong_fails_the_turn_and_is_named(hook, value, told):
    agent = Agent(ScriptedModel([ToolCall("look"), "ok"]), [look], middleware=[giving(hook, value)])
    turn = agent.run_sync("go", "t")
    assert (turn.status, turn.saved, str(turn.error)) == ("failed", True, told)
    assert agent.get_state("t").status == "failed"
