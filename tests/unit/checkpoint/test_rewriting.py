"""Merging and retention beside whatever else is done to a thread: nothing is lost, and what is kept can go on."""

import threading

from harness.agents import LONG, ok, pay, pays, texts
from harness.histories import cut, merge
from harness.middleware import AskFirst
from harness.stores import FaultyStore, InstrumentedStore, plain

from minideep import (
    Agent,
    Approve,
    MemoryCheckpointer,
    ToolCall,
    ToolContext,
    tool,
)
from minideep.checkpoint.log import SegmentRef
from minideep.checkpoint.merge_queue import MergeQueue
from minideep.checkpoint.store import open_store
from minideep.models import ScriptedModel
from minideep.ports import Retention


def while_rewriting(store, act):
    """Have somebody else *act* between what a merge or a cut reads and what it then writes."""

    def before(operation, *args):
        if operation == "append" and args[-1]:  # It deletes rows.
            store.before = None
            other = threading.Thread(target=act, daemon=True)
            other.start()
            other.join(0.2)  # Or until it waits for us.

    store.before = before


def thread_of(store, turns):
    """An agent whose thread has so many turns, of two segments each."""
    agent = Agent(ScriptedModel(lambda request: "ok" + LONG), checkpointer=store)
    for n in range(1, turns + 1):
        agent.run_sync(f"hello {n}{LONG}", "t")
    return agent


def test_two_merges_that_overlap_lose_nothing():
    store = InstrumentedStore()
    agent = thread_of(store, 6)
    before, keys = texts(agent.transcript("t")), plain(store).keys("log/t/", "log/t0")
    while_rewriting(store, lambda: merge(store, keys[3:6]))
    merge(store, keys[:4])
    assert texts(Agent(ScriptedModel(ok), checkpointer=store).transcript("t")) == before


def test_a_merge_beside_a_cut_loses_nothing():
    store = InstrumentedStore()
    agent = thread_of(store, 6)
    merge(store, plain(store).keys("log/t/", "log/t0")[4:8])
    before, keys = texts(agent.get_state("t").messages), plain(store).keys("log/t/", "log/t0")
    while_rewriting(store, lambda: merge(store, keys[4:7]))
    cut(store, 3)
    fresh = Agent(ScriptedModel(ok), checkpointer=store)
    assert (fresh.history("t")[0].at, texts(fresh.get_state("t").messages)) == (4, before)


async def test_a_cut_that_comes_late_keeps_the_unsaved_turn():
    store = InstrumentedStore(retention=Retention(boundaries=2))
    agent, gate = Agent(ScriptedModel(ok), checkpointer=store), threading.Event()
    for n in range(2):
        await agent.run(f"hello {n}", "t")
    open_store(store).maintain(lambda: gate.wait(10))
    await agent.run("hello 2", "t")  # After which a cut is due; and waits.
    store.down = {"append"}
    assert (await agent.run("precious", "t")).saved is False
    store.down.clear()
    gate.set()
    store.close()
    assert agent.history("t")[0].at == 2
    await agent.save("t")
    assert texts(agent.get_state("t").messages)[-2:] == ["precious", "ok"]


async def test_a_fork_of_the_first_boundary_after_a_cut_has_its_finished_subagents():
    ran = []

    def work(request):
        ran.append(request.messages[0].text)
        return "worked"

    worker = Agent(ScriptedModel(work), name="worker")
    asker = Agent(ScriptedModel(pays), [pay], middleware=[AskFirst()], name="asker")

    @tool
    async def both(ctx: ToolContext) -> str:
        """Run two."""
        return "".join([(await ctx.run(agent, "go", key=agent.spec.name)).text for agent in (worker, asker)])

    def boss(request):
        return ToolCall("both", {}, "c") if request.messages[-1].text == "both" else "ok"

    store = MemoryCheckpointer()
    agent = Agent(ScriptedModel(boss), [both], checkpointer=store)
    for text in ("one", "two", "three", "both"):
        await agent.run(text, "t")
    await agent.resume("t", {"p": Approve()})
    await agent.run("more", "t")
    cut(store, 3)
    assert agent.history("t")[0].at == 4
    agent.fork("t", at=4, thread_id="f")
    turn = await agent.resume("f", {"p": Approve()})
    assert (turn.messages[0].text, ran) == ("workeddone", ["go"])


def test_after_a_cut_the_diff_of_two_boundaries_has_the_messages_of_its_turn():
    store = MemoryCheckpointer()
    agent = thread_of(store, 6)
    cut(store, 3)
    assert texts(agent.diff("t", 4, 5).messages) == ["hello 5" + LONG, "ok" + LONG]


def test_the_merge_queue_is_read_in_one_pass():
    asked = []

    class Small(SegmentRef, frozen=True):
        """Is counted whenever its size is asked for."""

        def __getattribute__(self, name):
            if name == "raw":
                asked.append(name)
            return super().__getattribute__(name)

    MergeQueue([Small(f"log/t//{n:016}", 1) for n in range(1000)]).take(over=False)
    assert len(asked) <= 6 * 1000


def test_retention_does_not_count_a_killed_turn_as_a_boundary():
    store = MemoryCheckpointer()
    failing = FaultyStore(store)
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=failing)
    agent.run_sync("first", "t")
    failing.fail(4, OSError, outage=True)
    agent.run_sync("second", "t")
    cut(store, 1)
    reader = Agent("offline:", checkpointer=store)
    assert (reader.get_state("t").status, [line.at for line in reader.history("t")]) == ("running", [1])
