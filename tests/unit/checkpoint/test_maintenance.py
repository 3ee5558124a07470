"""Merging and retention beside whatever else is done to a thread: nothing is lost, and what is kept can go on."""

import threading

from scenarios.test_failing_store import Failing
from unit.checkpoint.test_history import payer

from minideep import (
    Agent,
    Approve,
    MemoryCheckpointer,
    ToolCall,
    ToolContext,
    tool,
)
from minideep.checkpoint import retention
from minideep.checkpoint.joining import MergeQueue, join
from minideep.checkpoint.log import SegmentRef
from minideep.middleware import HumanInTheLoopMiddleware
from minideep.models import ScriptedModel
from minideep.ports import Retention


class Meddled(MemoryCheckpointer):
    """Somebody else's worker comes between what is read and what is then rewritten."""

    def __init__(self):
        super().__init__()
        self.meddlers = []

    def append(self, thread, expected, head, rows, deletes=(), **how):
        deletes = list(deletes)
        if deletes and self.meddlers:
            other = threading.Thread(target=self.meddlers.pop(), daemon=True)
            other.start()
            other.join(0.2)  # Or until it waits for us.
        super().append(thread, expected, head, rows, deletes, **how)


def test_two_joins_that_overlap_lose_nothing():
    store = Meddled()
    agent = Agent(ScriptedModel(ok), checkpointer=store)
    for n in range(6):
        agent.run_sync(f"hello {n}", "t")
    before, keys = texts(agent.transcript("t")), store.keys("log/t/", "log/t0")
    store.meddlers = [lambda: join(store, "t", keys[3:6])]
    join(store, "t", keys[:4])
    assert texts(Agent(ScriptedModel(ok), checkpointer=store).transcript("t")) == before


def test_a_join_beside_a_cut_loses_nothing():
    store = Meddled()
    agent = Agent(ScriptedModel(ok), checkpointer=store)
    for n in range(6):
        agent.run_sync(f"hello {n}", "t")
    join(store, "t", store.keys("log/t/", "log/t0")[4:8])
    before, keys = texts(agent.get_state("t").messages), store.keys("log/t/", "log/t0")
    store.retention = Retention(boundaries=3)
    store.meddlers = [lambda: join(store, "t", keys[4:7])]
    retention.cut(store, "t")
    fresh = Agent(ScriptedModel(ok), checkpointer=store)
    assert (fresh.history("t")[0].at, texts(fresh.get_state("t").messages)) == (4, before)


async def test_a_cut_that_comes_late_takes_no_unsaved_turn_away():
    store = Failing(retention=Retention(boundaries=2))
    agent, gate = Agent(ScriptedModel(ok), checkpointer=store), threading.Event()
    for n in range(2):
        await agent.run(f"hello {n}", "t")
    store.executor.submit(gate.wait, 10)
    await agent.run("hello 2", "t")  # After which a cut is due; and waits.
    store.down = True
    assert (await agent.run("precious", "t")).saved is False
    store.down = False
    gate.set()
    store.close()
    assert agent.history("t")[0].at == 2
    await agent.save("t")
    assert texts(agent.get_state("t").messages)[-2:] == ["precious", "ok"]


async def test_a_fork_of_the_first_kept_boundary_goes_on_with_its_finished_children():
    ran = []

    def work(request):
        ran.append(request.messages[0].text)
        return "worked"

    worker = Agent(ScriptedModel(work), name="worker")
    asker = Agent(ScriptedModel(payer), [pay], middleware=[HumanInTheLoopMiddleware({"pay": True})], name="asker")

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
    store.retention = Retention(boundaries=3)
    retention.cut(store, "t")
    assert agent.history("t")[0].at == 4
    agent.fork("t", at=4, thread_id="f")
    turn = await agent.resume("f", {"p": Approve()})
    assert (turn.messages[0].text, ran) == ("workeddone", ["go"])


async def test_after_a_cut_a_diff_and_an_export_tell_what_was_said_in_its_own_turn():
    store = MemoryCheckpointer()
    agent = Agent(ScriptedModel(ok), checkpointer=store)
    for n in range(1, 7):
        await agent.run(f"hello {n}", "t")
    store.retention = Retention(boundaries=3)
    retention.cut(store, "t")
    assert texts(agent.diff("t", 4, 5).messages) == ["hello 5", "ok"]


def test_what_is_due_after_a_turn_is_found_in_one_pass():
    asked = []

    class Small(SegmentRef, frozen=True):
        """Is counted whenever its size is asked for."""

        def __getattribute__(self, name):
            if name == "raw":
                asked.append(name)
            return super().__getattribute__(name)

    MergeQueue([Small(f"log/t//{n:016}", 1) for n in range(1000)]).take(over=False)
    assert len(asked) <= 6 * 1000


def test_a_turn_that_was_killed_is_no_boundary_that_retention_could_keep():
    store = MemoryCheckpointer()
    failing = Failing(store)
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=failing)
    agent.run_sync("first", "t")
    failing.fail(7, OSError, outage=True)
    agent.run_sync("second", "t")
    store.retention = Retention(boundaries=1)
    retention.cut(store, "t")
    reader = Agent("offline:", checkpointer=store)
    assert (reader.get_state("t").status, [line.at for line in reader.history("t")]) == ("running", [1])


def payer(request):
    return ToolCall("pay", {}, "p") if request.messages[-1].role == "user" else "done"


@tool
async def pay() -> str:
    """Pay."""
    return "paid"


def ok(request):
    return "ok"
