"""Whatever stands in a store, and under whatever key, reading it gives an answer or an error of ours, and costs little."""

import asyncio
import hashlib
import os
import random
import resource
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given, strategies as st
from unit.checkpoint.test_history import agent_on, resumed

from minideep import (
    Agent,
    Approve,
    CorruptSegment,
    DiskCheckpointer,
    MemoryCheckpointer,
    MinideepError,
    Retention,
    SegmentTooLarge,
    ToolCall,
    ToolContext,
    tool,
)
from minideep.checkpoint import format as codec, layout as names
from minideep.checkpoint.messagepack import holds_more
from minideep.checkpoint.rewriting import truncate
from minideep.checkpoint.store import open_store
from minideep.events import FileEdited, FileWritten, Noted
from minideep.models import ScriptedModel
from minideep.runtime.sync import run_sync

DAMAGES = 120
"""How many stores are damaged; a campaign (`bench/damage.py`) damages more."""
KINDS = ["head", "run", "log", "base", "use", "ref", "blob"]
INVALID = "\uf8ff invalid \uf8ff"
"""Becomes text that is no UTF-8, once it is encoded."""
DEEP = b"\x91" * 2000 + b"\x90"


def rich_rows():
    """The rows of a store with two threads: cut, compacted, forked, with files, subagents, and calls that wait."""
    store = MemoryCheckpointer()
    agent = agent_on(store)
    for name in ("plain", "files", "compact", "large", "task", "forgetful", "todos", "compact", "large"):
        turn = agent.run_sync(name, "t")
        if turn.status == "paused":
            resumed(agent, "t", {wait.call_id: Approve() for wait in turn.interrupts})
    store.close()
    store.retention = Retention(boundaries=6)
    truncate(open_store(store), "t")
    agent.run_sync("payer", "t")
    agent.fork("t", thread_id="u")
    store.close()
    rows = dict(store.rows("", "\x7f"))
    assert {key.partition("/")[0] for key in rows} == set(KINDS)
    return rows


def store_of(rows):
    store = MemoryCheckpointer()
    for key, data in rows.items():
        store._put(key, data)
    return store


# ---- what may be wrong with a row


def unreadable(value):
    """*value* as MessagePack, with text that is no UTF-8 where it says INVALID."""
    return msgspec.msgpack.encode(value).replace("\uf8ff".encode(), b"\xff\xfe\xfd")


def strange(chance):
    return chance.choice(
        [None, True, -1, 0, 2, 2**63, 2**64 - 1, -(2**63), 0.5, float("nan"), float("inf"), "", INVALID, "x" * 3000,
         b"", b"\xff" * 40, b"no json", b"[" * 5000, [], [[]], {}, {INVALID: 1}, {"a": {"b": []}}, [None] * 40,
         msgspec.msgpack.Ext(5, b"x"), "t", "paused", 19, 99]
    )  # fmt: skip


def changed(value, chance):
    """*value* with one place in it changed, however deep."""
    if isinstance(value, list | dict) and value and chance.random() < 0.85:
        keys = list(range(len(value)) if isinstance(value, list) else value)
        key = chance.choice(keys)
        copy = list(value) if isinstance(value, list) else dict(value)
        match chance.randrange(12):
            case 0:
                del copy[key]
            case 1 if isinstance(copy, list):
                copy.insert(key, strange(chance))
            case 2 if isinstance(copy, list):
                copy[key:] = [*copy[key:], copy[key]]
            case _:
                copy[key] = changed(value[key], chance)
        return copy
    if isinstance(value, int) and not isinstance(value, bool) and chance.random() < 0.5:
        return value + chance.choice([-1, 1, 2, -value, 1000])
    return strange(chance)


def forged(data, chance):
    """A row of the same kind and with a right checksum, in which something else stands."""
    if data[:3] not in (codec.SEGMENT, codec.SNAPSHOT, codec.BLOB):
        return unreadable(changed(msgspec.msgpack.decode(data), chance)) if data else b"\x90"
    if data[:3] == codec.BLOB:
        return data[:5] + zstandard.compress(unreadable(strange(chance)))
    length = int.from_bytes(data[9:13])
    header, body = msgspec.msgpack.decode(data[13 : 13 + length]), zstandard.decompress(data[13 + length :])
    if chance.random() < 0.3:
        header = changed(header, chance)
    else:
        body = unreadable(changed(msgspec.msgpack.decode(body), chance))
        body = body.replace(b"\xc4\x07no json", DEEP) if chance.random() < 0.1 else body
        header[6] = len(body)
    packed, body = unreadable(header), zstandard.compress(body)
    size = len(packed).to_bytes(4)
    return data[:5] + zlib.crc32(size + packed + body).to_bytes(4) + size + packed + body


