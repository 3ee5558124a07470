"""What outlives its turn, its call or its process is still accounted for, and ended by somebody."""

import asyncio
import contextlib

import pytest
from harness.agents import ping
from harness.middleware import AskFirst
from harness.stores import DistantStore, InstrumentedStore, copy_of

from minideep import Agent, Approve, AssistantMessage, Reply, ThreadConflict, ToolCall, ToolContext, Usage, tool
from minideep.models import ScriptedModel
from minideep.runtime import Turns


async def test_the_costs_of_a_cancelled_turn_hold_what_a_child_that_was_left_behind_has_spent():
    hangs, over = asyncio.Event(), False

    @tool
    async def stubborn() -> str:
        """Does not end."""
        while not over:
            hangs.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.1)
        return ""

    child = Agent(ScriptedModel([ToolCall("stubborn")]), [stubborn], name="child")

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Delegate."""
        return (await ctx.run(child, "work")).text

    agent = Agent(ScriptedModel([ToolCall("delegate")]), [delegate])
    agent._turns = Turns(grace=0.05)
    handle = await agent.start("go", "t")
    await hangs.wait()
    assert await agent.cancel("t")
    turn, over = await handle, True
    assert turn.costs.steps == agent.get_state("t").costs.steps == 2


class SlowToTell(DistantStore):
    """A store whose second append lands at once, and is reported when somebody says so."""

    def __init__(self):
        super().__init__()
        self.count, self.tell = 0, asyncio.Event()

    async def append(self, *args, **how):
        self.count += 1
        second = self.count == 2
        await super().append(*args, **how)
        if second:
            await self.tell.wait()


async def test_closing_an_agent_waits_for_a_turn_that_has_not_heard_that_it_is_saved():
    store = SlowToTell()
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
    first = await agent.start("go", "t")
    while store.count < 2 or store.leases:
        await asyncio.sleep(0)
    assert (await agent.run("on", "t")).text == "two"  # The thread is free: the append has released it.
    closing = asyncio.ensure_future(agent.aclose())
    await asyncio.sleep(0.01)
    assert not closing.done()
    store.tell.set()
    await closing
    assert (await first).text == "one"


async def test_a_child_that_was_cut_short_ends_with_its_call_if_the_tool_does_not_continue_it():
    store, copies, broken = InstrumentedStore(), [], False

    def work(request):
        if not copies:
            copies.append(copy_of(store))  # What a kill at this moment leaves.
        return "done"

    child = Agent(ScriptedModel(work), name="child")

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Delegate."""
        if broken:
            raise OSError("the network is gone")
        return (await ctx.run(child, "work")).text

    def model(request):
        return ToolCall("delegate") if len(request.messages) == 1 else "over"

    await Agent(ScriptedModel(model), [delegate], checkpointer=store, durability="step").run("go", "t")
    after = Agent(ScriptedModel(model), [delegate], checkpointer=copies[0])
    assert [run.status for run in after.runs("t")] == ["running"]
    broken = True
    assert (await after.resume("t")).text == "over"
    assert [run.status for run in after.runs("t")] == ["cancelled"]


async def test_a_turn_that_goes_on_counts_each_reply_of_a_child_once_though_the_child_was_not_saved():
    store, hangs, calm = InstrumentedStore(), asyncio.Event(), False

    @tool
    async def wait() -> str:
        """Hang, the first time."""
        hangs.set()
        await asyncio.sleep(0 if calm else 100)
        return "waited"

    def work(request):
        return Reply(AssistantMessage((ToolCall("wait"),) if len(request.messages) == 1 else "done"), Usage(10, 1))

    child = Agent(ScriptedModel(work), [wait], name="child")

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Delegate."""
        return (await ctx.run(child, "work")).text

    def model(request):
        return Reply(AssistantMessage((ToolCall("delegate"),) if len(request.messages) == 1 else "over"), Usage(100, 1))

    agent = Agent(ScriptedModel(model), [delegate], checkpointer=store)
    handle = await agent.start("go", "t")
    await hangs.wait()
    store.down, calm = {"append"}, True
    await agent.aclose()
    assert (await handle).saved is False
    store.down.clear()
    turn = await agent.resume("t")
    assert (turn.costs.steps, turn.usage) == (4, Usage(220, 4))


class TakenAway(DistantStore):
    """A store that, when it is first asked for a key, gives the thread to somebody else."""

    def __init__(self):
        super().__init__()
        self.other = None

    async def read(self, *ranges):
        if self.other is not None and ranges[0].start.startswith("key/"):
            other, self.other = self.other, None
            self.leases["t"].over = True
            del self.leases["t"]
            await other()
        return await super().read(*ranges)


async def test_an_input_by_key_that_another_runner_has_taken_meanwhile_is_a_conflict():
    store = TakenAway()
    one, two = (Agent(ScriptedModel(lambda request: "done"), checkpointer=store) for _ in range(2))
    await one.run("before", "t")
    store.other = lambda: two.run("go", "t", key="k")
    with pytest.raises(ThreadConflict):
        await one.run("go", "t", key="k")
    assert (await one.run("go", "t", key="k")).text == "done"
    assert [message.text for message in one.transcript("t")].count("go") == 1


async def test_a_child_that_waits_for_a_person_ends_with_its_call_if_the_tool_does_not_continue_it():
    broken, hangs = False, asyncio.Event()
    pays = Agent(ScriptedModel([ToolCall("ping")]), [ping], middleware=[AskFirst()], name="pays")

    async def work(request):
        hangs.set()
        await asyncio.sleep(100)

    works = Agent(ScriptedModel(work), name="works")

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Delegate to two."""
        if broken:
            raise OSError("the network is gone")
        await asyncio.gather(ctx.run(pays, "pay", key="pays"), ctx.run(works, "work", key="works"))
        return ""

    agent = Agent(ScriptedModel([ToolCall("delegate"), "over"]), [delegate])
    handle = await agent.start("go", "t")
    await hangs.wait()
    while not any(run.status == "paused" for run in agent.runs("t")):
        await asyncio.sleep(0)
    assert await agent.cancel("t")
    await handle
    broken = True
    assert (await agent.resume("t")).text == "over"
    assert [run.status for run in agent.runs("t")] == ["cancelled", "cancelled"]


async def test_a_child_that_waits_ends_with_its_call_if_the_tool_fails_to_continue_it():
    def ask_once(request):
        return "done" if len(request.messages) > 1 else ToolCall("ping", {}, request.messages[0].text)

    asks = Agent(ScriptedModel(ask_once), [ping], middleware=[AskFirst("ping")], name="asks")
    inputs = iter(["p1", "another input"])

    @tool
    async def both(ctx: ToolContext) -> str:
        """Have two work that ask; the second time the input of one is another, which the log refuses."""
        await asyncio.gather(ctx.run(asks, next(inputs), key="a"), ctx.run(asks, "p2", key="b"))
        return ""

    agent = Agent(ScriptedModel([ToolCall("both", {}, "b1"), "done"]), [both])
    assert len((await agent.run("go", "t")).interrupts) == 2
    turn = await agent.resume("t", {"p2": Approve()})
    assert (turn.status, turn.text) == ("ended", "done")
    assert {run.path: run.status for run in agent.runs("t")}["b1/a",] == "cancelled"
