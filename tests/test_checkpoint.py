"""Stores: one contract for each of them, and what only a disk can suffer."""

import asyncio
import os
import pickle
import sqlite3
import stat
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minideep import (
    Agent,
    CheckpointError,
    CorruptSegment,
    DiskCheckpointer,
    ThreadConflict,
    ToolCall,
    ToolContext,
    UnknownVersion,
    create_deep_agent,
    tool,
)
from minideep.events import FileWritten, Noted
from minideep.middleware.subagents import Subagent
from minideep.models import ScriptedModel


@tool
async def ping(text: str = "pong") -> str:
    """Answer."""
    return text


# ---- the contract


def test_a_thread_that_was_never_written_has_no_head_and_no_rows(store):
    assert (store.head("t"), store.rows("", "zzz"), store.heads()) == (None, [], [])


def test_rows_come_back_in_order_of_their_keys_within_the_range(store):
    store.append("t", None, b"1", {"b": b"2", "a": b"1", "c": b"3"})
    assert store.rows("a", "c") == [("a", b"1"), ("b", b"2")]
    assert store.rows("b", "d") == [("b", b"2"), ("c", b"3")]


def test_an_append_puts_deletes_and_replaces_the_head_together(store):
    store.append("t", None, b"1", {"a": b"1", "b": b"2"})
    store.append("t", b"1", b"2", {"a": b"3", "c": b"4"}, ["b", "never"])
    assert store.rows("", "zzz")[:2] == [("a", b"3"), ("c", b"4")]
    assert (store.head("t"), store.heads()) == (b"2", [("t", b"2")])


@pytest.mark.parametrize("expected", [None, b"old", b"12"])
def test_an_append_to_another_head_than_the_expected_changes_nothing(store, expected):
    store.append("t", None, b"1", {"a": b"1"})
    with pytest.raises(ThreadConflict, match="thread 't' was appended to by another writer"):
        store.append("t", expected, b"2", {"a": b"2", "b": b"2"}, ["a"])
    assert (store.head("t"), list(store.rows("a", "c"))) == (b"1", [("a", b"1")])


def test_threads_have_heads_of_their_own_whatever_they_are_called(store):
    for name in ("a", "a/b", "ä%2F", "head/x"):
        store.append(name, None, name.encode(), {})
    assert dict(store.heads()) == {name: name.encode() for name in ("a", "a/b", "ä%2F", "head/x")}


def test_values_of_any_size_and_content_come_back(store):
    values = {"log/empty": b"", "log/large": os.urandom(3_000_000), "log/zeros": bytes(100)}
    store.append("t", None, b"1", values)
    assert dict(store.rows("log/", "log0")) == values


def test_of_writers_on_many_threads_one_wins_each_round(store):
    wins, conflicts = [], []

    def write(name):
        for number in range(20):
            head = store.head("t")
            try:
                store.append("t", head, f"{name}-{number}".encode(), {f"{len(wins):03}{name}{number}": b"x"})
                wins.append(name)
            except ThreadConflict:
                conflicts.append(name)

    workers = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(wins) + len(conflicts) == 80
    assert len(store.rows("0", "z")) - len([1 for key, _ in store.rows("head", "head0")]) == len(wins)


# ---- the log on it


async def test_a_turn_with_subagents_is_one_transaction(tmp_path):
    appends = []

    class Watched(DiskCheckpointer):
        def append(self, thread, expected, head, rows, deletes=()):
            appends.append(sorted(key.split("/")[0] + "/" + key.split("/")[2] for key in rows))
            super().append(thread, expected, head, rows, deletes)

    child = Subagent(name="critic", description="", model=ScriptedModel(["bad"]))
    task = ToolCall("task", {"description": "a", "subagent_type": "critic"}, "t1")
    with Watched(tmp_path) as store:
        agent = create_deep_agent(ScriptedModel([task, "ok"]), subagents=[child], checkpointer=store)
        await agent.run("go", "t")
    assert appends == [["log/"], ["log/", "log/t1", "run/t1"]]


async def test_large_turns_are_cut_into_segments_and_read_back(store):
    big = [ToolCall("ping", {"text": f"{n}" + os.urandom(300_000).hex()}) for n in range(6)]
    agent = Agent(ScriptedModel([*big, "ok"]), [ping], checkpointer=store)
    turn = await agent.run("go", "t")
    assert len(store.rows("log/t//", "log/t/0")) > 3
    assert tuple(agent.get_state("t").messages) == turn.messages


async def test_the_live_state_is_the_fold_of_the_log_after_every_turn(store):
    script = []
    for n in range(5):
        script += [[ToolCall("write_file", {"file_path": f"/{n}", "content": "x"}), ToolCall("glob", {"pattern": "*"})],
                   ToolCall("edit_file", {"file_path": f"/{n}", "old_string": "x", "new_string": "yy"}), "ok"]  # fmt: skip
    agent = create_deep_agent(ScriptedModel(script), checkpointer=store)
    for _ in range(5):
        await agent.run("go", "t")
        assert agent._kept["t"].root == agent.get_state("t")


