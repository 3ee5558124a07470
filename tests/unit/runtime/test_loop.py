"""Whole turns with a scripted model: what the loop does with calls, hooks, failures and people."""

import asyncio
import threading
import time

import pytest

from minideep import (
    Agent,
    Approve,
    ConfigError,
    Edit,
    Interrupt,
    LimitExceeded,
    Limits,
    Middleware,
    MiddlewareError,
    ModelError,
    Overloaded,
    Reject,
    Respond,
    Text,
    ToolCall,
    ToolContext,
    ToolError,
    ToolMessage,
    ToolResult,
    UserMessage,
    tool,
)
from minideep.events import Noted
from minideep.models import ScriptedModel


@tool
async def ping(text: str = "pong", ctx: ToolContext = None) -> str:  # type: ignore[assignment]
    """Answer."""
    return text


def calls(*texts):
    return [ToolCall("ping", {"text": text}) for text in texts]


def results(turn):
    return [message for message in turn.messages if isinstance(message, ToolMessage)]


def texts(turn):
    return [message.text for message in results(turn)]


async def test_a_turn_ends_with_the_models_words():
    turn = await Agent(ScriptedModel(["42"])).run("what?")
    assert (turn.status, turn.reason, turn.text, turn.saved, turn.error) == ("ended", "done", "42", True, None)
    assert [(m.role, m.text) for m in turn.messages] == [("user", "what?"), ("assistant", "42")]


async def test_results_of_parallel_calls_stand_in_call_order_though_they_end_in_another():
    order = []

    @tool
    async def wait(turns: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        order.append(turns)
        return str(turns)

    script = [[ToolCall("wait", {"turns": n}) for n in (9, 3, 6)], "ok"]
    turn = await Agent(ScriptedModel(script), [wait]).run("go")
    assert order == [3, 6, 9]
    assert texts(turn) == ["9", "3", "6"]


async def test_an_exception_is_that_calls_result_only(caplog):
    @tool
    async def broken() -> str:
        raise OSError("no disk")

    turn = await Agent(ScriptedModel([[*calls("a"), ToolCall("broken"), *calls("b")], "ok"]), [ping, broken]).run("go")
    assert texts(turn) == ["a", "broken failed: OSError: no disk", "b"]
    assert [message.is_error for message in results(turn)] == [False, True, False]
    assert turn.status == "ended"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (ToolCall("nope"), "no tool named 'nope'; there is ping"),
        (
            ToolCall("ping", {"text": 3}),
            "ping: Expected `str`, got `int` - at `$.text`; it takes text (string, optional)",
        ),
        (ToolCall("ping", {"txt": "x"}), "ping: Object contains unknown field `txt`; it takes text (string, optional)"),
        (ToolCall("ping", b'"{\\"text\\": tru"'), "ping: the arguments are not a JSON object: '{\"text\": tru'"),
    ],
)
async def test_the_model_is_told_what_is_wrong_with_a_call_and_what_would_be_right(call, told):
    turn = await Agent(ScriptedModel([call, "sorry"]), [ping]).run("go")
    assert texts(turn)[0].startswith(told)
    assert results(turn)[0].is_error
    assert turn.status == "ended"


async def test_a_plain_function_runs_on_a_thread_and_may_record():
    @tool
    def work(ctx: ToolContext) -> str:
        ctx.record(Noted("work", "thread", threading.current_thread().name))
        return str(ctx.state.notes["work"]["thread"])

    turn = await Agent(ScriptedModel([ToolCall("work"), "ok"]), [work]).run("go")
    assert texts(turn) == ["minideep-tool"]


@pytest.mark.parametrize("plain", [True, False])
async def test_a_tool_over_its_timeout_is_an_error_and_what_it_does_later_is_dropped(plain):
    done, late = threading.Event(), []

    def slow(ctx: ToolContext) -> str:
        """Take long."""
        done.wait(5)
        try:
            ctx.record(Noted("slow", "late", True))
        except ToolError as exc:
            late.append(str(exc))
        return "late"

    async def slow_async(ctx: ToolContext) -> str:
        """Take long."""
        await asyncio.sleep(60)
        return "late"

    made = tool(name="slow", timeout=0.05)(slow if plain else slow_async)
    agent = Agent(ScriptedModel([ToolCall("slow"), "ok"]), [made])
    turn = await agent.run("go", "t")
    done.set()
    assert texts(turn) == ["slow did not end within 0.05 s and was stopped; ask it for less"]
    assert turn.status == "ended"
    if plain:
        while not late:
            await asyncio.sleep(0.01)
        assert late == ["call 'call_2_0' is over; its context is closed"]
    assert agent.get_state("t").notes == {}


