"""The log: when it is written, what it costs, what is kept apart, and what happens when writing fails."""

import asyncio
import contextlib
import os
import pickle
import sqlite3
import threading
from hashlib import sha256
from random import Random

import pytest
import zstandard
from harness.agents import LONG
from harness.media import PNG
from harness.stores import plain
from msgspec import structs

from minideep import (
    Agent,
    Approve,
    AssistantMessage,
    CheckpointError,
    ConfigError,
    CorruptSegment,
    DiskCheckpointer,
    HistoryCut,
    Image,
    Interrupt,
    MemoryCheckpointer,
    Middleware,
    Respond,
    Retention,
    Subagent,
    Text,
    ThreadConflict,
    ToolCall,
    ToolContext,
    ToolResult,
    UnknownThread,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.checkpoint import format as codec, layout as names
from minideep.checkpoint.adapter import threaded
from minideep.checkpoint.disk_rows import DiskRows
from minideep.checkpoint.log import SegmentRef
from minideep.checkpoint.merge_queue import BLOCK, CRUMBS, MANY, MergeQueue
from minideep.checkpoint.rewriting import merge, truncate
from minideep.checkpoint.store import open_store
from minideep.events import Compacted, FileEdited, FileWritten, ModelReplied, ToolReturned
from minideep.models import ScriptedModel
from minideep.runtime.sync import run_sync
from minideep.runtime.turns import KEPT

RANDOM = Random(5)


def prose(size):
    """Text that was never said before."""
    return "".join(f"{RANDOM.randrange(10**6)} " for _ in range(size // 6 + 1))[:size]


@tool
async def ping(text: str = "pong") -> str:
    """Answer."""
    return text


@tool
async def look(size: int = 2000) -> str:
    """Give much."""
    return prose(size)


class Counting(MemoryCheckpointer):
    """A store that counts its appends and fails at those it is told to."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.appends, self.fail, self.seen = 0, set(), []

    async def append(self, thread, expected, head, rows, deletes=(), **how):
        self.appends += 1
        if self.appends in self.fail:
            raise OSError("no space left")
        await super().append(thread, expected, head, rows, deletes, **how)
        self.seen.append(sorted(key.split("/")[0] for key in rows))


# ---- durability


STEPS = [[ToolCall("ping", {}, "a"), ToolCall("ping", {}, "b")], ToolCall("ping", {}, "c"), "done"]


@pytest.mark.parametrize(("durability", "appends"), [("turn", 2), ("step", 4), ("tool", 7)])
async def test_an_append_more_a_step_or_a_call_and_the_same_log(durability, appends):
    store = Counting()
    agent = Agent(ScriptedModel(STEPS), [ping], checkpointer=store, durability=durability)
    turn = await agent.run("go", "t")
    assert (turn.status, turn.saved, store.appends) == ("ended", True, appends)
    assert agent.get_state("t").messages == list(turn.messages)
    assert turn.costs.bytes_raw > 0


async def test_a_childs_steps_and_calls_are_saved_early_too_with_its_parents():
    store = Counting()
    child = Subagent(name="helper", description="", model=ScriptedModel([ToolCall("ping"), "helped"]), tools=[ping])
    task = ToolCall("task", {"description": "a", "subagent_type": "helper"}, "t1")
    agent = create_deep_agent(ScriptedModel([task, "ok"]), subagents=[child], checkpointer=store, durability="tool")
    seen = []

    class Reader(Middleware):
        async def before_tool(self, ctx, call):
            state = agent.get_state("t", subagents=True)
            seen.append((call.name, [message.role for message in state.messages], list(state.subagents)))
            return call

    spy = Reader()
    child = Subagent(
        name="helper", description="", model=ScriptedModel([ToolCall("ping"), "helped"]), tools=[ping], middleware=[spy]
    )
    agent = create_deep_agent(
        ScriptedModel([task, "ok"]), subagents=[child], middleware=[spy], checkpointer=store, durability="tool"
    )
    await agent.run("go", "t")
    assert seen == [("task", ["user", "assistant"], []), ("ping", ["user", "assistant"], ["t1"])]


def test_another_durability_is_refused():
    for make in (Agent, create_deep_agent):
        with pytest.raises(ConfigError, match="durability must be 'turn', 'step' or 'tool', not 'async'"):
            make(ScriptedModel([]), durability="async")


@pytest.mark.parametrize(("durability", "again"), [("turn", ["a", "b", "c"]), ("step", ["c"]), ("tool", [])])
def test_what_was_saved_is_not_done_again_after_a_kill(tmp_path, durability, again):
    did = tmp_path / "did"

    @tool
    async def act(ctx: ToolContext) -> str:
        """Act."""
        with did.open("a") as file:
            file.write(ctx.call_id + "\n")
        return "acted"

    @tool
    async def last(ctx: ToolContext) -> str:
        """Kill the process, once."""
        if os.getpid() != parent:
            os._exit(9)
        return "lived"

    script = [[ToolCall("act", {}, "a"), ToolCall("act", {}, "b")], [ToolCall("act", {}, "c"), ToolCall("last")], "ok"]

    def policy(request):
        return script[sum(message.role == "assistant" for message in request.messages)]

    def agent():
        store = DiskCheckpointer(tmp_path / "state")
        return Agent(ScriptedModel(policy), [act, last], checkpointer=store, durability=durability)

    parent = os.getpid()
    if (child := os.fork()) == 0:
        asyncio.run(agent().run("go", "t"))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert did.read_text().split() == ["a", "b", "c"]
    did.write_text("")
    mine = agent()
    turn = asyncio.run(mine.resume("t"))
    assert (turn.status, turn.text, did.read_text().split()) == ("ended", "ok", again)
    mine.checkpointer.close()


# ---- calls that a person let run


class Ask(Middleware):
    async def before_tool(self, ctx, call):
        return Interrupt(call, "sure?") if call.name == "pay" and ctx.decision is None else call


class Desk:
    """An agent that pays when a person lets it, on a store that counts."""

    def __init__(self, store=None):
        self.store, self.paid, self.stop = store or Counting(), [], None

        @tool
        async def pay(ctx: ToolContext) -> str:
            """Pay."""
            self.paid.append(ctx.call_id)
            if self.stop:
                self.stop.set()
                await asyncio.sleep(60)
            return "paid"

        self.tools = [pay, ping]

    def agent(self, *script):
        return Agent(ScriptedModel(list(script)), self.tools, middleware=[Ask()], checkpointer=self.store)


async def test_a_call_that_was_let_run_and_cut_short_waits_again_and_says_so(store):
    desk = Desk(store)
    await desk.agent(ToolCall("pay", {}, "p")).run("go", "t")
    desk.stop = asyncio.Event()
    agent = desk.agent("done")
    running = asyncio.ensure_future(agent.resume("t", {"p": Approve()}))
    await desk.stop.wait()
    assert agent.get_state("t").open["p"].started
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ConfigError, match="no pending call 'p'; pending: none"):
        await agent.resume("t", {"p": Approve()})
    turn = await agent.resume("t")
    assert (turn.status, desk.paid) == ("paused", ["p"])
    assert turn.interrupts[0].reason.startswith("a person let it run, and it had begun when the turn was cut short")
    turn = await agent.resume("t", {"p": Respond("the bank says it is paid")})
    assert (turn.status, turn.text, desk.paid) == ("ended", "done", ["p"])


async def test_a_task_that_was_let_run_and_cut_short_goes_on_for_its_child_is_in_the_log(store):
    started, said = asyncio.Event(), []

    async def child(request):
        said.append(len(request.messages))
        if len(said) == 2:
            started.set()
            await asyncio.sleep(60)
        return ToolCall("ping") if len(request.messages) == 1 else "helped"

    task = ToolCall("task", {"description": "a", "subagent_type": "helper"}, "t1")
    helper = Subagent(name="helper", description="", model=ScriptedModel(child), tools=[ping])
    agent = create_deep_agent(
        ScriptedModel([task, "done"]), subagents=[helper], interrupt_on={"task": True}, checkpointer=store
    )
    await agent.run("go", "t")
    running = asyncio.ensure_future(agent.resume("t", {"t1": Approve()}))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    turn = await agent.resume("t")
    assert (turn.status, turn.text, said) == ("ended", "done", [1, 3, 3])


async def test_a_call_that_was_let_run_is_saved_when_it_begins_and_when_it_returns():
    desk = Desk()
    agent = desk.agent(ToolCall("pay", {}, "p"), ToolCall("ping"), "done")
    await agent.run("go", "t")
    assert desk.store.appends == 2
    await agent.resume("t", {"p": Approve()})
    assert desk.store.appends == 6


async def test_a_call_whose_beginning_cannot_be_saved_does_not_run():
    desk = Desk()
    agent = desk.agent(ToolCall("pay", {}, "p"), "done")
    await agent.run("go", "t")
    desk.store.fail = {4}
    turn = await agent.resume("t", {"p": Approve()})
    assert (turn.status, turn.text, desk.paid, turn.saved) == ("ended", "done", [], True)
    assert turn.messages[0].text.startswith("pay was not run: its beginning could not be saved: the store failed")


# ---- what a failed save leaves


async def test_save_appends_what_a_failed_save_left():
    store = Counting()
    agent = Agent(ScriptedModel(["one"]), checkpointer=store)
    store.fail = {2, 3}
    assert not (await agent.run("first", "t")).saved
    with pytest.raises(CheckpointError, match="the store failed: OSError: no space left"):
        await agent.save("t")
    await agent.save("t")
    await agent.save("t")
    assert [message.text for message in Agent(ScriptedModel([]), checkpointer=store).get_state("t").messages] == [
        "first",
        "one",
    ]
    with pytest.raises(UnknownThread):
        await agent.save("nope")


async def test_what_is_unsaved_stays_with_its_store_when_the_agent_is_given_another():
    bad, good = Counting(), MemoryCheckpointer()
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=bad)
    bad.fail = {2}
    assert not (await agent.run("first", "t")).saved
    agent.checkpointer = good
    assert (await agent.run("other", "t")).saved
    agent.checkpointer = bad
    await agent.save("t")
    assert [message.text for message in agent.get_state("t").messages] == ["first", "one"]


async def test_a_failure_in_the_middle_of_a_turn_is_made_good_by_the_next_append():
    store = Counting()
    store.fail = {2, 3, 4}
    agent = Agent(ScriptedModel(STEPS), [ping], checkpointer=store, durability="tool")
    turn = await agent.run("go", "t")
    assert (turn.saved, turn.error) == (True, None)
    assert agent.get_state("t").messages == list(turn.messages)


async def test_save_after_another_writer_has_gone_on_is_a_conflict_and_drops_what_was_left():
    store = Counting()
    agent, other = Agent(ScriptedModel(["one"]), checkpointer=store), Agent(ScriptedModel(["two"]), checkpointer=store)
    store.fail = {2}
    await agent.run("first", "t")
    await other.run("second", "t")
    with pytest.raises(ThreadConflict):
        await agent.save("t")
    await agent.save("t")
    assert [message.text for message in agent.get_state("t").messages] == ["first", "second", "two"]


async def test_a_thread_that_was_run_before_is_not_read_again_unless_somebody_changed_it_or_many_were_run_since():
    class Read(MemoryCheckpointer):
        reads = 0

        async def read(self, *ranges):
            self.reads += any(one.stop for one in ranges)
            return await super().read(*ranges)

    store = Read()
    agent = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)

    async def reads(thread):
        store.reads = 0
        assert (await agent.run("go", thread)).saved
        return store.reads > 0

    assert [await reads("t"), await reads("t"), await reads("t")] == [False, False, False]
    await Agent(ScriptedModel(["other"]), checkpointer=store).run("go", "t")
    assert [await reads("t"), await reads("t")] == [True, False]
    for n in range(KEPT):
        await agent.run("go", f"other {n}")
    assert await reads("t")
    assert len(agent.get_state("t").messages) == 14


# ---- who waits for whom


async def test_a_large_append_does_not_hold_up_the_loop_and_a_cancel_waits_for_it(tmp_path):
    threads, go = [], threading.Event()

    class Slow(DiskRows):
        def append(self, thread, expected, head, rows, deletes=(), **how):
            threads.append(threading.current_thread() is threading.main_thread())
            if not threads[-1]:
                go.wait()
            super().append(thread, expected, head, rows, deletes, **how)

    with contextlib.closing(threaded(Slow(tmp_path, Retention()))) as store:
        agent = Agent(ScriptedModel([ToolCall("look", {"size": 900_000}), "ok"]), [look], checkpointer=store)
        running = asyncio.ensure_future(agent.run("go", "t"))
        while len(threads) < 2:
            await asyncio.sleep(0.001)
        running.cancel()
        for _ in range(20):
            await asyncio.sleep(0.001)  # The loop runs on; the append is not cut short.
        assert not running.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert threads == [True, False]
        assert agent.get_state("t").text == "ok"


async def test_appends_of_parallel_calls_go_one_after_the_other(tmp_path):
    calls = [ToolCall("look", {"size": 70_000 + n}, f"c{n}") for n in range(6)]
    with DiskCheckpointer(tmp_path) as store:
        agent = Agent(ScriptedModel([calls, "ok"]), [look], checkpointer=store, durability="tool")
        turn = await agent.run("go", "t")
        assert (turn.status, turn.saved, turn.error) == ("ended", True, None)
        assert agent.get_state("t").messages == list(turn.messages)


async def test_a_store_that_others_lock_holds_up_the_loop_for_a_moment_only(tmp_path):
    with DiskCheckpointer(tmp_path) as store:
        agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
        await agent.run("first", "t")
        other = sqlite3.connect(tmp_path / "cache.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        running, ticks = asyncio.ensure_future(agent.run("second", "t")), 0
        while ticks < 50:
            await asyncio.sleep(0.002)
            ticks += 1
        assert not running.done()
        other.execute("COMMIT")
        other.close()
        turn = await running
    assert (turn.text, turn.saved) == ("two", True)


# ---- joining


def piece(raw, number=0, last=None):
    return SegmentRef(f"log/t//{number:016}-{last or number:016}", raw, last or number)


def test_segments_wait_until_they_fill_a_block_and_a_full_one_is_left_alone():
    quarter, one, full = piece(BLOCK // 4), piece(1), piece(BLOCK)
    queue = MergeQueue([quarter] * 3)
    assert queue.take(over=False) == []
    queue.add(quarter)
    queue.add(one)
    assert queue.take(over=False) == [[quarter] * 4]
    assert MergeQueue([full, full, one]).take(over=False) == []
    assert MergeQueue([one, full] * 3).take(over=False) == []


def test_no_block_reaches_over_a_base_and_a_run_that_is_over_leaves_no_crumbs():
    one, last = piece(1), piece(1, 1)
    queue = MergeQueue([one])
    queue.add(last, closes=True)
    queue.add(one)
    queue.add(one)
    assert (queue.take(over=False), queue.take(over=False)) == ([[one, last]], [])
    assert MergeQueue([one] * CRUMBS).take(over=True) == [[one] * CRUMBS]
    assert MergeQueue([one] * (CRUMBS - 1)).take(over=True) == []


def test_many_small_segments_are_joined_and_wait_on_as_one():
    pieces = [piece(1, n) for n in range(MANY * MANY)]
    queue = MergeQueue(pieces)
    groups = queue.take(over=False)
    assert groups[0] == pieces[:MANY]
    assert len(groups) == MANY + 1
    assert groups[-1] == [piece(MANY, n, last=n + MANY - 1) for n in range(0, MANY * MANY, MANY)]
    queue.add(piece(BLOCK - MANY * MANY, 9999))
    assert queue.take(over=False) == [[piece(MANY * MANY, 0, last=MANY * MANY - 1), piece(BLOCK - MANY * MANY, 9999)]]


async def test_a_long_chat_of_short_turns_takes_little_more_room_than_what_was_said(tmp_path):
    with DiskCheckpointer(tmp_path) as store:
        agent = Agent(ScriptedModel(lambda request: f"fine, thanks, {prose(20)}"), checkpointer=store)
        for n in range(400):
            assert (await agent.run(f"how are you {n}?", "t")).saved
        open_store(store).finish()
        assert len(plain(store).keys("log/", "log0")) < 3 * MANY
        assert agent.threads()[0].bytes_stored < 0.8 * agent.threads()[0].bytes_raw
        assert len(agent.transcript("t")) == 800


async def test_a_thread_is_joined_as_it_grows_and_its_bytes_stay_near_one_shot_compression(store):
    agent = Agent(ScriptedModel(([ToolCall("look")] * 3 + ["ok"]) * 150), [look], checkpointer=store)
    for _ in range(150):
        assert (await agent.run("go", "t")).saved
    store.close()
    segments = plain(store).rows("log/", "log0")
    assert len(segments) < 100
    raw = b"".join(codec.unseal(data, key, codec.SEGMENT)[1] for key, data in segments)
    stored, one_shot = sum(len(data) for _, data in segments), len(zstandard.compress(raw, 3))
    assert stored < 1.15 * one_shot
    assert len(Agent(ScriptedModel([]), checkpointer=store).get_state("t").messages) == 150 * 8
    assert 0.5 * stored < agent.threads()[0].bytes_stored < 1.5 * stored


async def test_what_a_killed_process_left_to_join_is_joined_by_the_next(tmp_path):
    def turns(count):
        with DiskCheckpointer(tmp_path) as store:
            agent = Agent(ScriptedModel([ToolCall("look", {"size": 20_000}), "ok"] * count), [look], checkpointer=store)
            for _ in range(count):
                run_sync(agent.run("go", "t"))

    if (child := os.fork()) == 0:
        os._exit(0 if not turns(10) else 1)
    os.waitpid(child, 0)
    with DiskCheckpointer(tmp_path) as store:
        left = len(plain(store).keys("log/", "log0"))
    assert left == 10
    turns(4)
    with DiskCheckpointer(tmp_path) as store:
        assert len(plain(store).keys("log/", "log0")) < 10
        assert len(Agent(ScriptedModel([]), checkpointer=store).get_state("t").messages) == 14 * 4


def test_a_join_that_comes_too_late_changes_nothing(store):
    agent = Agent(ScriptedModel(["one", "two", "three"]), checkpointer=store)
    for n in range(3):
        agent.run_sync(f"say {n}{LONG}", "t")
    keys = plain(store).keys("log/", "log0")
    before = plain(store).rows("log/", "log0")
    assert merge(open_store(store), "t", [*keys[:3], "log/t//9"]) == 0
    assert merge(open_store(store), "u", keys[:3]) == 0
    assert plain(store).rows("log/", "log0") == before
    assert merge(open_store(store), "t", keys[1:3]) > 0
    assert merge(open_store(store), "t", keys[:3]) == 0  # One of them is gone.
    assert [message.text for message in agent.get_state("t").messages][::2] == [f"say {n}{LONG}" for n in range(3)]


def test_a_join_of_a_thread_that_was_deleted_and_begun_again_changes_nothing():
    class Sly(MemoryCheckpointer):
        sly = False

        async def read(self, *ranges):
            found = await super().read(*ranges)
            if self.sly and any(one.start.startswith("log/t//") for one in ranges):
                self.sly = False
                agent.delete("t")
                for text in ("other", "again"):
                    agent.run_sync(text + LONG, "t")
            return found

    store = Sly()
    agent = Agent(ScriptedModel(["one", "two", "three", "four"]), checkpointer=store)
    for text in ("first", "second"):
        agent.run_sync(text + LONG, "t")
    keys = plain(store).keys("log/t//", "log/t/0")
    store.sly = True
    assert merge(open_store(store), "t", keys) == 0
    assert [message.text for message in agent.transcript("t")] == ["other" + LONG, "three", "again" + LONG, "four"]


def test_a_join_of_segments_whose_first_was_cut_off_meanwhile_changes_nothing():
    class Sly(MemoryCheckpointer):
        sly = False

        async def read(self, *ranges):
            found = await super().read(*ranges)
            if self.sly and any(one.start == keys[3] for one in ranges):
                self.sly = False
                truncate(open_store(self), "t")
            return found

    store = Sly()
    agent = Agent(ScriptedModel([text + LONG for text in ("one", "two", "three")]), checkpointer=store)
    for n in range(3):
        agent.run_sync(f"say {n}{LONG}", "t")
    keys = plain(store).keys("log/t//", "log/t/0")
    store.retention, store.sly = Retention(boundaries=2), True
    assert merge(open_store(store), "t", keys[3:6]) == 0
    assert len(agent.history("t")) == 2
    assert Agent(ScriptedModel(["four"]), checkpointer=store).run_sync("say 3", "t").saved


async def test_a_thread_that_compacts_again_and_again_is_joined_and_resumes_from_its_last_base(store):
    agent = Agent(ScriptedModel(lambda request: "ok"), middleware=[Compacting(7)], checkpointer=store)
    for n in range(60):
        assert (await agent.run(f"go {n}", "t")).saved
    store.close()
    assert len(plain(store).keys("log/", "log0")) < 50
    bases = [int(key.rpartition("/")[2].partition("-")[0]) for key in plain(store).keys("base/", "base0")]
    for key, data in plain(store).rows("log/", "log0"):
        header = codec.read_header(data, key)
        assert not any(header.first <= base < header.last for base in bases)
    fresh = Agent(ScriptedModel([]), checkpointer=store)
    assert (fresh.get_state("t").turn, len(fresh.transcript("t"))) == (60, 120)


# ---- blobs


async def test_large_files_results_and_images_are_blobs_and_go_with_their_thread(store):
    @tool
    async def photo() -> ToolResult:
        """Take a photo."""
        return ToolResult((Image(PNG + os.urandom(300_000)),))

    script = [
        [ToolCall("look", {"size": 200_000}), ToolCall("photo"),
         ToolCall("write_file", {"file_path": "/a", "content": prose(150_000)})],
        "ok",
    ]  # fmt: skip
    agent = create_deep_agent(ScriptedModel(script), [look, photo], checkpointer=store)
    turn = await agent.run("go", "t")
    assert len(plain(store).keys("blob/", "blob0")) == 4  # The call that wrote the file, too.
    assert max(len(data) for _, data in plain(store).rows("log/", "log0")) < 10_000
    fresh = Agent(ScriptedModel([]), checkpointer=store)
    assert fresh.get_state("t").messages == list(turn.messages)
    agent.fork("t", thread_id="f")
    agent.delete("t")
    assert fresh.get_state("f").messages == list(turn.messages)
    agent.delete("f")
    assert plain(store).keys("", "\x7f") == []


async def test_one_file_in_two_threads_is_stored_once(store):
    content = prose(150_000)
    script = [ToolCall("write_file", {"file_path": "/a", "content": content}, "w"), "ok"] * 2
    agent = create_deep_agent(ScriptedModel(script), checkpointer=store)
    for thread in ("t", "u"):
        await agent.run("go", thread)
    named = [key.split("/")[1] for key in plain(store).keys("ref/", "ref0")]
    assert named.count(sha256(content.encode()).hexdigest()) == 2
    agent.delete("t")
    assert agent.read_file("u", "/a") == content


@pytest.mark.parametrize(("size", "bound"), [(50_000, 300_000), (200_000, 500_000)])
async def test_a_hundred_edits_of_a_file_cost_what_they_change(tmp_path, size, bound):
    words = [f"word{n}" for n in range(size // 8)]
    edits = [ToolCall("edit_file", {"file_path": "/a", "old_string": f"word{n * 50} ", "new_string": f"edit{n} "})
             for n in range(100)]  # fmt: skip
    script = [ToolCall("write_file", {"file_path": "/a", "content": " ".join(words)}), "ok"]
    for edit in edits:
        script += [edit, "ok"]
    with DiskCheckpointer(tmp_path) as store:
        agent = create_deep_agent(ScriptedModel(script), checkpointer=store)
        for _ in range(101):
            assert (await agent.run("go", "t")).saved
        content = agent.read_file("t", "/a")
        assert (content.count("edit"), len(content) > 0.9 * size) == (100, True)
    assert (tmp_path / "cache.db").stat().st_size < bound


async def test_a_file_that_is_kept_apart_can_be_edited_after_a_restart(store):
    script = [ToolCall("write_file", {"file_path": "/a", "content": "old " + prose(150_000)}), "ok"]
    await create_deep_agent(ScriptedModel(script), checkpointer=store).run("go", "t")
    script = [[ToolCall("edit_file", {"file_path": "/a", "old_string": "old ", "new_string": "new "}),
               ToolCall("grep", {"pattern": "new", "path": "/"})], "ok"]  # fmt: skip
    turn = await create_deep_agent(ScriptedModel(script), checkpointer=store).run("go", "t")
    assert [message.is_error for message in turn.messages if message.role == "tool"] == [False, False]
    assert Agent(ScriptedModel([]), checkpointer=store).read_file("t", "/a").startswith("new ")


async def test_a_tool_may_edit_a_file_that_is_kept_apart_without_reading_it(store):
    @tool
    async def edit(ctx: ToolContext) -> str:
        """Edit."""
        ctx.record(FileEdited("/a", "old ", "new ", False, 150_004, "?", 1.0))
        return "edited"

    script = [ToolCall("write_file", {"file_path": "/a", "content": "old " + prose(150_000)}), "ok"]
    await create_deep_agent(ScriptedModel(script), checkpointer=store).run("go", "t")
    agent = Agent(ScriptedModel([ToolCall("edit"), "ok"]), [edit], checkpointer=store)
    assert (await agent.run("go", "t")).messages[2].text == "edited"
    assert agent.read_file("t", "/a").startswith("new ")


async def test_what_is_kept_apart_does_not_stay_in_memory(store):
    content = prose(150_000)
    script = [
        ToolCall("write_file", {"file_path": "/a", "content": content}),
        "ok",
        ToolCall("read_file", {"file_path": "/a"}),
        "ok",
    ]
    agent = create_deep_agent(ScriptedModel(script), checkpointer=store)
    turn = await agent.run("go", "t")
    assert turn.artifacts["/a"].content == content
    (journal,) = agent._turns._kept.values()
    assert (journal.root.files["/a"].content, journal.root.files["/a"].blob) == (None, True)
    assert content[:20] in (await agent.run("go", "t")).messages[2].text


async def test_a_lost_or_damaged_blob_is_named(store):
    script = [ToolCall("look", {"size": 200_000}), "ok"]
    agent = Agent(ScriptedModel(script), [look], checkpointer=store)
    await agent.run("go", "t")
    (key,) = plain(store).keys("blob/", "blob0")
    data, head = plain(store).get(key), plain(store).head("t")
    for change, match in [
        (codec.seal_blob(b"other"), "does not match its name"),
        (data[:-4], "cannot be read"),
        (codec.BLOB + bytes((9, 0)) + data[5:], "has format 9.0"),
        (codec.BLOB + data[3:5] + zstandard.compress(bytes(2**26)), "claims 67,108,864 bytes"),
    ]:
        plain(store).append("t", head, head, {}, [key])
        plain(store).append("t", head, head, {key: change})
        with pytest.raises(CheckpointError, match=f"blob '{key[5:]}'.*{match}"):
            agent.get_state("t")
    plain(store).append("t", head, head, {}, [key])
    with pytest.raises(CorruptSegment, match=f"blob '{key[5:]}' is missing"):
        agent.get_state("t")


# ---- bases


class Compacting(Middleware):
    """Compacts at the end of each turn whose number can be divided by *every*."""

    def __init__(self, every):
        self.every = every

    async def before_finish(self, ctx):
        if ctx.state.turn % self.every == 0:
            ctx.record(Compacted(UserMessage(f"{ctx.state.turn} turns"), len(ctx.state.messages) - 1))


async def test_files_stand_in_a_base_by_name_and_are_written_once(store):
    @tool
    async def write(ctx: ToolContext) -> str:
        """Write fifty files."""
        for n in range(50):
            content = prose(6_000)
            ctx.record(FileWritten(f"/{n}", content, len(content), sha256(content.encode()).hexdigest(), 1.0))
        return "written"

    agent = Agent(
        ScriptedModel([ToolCall("write"), *["ok"] * 6]), [write], middleware=[Compacting(2)], checkpointer=store
    )
    for n in range(6):
        await agent.run(f"go {n}", "t")
    bases = plain(store).rows("base/", "base0")
    assert (len(bases), len(plain(store).keys("blob/", "blob0"))) == (3, 50)
    assert max(len(data) for _, data in bases) < 20_000
    fresh = Agent(ScriptedModel(["more"]), checkpointer=store)
    assert len(fresh.read_file("t", "/7")) == 6_000
    assert await fresh.run("go", "t")


async def test_a_base_holds_open_calls_notes_and_limits(store):
    class Early(Middleware):
        async def before_tool(self, ctx, call):
            if call.name == "pay" and ctx.decision is None:
                return Interrupt(call, "sure?")
            return call

        async def before_model(self, ctx, request):
            if len(request.messages) == 3:
                ctx.record(Compacted(UserMessage("so far"), 2))
                return type(request)(request.system, list(ctx.state.messages), request.tools)
            return request

    desk = Desk(store)
    script = ["one", [ToolCall("pay", {}, "p"), ToolCall("ping", {}, "q")], "done"]
    agent = Agent(ScriptedModel(script), desk.tools, middleware=[Early()], checkpointer=store)
    await agent.run("first", "t")
    turn = await agent.run("second", "t")
    assert (turn.status, len(plain(store).keys("base/", "base0"))) == ("paused", 1)
    again = Agent(ScriptedModel(["done"]), desk.tools, middleware=[Early()], checkpointer=store)
    assert again.get_state("t").open["q"].result.text == "pong"
    assert (await again.resume("t", {"p": Approve()})).text == "done"
    assert (desk.paid, again.get_state("t").turn) == (["p"], 3)


# ---- retention


async def test_retention_by_count_runs_by_itself(tmp_path):
    for store in (
        MemoryCheckpointer(retention=Retention(boundaries=5)),
        DiskCheckpointer(tmp_path, retention=Retention(boundaries=5)),
    ):
        agent = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)
        for n in range(40):
            turn = await agent.run(f"go {n}", "t")
            assert (turn.status, turn.saved) == ("ended", True)
        store.close()
        kept = [boundary.at for boundary in agent.history("t")]
        assert kept == list(range(kept[0], 41))
        assert 5 <= len(kept) <= 6
        assert len(agent.get_state("t").messages) == 80
        with pytest.raises(HistoryCut):
            agent.get_state("t", at=3)
        store.close()


async def test_a_cut_lets_go_of_the_blobs_that_nothing_left_names(store):
    def write(content):
        return [ToolCall("write_file", {"file_path": "/a", "content": content}), "ok"]

    last = prose(150_000)
    script = [*write(prose(150_000)), *write(last), "ok", "ok"]
    agent = create_deep_agent(ScriptedModel(script), checkpointer=store)
    for _ in range(4):
        await agent.run("go", "t")
    assert len(plain(store).keys("blob/", "blob0")) == 4  # Two files, and the two replies that wrote them.
    agent.fork("t", at=1, thread_id="f")
    store.retention = Retention(boundaries=1)
    truncate(open_store(store), "t")
    assert agent.read_file("t", "/a") == last
    assert (
        len(plain(store).keys("use/t/", "use/t0")) == 1
    )  # The file; the replies that are in context stand in the base.
    assert len(plain(store).keys("blob/", "blob0")) == 3  # And the fork's two.
    agent.delete("f")
    assert len(plain(store).keys("blob/", "blob0")) == 1
    assert agent.get_state("t").messages[1].calls[0].args["file_path"] == "/a"


async def test_what_is_due_after_a_turn_finds_the_thread_free_even_if_it_is_done_at_once():
    store = MemoryCheckpointer(retention=Retention(boundaries=1))
    checked = open_store(store)
    checked.maintain = lambda job: job()
    agent = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)
    for n in range(1, 4):
        await agent.run("go", "t")
        assert [boundary.at for boundary in agent.history("t")] == [n]


async def test_retention_by_age_deletes_what_lies_unused(store):
    agent = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)
    await agent.run("go", "old")
    store.retention = Retention(seconds=0.05)
    for _ in range(2):  # The first marks it, the second deletes it.
        await asyncio.sleep(0.1)
        await agent.run("go", "new")
        store.close()
    assert [info.thread_id for info in agent.threads()] == ["new"]
    with pytest.raises(UnknownThread):
        await agent.resume("old")


# ---- redaction


def masked(event):
    """Nothing that is saved says SECRET."""
    match event:
        case ModelReplied():
            return codec.decode(codec.encode(1, event).replace(b"SECRET", b"XXXXXX"))
        case ToolReturned() | FileWritten() | FileEdited():
            return codec.decode(codec.encode(1, event).replace(b"SECRET", b"XXXXXX"))
        case _:
            return event


async def test_what_redact_takes_out_is_used_but_never_saved(store):
    used = []

    @tool
    async def login(password: str) -> str:
        """Log in."""
        used.append(password)
        return f"welcome, {password}"

    script = [
        [ToolCall("login", {"password": "SECRET"}), ToolCall("write_file", {"file_path": "/a", "content": "my SECRET file"}),
         ToolCall("write_file", {"file_path": "/b", "content": "SECRET" * 30_000})],
        [ToolCall("edit_file", {"file_path": "/a", "old_string": "my SECRET", "new_string": "your"}),
         ToolCall("edit_file", {"file_path": "/b", "old_string": "ETSECRETSEC", "new_string": "!", "replace_all": True})],
        "done",
    ]  # fmt: skip
    agent = create_deep_agent(ScriptedModel(script), [login], checkpointer=store, redact=masked)
    turn = await agent.run("go", "t")
    assert (turn.saved, turn.error, used) == (True, None, ["SECRET"])
    assert turn.messages[2].text == "welcome, SECRET"
    everything = b"".join(
        codec.read_blob(data, key[5:]) if key.startswith("blob/") else codec.unseal(data, key, data[:3])[1]
        for key, data in plain(store).rows("", "\x7f") if key.startswith(("blob/", "log/", "base/"))
    )  # fmt: skip
    assert b"SECRET" not in everything
    fresh = Agent(ScriptedModel([]), checkpointer=store)
    assert fresh.get_state("t").messages[2].text == "welcome, XXXXXX"
    assert fresh.read_file("t", "/a") == "your file"
    assert (fresh.read_file("t", "/b") or "").count("SECRET") == 0


@pytest.mark.parametrize(
    ("redact", "match"),
    [
        (lambda event: 1 / 0, "`redact` raised ZeroDivisionError; nothing was saved"),
        (lambda event: None, "`redact` must return a UserSaid, not NoneType"),
    ],
)
async def test_a_redaction_that_fails_costs_the_save_and_not_the_answer(store, redact, match):
    agent = Agent(ScriptedModel(["one"]), checkpointer=store, redact=redact)
    turn = await agent.run("go", "t")
    assert (turn.text, turn.saved, plain(store).head("t")) == ("one", False, None)
    assert str(turn.error) == match
    agent.redact = None


async def test_another_redaction_holds_from_the_next_turn_on(store):
    def saying(word):
        return lambda event: (
            structs.replace(event, message=AssistantMessage(word)) if isinstance(event, ModelReplied) else event
        )

    agent = Agent(ScriptedModel(["one", "two", "three"]), checkpointer=store, redact=saying("first"))
    for redact in (agent.redact, saying("second"), None):
        agent.redact = redact
        assert (await agent.run("go", "t")).saved
    assert [message.text for message in agent.transcript("t")][1::2] == ["first", "second", "three"]


async def test_a_redacted_thread_compacts_and_goes_on(store):
    script = [ToolCall("write_file", {"file_path": "/a", "content": "my SECRET"}), *["ok"] * 5]
    agent = create_deep_agent(ScriptedModel(script), middleware=[Compacting(1)], checkpointer=store, redact=masked)
    for _ in range(4):
        assert (await agent.run("go", "t")).saved
    assert len(plain(store).keys("base/", "base0")) == 4
    assert all(
        b"SECRET" not in codec.unseal(data, key, codec.SNAPSHOT)[1] for key, data in plain(store).rows("base/", "base0")
    )
    fresh = Agent(ScriptedModel([]), checkpointer=store)
    assert (fresh.get_state("t"), fresh.read_file("t", "/a")) == (agent.get_state("t"), "my XXXXXX")


def test_text_of_any_kind_is_kept():
    said = [Text("é\x00\U0001f600"), Text(" ")]
    agent = Agent(ScriptedModel([ToolCall("ping", {"text": "\ud800", "n": 2**80, "nan": float("inf")}), "ok"]), [ping])
    agent.run_sync(said, "t")
    assert agent.transcript("t")[0].blocks == tuple(said)
    assert pickle.loads(pickle.dumps(agent.get_state("t"))) == agent.get_state("t")
    assert names.run_path("run/t/a%2Fb,c") == ("a/b", "c")