STEP = st.lists(
    st.sampled_from(
        [
            ToolCall("write_file", {"file_path": "/a", "content": "one"}),
            ToolCall("write_file", {"file_path": "/b", "content": "two"}),
            ToolCall("edit_file", {"file_path": "/a", "old_string": "one", "new_string": "three"}),
            ToolCall("delete", {"file_path": "/b"}),
            ToolCall("write_todos", {"todos": [{"content": "a", "status": "completed"}]}),
            ToolCall("wait", {"turns": 3}),
            ToolCall("wait", {"turns": 1}),
            ToolCall("task", {"description": "a", "subagent_type": "critic"}),
            ToolCall("nope", {}),
        ]
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, min_size=1, max_size=4))
def test_whatever_runs_side_by_side_the_log_folds_to_the_live_state(script):
    @tool
    async def wait(turns: int, ctx: ToolContext) -> str:
        """Wait."""
        for number in range(turns):
            await asyncio.sleep(0)
            ctx.record(Noted("wait", f"{turns}", number, "append"))
        return "waited"

    child = [ToolCall("write_file", {"file_path": "/c", "content": "child"}), ToolCall("wait", {"turns": 2}), "ok"]

    def say(request):
        steps = child if "find faults" in request.system else [*script, "done"]
        return steps[sum(message.role == "assistant" for message in request.messages)]

    critic = Subagent(name="critic", description="", system_prompt="find faults")
    agent = create_deep_agent(ScriptedModel(say), [wait], subagents=[critic])
    turn = agent.run_sync("go", "t")
    assert (turn.status, turn.saved) == ("ended", True)
    assert agent._kept["t"].root == agent.get_state("t")
    children = agent.get_state("t", subagents=True).subagents
    assert len(children) == sum(call.name == "task" for step in script for call in step)
    assert all(state.text == "ok" for state in children.values())


async def damaged(store, change):
    """A thread of two turns, the second turn's boundary changed by *change*."""
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
    await agent.run("first", "t")
    await agent.run("second", "t")
    key, value = store.rows("log/t/", "log/t0")[-1]
    store.append("t", store.head("t"), store.head("t"), {key: change(value)})
    return Agent(ScriptedModel(["never"]), checkpointer=store)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda data: data[:-3], CorruptSegment),
        (lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:], CorruptSegment),
        (lambda data: data[:3] + b"\x09" + data[4:], UnknownVersion),
        (lambda data: b"", CorruptSegment),
    ],
)
async def test_a_damaged_segment_is_a_named_error_for_who_reads_and_who_runs(store, change, error):
    agent = await damaged(store, change)
    with pytest.raises(error, match="segment 'log/t//"):
        agent.get_state("t")
    with pytest.raises(error, match="segment 'log/t//"):
        await agent.run("third", "t")


async def test_a_segment_of_another_thread_or_a_missing_one_is_found(store):
    for thread in ("t", "u"):
        agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
        await agent.run("first", thread)
        await agent.run("second", thread)
    mine, theirs = store.rows("log/t/", "log/t0"), store.rows("log/u/", "log/u0")
    store.append("t", store.head("t"), store.head("t"), {mine[0][0]: theirs[0][1]})
    with pytest.raises(CorruptSegment, match="belongs to thread 'u'"):
        agent.get_state("t")
    store.append("u", store.head("u"), store.head("u"), {}, [theirs[1][0]])
    with pytest.raises(CorruptSegment, match="one is missing"):
        agent.get_state("u")


async def test_a_tool_may_record_only_what_can_be_saved(store):
    @tool
    async def bad(kind: str, ctx: ToolContext) -> str:
        """Record something wrong."""
        events = {"object": Noted("me", "k", object()), "type": FileWritten("/a", "x", "7", "s", 1.0)}
        ctx.record(events[kind])
        return "recorded"

    script = [[ToolCall("bad", {"kind": "object"}), ToolCall("bad", {"kind": "type"})], "ok"]
    agent = Agent(ScriptedModel(script), [bad], checkpointer=store)
    turn = await agent.run("go", "t")
    assert [message.is_error for message in turn.messages if message.role == "tool"] == [True, True]
    assert turn.saved
    assert agent.get_state("t").messages == list(turn.messages)


# ---- the disk


def test_the_directory_is_made_on_the_first_write_and_is_private(tmp_path):
    store = DiskCheckpointer(tmp_path / "a" / "state")
    assert store.heads() == []
    assert not (tmp_path / "a").exists()
    store.append("t", None, b"1", {})
    assert stat.S_IMODE((tmp_path / "a" / "state").stat().st_mode) == 0o700
    store.close()
    assert store.head("t") == b"1"
    store.close()