@pytest.mark.parametrize("exception", [asyncio.CancelledError(), SystemExit(3)])
async def test_a_tool_that_cancels_itself_or_exits_gets_an_error_result(exception, caplog):
    @tool
    async def leave() -> str:
        raise exception

    turn = await Agent(ScriptedModel([[ToolCall("leave"), *calls("a")], "ok"]), [leave, ping]).run("go")
    assert texts(turn)[1] == "a"
    assert results(turn)[0].is_error
    assert turn.status == "ended"


async def test_a_tool_that_answers_too_much_is_told_so_and_the_thread_goes_on():
    @tool
    async def flood() -> str:
        return "x" * 50_000_000

    turn = await Agent(ScriptedModel([ToolCall("flood"), "ok"]), [flood]).run("go")
    assert texts(turn)[0].startswith("the tool answered 50,000,000 characters, more than the 1,000,000 that fit")
    assert results(turn)[0].is_error
    assert len(texts(turn)[0]) < 2000
    assert turn.text == "ok"


async def test_values_that_tools_return_become_text():
    @tool
    async def give(kind: str):
        return {
            "dict": {"a": [1, None]},
            "none": None,
            "odd": "\ud800é",
            "blocks": (Text("a"), Text("b")),
            "object": object,
        }[kind]

    script = [[ToolCall("give", {"kind": kind}) for kind in ("dict", "none", "odd", "blocks")], "ok"]
    turn = await Agent(ScriptedModel(script), [give]).run("go")
    assert texts(turn) == ['{"a":[1,null]}', "done", "\\ud800é", "ab"]


# ---- ids


async def test_a_server_that_says_call_0_every_time_and_twice_in_one_gets_ids_that_tell_them_apart():
    same = ToolCall("ping", {"text": "a"}, "call_0")
    model = ScriptedModel([[same, same], same, [ToolCall("ping"), same], "ok"])
    turn = await Agent(model, [ping]).run("go")
    ids = [call.id for message in turn.messages if message.role == "assistant" for call in message.calls]
    assert ids[0] == "call_0"
    assert len(set(ids)) == 5
    assert [message.call_id for message in results(turn)] == ids
    assert [m.call_id for m in model.requests[-1].messages if isinstance(m, ToolMessage)] == ids


async def test_an_id_stays_taken_over_turns_and_restarts(store):
    def agent():
        return Agent(ScriptedModel([ToolCall("ping", {}, "call_0"), "ok"]), [ping], checkpointer=store)

    await agent().run("go", "t")
    turn = await agent().run("go on", "t")
    assert results(turn)[0].call_id != "call_0"


# ---- limits and failures


async def test_a_turn_at_its_limit_is_exhausted_and_resume_goes_on():
    agent = Agent(ScriptedModel([*calls("a", "b", "c"), "done"]), [ping], limits=Limits(steps=2))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.reason) == ("exhausted", "steps")
    with pytest.raises(LimitExceeded, match="limit of steps"):
        turn.raise_for_status()
    turn = await agent.resume("t")
    assert (turn.status, turn.text) == ("ended", "done")


async def test_the_default_limit_is_a_thousand_steps():
    turn = await Agent(ScriptedModel(lambda request: ToolCall("ping")), [ping]).run("go")
    assert (turn.status, turn.reason, turn.costs.steps) == ("exhausted", "steps", 1000)


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (Overloaded("busy"), Overloaded, "busy"),
        (ValueError("bad"), ModelError, "scripted: ValueError: bad"),
        (asyncio.CancelledError(), ModelError, "the model, or a hook, cancelled itself"),
    ],
)
async def test_a_failing_model_fails_the_turn_and_resume_asks_it_again(raised, kind, text):
    agent = Agent(ScriptedModel([*calls("a"), raised, "done"]), [ping])
    turn = await agent.run("go", "t")
    assert (turn.status, turn.reason, str(turn.error)) == ("failed", kind.__name__, text)
    with pytest.raises(kind, match=text):
        turn.raise_for_status()
    turn = await agent.resume("t")
    assert (turn.status, turn.text) == ("ended", "done")


async def test_a_script_asked_past_its_end_fails_saying_so():
    turn = await Agent(ScriptedModel(calls("a")), [ping]).run("go")
    assert str(turn.error) == "scripted: the script has 1 replies and was asked for one more"


