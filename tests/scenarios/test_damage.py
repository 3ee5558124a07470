"""Whatever stands in a store, and under whatever key, reading it gives an answer or an error of ours, and costs little."""

import hashlib
import os
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import zstandard
from harness import damage
from harness.damage import ask, store_of
from hypothesis import given, strategies as st

from minideep import (
    Agent,
    CorruptSegment,
    DiskCheckpointer,
    MemoryCheckpointer,
    MinideepError,
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
def test_only_an_error_of_ours_comes_out_whatever_is_damaged(seed):
    """A campaign of 120 stores in four parts; `bench/damage.py` runs a longer one."""
    damage.campaign(30, seed)


def test_what_was_not_ours_stays_out_of_the_way_on_a_disk(tmp_path):
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


def test_a_thread_whose_head_is_no_text_is_listed_as_damaged_beside_the_others(store):
    agent = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)
    for thread in ("a", "b", "c"):
        agent.run_sync("hello", thread)
    head = store.head("b")
    store.append("b", head, head.replace(b"main", b"m\xffin"), {})
    listed = {one.thread_id: one for one in agent.threads()}
    assert {name: one.status for name, one in listed.items()} == {"a": "ended", "b": "damaged", "c": "ended"}
    assert listed["b"].problem.startswith("the head of thread 'b' cannot be read")
    with pytest.raises(CorruptSegment, match="the head of thread 'b' cannot be read"):
        agent.get_state("b")
    agent.delete("b")
    assert [one.thread_id for one in agent.threads()] == ["c", "a"]


# ---- what reading costs

MANY = 17 * 2**20 - 400
BOMBS = {
    "a list of empty lists": b"\xdd" + MANY.to_bytes(4) + b"\x90" * MANY,
    "a map of empty maps": b"\xdf" + (MANY // 6).to_bytes(4) + b"".join(b"\xce" + n.to_bytes(4) + b"\x80" for n in range(MANY // 6)),
    "a list of a million": b"\xdd" + (2**20 - 50).to_bytes(4) + b"\x90" * (2**20 - 50),
}  # fmt: skip
NOTED = b"\x95\x12\xa1a\xa1b%s\xa7replace"


def bomb(about, value, place):
    """A segment whose event, blob, list of events or header is *value*, and the blob."""
    event = NOTED.replace(b"%s", value)[: codec.MAX_RAW - 20]
    name = hashlib.sha256(event).hexdigest()
    body = {
        "event": b"\x91\x92\x05" + event,
        "blob": msgspec.msgpack.encode([[5, [0, name]]]),
        "events": value[: codec.MAX_RAW],
        "header": b"\x90",
    }[place]
    packed = msgspec.msgpack.encode(msgspec.structs.replace(about, first=5, last=5, raw=len(body)))
    packed = packed[:1] + value + packed[2:] if place == "header" else packed
    return codec._framed(codec.SEGMENT, packed, zstandard.compress(body)), {f"blob/{name}": codec.seal_blob(event)}


def read_bombs(megabytes):
    """Read threads whose rows decode to far more than they have bytes, in so much more memory than that takes now."""
    store = MemoryCheckpointer()
    Agent(ScriptedModel(["ok"]), checkpointer=store).run_sync("hello", "t")
    rows = dict(store.rows("", "\x7f"))
    key = max(key for key in rows if key.startswith("log/"))
    places, about = ("event", "blob", "events", "header"), codec.read_header(rows[key], key)
    bombs = [(bomb(about, value, place)) for value in BOMBS.values() for place in places]
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + megabytes * 2**20,) * 2)
    for data, blob in bombs:
        try:
            Agent(ScriptedModel(["ok"]), checkpointer=store_of({**rows, **blob, key: data})).get_state("t")
        except MinideepError as exc:
            print(type(exc).__name__)
        else:
            print("read")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="tells how much memory a process has")
def test_what_is_decoded_is_counted_before_memory_is_spent():
    """Most of these took 1.2 GB while it was not counted."""
    run = subprocess.run(
        [sys.executable, "-c", "from scenarios.test_damage import read_bombs; read_bombs(200)"],
        cwd=Path(__file__).parents[1], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.stderr == ""
    assert run.stdout.split() == ["SegmentTooLarge"] * 8 + ["read", "read", "CorruptSegment", "CorruptSegment"]


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=40) | st.binary(max_size=300)
    | st.builds(msgspec.msgpack.Ext, st.integers(0, 127), st.binary(max_size=300)),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner, max_size=20),
    max_leaves=60,
))  # fmt: skip
def test_values_are_counted_as_they_are_decoded(value):
    def count(one):
        inner = [*one, *one.values()] if isinstance(one, dict) else one if isinstance(one, list) else ()
        return 1 + sum(map(count, inner))

    data, values = msgspec.msgpack.encode(value), count(value)
    assert holds_more(data, values - 1) == (len(data) > values - 1)
    assert not holds_more(data, values)


def test_an_event_that_could_not_be_read_back_for_its_size_is_refused_when_it_is_recorded():
    with pytest.raises(SegmentTooLarge, match="Noted holds more than 1,048,576 values"):
        codec.encode(1, Noted("me", "k", [[]] * (2**20 + 1)))
    codec.encode(1, Noted("me", "k", [[]] * 2**19))
    codec.encode(1, Noted("me", "k", "é" * 2**22))


def test_an_edit_that_makes_more_of_a_file_than_it_says_is_refused(store):
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
        row for row in store.rows("log/t//", "log/t/0") if b"/a" in codec._body(row[1], row[0], codec.SEGMENT)[1]
    ]
    header, body = codec._body(data, key, codec.SEGMENT)
    old = msgspec.msgpack.encode("a" * 40_000)
    place = body.rindex(old)
    body = body[:place] + msgspec.msgpack.encode("a") + body[place + len(old) :]
    changed = codec._sealed(codec.SEGMENT, msgspec.structs.replace(header, raw=len(body)), body)
    store.append("t", store.head("t"), store.head("t"), {key: changed})
    with pytest.raises(SegmentTooLarge, match="an edit makes 1,600,000,000 characters of '/a', and says 40,000 bytes"):
        Agent("offline:", checkpointer=store).get_state("t")
