"""What broken tools, hooks, models, callers and stores may not do: wedge a thread, lose an answer, run a thing twice."""

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from minideep import (
    Agent,
    Approve,
    CheckpointError,
    ConfigError,
    CorruptSegment,
    Image,
    Interrupt,
    Limits,
    MemoryCheckpointer,
    Middleware,
    ModelError,
    Reject,
    Reply,
    Subagent,
    Text,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolResult,
    create_deep_agent,
    tool,
)
from minideep.events import Noted, ToolReturned, TurnEnded, TurnEscalated
from minideep.messages import AssistantMessage
from minideep.models import ScriptedModel


@tool
async def ping(text: str = "pong") -> str:
    """Answer."""
    return text


def results(turn):
    return [message for message in turn.messages if isinstance(message, ToolMessage)]


def loads(agent, thread="t"):
    """The thread as a fresh reader finds it."""
    return Agent(ScriptedModel([]), checkpointer=agent.checkpointer or agent._own).get_state(thread, subagents=True)


class Wait(Middleware):
    """Calls of `pay` wait for a person."""

    async def before_tool(self, ctx, call):
        return Interrupt(call, "may I?") if call.name == "pay" and ctx.decision is None else call


# ---- tools


@pytest.mark.parametrize(
    "answer",
    [
        ToolResult("bad", is_error=1),
        ToolResult("bad", ends="yes"),
        ToolResult(["x"]),
        ToolResult((Image("no bytes"),)),
        ToolResult((Text(5),)),
    ],
)
async def test_a_result_that_cannot_be_kept_is_an_error_and_the_thread_loads(answer, caplog):
    @tool
    async def odd():
        """Answer oddly."""
        return answer

    agent = Agent(ScriptedModel([[ToolCall("odd"), ToolCall("ping")], "ok"]), [odd, ping])
    turn = await agent.run("go", "t")
    assert (turn.status, results(turn)[0].is_error, results(turn)[1].text) == ("ended", True, "pong")
    assert loads(agent).messages == list(turn.messages)


@pytest.mark.parametrize("event", [ToolReturned("c", "x"), TurnEnded(1.0), "no event"])
async def test_a_tool_records_what_is_its_own_and_nothing_of_the_loops(event):
    @tool
    async def meddle(ctx: ToolContext) -> str:
        """Meddle."""
        ctx.record(event)
        return "recorded"

    turn = await Agent(ScriptedModel([ToolCall("meddle"), "ok"]), [meddle]).run("go")
    assert "is for the loop to record" in results(turn)[0].text
    assert turn.status == "ended"


@pytest.mark.parametrize("timeout", [None, 30])
async def test_tools_on_threads_record_side_by_side_and_the_log_stays_in_order(timeout):
    def note(name: str, ctx: ToolContext) -> str:
        """Take notes."""
        for number in range(200):
            ctx.record(Noted("notes", name, number, "append"))
        return "noted"

    noting = tool(name="note", timeout=timeout)(note)
    agent = Agent(ScriptedModel([[ToolCall("note", {"name": name}) for name in "abcd"], "ok"]), [noting])
    await agent.run("go", "t")
    assert loads(agent).notes == {"notes": {name: list(range(200)) for name in "abcd"}}


async def test_a_note_that_nests_too_deep_to_be_read_from_anywhere_is_refused():
    @tool
    async def deep(ctx: ToolContext) -> str:
        """Note deeply."""
        value = []
        for _ in range(500):
            value = [value]
        ctx.record(Noted("me", "deep", value))
        return "noted"

    turn = await Agent(ScriptedModel([ToolCall("deep"), "ok"]), [deep]).run("go")
    assert "nests deeper than 100" in results(turn)[0].text


@pytest.mark.parametrize("raised", [GeneratorExit(), SystemExit(3), BaseException("odd")])
@pytest.mark.parametrize("timeout", [None, 5])
async def test_whatever_a_tool_raises_is_its_calls_result(raised, timeout, caplog):
    async def leave() -> str:
        """Leave."""
        raise raised

    leaving = tool(name="leave", timeout=timeout)(leave)
    turn = await Agent(ScriptedModel([[ToolCall("leave"), ToolCall("ping")], "ok"]), [leaving, ping]).run("go")
    assert [message.is_error for message in results(turn)] == [True, False]
    assert turn.status == "ended"


