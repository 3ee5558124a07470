"""Hooks: in which order they run, what they may change, and what becomes of one that fails."""

import pytest
from harness.agents import answers, delete, deleting, ping, pings, results, texts
from harness.middleware import AskFirst, Hide
from msgspec import structs

from minideep import (
    Agent,
    ConfigError,
    Interrupt,
    MemoryCheckpointer,
    Middleware,
    MiddlewareError,
    Respond,
    ToolCall,
    ToolResult,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.events import Noted
from minideep.models import ScriptedModel
from minideep.ports import Request


class Spy(Middleware):
    """Writes down which hooks ran."""

    def __init__(self, name, log):
        self.label, self.log = name, log

    async def before_model(self, ctx, request):
        self.log.append(f"{self.label} before_model")
        return request

    async def before_tool(self, ctx, call):
        self.log.append(f"{self.label} before_tool")
        return call

    async def after_tool(self, ctx, call, result):
        self.log.append(f"{self.label} after_tool")
        return result

    async def before_finish(self, ctx):
        self.log.append(f"{self.label} before_finish")


async def test_hooks_run_in_list_order_and_after_tool_in_reverse():
    log = []
    await Agent(ScriptedModel([*pings("a"), "ok"]), [ping], middleware=[Spy("1", log), Spy("2", log)]).run("go")
    assert log == [
        "1 before_model", "2 before_model", "1 before_tool", "2 before_tool", "2 after_tool", "1 after_tool",
        "1 before_model", "2 before_model", "1 before_finish", "2 before_finish",
    ]  # fmt: skip


async def test_middlewares_stand_around_the_two_steps_of_the_loop_and_add_none():
    """A turn is models and tools by turns, with the same events, however many middlewares there are."""

    async def events(*middlewares):
        agent = Agent(ScriptedModel([pings("a"), "done"]), [ping], middleware=middlewares)
        return [type(event).__name__ async for event in agent.stream("go")]

    log = []
    bare = await events()
    assert bare == [
        "UserSaid", "ModelReplied", "ToolStarted", "ToolReturned", "ToolEnded", "TextDelta", "ModelReplied", "TurnEnded",
    ]  # fmt: skip
    assert await events(*(Spy(str(number), log) for number in range(9))) == bare
    assert len(log) == 9 * (2 + 1 + 1 + 1)


async def test_a_hook_may_change_a_call_answer_it_or_change_the_result():
    class Rewrite(Middleware):
        async def before_tool(self, ctx, call):
            if call.args["text"] == "no":
                return ToolResult("not today", is_error=True)
            return ToolCall(call.name, {"text": call.args["text"] * 2}, call.id)

        async def after_tool(self, ctx, call, result):
            return ToolResult(f"<{result.text}>")

    turn = await Agent(ScriptedModel([pings("ab", "no"), "ok"]), [ping], middleware=[Rewrite()]).run("go")
    assert answers(turn) == ["<abab>", "not today"]


async def test_a_failing_hook_fails_the_turn_by_name_after_its_siblings_are_recorded():
    class Bad(Middleware):
        async def before_tool(self, ctx, call):
            if call.args["text"] == "bad":
                raise KeyError("oops")
            return call

    agent = Agent(ScriptedModel([pings("bad", "good"), "ok"]), [ping], middleware=[Bad()])
    turn = await agent.run("go", "t")
    assert (turn.status, str(turn.error)) == ("failed", "Bad.before_tool raised KeyError: 'oops'")
    assert isinstance(turn.error, MiddlewareError)
    assert [entry.result and entry.result.text for entry in agent.get_state("t").open.values()] == [None, "good"]


async def test_a_middleware_may_have_more_to_say_before_the_turn_ends():
    class Once(Middleware):
        async def before_finish(self, ctx):
            if "asked" in ctx.state.notes.get("Once", {}):
                return None
            ctx.record(Noted("Once", "asked", True))
            return UserMessage("are you sure?")

    turn = await Agent(ScriptedModel(["yes", "very"]), middleware=[Once()]).run("go")
    assert texts(turn.messages) == ["go", "yes", "are you sure?", "very"]
    assert turn.status == "ended"


# ---- hooks that return what they may not


@pytest.mark.parametrize("hook", ["before_model", "before_tool", "after_tool", "before_finish"])
async def test_an_error_names_the_hook_that_returned_the_wrong_kind_of_thing(hook):
    async def nothing(self, *args):
        return 7 if hook == "before_finish" else None

    forgetful = type("Forgetful", (Middleware,), {hook: nothing})()
    turn = await Agent(ScriptedModel([ToolCall("ping"), "ok"]), [ping], middleware=[forgetful]).run("go")
    assert turn.status == "failed"
    assert f"Forgetful.{hook} must return" in str(turn.error)


def test_a_hook_that_takes_the_wrong_arguments_is_refused_when_the_agent_is_built():
    class Plain(Middleware):
        async def before_model(self, request):
            return request

    with pytest.raises(ConfigError, match=r"Plain\.before_model cannot be called with \(self, ctx, request\)"):
        Agent(ScriptedModel(["ok"]), middleware=[Plain()])


def giving(hook, value):
    async def give(self, ctx, *rest):
        return value

    return type("Odd", (Middleware,), {hook: give})()


@pytest.mark.parametrize(
    ("hook", "value", "told"),
    [
        ("before_tool", ToolResult(5), "Odd.before_tool: the returned value.content must be text or a list, not 5"),
        (
            "before_tool",
            Interrupt("x"),
            "Odd.before_tool: the returned value.call must be a `ToolCall`, not 'x'; write ToolCall('name', {...})",
        ),
        ("before_tool", ToolCall(5), "Odd.before_tool: the returned value.name must be text, not 5"),
        ("after_tool", ToolResult(None), "Odd.after_tool: the returned value.content must be text or a list, not None"),
        (
            "before_finish",
            UserMessage(5),
            "Odd.before_finish: the returned value.content must be text or a list, not 5",
        ),
        ("before_model", Request("", (), None), "Odd.before_model: tools must be a list, not None"),
        (
            "before_model",
            Request("", (), (5,)),
            "Odd.before_model: tools[0] must be a `Tool`, not 5; pass a function, or decorate one with `@tool`",
        ),
    ],
)
def test_an_error_names_the_hook_whose_answer_has_a_field_of_the_wrong_type(hook, value, told):
    agent = Agent(ScriptedModel([ToolCall("ping"), "ok"]), [ping], middleware=[giving(hook, value)])
    turn = agent.run_sync("go", "t")
    assert (turn.status, turn.saved, str(turn.error)) == ("failed", True, told)
    assert agent.get_state("t").status == "failed"


# ---- an answer of a hook is a result like others


class Capitals(Middleware):
    async def after_tool(self, ctx, call, result):
        return ToolResult(result.text.upper(), result.is_error)


def test_the_answer_of_a_hook_passes_the_hooks_outside_it_and_none_inside():
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
    turn = Agent(ScriptedModel([deleting(), "so"]), [delete], middleware=hooks).run_sync("go")
    assert (turn.status, turn.messages[-2].text) == ("ended", "FROM A CACHE")


def test_a_large_answer_of_a_hook_goes_into_a_file():
    class Answers(Middleware):
        async def before_tool(self, ctx, call):
            return ToolResult("x" * 500_000)

    model = ScriptedModel([ToolCall("ping", {}, "c1"), "so"])
    agent = create_deep_agent(model, [ping], middleware=[Answers()])
    turn = agent.run_sync("go", "t")
    assert len(turn.messages[2].text) < 2_000
    assert agent.read_file("t", "/large_tool_results/c1") == "x" * 500_000


async def test_what_a_person_answers_in_place_of_a_tool_passes_the_hooks():
    agent = Agent(ScriptedModel([deleting(), "so"]), [delete], middleware=[Capitals(), AskFirst()])
    await agent.run("go", "t")
    turn = await agent.resume("t", {"d1": Respond("leave it")})
    assert turn.messages[0].text == "LEAVE IT"


def test_a_hook_may_shorten_a_result_that_would_not_fit():
    class Head(Middleware):
        async def after_tool(self, ctx, call, result):
            return ToolResult(result.text[:10])

    @tool
    async def dump() -> str:
        """Give much."""
        return "0123456789" * 250_000

    turn = Agent(ScriptedModel([ToolCall("dump"), "so"]), [dump], middleware=[Head()]).run_sync("go")
    assert (turn.messages[2].text, turn.messages[2].is_error) == ("0123456789", False)


# ---- a request shows what may run


def test_a_call_of_a_tool_that_the_request_did_not_show_is_refused(store):
    script = ScriptedModel([[deleting(), ToolCall("ping", {}, "l1"), ToolCall("nothing", {}, "n1")], deleting(), "so"])
    agent = Agent(script, [delete, ping], middleware=[Hide("delete")], checkpointer=store)
    turn = agent.run_sync("go", "t")
    told = {message.call_id: message.text for message in results(turn)}
    assert turn.status == "ended"
    assert told["d1"] == "'delete' cannot be used at this point; there is ping"
    assert (told["l1"], told["n1"]) == ("pong", "no tool named 'nothing'; there is delete, ping")
    assert [message.is_error for message in results(turn)] == [1, 0, 1, 1]


def test_a_hidden_tool_can_be_called_once_it_is_shown_again():
    class Once(Hide):
        async def before_model(self, ctx, request):
            return await super().before_model(ctx, request) if ctx.state.step == 0 else request

    script = ScriptedModel([ToolCall("ping"), ToolCall("ping"), "so"])
    turn = Agent(script, [ping], middleware=[Once("ping")]).run_sync("go")
    assert answers(turn) == [
        "'ping' cannot be used at this point; there is none",
        "pong",
    ]


def test_a_hook_cannot_show_a_tool_that_the_agent_does_not_have():
    class Adds(Middleware):
        async def before_model(self, ctx, request):
            return structs.replace(request, tools=(*request.tools, delete))

    model = ScriptedModel(["never asked"])
    turn = Agent(model, [ping], middleware=[Adds()]).run_sync("go")
    assert (turn.status, turn.reason, model.requests) == ("failed", "MiddlewareError", [])
    assert str(turn.error) == (
        "Adds.before_model shows 'delete', which the agent does not have; give it in the `tools` of the agent or of a"
        " middleware"
    )


def test_the_refusal_of_a_hidden_tool_is_in_the_log():
    store = MemoryCheckpointer()
    agent = Agent(ScriptedModel([deleting(), "so"]), [delete, ping], middleware=[Hide("delete")], checkpointer=store)
    agent.run_sync("go", "t")
    fresh = Agent("offline:", checkpointer=store).transcript("t")
    assert fresh[2].text == "'delete' cannot be used at this point; there is ping"
