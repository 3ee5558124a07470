"""Hooks: what a middleware may do round a model and round a tool, and what no hook can keep from happening."""

import asyncio
from collections import Counter
from time import perf_counter

import msgspec
import pytest
from harness.agents import ping
from harness.stores import plain
from msgspec import structs

from minideep import (
    Agent,
    Approve,
    Limits,
    MemoryCheckpointer,
    Middleware,
    ModelError,
    Reply,
    State,
    Subagent,
    ThreadConflict,
    Todo,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    Usage,
    UserMessage,
    tool,
)
from minideep.events import FileWritten, ModelReplied, Noted, Restarted, TextDelta, TodosWritten
from minideep.messages import AssistantMessage
from minideep.middleware import HumanInTheLoopMiddleware, SubAgentMiddleware
from minideep.models import ScriptedModel
from minideep.ports import Request


def said(text, tokens=10, cost=0.5):
    return Reply(AssistantMessage(text), Usage(tokens, 1), cost=cost)


# ---- five things that users write


class Retry(Middleware):
    """Runs a call again that failed."""

    async def wrap_tool(self, ctx, call, run):
        for _ in range(2):
            result = await run(call)
            if not result.is_error:
                break
        return result


class ReplyCache(Middleware):
    """Answers a request that was answered before without asking."""

    def __init__(self):
        self.replies = {}

    async def wrap_model(self, ctx, request, ask):
        key = (request.system, repr(request.messages))
        if key not in self.replies:
            self.replies[key] = await ask(request)
        return self.replies[key]


class Route(Middleware):
    """Asks a cheaper model while the conversation is short."""

    def __init__(self, cheap):
        self.cheap = cheap
        self.models = (cheap,)

    async def wrap_model(self, ctx, request, ask):
        return await ask(request, model=self.cheap if len(request.messages) < 3 else None)


class Guard(Middleware):
    """Asks again, once, when a reply says what it must not."""

    async def wrap_model(self, ctx, request, ask):
        reply = await ask(request)
        if "secret" in reply.message.text:
            more = UserMessage("Say it without the word secret.")
            reply = await ask(structs.replace(request, messages=[*request.messages, more]))
        return reply


class Spans(Middleware):
    """Counts model and tool spans, in subagents as well."""

    inherit = True

    def __init__(self):
        self.count, self.seconds = Counter(), Counter()

    async def wrap_model(self, ctx, request, ask):
        return await self.span("model", ask(request))

    async def wrap_tool(self, ctx, call, run):
        return await self.span(call.name, run(call))

    async def span(self, name, work):
        started = perf_counter()
        try:
            return await work
        finally:
            self.count[name] += 1
            self.seconds[name] += perf_counter() - started


async def test_a_call_that_failed_is_run_again():
    tries = []

    @tool
    async def flaky(text: str) -> str:
        """Fail once."""
        tries.append(text)
        if len(tries) == 1:
            raise ToolError("not now")
        return "done"

    agent = Agent(ScriptedModel([ToolCall("flaky", {"text": "a"}), "ok"]), [flaky], middleware=[Retry()])
    turn = await agent.run("go")
    assert tries == ["a", "a"]
    assert [message.text for message in turn.messages if message.role == "tool"] == ["done"]


async def test_a_cached_reply_costs_nothing_and_asks_nobody():
    model, cache = ScriptedModel([said("hello")]), ReplyCache()
    agent = Agent(model, middleware=[cache])
    first, second = await agent.run("hi"), await agent.run("hi")
    assert (first.text, first.usage, first.costs.money) == ("hello", Usage(10, 1), 0.5)
    assert (second.text, second.usage, second.costs.money) == ("hello", Usage(), 0.0)
    assert len(model.requests) == 1


async def test_a_request_goes_to_another_model_and_the_reply_says_to_which():
    cheap, dear = ScriptedModel([said("cheap", cost=0.01)]), ScriptedModel([said("dear")])
    cheap.name, dear.name = "cheap-1", "dear-1"
    agent = Agent(dear, middleware=[Route(cheap)])
    events = [event async for event in agent.stream("hi", "t")]
    assert [event.model for event in events if type(event).__name__ == "ModelReplied"] == ["cheap-1"]
    assert agent.get_state("t").cost == 0.01
    assert (await agent.run("again", "t")).text == "dear"


