"""Turns that are cancelled, or run out of time, stop at once, keep what was done, and can go on."""

import asyncio
import contextlib
import threading
import time

import pytest

from minideep import (
    Agent,
    Limits,
    MemoryCheckpointer,
    Middleware,
    ModelError,
    Subagent,
    ToolCall,
    ToolContext,
    ToolError,
    create_deep_agent,
    tool,
)
from minideep.events import Noted
from minideep.models import ScriptedModel


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
    assert (len(after), stored(agent).status) == (1, "cancelled")


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


async def test_a_cancel_while_two_calls_save_does_not_hang_the_loop():
    class Gated(MemoryCheckpointer):
        inline = 0

        def append(self, *args, **how):
            if writing is not None:
                began.set()
                writing.wait(10)
            super().append(*args, **how)

    began, writing, quick_is_saving = threading.Event(), None, asyncio.Event()

    @tool
    async def slow() -> str:
        """Ends while the other's result is being saved."""
        await quick_is_saving.wait()
        return "slow"

    @tool
    async def quick() -> str:
        """Ends at once."""
        nonlocal writing
        writing = threading.Event()
        return "quick"

    agent = Agent(
        ScriptedModel([[ToolCall("slow", {}, "a"), ToolCall("quick", {}, "b")], "done"]),
        [slow, quick], checkpointer=Gated(), durability="tool",
    )  # fmt: skip
    task = asyncio.ensure_future(agent.run("go", "t"))
    while not began.is_set():
        await asyncio.sleep(0.001)
    quick_is_saving.set()
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0.01)
    writing.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert agent.get_state("t").status == "cancelled"


class Slow(Middleware):
    """Has the turn cut short once its last word is said, the first time."""

    def __init__(self):
        self.said = asyncio.Event()

    async def before_finish(self, ctx):
        if not self.said.is_set():
            self.said.set()
            await asyncio.sleep(60)


async def cut_short(agent, slow):
    turn = asyncio.ensure_future(agent.run("go", "t"))
    await slow.said.wait()
    turn.cancel()
    await asyncio.wait([turn])


async def test_a_turn_that_goes_on_after_its_last_word_hands_that_back():
    slow = Slow()
    agent = Agent(ScriptedModel(["the answer"]), middleware=[slow])
    await cut_short(agent, slow)
    turn = await agent.resume("t")
    assert (turn.status, turn.text) == ("ended", "the answer")


async def test_a_subagent_that_was_cut_short_after_its_last_word_has_said_it():
    slow = Slow()
    child = Subagent(name="c", description="", model=ScriptedModel(["found it"]), middleware=[slow])
    script = [ToolCall("task", {"description": "a", "subagent_type": "c"}, "t1"), "ok"]
    agent = create_deep_agent(ScriptedModel(script), subagents=[child])
    await cut_short(agent, slow)
    await agent.resume("t")
    assert agent.get_state("t").messages[2].text == "found it"


async def hanging(request):
    await asyncio.sleep(30)


async def test_a_model_that_is_asked_is_cut_short_when_the_time_is_up(store):
    agent = Agent(ScriptedModel(hanging), limits=Limits(seconds=0.05), checkpointer=store)
    turn = await asyncio.wait_for(agent.run("go", "t"), 10)
    assert (turn.status, turn.reason, turn.saved) == ("exhausted", "seconds", True)
    other = Agent(ScriptedModel(["so"]), limits=Limits(seconds=60), checkpointer=store)
    assert (await other.resume("t")).text == "so"


async def test_so_is_one_that_a_subagent_asks_when_the_time_of_the_main_agent_is_up():
    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        return (await ctx.run(Agent(ScriptedModel(hanging)), "go")).status

    agent = Agent(ScriptedModel([ToolCall("ask"), "so"]), [ask], limits=Limits(seconds=0.05))
    turn = await asyncio.wait_for(agent.run("go", "t"), 10)
    assert (turn.status, turn.reason, turn.messages[-1].text) == ("exhausted", "seconds", "exhausted")


async def test_so_is_a_hook_that_asks_a_model_of_its_own():
    class Slow(Middleware):
        async def before_model(self, ctx, request):
            await asyncio.sleep(30)
            return request

    agent = Agent(ScriptedModel(["so"]), middleware=[Slow()], limits=Limits(seconds=0.05))
    assert (await asyncio.wait_for(agent.run("go", "t"), 10)).reason == "seconds"


@pytest.mark.parametrize("error", [ModelError("lost"), RuntimeError("lost"), TimeoutError("lost")])
async def test_what_a_model_makes_of_being_cut_short_is_not_what_stopped_the_turn(error):
    async def translating(request):
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise error from None

    turn = await asyncio.wait_for(Agent(ScriptedModel(translating), limits=Limits(seconds=0.05)).run("go", "t"), 10)
    assert (turn.status, turn.reason) == ("exhausted", "seconds")


async def test_a_model_that_swallows_a_cancel_is_left_behind(monkeypatch):
    monkeypatch.setattr("minideep.runtime.calls.GRACE", 0.1)
    over = asyncio.Event()

    async def stubborn(request):
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()
        return "too late"

    agent = Agent(ScriptedModel(stubborn), limits=Limits(seconds=0.05))
    turn = await asyncio.wait_for(agent.run("go", "t"), 10)
    over.set()
    await asyncio.sleep(0.05)
    assert (turn.status, turn.reason) == ("exhausted", "seconds")
    assert [message.role for message in agent.transcript("t")] == ["user"]


async def test_a_model_that_raises_a_timeout_of_its_own_has_failed():
    agent = Agent(ScriptedModel([TimeoutError("mine")]), limits=Limits(seconds=60))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.reason) == ("failed", "ModelError")


async def test_whoever_cancels_a_turn_with_a_time_limit_cancels_it():
    task = asyncio.create_task(Agent(ScriptedModel(hanging), limits=Limits(seconds=60)).run("go", "t"))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
