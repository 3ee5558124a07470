"""Turns that are cancelled, or run out of time, stop at once, keep what was done, and can go on."""

import asyncio
import contextlib
import threading
import time

import msgspec
import pytest
from harness.agents import answers, cancelled, hang, ping, pings, results, stored, sub, task
from harness.stores import InstrumentedStore, plain

from minideep import (
    Agent,
    Limits,
    MemoryCheckpointer,
    Middleware,
    ModelError,
    ThreadConflict,
    ToolCall,
    ToolContext,
    ToolError,
    create_deep_agent,
    tool,
)
from minideep.events import Noted
from minideep.models import ScriptedModel
from minideep.runtime import Turns
from minideep.runtime.cancel import TurnScope


async def test_cancelling_saves_the_thread_with_what_was_done_and_resume_runs_the_rest(store):
    started, runs = asyncio.Event(), []

    @tool
    async def slow() -> str:
        runs.append("slow")
        started.set()
        if len(runs) == 1:
            await asyncio.sleep(60)
        return "slow"

    agent = Agent(ScriptedModel([[*pings("a"), ToolCall("slow")], "done"]), [ping, slow], checkpointer=store)
    await cancelled(agent, started)
    state = agent.get_state("t")
    assert state.status == "cancelled"
    assert [entry.result and entry.result.text for entry in state.open.values()] == ["a", None]
    turn = await agent.resume("t")
    assert (turn.status, answers(turn), runs) == ("ended", ["a", "slow"], ["slow", "slow"])


async def test_a_tool_that_does_not_stop_is_left_behind_and_can_change_nothing_more():
    started, refused = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn(ctx: ToolContext) -> str:
        started.set()
        end = time.monotonic() + 0.5
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
    agent._turns = Turns(grace=0.1)
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
    agent._turns = Turns(grace=0.1)
    await cancelled(agent, started)
    assert agent.get_state("t").status == "cancelled"


async def test_a_lost_turn_stays_lost_when_it_is_cancelled():
    scope = TurnScope()
    waiting = asyncio.ensure_future(scope.until_stopped())
    await asyncio.sleep(0)
    scope.lose(ThreadConflict("somebody else has it"))
    scope.request_cancel()
    await waiting
    assert scope.status == "lost"  # Otherwise its input would be kept, for a thread that another writer continued.


async def test_once_a_thread_is_lost_the_calls_beside_the_one_that_noticed_are_cancelled():
    store, ended = MemoryCheckpointer(), []

    @tool
    async def slow() -> str:
        """Take long."""
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return "slow"

    @tool
    async def meddle(ctx: ToolContext) -> str:
        """Let another writer be first."""
        head = plain(store).head("t")
        number, epoch, *rest = msgspec.msgpack.decode(head)
        plain(store).append("t", head, msgspec.msgpack.encode([number, epoch[::-1], *rest]), {})
        return "done"

    script = [[ToolCall("slow"), ToolCall("meddle")], "never"]
    agent = Agent(ScriptedModel(script), [slow, meddle], checkpointer=store, durability="tool")
    async with asyncio.timeout(30):
        turn = await agent.run("go", "t")
    assert (turn.status, type(turn.error), ended) == ("failed", ThreadConflict, ["cancelled"])


async def test_a_tool_that_swallows_a_cancel_does_not_keep_its_turn_from_ending():
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
    await cancelled(agent, started)
    assert (len(after), stored(agent).status) == (1, "cancelled")


async def test_a_plain_function_that_finishes_after_a_cancel_is_not_run_again():
    started, done, loop = asyncio.Event(), [], asyncio.get_running_loop()

    @tool
    def pay() -> str:
        """Pay."""
        loop.call_soon_threadsafe(started.set)
        threading.Event().wait(0.2)
        done.append(1)
        return "paid"

    agent = Agent(ScriptedModel([ToolCall("pay"), "ok"]), [pay])
    await cancelled(agent, started)
    turn = await agent.resume("t")
    assert (turn.status, done) == ("ended", [1])


async def test_a_task_group_that_fails_in_a_tool_does_not_cancel_the_turn(caplog):
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


async def test_a_tool_that_cancels_its_own_task_cancels_its_turn():
    @tool
    async def suicide() -> str:
        """Cancel."""
        asyncio.current_task().cancel()
        await asyncio.sleep(1)

    turn = await Agent(ScriptedModel([ToolCall("suicide")]), [suicide]).run("go")
    assert turn.status == "cancelled"


