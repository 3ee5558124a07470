"""Damaged stores: reading any row under any key returns an answer or raises an error of the package, at a bounded cost."""

import sqlite3
from pathlib import Path

import msgspec
import pytest
from harness import damage
from harness.agents import LONG
from harness.damage import ask, store_of
from harness.processes import python
from harness.stores import plain
from hypothesis import given, strategies as st

from minideep import (
    Agent,
    CorruptSegment,
    DiskCheckpointer,
    MemoryCheckpointer,
    SegmentTooLarge,
    ToolCall,
    ToolContext,
    tool,
)
from minideep.checkpoint import format as codec
from minideep.checkpoint.messagepack import holds_more
from minideep.events import FileEdited, FileWritten, Noted
from minideep.models import ScriptedModel


@pytest.mark.parametrize("seed", [0, 30, 60, 90])
def test_whatever_is_damaged_only_errors_of_the_package_are_raised(seed):
    """A campaign of 120 stores in four parts; `bench/damage.py` runs a longer one."""
    damage.campaign(30, seed)


def test_a_thread_whose_middle_turn_is_gone_is_damaged_and_no_shorter_thread():
    agent = Agent(ScriptedModel(["one", "two", "three"]), checkpointer=MemoryCheckpointer())
    whole = []
    for text in ("first", "second", "third"):
        assert agent.run_sync(text + LONG, "t").saved
        whole.append(dict(plain(agent.checkpointer).rows("log/", "log0")))
    # What is left folds without an error: nothing but the chain of segments knows of the gap.
    rows = dict(plain(agent.checkpointer).rows("", "\x7f"))
    store = store_of({key: data for key, data in rows.items() if key not in whole[1].keys() - whole[0].keys()})
    with pytest.raises(CorruptSegment, match="is missing"):
        Agent("offline:", checkpointer=store).get_state("t")


def test_foreign_rows_on_a_disk_do_not_get_in_the_way_of_a_thread(tmp_path):
    """Keys and values of every type that SQLite knows, beside a thread."""
    keys = [
        "'head/\xff'",
        "CAST(x'686561642fff80' AS TEXT)",
        "x'686561642f61'",
        "NULL",
        "7",
        "'head/a/b'",
        "'head/'",
        "''",
    ]
    values = ["x'00'", "'text'", "CAST(x'ff' AS TEXT)", "NULL", "7", "7.5", "zeroblob(9)"]
    with DiskCheckpointer(tmp_path) as store:
        agent = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)
        agent.run_sync("hello", "t")
        with sqlite3.connect(tmp_path / "cache.db") as db:
            for n, (key, value) in enumerate((key, value) for key in keys for value in values):
                db.execute(
                    f"INSERT OR IGNORE INTO Cache(key, raw, mode, value) VALUES ({key} || '{n}', 1, 1, {value})"
                    if key.startswith("'") else
                    f"INSERT OR IGNORE INTO Cache(key, raw, mode, value) VALUES ({key}, 1, 1, {value})"
                )  # fmt: skip
            db.execute("INSERT INTO Cache(key, raw, mode, value) VALUES ('head/large', 1, 1, zeroblob(40000000))")
        db.close()
        listed = agent.threads()
        assert (listed[0].thread_id, listed[0].status, listed[0].problem) == ("t", "ended", "")
        assert len(listed) > 20
        assert all(one.status == "damaged" and one.problem for one in listed[1:])
        assert agent.run_sync("on", "t").saved
        for one in listed[1:]:
            ask(agent.get_state, one.thread_id)
            ask(agent.run, "hello", one.thread_id)
            ask(agent.delete, one.thread_id)


def test_a_thread_with_an_unreadable_head_is_listed_as_damaged_beside_the_others(store):
    agent = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)
    for thread in ("a", "b", "c"):
        agent.run_sync("hello", thread)
    head = plain(store).head("b")
    plain(store).append("b", head, head.replace(b"main", b"m\xffin"), {})
    listed = {one.thread_id: one for one in agent.threads()}
    assert {name: one.status for name, one in listed.items()} == {"a": "ended", "b": "damaged", "c": "ended"}
    assert listed["b"].problem.startswith("the head of thread 'b' cannot be read")
    with pytest.raises(CorruptSegment, match="the head of thread 'b' cannot be read"):
        agent.get_state("b")
    agent.delete("b")
    assert [one.thread_id for one in agent.threads()] == ["c", "a"]


# ---- what reading costs


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="tells how much memory a process has")
def test_values_are_counted_before_memory_is_spent_on_decoding_them():
    """Most of these took 1.2 GB while it was not counted."""
    printed = python("from harness.bombs import read_bombs; read_bombs(200)").split()
    assert printed == ["SegmentTooLarge"] * 8 + ["read", "read", "CorruptSegment", "CorruptSegment"]


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=40) | st.binary(max_size=300)
    | st.builds(msgspec.msgpack.Ext, st.integers(0, 127), st.binary(max_size=300)),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner, max_size=20),
    max_leaves=60,
))  # fmt: skip
def test_the_count_of_values_is_what_decoding_makes(value):
    def count(one):
        inner = [*one, *one.values()] if isinstance(one, dict) else one if isinstance(one, list) else ()
        return 1 + sum(map(count, inner))

    data, values = msgspec.msgpack.encode(value), count(value)
    assert holds_more(data, values - 1) == (len(data) > values - 1)
    assert not holds_more(data, values)


def test_an_event_too_large_to_be_read_back_is_refused_when_it_is_recorded():
    with pytest.raises(SegmentTooLarge, match="Noted holds more than 1,048,576 values"):
        codec.encode(1, Noted("me", "k", [[]] * (2**20 + 1)))
    codec.encode(1, Noted("me", "k", [[]] * 2**19))
    codec.encode(1, Noted("me", "k", "é" * 2**22))


def test_an_edit_that_makes_a_larger_file_than_it_states_is_refused(store):
    """Forty kilobytes that replace each letter of forty kilobytes make 1.6 gigabytes."""

    @tool
    async def write(ctx: ToolContext) -> str:
        """Write and edit."""
        ctx.record(FileWritten("/a", "a" * 40_000, 40_000, "", 1.0))
        ctx.record(FileEdited("/a", "a" * 40_000, "b" * 40_000, True, 40_000, "", 1.0))
        return "ok"

    Agent(ScriptedModel([ToolCall("write"), "ok"]), [write], checkpointer=store).run_sync("go", "t")
    store.close()
    ((key, data),) = [
        row
        for row in plain(store).rows("log/t//", "log/t/0")
        if b"/a" in codec.unseal(row[1], row[0], codec.SEGMENT)[1]
    ]
    header, body = codec.unseal(data, key, codec.SEGMENT)
    old = msgspec.msgpack.encode("a" * 40_000)
    place = body.rindex(old)
    body = body[:place] + msgspec.msgpack.encode("a") + body[place + len(old) :]
    changed = codec._sealed(codec.SEGMENT, msgspec.structs.replace(header, bytes_raw=len(body)), body)
    plain(store).append("t", plain(store).head("t"), plain(store).head("t"), {key: changed})
    with pytest.raises(SegmentTooLarge, match="an edit makes 1,600,000,000 characters of '/a', and says 40,000 bytes"):
        Agent("offline:", checkpointer=store).get_state("t")