async def test_a_tool_that_swallows_a_cancel_ends_the_turn_all_the_same():
    started, after = asyncio.Event(), []

    @tool
    async def swallow() -> str:
        """Swallow."""
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "swallowed"

    agent = Agent(ScriptedModel(lambda request: after.append(1) or ToolCall("swallow")), [swallow])
    task = asyncio.ensure_future(agent.run("go", "t"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (len(after), loads(agent).status) == (1, "cancelled")


async def test_what_a_plain_function_finished_after_a_cancel_is_not_done_again():
    started, done, loop = asyncio.Event(), [], asyncio.get_running_loop()

    @tool
    def pay() -> str:
        """Pay."""
        loop.call_soon_threadsafe(started.set)
        threading.Event().wait(0.2)
        done.append(1)
        return "paid"

    agent = Agent(ScriptedModel([ToolCall("pay"), "ok"]), [pay])
    task = asyncio.ensure_future(agent.run("go", "t"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    turn = await agent.resume("t")
    assert (turn.status, done) == ("ended", [1])


async def test_a_task_group_that_fails_in_a_tool_is_no_cancel_of_the_turn(caplog):
    @tool
    async def group() -> str:
        """Fail in a group."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(60))
            tasks.create_task(fail())

    async def fail():
        await asyncio.sleep(0)
        raise ValueError("no")

    turn = await Agent(ScriptedModel([ToolCall("group"), ToolCall("ping"), "ok"]), [group, ping]).run("go")
    assert (turn.status, turn.text) == ("ended", "ok")
    assert "ExceptionGroup" in results(turn)[0].text


async def test_a_tool_that_cancels_its_own_task_cancels_its_turn_and_nobody_elses():
    @tool
    async def suicide() -> str:
        """Cancel."""
        asyncio.current_task().cancel()
        await asyncio.sleep(1)

    turn = await Agent(ScriptedModel([ToolCall("suicide")]), [suicide]).run("go")
    assert turn.status == "cancelled"


async def test_a_context_used_on_another_thread_of_an_async_tool_hands_over_too():
    @tool
    async def threads(ctx: ToolContext) -> str:
        """Use threads."""
        await asyncio.gather(*(asyncio.to_thread(ctx.record, Noted("me", f"{n}", n)) for n in range(20)))
        return "ok"

    agent = Agent(ScriptedModel([ToolCall("threads"), "ok"]), [threads])
    await agent.run("go", "t")
    assert len(loads(agent).notes["me"]) == 20


async def test_an_agent_may_ask_and_the_answer_goes_on():
    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        ctx.record(TurnEscalated(1.0, "red or blue?"))
        return "asked"

    agent = Agent(ScriptedModel([[ToolCall("ask"), ToolCall("ping")], "blue it is"]), [ask, ping])
    turn = await agent.run("paint it", "t")
    assert (turn.status, turn.question, len(results(turn))) == ("escalated", "red or blue?", 2)
    assert (await agent.run("blue", "t")).text == "blue it is"


# ---- children


async def in_group(ctx, one, two):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.run(one, "a", "x")), group.create_task(ctx.run(two, "b", "y"))]
    return " ".join(task.result().text for task in tasks)


async def in_gather(ctx, one, two):
    return " ".join(turn.text for turn in await asyncio.gather(ctx.run(one, "a", "x"), ctx.run(two, "b", "y")))


async def caught(ctx, one, two):
    try:
        return f"{(await ctx.run(one, 'a', 'x')).text} {(await ctx.run(two, 'b', 'y')).text}"
    except BaseException:
        return "caught"


@pytest.mark.parametrize("how", [in_group, in_gather, caught])
async def test_however_a_tool_runs_children_no_question_is_eaten_and_nothing_is_done_twice(how):
    done = []

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        done.append(amount)
        return "paid"

    @tool
    async def work() -> str:
        """Work."""
        await asyncio.sleep(0.01)
        done.append("work")
        return "worked"

    def say(name):
        def reply(request):
            said = sum(message.role == "assistant" for message in request.messages)
            return [[ToolCall("work"), ToolCall("pay", {"amount": name})], f"{name} done"][said]

        return reply

    one, two = (Agent(ScriptedModel(say(n)), [pay, work], middleware=[Wait()], name=f"{n}") for n in (1, 2))

    @tool
    async def both(ctx: ToolContext) -> str:
        """Have both done."""
        return await how(ctx, one, two)

    def lead(request):
        return "all done" if len(request.messages) > 1 else ToolCall("both", {}, "c")

    agent = Agent(ScriptedModel(lead), [both])
    turn = await agent.run("go", "t")
    for _ in range(4):
        if turn.status != "paused":
            break
        turn = await agent.resume("t", {"/".join((*w.path, w.call_id)): Approve() for w in turn.interrupts})
    assert (turn.status, turn.text) == ("ended", "all done")
    assert sorted(item for item in done if item != "work") == [1, 2]
    if how is not in_group:  # A TaskGroup cancels the sibling, in the middle of its work.
        assert done.count("work") == 2


async def test_a_child_that_is_over_is_not_run_again_when_its_sibling_goes_on():
    asked = []

    def spend(request):
        asked.append(1)
        return ToolCall("ping")

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    spender = Agent(ScriptedModel(spend), [ping], limits=Limits(steps=2), name="spender")
    payer = Agent(ScriptedModel(lambda r: "paid" if len(r.messages) > 1 else ToolCall("pay", {"amount": 1}, "p")),
                  [pay], middleware=[Wait()], name="payer")  # fmt: skip

    @tool
    async def both(ctx: ToolContext) -> str:
        """Have both done."""
        return f"{(await ctx.run(spender, 'a', 'x')).status} {(await ctx.run(payer, 'b', 'y')).text}"

    agent = Agent(ScriptedModel([ToolCall("both"), "ok"]), [both])
    await agent.run("go", "t")
    turn = await agent.resume("t", {"p": Approve()})
    assert (results(turn)[0].text, len(asked)) == ("exhausted paid", 2)


async def test_a_childs_key_must_be_text_that_can_be_stored(caplog):
    helper = Agent(ScriptedModel(["one"]), name="helper")

    @tool
    async def odd(ctx: ToolContext) -> str:
        """Run."""
        return (await ctx.run(helper, "x", key="f\udc80")).text

    agent = Agent(ScriptedModel([ToolCall("odd"), "ok"]), [odd])
    turn = await agent.run("go", "t")
    assert "holds what UTF-8 cannot say" in results(turn)[0].text
    assert turn.saved


async def test_a_childs_artifacts_are_its_own():
    found = []
    child = Agent(ScriptedModel(["nothing written"]), name="child")

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Delegate."""
        found.append((await ctx.run(child, "x")).artifacts)
        return "ok"

    write = ToolCall("write_file", {"file_path": "/a", "content": "x"})
    await create_deep_agent(ScriptedModel([write, ToolCall("delegate"), "ok"]), [delegate]).run("go")
    assert found == [{}]


# ---- hooks and models


@pytest.mark.parametrize("hook", ["before_model", "before_tool", "after_tool", "before_finish"])
async def test_a_hook_that_gives_nothing_it_may_give_is_named(hook):
    async def nothing(self, *args):
        return 7 if hook == "before_finish" else None

    forgetful = type("Forgetful", (Middleware,), {hook: nothing})()
    turn = await Agent(ScriptedModel([ToolCall("ping"), "ok"]), [ping], middleware=[forgetful]).run("go")
    assert turn.status == "failed"
    assert f"Forgetful.{hook} must give" in str(turn.error)


async def test_a_hook_that_cannot_even_be_called_is_named():
    class Plain(Middleware):
        async def before_model(self, request):
            return request

    turn = await Agent(ScriptedModel(["ok"]), middleware=[Plain()]).run("go")
    assert str(turn.error).startswith("Plain.before_model raised TypeError")


@pytest.mark.parametrize("text", ["\ud800", "x" * 20_000_000])
async def test_an_error_whose_text_cannot_be_kept_still_fails_the_turn(text):
    agent = Agent(ScriptedModel([ModelError(text)]))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.saved) == ("failed", True)
    assert loads(agent).status == "failed"


async def test_arguments_that_a_model_made_of_no_json_do_not_wedge_the_thread():
    agent = Agent(ScriptedModel([Reply(AssistantMessage((ToolCall("ping", b"{bad"),))), "ok"]), [ping])
    turn = await agent.run("go", "t")
    assert "the arguments are no JSON object: '{bad'" in results(turn)[0].text
    assert turn.messages[1].calls[0].args == {}


def test_a_model_needs_a_name():
    class Nameless:
        async def complete(self, request, emit): ...

    with pytest.raises(ConfigError, match=r"model must be text or a `Model`, not .*; it has no 'name'"):
        Agent(Nameless())


# ---- callers


async def waiting(**more):
    agent = Agent(ScriptedModel([ToolCall("pay", {}, "p"), "ok"]), [tool(name="pay")(ping.function)],
                  middleware=[Wait()], **more)  # fmt: skip
    await agent.run("go", "t")
    return agent


@pytest.mark.parametrize(
    ("decisions", "problem"),
    [
        ({"p": Reject(None)}, r"decisions\['p'\]\.reason must be text, not None"),
        ({"p": Reject("\ud800")}, "cannot be kept"),
        ({"p": Approve(), "/p": Approve()}, "no call waits under '/p'"),
    ],
)
async def test_a_decision_that_cannot_be_used_is_refused_before_anything_is_recorded(decisions, problem):
    agent = await waiting()
    with pytest.raises(ConfigError, match=problem):
        await agent.resume("t", decisions)
    assert loads(agent).status == "paused"


async def test_two_decisions_for_one_call_are_refused():
    child = Agent(
        ScriptedModel([ToolCall("pay", {}, "p"), "ok"]), [tool(name="pay")(ping.function)], middleware=[Wait()]
    )

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Delegate."""
        return (await ctx.run(child, "x")).text

    agent = Agent(ScriptedModel([ToolCall("delegate", {}, "d"), "ok"]), [delegate])
    await agent.run("go", "t")
    with pytest.raises(ConfigError, match="two decisions are for the call"):
        await agent.resume("t", {"p": Approve(), "d/p": Reject()})


async def test_an_interrupt_with_a_call_made_anew_is_still_the_calls():
    class Renew(Middleware):
        async def before_tool(self, ctx, call):
            return call if ctx.decision else Interrupt(ToolCall(call.name, {"text": "asked"}), "sure?")

    agent = Agent(ScriptedModel([ToolCall("ping", {"text": "a"}, "c"), "ok"]), [ping], middleware=[Renew()])
    turn = await agent.run("go", "t")
    assert turn.interrupts[0].call_id == "c"
    assert results(await agent.resume("t", {"c": Approve()}))[0].text == "a"


@pytest.mark.parametrize("given", [[Text(5)], [Image("no bytes")]])
async def test_an_input_that_was_not_made_as_its_class_says_is_refused(given):
    with pytest.raises(ConfigError, match=r"Agent\.run: input\[0\]\.(text must be text, not 5|data must be bytes)"):
        await Agent(ScriptedModel(["ok"])).run(given)


async def test_who_breaks_off_listening_and_drops_the_stream_cancels_the_turn(store):
    async def hang(request):
        await asyncio.Event().wait()

    agent = Agent(ScriptedModel(hang), checkpointer=store)
    async for _ in agent.stream("go", "t"):
        break
    for _ in range(200):
        if [info.status for info in agent.threads()] == ["cancelled"]:
            break
        await asyncio.sleep(0.01)
    assert agent.get_state("t").status == "cancelled"
    async with agent.resume_stream("t") as stream:
        await anext(stream)
    assert agent.get_state("t").status == "cancelled"


def test_run_sync_from_within_run_sync_says_so():
    inner = Agent(ScriptedModel(["ok"]))

    @tool
    async def nested() -> str:
        """Nest."""
        return inner.run_sync("x").text

    turn = Agent(ScriptedModel([ToolCall("nested"), "ok"]), [nested]).run_sync("go")
    assert "`await agent.run(...)` there" in results(turn)[0].text


def test_a_forked_process_has_threads_of_its_own():
    code = """
import os
from minideep import Agent, ToolCall, tool
from minideep.models import ScriptedModel
@tool
def plain() -> str:
    "Work."
    return "worked"
def go():
    return Agent(ScriptedModel([ToolCall("plain"), "ok"]), [plain]).run_sync("go").messages[2].text
go()
if os.fork() == 0:
    print(go(), flush=True)
    os._exit(0)
os.wait()
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert run.stdout == "worked\n", run.stderr


async def test_the_ids_of_a_long_thread_are_not_looked_for_again_each_turn():
    agent = Agent(ScriptedModel(lambda r: "ok" if r.messages[-1].role == "tool" else ToolCall("ping")), [ping])
    await agent.run("go", "t")
    (journal,) = agent._threads._kept.values()
    known = journal._ids[()]
    await agent.run("go", "t")
    assert journal._ids[()] is known
    assert len(known) == 2


# ---- stores


class Failing(MemoryCheckpointer):
    """A store that fails on command."""

    broken = False

    def append(self, *args):
        if self.broken:
            raise OSError("down")
        super().append(*args)

    def head(self, thread):
        if self.broken == "all":
            raise OSError("down")
        return super().head(thread)


async def unsaved(script=("one", "two")):
    """An agent whose first turn was not saved."""
    store = Failing()
    agent = Agent(ScriptedModel(script), [ping], checkpointer=store)
    store.broken = True
    assert not (await agent.run("first", "t")).saved
    return agent, store


@pytest.mark.parametrize(
    "fail",
    [
        lambda agent: agent.resume("t", {"typo": Approve()}),
        lambda agent: agent.run("x" * 17_000_000, "t"),
        lambda agent: agent.run("", "t"),
    ],
)
@pytest.mark.parametrize("broken", [True, "all"])
async def test_a_refused_input_does_not_cost_what_was_not_saved_yet(fail, broken):
    agent, store = await unsaved()
    store.broken = broken
    with pytest.raises((ConfigError, CheckpointError)):
        await fail(agent)
    store.broken = False
    assert (await agent.run("second", "t")).saved
    assert [message.text for message in loads(agent).messages] == ["first", "one", "second", "two"]


async def test_resume_of_an_ended_turn_saves_what_was_not():
    agent, store = await unsaved()
    assert not (await agent.resume("t")).saved
    store.broken = False
    assert (await agent.resume("t")).saved
    assert loads(agent).text == "one"


async def test_a_store_that_goes_down_in_the_middle_costs_the_save_not_the_answer():
    store = Failing()

    def say(request):
        store.broken = "all"
        return "the answer"

    turn = await Agent(ScriptedModel(say), checkpointer=store).run("go", "t")
    assert (turn.text, turn.saved, str(turn.error)) == ("the answer", False, "the store failed: OSError: down")


async def test_a_decision_that_could_not_be_saved_can_be_given_again():
    store = Failing()
    agent = await waiting(checkpointer=store)
    store.broken = True
    with pytest.raises(CheckpointError):
        await agent.resume("t", {"p": Approve()})
    store.broken = False
    assert (await agent.resume("t", {"p": Approve()})).status == "ended"


async def test_a_message_after_an_unsaved_pause_closes_the_child_that_waited():
    store = Failing()
    child = Subagent(name="critic", description="", tools=[tool(name="pay")(ping.function)], middleware=[Wait()],
                     model=ScriptedModel([ToolCall("pay", {}, "p")]))  # fmt: skip
    task = ToolCall("task", {"description": "a", "subagent_type": "critic"}, "t1")
    agent = create_deep_agent(ScriptedModel([task, "fine"]), subagents=[child], checkpointer=store)
    store.broken = True
    assert (await agent.run("go", "t")).status == "paused"
    store.broken = False
    turn = await agent.run("never mind", "t")
    assert (turn.status, turn.saved) == ("ended", True)
    assert loads(agent).subagents["t1"].status == "cancelled"


async def test_a_last_segment_that_is_gone_is_found():
    store = MemoryCheckpointer()
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
    await agent.run("first", "t")
    store.append("t", store.head("t"), store.head("t"), {}, [store.rows("log/t/", "log/t0")[-1][0]])
    with pytest.raises(CorruptSegment, match="ends with event 1, expected 3"):
        loads(agent)


def test_the_terminal_survives_closed_and_full_outputs(tmp_path):
    (tmp_path / "README.md").write_text("Nothing much is here at all.\n")
    for redirect, code in ((">&-", 0), ("> /dev/full", 1)):
        shell = f"{sys.executable} -m minideep run 'Say what is here' {redirect}"
        run = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                             env={k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")})  # fmt: skip
        assert (run.returncode, "Traceback" in run.stderr) == (code, False), run.stderr


# ---- tools whose functions say what cannot be said


@pytest.mark.parametrize(
    ("annotation", "told"),
    [
        ("asyncio.Nowhere", "its signature cannot be read: AttributeError: module 'asyncio' has no attribute"),
        ("no expression", "its signature cannot be read: SyntaxError: "),
        ("1/0", "its signature cannot be read: ZeroDivisionError: "),
        ("Nowhere", "its signature cannot be read: NameError: "),
        ("list[int] | tuple[int]", "its function has a parameter of a type that JSON cannot say: Type unions may not"),
        ("complex", "its function has a parameter of a type that JSON cannot say: type <class 'complex'> is not supp"),
    ],
)
def test_a_tool_of_which_no_schema_can_be_made_is_refused_in_one_line_that_names_it(annotation, told):
    def odd(given):
        """Odd."""

    odd.__annotations__["given"] = annotation
    with pytest.raises(ConfigError) as refused:
        Agent(ScriptedModel([]), [odd])
    assert str(refused.value).startswith(f"tool 'odd': {told}")
    assert "\n" not in str(refused.value)