async def test_a_reply_is_checked_before_it_is_recorded_and_carries_what_both_took():
    model = ScriptedModel([said("the secret is 7"), said("it is 7")])
    agent = Agent(model, middleware=[Guard()])
    turn = await agent.run("go", "t")
    assert turn.text == "it is 7"
    assert [message.text for message in agent.transcript("t")] == ["go", "it is 7"]
    assert (turn.usage, turn.costs.money, agent.get_state("t").usage) == (Usage(20, 2), 1.0, Usage(20, 2))
    assert (turn.costs.steps, turn.costs.unpriced) == (1, 0)


async def test_spans_are_counted_in_subagents_too():
    spans = Spans()
    child = Agent(ScriptedModel(["found"]), name="child")
    script = ScriptedModel([ToolCall("task", {"description": "look", "subagent_type": "child"}), "ok"])
    agents = SubAgentMiddleware([(Subagent(name="child", description="looks"), child)])
    await Agent(script, middleware=[spans, agents]).run("go")
    assert spans.count == {"model": 3, "task": 1}


# ---- wrap_model


class Wrap(Middleware):
    """Wraps as the function says that it is given."""

    def __init__(self, model=None, tool=None):
        self.model, self.tool = model, tool

    async def wrap_model(self, ctx, request, ask):
        return await (self.model(request, ask) if self.model else ask(request))

    async def wrap_tool(self, ctx, call, run):
        return await (self.tool(call, run) if self.tool else run(call))


async def test_the_first_in_the_list_is_the_outermost():
    seen = []

    def named(name):
        async def wrap(request, ask):
            seen.append(f"{name} in")
            reply = await ask(request)
            seen.append(f"{name} out")
            return reply

        return Wrap(wrap)

    await Agent(ScriptedModel(["ok"]), middleware=[named("a"), named("b")]).run("go")
    assert seen == ["a in", "b in", "b out", "a out"]


async def test_an_outer_choice_of_a_model_holds_unless_an_inner_one_chooses():
    first = ScriptedModel(["first"])
    outer = Wrap(lambda request, ask: ask(request, model=first))
    assert (await Agent(ScriptedModel([]), middleware=[outer, Wrap()]).run("go")).text == "first"
    second = ScriptedModel(["second", "second"])
    for choose in (lambda request, ask: ask(request, model=second), lambda request, ask: ask(request, second)):
        assert (await Agent(ScriptedModel([]), middleware=[outer, Wrap(choose)]).run("go")).text == "second"


async def test_a_reply_keeps_its_model_and_its_tools_though_something_else_was_asked_since():
    async def ask_beside(request, ask):
        reply = await ask(request)
        await ask(Request("", [UserMessage("Is it good?")]), model=other)
        return reply

    own, other = ScriptedModel([ToolCall("ping"), "ok"]), ScriptedModel(["yes", "yes"])
    own.name, other.name = "own", "other"
    stream = Agent(own, [ping], middleware=[Wrap(ask_beside)]).stream("go")
    assert [event.model async for event in stream if isinstance(event, ModelReplied)] == ["own", "own"]
    assert stream.turn.messages[2].text == "pong"  # It was shown, if not to the other one.


async def test_what_the_model_raised_is_not_blamed_on_the_wraps():
    model = ScriptedModel([ModelError("no"), ConnectionResetError("gone")])
    agent = Agent(model, middleware=[Wrap(), Wrap()])
    assert str((await agent.run("go", "t")).error) == "no"
    error = (await agent.resume("t")).error
    assert (type(error), error.transient) == (ModelError, True)
    assert "ConnectionResetError" in str(error)


async def test_a_wrap_that_fails_or_returns_something_else_is_named():
    async def fails(request, ask):
        await ask(request)
        raise ValueError("mine")

    async def nothing(request, ask):
        await ask(request)

    async def odd(request, ask):
        return structs.replace(await ask(request), message="text")

    for wrap, problem in (
        (fails, "Wrap.wrap_model raised ValueError: mine"),
        (nothing, "Wrap.wrap_model must return Reply, not None"),
        (odd, "Wrap.wrap_model: Reply: message must be"),
    ):
        turn = await Agent(ScriptedModel(["ok"]), middleware=[Wrap(), Wrap(wrap)]).run("go")
        assert turn.status == "failed"
        assert problem in str(turn.error) or problem.split(": ")[-1] in str(turn.error)