@pytest.mark.parametrize("junk", [7, None, ToolResult("no reply")])
async def test_a_model_that_answers_junk_fails_the_turn(junk):
    class Junk:
        name = "junk"

        async def complete(self, request, emit):
            return junk

    turn = await Agent(Junk()).run("go", "t")
    assert turn.status == "failed"
    assert isinstance(turn.error, ModelError)


# ---- hooks


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
    await Agent(ScriptedModel([*calls("a"), "ok"]), [ping], middleware=[Spy("1", log), Spy("2", log)]).run("go")
    assert log == [
        "1 before_model", "2 before_model", "1 before_tool", "2 before_tool", "2 after_tool", "1 after_tool",
        "1 before_model", "2 before_model", "1 before_finish", "2 before_finish",
    ]  # fmt: skip


async def test_a_hook_may_change_a_call_answer_it_or_change_its_result():
    class Rewrite(Middleware):
        async def before_tool(self, ctx, call):
            if call.args["text"] == "no":
                return ToolResult("not today", is_error=True)
            return ToolCall(call.name, {"text": call.args["text"] * 2}, call.id)

        async def after_tool(self, ctx, call, result):
            return ToolResult(f"<{result.text}>")

    turn = await Agent(ScriptedModel([calls("ab", "no"), "ok"]), [ping], middleware=[Rewrite()]).run("go")
    assert texts(turn) == ["<abab>", "not today"]


async def test_a_failing_hook_fails_the_turn_by_name_after_its_siblings_are_recorded():
    class Bad(Middleware):
        async def before_tool(self, ctx, call):
            if call.args["text"] == "bad":
                raise KeyError("oops")
            return call

    agent = Agent(ScriptedModel([calls("bad", "good"), "ok"]), [ping], middleware=[Bad()])
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
    assert [message.text for message in turn.messages] == ["go", "yes", "are you sure?", "very"]
    assert turn.status == "ended"


# ---- a person decides


class Ask(Middleware):
    """Every call of the named tools waits for a person."""

    def __init__(self, *names):
        self.names = names

    async def before_tool(self, ctx, call):
        if call.name in self.names and ctx.decision is None:
            return Interrupt(call, f"may I {call.name}?")
        return call


@pytest.mark.parametrize(
    ("decision", "told", "is_error"),
    [
        (Approve(), "a", False),
        (Edit({"text": "b"}), 'b\n[A person changed this call; its arguments were {"text":"b"}]', False),
        (Reject("too late"), "a person rejected this call: too late", True),
        (Respond("42"), "42", False),
    ],
)
async def test_a_waiting_call_is_decided_in_another_process_and_nothing_else_runs_again(
    store, decision, told, is_error
):
    ran = []

    @tool
    async def safe() -> str:
        ran.append("safe")
        return "safe"

    def agent(*script):
        return Agent(ScriptedModel(script), [ping, safe], middleware=[Ask("ping")], checkpointer=store)

    turn = await agent([ToolCall("ping", {"text": "a"}, "p"), ToolCall("safe")]).run("go", "t")
    assert (turn.status, [wait.call_id for wait in turn.interrupts]) == ("paused", ["p"])
    assert turn.interrupts[0].reason == "may I ping?"
    turn = await agent("done").resume("t", {"p": decision})
    assert [(m.text, m.is_error) for m in results(turn)] == [(told, is_error), ("safe", False)]
    assert (turn.status, turn.text, ran) == ("ended", "done", ["safe"])


async def test_some_of_the_waiting_calls_may_be_decided_first():
    script = [[ToolCall("ping", {"text": "a"}, "p"), ToolCall("ping", {"text": "b"}, "q")], "done"]
    agent = Agent(ScriptedModel(script), [ping], middleware=[Ask("ping")])
    await agent.run("go", "t")
    turn = await agent.resume("t", {"q": Approve()})
    assert (turn.status, [wait.call_id for wait in turn.interrupts]) == ("paused", ["p"])
    turn = await agent.resume("t", {"p": Reject()})
    assert texts(turn) == ["a person rejected this call", "b"]


async def test_decisions_are_checked_before_any_is_recorded():
    script = [[ToolCall("ping", {"text": "a"}, "p"), ToolCall("ping", {"text": "b"}, "q")], "done"]
    agent = Agent(ScriptedModel(script), [ping], middleware=[Ask("ping")])
    await agent.run("go", "t")
    before = agent.get_state("t")
    with pytest.raises(ConfigError, match="no pending call 'x'; pending: p, q"):
        await agent.resume("t", {"p": Approve(), "x": Approve()})
    with pytest.raises(
        ConfigError, match=r"decisions\['.*'\] must be an `Approve`, an `Edit`, a `Reject` or a `Respond`, not True"
    ):
        await agent.resume("t", {"p": True})
    assert agent.get_state("t") == before
    assert (await agent.resume("t")).status == "paused"


