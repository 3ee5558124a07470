"""Stores that are not here: their trips are few, no event loop stands still for them, and plain readers wait for them."""

import asyncio
import time

import pytest
from harness.middleware import AskFirst
from harness.stores import DistantStore, plain

from minideep import Agent, Approve, MemoryCheckpointer, ToolCall, ToolContext, UnknownThread, configure_process, tool
from minideep.checkpoint import open_store, threaded
from minideep.checkpoint.memory import MemoryRows
from minideep.models import ScriptedModel
from minideep.ports import Retention


@tool
async def ping() -> str:
    """Answer."""
    return "pong"


def one_tool():
    return Agent(
        ScriptedModel(lambda request: "ok" if request.messages[-1].role == "tool" else ToolCall("ping")), [ping]
    )


def on(store, agent=None):
    agent = agent or one_tool()
    agent.checkpointer = store
    return agent


async def test_a_turn_takes_three_trips_and_four_if_its_thread_is_not_in_memory():
    store = DistantStore()
    agent, found = on(store), []
    for who in (agent, agent, on(store), agent):
        store.trips.clear()
        assert (await who.run("go", "t")).saved
        found.append(store.trips.copy())
    warm, cold = ["open", "append", "append"], ["open", "read", "append", "append"]
    assert found == [warm, warm, cold, cold]


async def test_a_cold_turn_reads_its_runs_its_snapshot_and_what_came_after_in_one_trip():
    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Run a child."""
        return (await ctx.run(Agent(ScriptedModel(["deep"]), name="child"), "go")).text

    def boss(store):
        return Agent(ScriptedModel([ToolCall("delegate", {}, "c1"), "ok"]), [delegate], checkpointer=store)

    store = DistantStore()
    await boss(store).run("go", "t")
    store.trips.clear()
    turn = await boss(store).run("again", "t")
    assert (turn.messages[2].text, store.trips) == ("deep", ["open", "read", "append", "append"])


async def test_the_thread_is_free_when_the_last_append_is_over_though_nobody_has_released_it():
    seen = []

    class Looking(DistantStore):
        async def append(self, *args, **how):
            await super().append(*args, **how)
            seen.append("t" in self.leases)

    assert (await on(Looking()).run("go", "t")).saved
    assert seen == [True, False]


async def test_64_threads_at_once_are_all_on_their_way_to_the_store_at_the_same_time():
    together = asyncio.Barrier(64)

    class Together(DistantStore):
        """No trip ends before all 64 turns have begun theirs."""

        async def _trip(self, name):
            await super()._trip(name)
            await together.wait()

    configure_process()  # A test before this one may have bounded the turns of the process.
    store = Together(0.005)
    turns = asyncio.gather(*(on(store).run("go", f"t{number}") for number in range(64)))
    assert all(turn.saved for turn in await asyncio.wait_for(turns, 60))
    assert len(store.trips) == 3 * 64


def test_every_reader_works_outside_of_an_event_loop():
    store = DistantStore(0.001)
    agent = on(store)
    agent.run_sync("go", "t")
    _read(agent)


async def test_every_reader_works_inside_of_a_running_loop():
    store = DistantStore(0.001)
    agent = on(store)
    await agent.run("go", "t")
    _read(agent)


def _read(agent):
    assert agent.get_state("t").status == "ended"
    assert len(agent.transcript("t")) == 4
    assert [boundary.at for boundary in agent.history("t")] == [1]
    assert [info.thread_id for info in agent.threads()] == ["t"]
    assert len(agent.export("t")) == 4
    assert agent.fork("t", thread_id="u") == "u"
    agent.delete("t")
    assert [info.thread_id for info in agent.threads()] == ["u"]
    with pytest.raises(UnknownThread):
        agent.get_state("t")


async def test_a_cancelled_turn_is_saved_and_its_append_is_not_cut_off():
    store, begun = DistantStore(0.005), asyncio.Event()

    async def slow(request):
        begun.set()
        await asyncio.sleep(60)

    turn = asyncio.create_task(Agent(ScriptedModel(slow), checkpointer=store).run("go", "t"))
    await begun.wait()
    turn.cancel()
    await asyncio.sleep(0)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert Agent("offline:", checkpointer=store).get_state("t").status == "cancelled"
    assert store.leases == {}


async def test_a_paused_turn_with_a_child_goes_on_in_another_agent():
    @tool
    async def pay() -> str:
        """Pay."""
        return "paid"

    def child():
        script = lambda request: "done" if request.messages[-1].role == "tool" else ToolCall("pay", {}, "p1")  # noqa: E731
        return Agent(ScriptedModel(script), [pay], middleware=[AskFirst("pay")], name="child")

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Run a child."""
        return (await ctx.run(child(), "go")).text

    def boss():
        script = lambda request: "ok" if request.messages[-1].role == "tool" else ToolCall("delegate", {}, "c1")  # noqa: E731
        return Agent(ScriptedModel(script), [delegate], checkpointer=store)

    store = DistantStore(0.001)
    assert (await boss().run("go", "t")).status == "paused"
    assert (await boss().resume("t", {"p1": Approve()})).text == "ok"