async def test_what_an_ask_that_is_thrown_away_took_is_still_counted():
    async def again(request, ask):
        await ask(request)
        return await ask(request)

    turn = await Agent(ScriptedModel([said("a", 3, -1.0), said("b", 4, 0.5)]), middleware=[Wrap(again)]).run("go")
    assert (turn.usage, turn.costs.unpriced) == (Usage(7, 2), 1)


@pytest.mark.parametrize(("costs", "known"), [((0.25, 0.5), 0.75), ((-1.0, 0.5), None)])
async def test_the_recorded_reply_costs_what_every_ask_below_it_costs(costs, known):
    async def again(request, ask):
        await ask(request)
        return await ask(request)

    agent = Agent(ScriptedModel([said("a", cost=cost) for cost in costs]), middleware=[Wrap(again)])
    await agent.run("go", "t")
    state = agent.get_state("t")
    assert (state.cost, state.unpriced) == (known, known is None)


async def test_a_spent_budget_keeps_a_wrap_from_asking_again_even_if_it_catches_everything():
    async def greedy(request, ask):
        for _ in range(9):
            try:
                reply = await ask(request)
            except BaseException:
                continue
        return reply

    model = ScriptedModel(lambda request: said("more", 10))
    agent = Agent(model, middleware=[Wrap(greedy)], limits=Limits(tokens=25))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.reason, len(model.requests)) == ("exhausted", "tokens", 3)
    assert [message.role for message in agent.transcript("t")] == ["user"]


async def test_a_model_without_a_price_cannot_be_asked_under_a_budget_of_money():
    class Free:
        name = "unpriced"

        async def complete(self, request, emit):
            return Reply(AssistantMessage("hi"))

    agent = Agent(ScriptedModel([]), middleware=[Wrap(lambda request, ask: ask(request, model=Free()))])
    assert (await agent.run("go")).text == "hi"
    agent = Agent(
        ScriptedModel([]), middleware=[Wrap(lambda request, ask: ask(request, model=Free()))], limits=Limits(cost=1)
    )
    turn = await agent.run("go")
    assert "model 'unpriced' has no price" in str(turn.error)


async def test_listeners_are_told_that_a_reply_begins_anew_and_what_was_recorded_in_its_place():
    async def again(request, ask):
        await ask(request)
        return await ask(request)

    async def instead(request, ask):
        await ask(request)
        return Reply(AssistantMessage("mine"))

    async def heard(wrap, replies):
        stream = Agent(ScriptedModel(replies), middleware=[Wrap(wrap)]).stream("go")
        return [
            event.text if isinstance(event, TextDelta) else "again"
            async for event in stream
            if isinstance(event, TextDelta | Restarted)
        ]

    assert await heard(again, ["a", "b"]) == ["a", "again", "b"]
    assert await heard(instead, ["a"]) == ["a", "again", "mine"]


async def test_a_tool_that_the_last_request_did_not_show_is_refused():
    @tool
    async def ping() -> str:
        """Answer."""
        return "pong"

    async def hide(request, ask):
        return await ask(structs.replace(request, tools=()))

    model = ScriptedModel(lambda request: "ok" if request.messages[-1].role == "tool" else ToolCall("ping"))
    turn = await Agent(model, [ping], middleware=[Wrap(hide)]).run("go")
    assert "cannot be used at this point" in turn.messages[2].text


