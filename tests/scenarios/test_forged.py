"""Rows that no append wrote: loading the thread raises a named error and runs nothing, and earlier boundaries stay readable."""

import os
import pickle
import sqlite3

import msgspec
import pytest
import zstandard
from harness.agents import stored
from harness.stores import plain

from minideep import (
    Agent,
    CorruptSegment,
    DiskCheckpointer,
    MemoryCheckpointer,
    SegmentTooLarge,
    UnknownVersion,
)
from minideep.checkpoint import format as codec
from minideep.checkpoint.rewriting import change_header
from minideep.models import ScriptedModel


class Bomb:
    def __reduce__(self):
        return (os.mkdir, (os.environ["BOMB"],))


def resealed(data, raw, body):
    """The segment with another body, and a checksum that fits."""
    header = msgspec.structs.replace(codec.read_header(data, "k"), bytes_raw=raw)
    return codec.frame(codec.SEGMENT, msgspec.msgpack.encode(header), body)


BAD = {
    "truncated": (lambda data: data[:-3], CorruptSegment, "does not match its checksum"),
    "cut off": (lambda data: data[:9], CorruptSegment, "less than its prefix"),
    "flipped": (lambda data: data[:-5] + bytes([data[-5] ^ 4]) + data[-4:], CorruptSegment, "does not match"),
    "of the future": (lambda data: data[:3] + b"\x01\xff" + data[5:], UnknownVersion, "has format 1.255"),
    "of another age": (lambda data: data[:3] + b"\x07" + data[4:], UnknownVersion, "has format 7."),
    "of another thread": (lambda data: change_header(data, "k", thread="u"), CorruptSegment, "belongs to thread 'u'"),
    "a base": (lambda data: b"mdb" + data[3:], CorruptSegment, "begins with b'mdb'"),
    "a zstd bomb": (
        lambda data: resealed(data, 100, zstandard.compress(bytes(2**28))), SegmentTooLarge, "claims 268,435,456 bytes",
    ),
    "a bomb that lies": (
        lambda data: resealed(data, 2**28, zstandard.compress(bytes(2**20))), SegmentTooLarge, "claims 268,435,456 bytes",
    ),
    "nothing": (lambda data: b"", CorruptSegment, "has 0 bytes"),
    "no event": (
        lambda data: resealed(data, 5, zstandard.compress(b"\x91\x92\x01\x91\x63")), CorruptSegment, "cannot be read",
    ),
    "a pickle": (lambda data: pickle.dumps(Bomb()), CorruptSegment, "begins with"),
}  # fmt: skip


@pytest.fixture
def thread(tmp_path):
    """A thread of three turns on a disk, and the key of the segment that holds the third boundary."""
    os.environ["BOMB"] = str(tmp_path / "exploded")
    with DiskCheckpointer(tmp_path / "state") as store:
        agent = Agent(ScriptedModel(["one", "two", "three"]), checkpointer=store)
        for text in ("first", "second", "third"):
            agent.run_sync(f"{text} " * 500, "t")  # Short turns would stand in one segment.
        yield store, plain(store).keys("log/t//", "log/t/0")[-1]
    assert not (tmp_path / "exploded").exists()


async def refused(store, error, match):
    agent = Agent(ScriptedModel(["never"]), checkpointer=store)
    for read in (agent.get_state, agent.history, agent.transcript, agent.fork):
        with pytest.raises(error, match=match):
            read("t")
    with pytest.raises(error, match=match):
        await agent.run("go on", "t")
    assert agent.spec.model.requests == []
    assert agent.get_state("t", at=2).text == "two"
    assert agent.fork("t", at=2, thread_id="f") == "f"
    assert (await Agent(ScriptedModel(["on"]), checkpointer=store).run("go on", "f")).saved


@pytest.mark.parametrize("kind", BAD)
async def test_an_error_names_a_forged_row_and_the_boundaries_before_it_can_be_read(thread, kind):
    store, key = thread
    change, error, match = BAD[kind]
    plain(store).append("t", plain(store).head("t"), plain(store).head("t"), {key: change(plain(store).get(key))})
    await refused(store, error, f"'{key}'.*{match}")


@pytest.mark.parametrize(("mode", "filename"), [(4, None), (2, None), (4, "bomb.val"), (3, "bomb.val")])
async def test_an_error_names_a_row_that_diskcache_would_unpickle_and_nothing_runs(thread, mode, filename):
    store, key = thread
    (store.directory / "bomb.val").write_bytes(pickle.dumps(Bomb()))
    with sqlite3.connect(store.directory / "cache.db") as db:
        value = None if filename else pickle.dumps(Bomb())
        db.execute("UPDATE Cache SET mode = ?, filename = ?, value = ? WHERE key = ?", (mode, filename, value, key))
    db.close()
    await refused(store, CorruptSegment, f"'{key}'")


async def test_a_key_that_diskcache_would_unpickle_is_not_read(thread):
    store, key = thread
    with sqlite3.connect(store.directory / "cache.db") as db:
        db.execute("UPDATE Cache SET raw = 0, key = ? WHERE key = ?", (pickle.dumps(Bomb()), key))
    db.close()
    await refused(store, CorruptSegment, r"run \(\) of thread 't' ends with event")


async def test_a_missing_last_segment_is_noticed():
    store = MemoryCheckpointer()
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
    await agent.run("first " * 500, "t")  # Otherwise all events stand in one segment.
    plain(store).append(
        "t", plain(store).head("t"), plain(store).head("t"), {}, [plain(store).rows("log/t/", "log/t0")[-1][0]]
    )
    with pytest.raises(CorruptSegment, match="ends with event 1, expected 3"):
        stored(agent)