def damaged(rows, chance):
    """The rows, with something wrong in one of them, or with one that is not ours."""
    rows = dict(rows)
    kind = chance.choice(KINDS)
    key = chance.choice([key for key in rows if key.startswith(f"{kind}/")])
    data, place = rows[key], chance.randrange(len(rows[key]) or 1)
    match chance.randrange(10):
        case 0:
            rows[key] = (
                data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :] if data else b"x"
            )
        case 1:
            rows[key] = data[:place]
        case 2:
            rows[key] = data[:place] + chance.randbytes(chance.randrange(40)) + data[place + chance.randrange(40) :]
        case 3:
            del rows[key]
        case 4:
            rows[chance.choice(list(rows))] = data
        case 5:
            place = chance.randrange(len(key) + 1)
            strange_key = chance.choice(["/", "%", "%zz", "x", "-1", "٣", "\ufffd", ",", ""])
            rows[key[:place] + strange_key + key[place + chance.randrange(4) :]] = data
        case _:
            rows[key] = forged(data, chance) if data == ROWS.get(key) else b"\x93\x01"
    return rows


# ---- what is asked of it


def ask(verb, *args, **kwargs):
    """The answer; None if there was an error of ours. Any other one fails the test."""
    try:
        found = verb(*args, **kwargs)
        return run_sync(found) if asyncio.iscoroutine(found) else found
    except MinideepError:
        return None


def ask_everything(store):
    def agent():
        return Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)

    reader = agent()
    listed = ask(reader.threads)
    assert listed is not None
    assert {key[5:] for key in store.keys("head/", "head0")} <= {
        names.head_key(one.thread_id)[5:] for one in listed
    } | {one.problem.partition("'head/")[2].partition("'")[0] for one in listed}
    for thread in ("t", "u"):
        ask(reader.get_state, thread, subagents=True)
        for boundary in [*(ask(reader.history, thread) or []), None][-3:]:
            ask(reader.get_state, thread, at=boundary.at if boundary else 99, subagents=True)
        for run in ask(reader.runs, thread) or []:
            ask(reader.transcript, thread, run.call_id)
            ask(reader.history, thread, run.call_id)
        ask(reader.transcript, thread)
        ask(reader.diff, thread, 6, 9)
        ask(reader.read_file, thread, "/large")
        ask(reader.read_file, thread, "/a", at=7)
        ask(reader.export, thread)
        ask(reader.fork, thread, thread_id="f")
        ask(reader.fork, thread, at=8)
        ask(agent().save, thread)
        state = ask(reader.get_state, thread)
        ask(agent().resume, thread, {wait.call_id: Approve() for wait in state.interrupts} if state else None)
        ask(agent().run, "go on", thread)
        store.close()
        ask(reader.get_state, thread, subagents=True)
        ask(reader.delete, thread)


ROWS = rich_rows()


def look(seed):
    """Damage a store, and ask it everything; twice as much is wrong in every fourth."""
    chance = random.Random(seed)
    rows = damaged(ROWS, chance)
    store = store_of(damaged(rows, chance) if seed % 4 == 0 else rows)
    try:
        assert all(one.problem for one in store.verify())
        ask_everything(store)
    except Exception as exc:
        exc.add_note(f"look({seed})")
        raise


@pytest.mark.parametrize("part", range(4))
def test_only_an_error_of_ours_comes_out_whatever_is_damaged(part):
    for seed in range(part, DAMAGES, 4):
        look(seed)


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
    packed = msgspec.msgpack.encode(msgspec.structs.replace(about, first=5, last=5, bytes_raw=len(body)))
    packed = packed[:1] + value + packed[2:] if place == "header" else packed
    return codec.frame(codec.SEGMENT, packed, zstandard.compress(body)), {f"blob/{name}": codec.seal_blob(event)}


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
        row for row in store.rows("log/t//", "log/t/0") if b"/a" in codec.unseal(row[1], row[0], codec.SEGMENT)[1]
    ]
    header, body = codec.unseal(data, key, codec.SEGMENT)
    old = msgspec.msgpack.encode("a" * 40_000)
    place = body.rindex(old)
    body = body[:place] + msgspec.msgpack.encode("a") + body[place + len(old) :]
    changed = codec._sealed(codec.SEGMENT, msgspec.structs.replace(header, bytes_raw=len(body)), body)
    store.append("t", store.head("t"), store.head("t"), {key: changed})
    with pytest.raises(SegmentTooLarge, match="an edit makes 1,600,000,000 characters of '/a', and says 40,000 bytes"):
        Agent("offline:", checkpointer=store).get_state("t")