async def test_retention_works_on_a_store_that_suspends():
    store = DistantStore(retention=Retention(boundaries=2))
    agent = on(store)
    for _ in range(6):
        await agent.run("go", "t")
    open_store(store).finish()
    assert [boundary.at for boundary in agent.history("t")] == [5, 6]


# ---- a synchronous store behind `threaded`


class Slow(MemoryRows):
    """A store of plain functions that takes its time: nothing of it may be called on an event loop."""

    inline = 0

    def __init__(self):
        super().__init__(Retention())
        self.on_loop = []

    def _called(self, name):
        try:
            asyncio.get_running_loop()
            self.on_loop.append(name)
        except RuntimeError:
            time.sleep(0.001)

    def read(self, *ranges):
        self._called("read")
        return super().read(*ranges)

    def append(self, *args, **how):
        self._called("append")
        super().append(*args, **how)

    def hold(self, space, thread):
        self._called("hold")
        return super().hold(space, thread)

    def release(self, space, thread):
        self._called("release")
        super().release(space, thread)

    def is_held(self, space, thread):
        self._called("is_held")
        return super().is_held(space, thread)


async def test_a_slow_synchronous_store_is_never_called_on_the_event_loop():
    slow = Slow()
    store = threaded(slow)
    turns = await asyncio.gather(*(on(store).run("go", f"t{number}", wait=True) for number in (1, 2, 3, 3, 3)))
    assert all(turn.saved for turn in turns)
    await store.aclose()  # What was released is released now.
    assert not await store.held("t3")
    assert slow.on_loop == []
    assert len(on(store).threads()) == 3


async def test_a_quick_store_is_called_without_a_thread_and_never_suspends():
    store = MemoryCheckpointer()
    work = store.open("t")
    with pytest.raises(StopIteration) as done:
        work.send(None)
    lease = done.value.value.lease
    with pytest.raises(StopIteration):
        store.append("t", None, b"1", {"a": b"1"}, lease=lease, release=True).send(None)
    with pytest.raises(StopIteration) as done:
        store.read().send(None)
    assert not await store.held("t")
    assert plain(store).rows() == [("a", b"1"), ("head/t", b"1")]
    assert store._calls.pool._pool is None  # No thread was ever begun.


async def test_a_turn_awaits_its_store_on_its_own_loop_alone_also_from_cold():
    loops = set()

    class Noting(DistantStore):
        async def _trip(self, name):
            loops.add(asyncio.get_running_loop())
            await super()._trip(name)

    store = Noting()
    for _ in range(2):
        assert (await on(store).run("go", "t")).saved
    assert loops == {asyncio.get_running_loop()}
    assert on(store).get_state("t").text == "ok"  # Plain code, which has no loop to await it on.
    assert len(loops) == 2