def test_every_value_is_a_raw_row_of_sqlite_and_nothing_is_ever_evicted(tmp_path):
    with DiskCheckpointer(tmp_path) as store:
        store.append("t", None, b"1", {"a": os.urandom(2_000_000)})
    with sqlite3.connect(tmp_path / "cache.db") as db:
        assert set(db.execute("SELECT mode, filename FROM Cache")) == {(1, None)}
        settings = dict(db.execute("SELECT key, value FROM Settings"))
    db.close()
    assert (settings["eviction_policy"], settings["cull_limit"]) == ("none", 0)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


class Bomb:
    def __reduce__(self):
        return (os.mkdir, (os.environ["BOMB"],))


@pytest.mark.parametrize("where", ["value", "key", "file"])
def test_a_row_forged_as_a_pickle_is_refused_and_runs_nothing(tmp_path, where):
    os.environ["BOMB"] = str(tmp_path / "exploded")
    with DiskCheckpointer(tmp_path / "state") as store:
        store.append("t", None, b"1", {"log/t//1": b"x"})
    bomb = pickle.dumps(Bomb())
    db = sqlite3.connect(tmp_path / "state" / "cache.db")
    with db:
        if where == "value":
            db.execute("UPDATE Cache SET mode = 4, value = ?", (bomb,))
        elif where == "key":
            db.execute("UPDATE Cache SET raw = 0 WHERE key = 'log/t//1'")
        else:
            (tmp_path / "state" / "x.val").write_bytes(bomb)
            db.execute("UPDATE Cache SET mode = 4, filename = 'x.val', value = NULL")
    db.close()
    with DiskCheckpointer(tmp_path / "state") as store:
        reads = [lambda: store.rows("log/", "log0")] if where == "key" else [lambda: store.head("t"), store.heads]
        for read in reads:
            with pytest.raises(CorruptSegment, match="refusing to read it"):
                read()
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("kind", ["under a file", "is a file"])
async def test_a_state_directory_that_cannot_be_made_costs_the_save_not_the_answer(tmp_path, kind):
    (tmp_path / "file").write_text("in the way")
    directory = tmp_path / "file" / "state" if kind == "under a file" else tmp_path / "file"
    agent = Agent(ScriptedModel(["42"]), checkpointer=DiskCheckpointer(directory))
    turn = await agent.run("go")
    assert (turn.status, turn.text, turn.saved) == ("ended", "42", False)
    assert isinstance(turn.error, CheckpointError)
    assert str(turn.error).startswith(f"cannot write the state in '{directory}'")
    assert "\n" not in str(turn.error)


async def test_a_database_that_is_garbage_is_a_named_error(tmp_path):
    (tmp_path / "cache.db").write_bytes(b"garbage" * 1000)
    agent = Agent(ScriptedModel(["42"]), checkpointer=DiskCheckpointer(tmp_path))
    with pytest.raises(CheckpointError, match="cannot read the state"):
        await agent.run("go", "t")


def test_a_store_that_was_open_works_on_in_a_forked_process(tmp_path):
    code = f"""
import os
from minideep import DiskCheckpointer
store = DiskCheckpointer({str(tmp_path)!r})
store.append("t", None, b"1", {{}})
if os.fork() == 0:
    store.append("t", b"1", b"2", {{}})
    os._exit(0)
os.wait()
print(store.head("t"))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert run.stdout == "b'2'\n", run.stderr


@pytest.mark.parametrize("moment", [0.0, 0.02, 0.05, 0.1, 0.15, 0.2])
def test_a_process_killed_at_any_moment_leaves_a_thread_that_loads_and_goes_on(tmp_path, moment):
    code = f"""
import asyncio, sys
from minideep import *
from minideep.models import ScriptedModel
@tool
async def ping() -> str:
    await asyncio.sleep(0.001)
    return "pong" * 500
agent = Agent(ScriptedModel(lambda r: ToolCall("ping") if len(r.messages) % 7 else "ok"), [ping],
              checkpointer=DiskCheckpointer({str(tmp_path)!r}))
print("ready", flush=True)
while True:
    agent.run_sync("go", "t")
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    process.stdout.readline()
    try:
        process.wait(moment)
    except subprocess.TimeoutExpired:
        process.kill()
    process.wait()
    process.stdout.close()
    with DiskCheckpointer(tmp_path) as store:
        agent = Agent(ScriptedModel(lambda request: "ok"), [ping], checkpointer=store)
        if store.head("t") is not None:
            assert agent.get_state("t").status in ("running", "ended")
        turn = agent.run_sync("go on", "t")
    assert (turn.status, turn.saved) == ("ended", True)