async def test_a_message_instead_of_a_decision_answers_the_waiting_call():
    agent = Agent(ScriptedModel([*calls("a"), "as you like"]), [ping], middleware=[Ask("ping")])
    await agent.run("go", "t")
    turn = await agent.run("forget it", "t")
    assert (turn.status, turn.text) == ("ended", "as you like")


# ---- cancelling


async def cancelled(agent, started, thread_id="t"):
    """Run until *started* is set, then cancel."""
    task = asyncio.ensure_future(agent.run("go", thread_id))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelling_saves_the_thread_with_what_was_done_and_resume_runs_the_rest(store):
    started, runs = asyncio.Event(), []

    @tool
    async def slow() -> str:
        runs.append("slow")
        started.set()
        if len(runs) == 1:
            await asyncio.sleep(60)
        return "slow"

    agent = Agent(ScriptedModel([[*calls("a"), ToolCall("slow")], "done"]), [ping, slow], checkpointer=store)
    await cancelled(agent, started)
    state = agent.get_state("t")
    assert state.status == "cancelled"
    assert [entry.result and entry.result.text for entry in state.open.values()] == ["a", None]
    turn = await agent.resume("t")
    assert (turn.status, texts(turn), runs) == ("ended", ["a", "slow"], ["slow", "slow"])


async def test_a_tool_that_does_not_stop_is_left_behind_and_can_change_nothing_more():
    started, refused = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn(ctx: ToolContext) -> str:
        started.set()
        end = time.monotonic() + 6
        while time.monotonic() < end:
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue
        try:
            ctx.record(Noted("stubborn", "late", True))
        except ToolError:
            refused.set()
        return "late"

    agent = Agent(ScriptedModel([ToolCall("stubborn")]), [stubborn])
    await cancelled(agent, started)
    assert agent.get_state("t").status == "cancelled"
    await asyncio.wait_for(refused.wait(), 10)
    assert agent.get_state("t").notes == {}


async def test_a_plain_function_that_never_returns_does_not_hold_up_a_cancel():
    started, loop = asyncio.Event(), asyncio.get_running_loop()

    @tool
    def forever() -> str:
        loop.call_soon_threadsafe(started.set)
        threading.Event().wait()
        return ""

    agent = Agent(ScriptedModel([ToolCall("forever")]), [forever])
    await cancelled(agent, started)
    assert agent.get_state("t").status == "cancelled"


# ---- what a request shows


async def test_a_request_shows_what_was_said_when_it_was_made():
    model = ScriptedModel([*calls("a", "b"), "ok"])
    await Agent(model, [ping], system_prompt="Be brief.").run("go")
    first, second, third = model.requests
    assert (first.system, [item.name for item in first.tools]) == ("Be brief.", ["ping"])
    assert list(first.messages) == [UserMessage("go")]
    assert [len(request.messages) for request in (first, second, third)] == [1, 3, 5]
    assert repr(first.messages) == "[UserMessage(content='go')]"
    assert second.messages[-1] == third.messages[2]
    assert (third.messages[1:3], third.messages == list(third.messages)) == (list(third.messages)[1:3], True)
    with pytest.raises(IndexError):
        first.messages[1]


async def test_the_tools_of_two_requests_are_the_same_objects():
    model = ScriptedModel([*calls("a"), "ok"])
    await Agent(model, [ping]).run("go")
    assert model.requests[0].tools is model.requests[1].tools


# ---- costs


async def test_the_ledger_says_where_the_time_went():
    @tool
    async def nap() -> str:
        await asyncio.sleep(0.02)
        return "x" * 10

    async def slow(request):
        await asyncio.sleep(0.02)
        return ToolCall("nap") if len(request.messages) < 3 else "ok"

    costs = (await Agent(ScriptedModel(slow), [nap]).run("go")).costs
    assert (costs.steps, costs.tool_calls, costs.tool_chars) == (2, 1, 10)
    assert costs.model_s >= 0.04
    assert costs.tools_s >= 0.02
    assert 0 < costs.harness_s < 0.04
    assert costs.save_s > 0
    assert costs.bytes_raw > 0
    assert costs.bytes_stored == costs.state_bytes > 0
    assert sum(step.model_s for step in costs.table) == pytest.approx(costs.model_s)