async def test_a_cancel_while_two_calls_save_does_not_hang_the_loop():
    def wait(operation, *args):
        if operation == "append":
            began.set()
            go_on.wait(10)

    store = InstrumentedStore()
    store.inline = 0
    began, go_on, quick_is_saving = threading.Event(), threading.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Ends while the other's result is being saved."""
        await quick_is_saving.wait()
        return "slow"

    @tool
    async def quick() -> str:
        """Ends at once."""
        store.before = wait
        return "quick"

    agent = Agent(
        ScriptedModel([[ToolCall("slow", {}, "a"), ToolCall("quick", {}, "b")], "done"]),
        [slow, quick], checkpointer=store, durability="tool",
    )  # fmt: skip
    task = asyncio.ensure_future(agent.run("go", "t"))
    while not began.is_set():
        await asyncio.sleep(0.001)
    quick_is_saving.set()
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0.01)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert agent.get_state("t").status == "cancelled"


class SlowToFinish(Middleware):
    """Takes long, the first time, once the last word of a turn is said."""

    def __init__(self):
        self.said = asyncio.Event()

    async def before_finish(self, ctx):
        if not self.said.is_set():
            self.said.set()
            await asyncio.sleep(60)


async def test_a_turn_that_was_cancelled_after_its_last_word_returns_that_word_when_it_is_resumed():
    slow = SlowToFinish()
    agent = Agent(ScriptedModel(["the answer"]), middleware=[slow])
    await cancelled(agent, slow.said)
    turn = await agent.resume("t")
    assert (turn.status, turn.text) == ("ended", "the answer")


async def test_a_subagent_that_was_cancelled_after_its_last_word_has_answered_when_it_is_resumed():
    slow = SlowToFinish()
    child = sub("critic", ScriptedModel(["found it"]), middleware=[slow])
    agent = create_deep_agent(ScriptedModel([task("critic", "t1"), "ok"]), subagents=[child])
    await cancelled(agent, slow.said)
    await agent.resume("t")
    assert agent.get_state("t").messages[2].text == "found it"


# ---- a turn whose time is up


async def test_a_model_call_is_cancelled_when_the_time_of_its_turn_is_up(store):
    agent = Agent(ScriptedModel(hang), limits=Limits(seconds=0.05), checkpointer=store)
    turn = await asyncio.wait_for(agent.run("go", "t"), 10)
    assert (turn.status, turn.reason, turn.saved) == ("exhausted", "seconds", True)
    other = Agent(ScriptedModel(["so"]), limits=Limits(seconds=60), checkpointer=store)
    assert (await other.resume("t")).text == "so"


async def test_a_model_call_of_a_subagent_is_cancelled_when_the_time_of_the_main_agent_is_up():
    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        return (await ctx.run(Agent(ScriptedModel(hang)), "go")).status

    agent = Agent(ScriptedModel([ToolCall("ask", {}, "a1"), "so"]), [ask], limits=Limits(seconds=0.05))
    turn = await asyncio.wait_for(agent.run("go", "t"), 10)
    assert (turn.status, turn.reason) == ("exhausted", "seconds")
    assert [(run.path, run.status) for run in agent.runs("t")] == [(("a1",), "exhausted")]


async def test_a_hook_is_cancelled_when_the_time_is_up():
    class Slow(Middleware):
        async def before_model(self, ctx, request):
            await asyncio.sleep(30)
            return request

    agent = Agent(ScriptedModel(["so"]), middleware=[Slow()], limits=Limits(seconds=0.05))
    assert (await asyncio.wait_for(agent.run("go", "t"), 10)).reason == "seconds"


@pytest.mark.parametrize("error", [ModelError("lost"), RuntimeError("lost"), TimeoutError("lost")])
async def test_whatever_a_cancelled_model_raises_the_turn_stopped_for_its_time(error):
    async def translating(request):
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise error from None

    turn = await asyncio.wait_for(Agent(ScriptedModel(translating), limits=Limits(seconds=0.05)).run("go", "t"), 10)
    assert (turn.status, turn.reason) == ("exhausted", "seconds")


async def test_a_model_that_swallows_a_cancel_is_left_behind():
    over = asyncio.Event()

    async def stubborn(request):
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()
        return "too late"

    agent = Agent(ScriptedModel(stubborn), limits=Limits(seconds=0.05))
    agent._turns = Turns(grace=0.1)
    turn = await asyncio.wait_for(agent.run("go", "t"), 10)
    over.set()
    await asyncio.sleep(0.05)
    assert (turn.status, turn.reason) == ("exhausted", "seconds")
    assert [message.role for message in agent.transcript("t")] == ["user"]


async def test_a_timeout_that_a_model_raises_itself_fails_the_turn():
    agent = Agent(ScriptedModel([TimeoutError("mine")]), limits=Limits(seconds=60))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.reason) == ("failed", "ModelError")


async def test_a_turn_with_a_time_limit_can_be_cancelled():
    task = asyncio.create_task(Agent(ScriptedModel(hang), limits=Limits(seconds=60)).run("go", "t"))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
