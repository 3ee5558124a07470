"""What an unkind reader found: each of these lost, repeated, revealed or withheld something once."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from minideep import (
    Agent,
    Approve,
    CheckpointError,
    ConfigError,
    MemoryCheckpointer,
    Middleware,
    Subagent,
    ThreadBusy,
    ToolCall,
    ToolContext,
    UnknownThread,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.checkpoint import format as codec
from minideep.checkpoint.log import SegmentRef
from minideep.checkpoint.merge_queue import MergeQueue
from minideep.checkpoint.rewriting import merge, truncate
from minideep.checkpoint.store import open_store
from minideep.events import Compacted
from minideep.middleware import HumanInTheLoopMiddleware
from minideep.models import ScriptedModel
from minideep.ports import Retention


@tool
async def pay() -> str:
    """Pay."""
    return "paid"


class Failing(MemoryCheckpointer):
    """Cannot be written while it is `down`."""

    down = False

    def append(self, *args, **how):
        if self.down:
            raise OSError("no space left")
        super().append(*args, **how)


def ok(request):
    return "ok"


def payer(request):
    return ToolCall("pay", {}, "p") if request.messages[-1].role == "user" else "done"


def masked(event):
    return codec.decode(codec.encode(1, event).replace(b"SECRET", b"XXXXXX"))


def texts(messages):
    return [message.text for message in messages]


# ---- lost, repeated, revealed, or never over


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


async def test_a_save_that_comes_just_as_another_is_through_does_not_spin():
    class Handed(MemoryCheckpointer):
        inline = 0

    @tool
    async def hop(times: int) -> str:
        """Take a while."""
        for _ in range(times):
            await asyncio.sleep(0)
        return "x" * 10_000

    script = [[ToolCall("hop", {"times": n}) for n in range(100)], "done"]
    turn = await Agent(ScriptedModel(script), [hop], checkpointer=Handed(), durability="tool").run("go", "t")
    assert (turn.text, turn.saved) == ("done", True)


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
    store.meddlers = [lambda: merge(open_store(store), "t", keys[3:6])]
    merge(open_store(store), "t", keys[:4])
    assert texts(Agent(ScriptedModel(ok), checkpointer=store).transcript("t")) == before


def test_a_join_beside_a_cut_loses_nothing():
    store = Meddled()
    agent = Agent(ScriptedModel(ok), checkpointer=store)
    for n in range(6):
        agent.run_sync(f"hello {n}", "t")
    merge(open_store(store), "t", store.keys("log/t/", "log/t0")[4:8])
    before, keys = texts(agent.get_state("t").messages), store.keys("log/t/", "log/t0")
    store.retention = Retention(boundaries=3)
    store.meddlers = [lambda: merge(open_store(store), "t", keys[4:7])]
    truncate(open_store(store), "t")
    fresh = Agent(ScriptedModel(ok), checkpointer=store)
    assert (fresh.history("t")[0].at, texts(fresh.get_state("t").messages)) == (4, before)


async def test_what_is_unsaved_is_redacted_also_after_a_refused_decision():
    store = Failing()
    store.down = True
    agent = Agent(
        ScriptedModel(payer), [pay], middleware=[HumanInTheLoopMiddleware({"pay": True})],
        checkpointer=store, redact=masked,
    )  # fmt: skip
    assert (await agent.run("my SECRET", "t")).saved is False
    with pytest.raises(CheckpointError):
        await agent.resume("t", {"p": Approve()})
    store.down = False
    await agent.save("t")
    assert agent.get_state("t").said == UserMessage("my XXXXXX")


async def test_save_redacts_what_was_said_before_there_was_a_redaction():
    store = Failing()
    agent = Agent(ScriptedModel(ok), checkpointer=store)
    store.down = True
    await agent.run("my SECRET", "t")
    store.down, agent.redact = False, masked
    await agent.save("t")
    assert agent.get_state("t").said == UserMessage("my XXXXXX")


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
    truncate(open_store(store), "t")
    assert agent.history("t")[0].at == 4
    agent.fork("t", at=4, thread_id="f")
    turn = await agent.resume("f", {"p": Approve()})
    assert (turn.messages[0].text, ran) == ("workeddone", ["go"])


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


class Unsure(MemoryCheckpointer):
    """Writes its second append, and then can neither say so nor be asked."""

    appends, silent = 0, False

    def append(self, *args, **how):
        super().append(*args, **how)
        self.appends += 1
        if self.appends == 2:
            self.silent = True
            raise OSError("connection lost")

    def head(self, thread):
        if self.silent:
            self.silent = False
            raise OSError("connection lost")
        return super().head(thread)


async def test_an_append_that_landed_unknown_to_its_writer_is_found_by_the_next_turn():
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=Unsure())
    assert (await agent.run("go", "t")).saved is False
    assert (await agent.run("go on", "t")).saved is True
    assert texts(agent.get_state("t").messages) == ["go", "one", "go on", "two"]


async def test_an_append_that_landed_unknown_to_its_writer_is_found_within_the_turn():
    agent = Agent(ScriptedModel([ToolCall("pay"), ToolCall("pay"), "done"]), [pay], checkpointer=Unsure(),
                  durability="step")  # fmt: skip
    turn = await agent.run("go", "t")
    assert (turn.status, turn.saved, len(agent.transcript("t"))) == ("ended", True, 6)


async def test_a_cancel_does_not_take_away_what_earlier_turns_left_unsaved():
    class Gated(Failing):
        inline = 0
        gate = None

        def head(self, thread):
            if self.gate is not None:
                asked.set()
                self.gate.wait(10)
            return super().head(thread)

    store, asked = Gated(), threading.Event()
    store.down = True
    agent = Agent(ScriptedModel(payer), [pay], middleware=[HumanInTheLoopMiddleware({"pay": True})], checkpointer=store)
    await agent.run("precious", "t")
    store.down = False
    task = asyncio.ensure_future(agent.resume("t", {"p": Approve()}))
    await asyncio.sleep(0)
    store.down, store.gate = True, threading.Event()
    while not asked.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0.01)
    gate, store.gate = store.gate, None
    gate.set()
    with pytest.raises((asyncio.CancelledError, CheckpointError)):
        await task
    store.down = False
    await agent.save("t")
    assert agent.get_state("t").said == UserMessage("precious")


# ---- promises


async def test_a_child_that_waits_goes_on_though_what_it_was_told_is_redacted():
    helper = Subagent(name="helper", description="", model=ScriptedModel(payer), tools=[pay])
    task = ToolCall("task", {"description": "use SECRET", "subagent_type": "helper"}, "t1")
    agent = create_deep_agent(
        ScriptedModel([task, "ok"]), [pay], subagents=[helper], interrupt_on={"pay": True}, redact=masked
    )
    await agent.run("go", "t")
    turn = await agent.resume("t", {"p": Approve()})
    assert texts(turn.messages) == ["done", "ok"]


async def test_a_turn_is_handed_back_as_it_was_said_though_it_was_compacted_meanwhile():
    class Compacting(Middleware):
        async def before_model(self, ctx, request):
            if ctx.state.step == 2:
                ctx.record(Compacted(UserMessage("so far"), len(ctx.state.messages)))
            return request

    agent = Agent(ScriptedModel([ToolCall("pay"), ToolCall("pay"), "end"]), [pay], middleware=[Compacting()])
    turn = await agent.run("go", "t")
    assert list(turn.messages) == agent.transcript("t")


async def test_after_a_cut_a_diff_and_an_export_tell_what_was_said_in_its_own_turn():
    store = MemoryCheckpointer()
    agent = Agent(ScriptedModel(ok), checkpointer=store)
    for n in range(1, 7):
        await agent.run(f"hello {n}", "t")
    store.retention = Retention(boundaries=3)
    truncate(open_store(store), "t")
    assert texts(agent.diff("t", 4, 5).messages) == ["hello 5", "ok"]


async def test_a_store_that_is_closing_does_not_take_the_answer():
    class Closing(MemoryCheckpointer):
        closing = False

        @property
        def executor(self):
            pool = ThreadPoolExecutor(1)
            if self.closing:
                pool.shutdown()
            return pool

    store = Closing(retention=Retention(seconds=60))

    def reply(request):
        store.closing = True
        return "ok"

    turn = await Agent(ScriptedModel(reply), checkpointer=store).run("go", "t")
    assert (turn.text, turn.saved) == ("ok", True)


def test_what_is_due_after_a_turn_is_found_in_one_pass():
    asked = []

    class Small(SegmentRef, frozen=True):
        """Is counted whenever its size is asked for."""

        def __getattribute__(self, name):
            if name == "bytes_raw":
                asked.append(name)
            return super().__getattribute__(name)

    MergeQueue([Small(f"log/t//{n:016}", 1) for n in range(1000)]).take(over=False)
    assert len(asked) <= 6 * 1000


async def test_a_thread_that_was_never_saved_can_be_deleted():
    store = Failing()
    agent = Agent(ScriptedModel(ok), checkpointer=store)
    store.down = True
    await agent.run("go", "t")
    store.down = False
    agent.delete("t")
    with pytest.raises(UnknownThread):
        await agent.save("t")


async def test_no_threads_name_makes_another_one_look_tidied_up():
    gate = asyncio.Event()

    async def wait(request):
        await gate.wait()
        return "ok"

    agent = Agent(ScriptedModel(wait), checkpointer=MemoryCheckpointer())
    turns = [asyncio.ensure_future(agent.run("go", name)) for name in ("a\0upkeep", "a")]
    await asyncio.sleep(0.01)
    with pytest.raises(ThreadBusy):
        await asyncio.wait_for(agent.run("go", "a"), 1)
    gate.set()
    await asyncio.gather(*turns)


@pytest.mark.parametrize("wrong", [None, 5, b"t", "", "x\ud800"])
@pytest.mark.parametrize("verb", ["get_state", "history", "transcript", "export", "runs", "delete", "fork"])
def test_a_thread_that_cannot_be_is_refused_by_every_verb(verb, wrong):
    agent = Agent(ScriptedModel(ok))
    agent.run_sync("go", "t")
    with pytest.raises(ConfigError, match=r"(thread_id|source) must be text of 1 to 500 characters"):
        getattr(agent, verb)(wrong)
    assert agent.get_state("t").turn == 1


async def test_a_decision_for_a_turn_that_was_cut_short_is_told_what_to_do():
    class Snapping(MemoryCheckpointer):
        def append(self, *args, **how):
            super().append(*args, **how)
            snaps.append(dict(self._rows))

    snaps = []

    both = [ToolCall("pay", {}, "p"), ToolCall("look", {}, "l")]

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    first = Agent(ScriptedModel([both]), [pay, look], middleware=[HumanInTheLoopMiddleware({"pay": True})],
                  checkpointer=Snapping(), durability="tool")  # fmt: skip
    await first.run("go", "t")
    store = MemoryCheckpointer()
    rows = snaps[-2]  # As a kill before the boundary leaves it.
    store.append("t", None, rows["head/t"], {key: data for key, data in rows.items() if key != "head/t"})
    agent = Agent(ScriptedModel(payer), [pay], checkpointer=store)
    assert (agent.get_state("t").status, len(agent.get_state("t").interrupts)) == ("running", 1)
    with pytest.raises(ConfigError, match="`resume` it alone, and decide then"):
        await agent.resume("t", {"p": Approve()})