async def test_a_cancel_passes_a_wrap_that_catches_it():
    asked = asyncio.Event()

    async def stubborn(request, ask):
        try:
            return await ask(request)
        except asyncio.CancelledError:
            return Reply(AssistantMessage("not cancelled"))

    async def slow(request):
        asked.set()
        await asyncio.sleep(30)

    agent = Agent(ScriptedModel(slow), middleware=[Wrap(stubborn)])
    task = asyncio.ensure_future(agent.run("go", "t"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert agent.get_state("t").status == "cancelled"
    assert [message.role for message in agent.transcript("t")] == ["user"]


async def test_a_broken_reply_is_the_models_error_inside_a_wrap_too():
    broken = AssistantMessage((ToolCall("ping", {}, 5),))
    for middleware in ([], [Wrap()]):
        turn = await Agent(ScriptedModel(lambda request: broken), middleware=middleware).run("go")
        assert (turn.status, type(turn.error)) == ("failed", ModelError)


# ---- wrap_tool


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def test_a_pause_passes_every_wrap_and_the_child_goes_on_once_it_is_decided():
    paid = []

    @tool
    async def transfer(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    child = Agent(
        ScriptedModel(lambda r: "done" if r.messages[-1].role == "tool" else ToolCall("transfer", {"amount": 5}, "p")),
        [transfer], middleware=[HumanInTheLoopMiddleware({"transfer": True})], name="child",
    )  # fmt: skip

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Have it done."""
        return (await ctx.run(child, "pay 5")).text

    async def swallow(call, run):
        for _ in range(3):
            try:
                return await run(call)
            except BaseException:
                continue
        return ToolResult("swallowed")

    script = ScriptedModel(lambda r: "ok" if r.messages[-1].role == "tool" else ToolCall("delegate", {}, "d"))
    agent = Agent(script, [delegate], middleware=[Wrap(tool=swallow)])
    turn = await agent.run("go", "t")
    assert (turn.status, [wait.path for wait in turn.interrupts]) == ("paused", [("d",)])
    turn = await agent.resume("t", {"p": Approve()})
    assert (turn.status, paid) == ("ended", [5])
    assert turn.messages[-2].text == "done"


async def test_a_second_run_of_a_call_begins_fresh_children_under_their_own_keys():
    asked = []

    def reply(request):
        asked.append(request.messages[-1].text)
        return f"answer {len(asked)}"

    child = Agent(ScriptedModel(reply), name="child")

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Have it done."""
        first = await ctx.run(child, "look")
        second = await ctx.run(child, "look", key="b")
        return f"{first.text}, {second.text}"

    async def twice(call, run):
        await run(call)
        return await run(call)

    agent = Agent(ScriptedModel([ToolCall("delegate", {}, "d"), "ok"]), [delegate], middleware=[Wrap(tool=twice)])
    turn = await agent.run("go", "t")
    assert turn.messages[-2].text == "answer 3, answer 4"
    assert [info.path for info in agent.runs("t")] == [("d",), ("d/b",), ("d/#2",), ("d/b#2",)]


async def test_an_answer_of_before_tool_is_not_wrapped_but_passes_after_tool_of_those_before_it():
    class Answer(Middleware):
        async def before_tool(self, ctx, call):
            return ToolResult("no")

    class Note(Middleware):
        async def after_tool(self, ctx, call, result):
            return structs.replace(result, content=result.content + "!")

        async def wrap_tool(self, ctx, call, run):
            raise AssertionError("nothing was run")

    agent = Agent(ScriptedModel([ToolCall("pay", {"amount": 1}), "ok"]), [pay], middleware=[Note(), Answer(), Note()])
    assert (await agent.run("go")).messages[2].text == "no!"


async def test_a_wrap_may_change_the_call_but_not_its_id():
    async def more(call, run):
        return await run(ToolCall(call.name, {"amount": 2}, "other"))

    agent = Agent(ScriptedModel([ToolCall("pay", {"amount": 1}, "p"), "ok"]), [pay], middleware=[Wrap(tool=more)])
    turn = await agent.run("go")
    assert (turn.messages[2].call_id, turn.messages[2].text) == ("p", "paid 2")


async def test_what_a_wrap_of_a_tool_raises_fails_the_turn_and_is_named():
    async def fails(call, run):
        raise KeyError("mine")

    agent = Agent(ScriptedModel([ToolCall("pay", {"amount": 1}), "ok"]), [pay], middleware=[Wrap(tool=fails)])
    turn = await agent.run("go")
    assert str(turn.error) == "Wrap.wrap_tool raised KeyError: 'mine'"


async def test_a_wrap_of_the_main_agent_stands_outside_those_of_a_child_and_inherit_false_does_not():
    seen = []

    class Named(Middleware):
        def __init__(self, name, inherit=None):
            self.label, self.inherit = name, inherit

        async def wrap_tool(self, ctx, call, run):
            seen.append(f"{self.label}:{call.name}")
            return await run(call)

        async def wrap_model(self, ctx, request, ask):
            seen.append(f"{self.label}:model")
            return await ask(request)

    child = Agent(ScriptedModel([ToolCall("pay", {"amount": 1}), "ok"]), [pay], middleware=[Named("own")], name="child")

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Have it done."""
        return (await ctx.run(child, "go")).text

    async def run(inherit):
        seen.clear()
        child.spec.model.__init__([ToolCall("pay", {"amount": 1}), "ok"])
        script = ScriptedModel([ToolCall("delegate"), "ok"])
        await Agent(script, [delegate], middleware=[Named("main", inherit)]).run("go")
        return [one for one in seen if one not in ("main:delegate", "own:model")]

    assert await run(None) == ["main:model", "main:pay", "own:pay", "main:model"]
    assert await run(True) == ["main:model", "main:model", "main:pay", "own:pay", "main:model", "main:model"]
    assert await run(False) == ["main:model", "own:pay", "main:model"]


async def test_a_lost_thread_passes_a_wrap_that_catches_everything():
    store = MemoryCheckpointer()

    @tool
    async def meddle(ctx: ToolContext) -> str:
        """Let another writer be first."""
        head = plain(store).head("t")
        number, epoch, *rest = msgspec.msgpack.decode(head)
        plain(store).append("t", head, msgspec.msgpack.encode([number, epoch[::-1], *rest]), {})
        return "done"

    async def swallow(call, run):
        try:
            return await run(call)
        except BaseException:
            return ToolResult("fine")

    script = ScriptedModel([ToolCall("meddle"), "never"])
    agent = Agent(script, [meddle], middleware=[Wrap(tool=swallow)], checkpointer=store, durability="tool")
    turn = await agent.run("go", "t")
    assert (turn.status, turn.saved, type(turn.error)) == ("failed", False, ThreadConflict)
    assert len(script.requests) == 1


# ---- the state that hooks and tools see


async def test_no_tool_can_change_the_state_but_by_recording_events():
    found = {}

    @tool
    async def vandal(ctx: ToolContext) -> str:
        """Try."""
        ctx.record(TodosWritten((Todo("a"),)))
        ctx.record(Noted("me", "list", [1, {"deep": [2]}]))
        ctx.record(FileWritten("/f", "text", 4, "0" * 64, 1.0))
        for name in State.__struct_fields__:
            if name != "subagents":
                with pytest.raises((AttributeError, TypeError)):
                    setattr(ctx.state, name, None)
        for attempt in (
            lambda: ctx.state.messages.clear(),
            lambda: ctx.state.messages.append(None),
            lambda: ctx.state.files.clear(),
            lambda: ctx.state.notes["me"].clear(),
            lambda: ctx.state.notes["me"].update(x=1),
            lambda: ctx.state.todos.append(Todo("b")),
        ):
            with pytest.raises(AttributeError):
                attempt()
        ctx.state.open.clear()
        ctx.state.open["v"].result = ToolResult("mine")
        ctx.state.notes["me"]["list"].append(3)
        ctx.state.notes["me"]["list"][1]["deep"].append(4)
        found["note"] = ctx.state.notes["me"]["list"]
        found["open"] = ctx.state.open["v"].result
        return "tried"

    agent = Agent(ScriptedModel([ToolCall("vandal", {}, "v"), "ok"]), [vandal])
    turn = await agent.run("go", "t")
    assert (turn.status, turn.messages[2].text) == ("ended", "tried")
    assert found == {"note": [1, {"deep": [2]}], "open": None}
    assert agent.get_state("t").todos == [Todo("a")]


async def test_the_state_that_a_tool_sees_is_always_current():
    @tool
    async def look(ctx: ToolContext) -> str:
        """Look."""
        state = ctx.state
        before = (len(state.todos), state.number)
        ctx.record(TodosWritten((Todo("a"),)))
        assert (len(state.todos), state.number) == (before[0] + 1, before[1] + 1)
        return f"{state.agent} {state.status} {state.step} {state.text!r} {len(state.messages)}"

    turn = await Agent(ScriptedModel([ToolCall("look"), "ok"]), [look]).run("go")
    assert turn.messages[2].text == "main running 1 '' 2"
