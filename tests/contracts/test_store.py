"""Stores: the contract run on each of them, and what only a disk can suffer."""

import asyncio
import contextlib
import os
import pickle
import sqlite3
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.stores import DistantStore, plain

from minideep import (
    AESGCM,
    Agent,
    CheckpointError,
    ConfigError,
    CorruptSegment,
    DiskCheckpointer,
    EncryptedCheckpointer,
    MemoryCheckpointer,
    tool,
)
from minideep.checkpoint import threaded
from minideep.checkpoint.memory import MemoryRows
from minideep.models import ScriptedModel
from minideep.ports import Retention
from minideep.testing import DurableStoreContract, StoreContract


class TestMemory(StoreContract):
    def make(self, folder):
        return MemoryCheckpointer()


class TestDisk(DurableStoreContract):
    def make(self, folder):
        return DiskCheckpointer(folder / "state")


class TestDiskWithLeases(DurableStoreContract):
    def make(self, folder):
        return DiskCheckpointer(folder / "state", lease=600)


class TestDistant(StoreContract):
    def make(self, folder):
        return DistantStore()


class TestSlow(StoreContract):
    def make(self, folder):
        return threaded(Slow(Retention()))


class TestEncrypted(StoreContract):
    def make(self, folder):
        return EncryptedCheckpointer(MemoryCheckpointer(), AESGCM(bytes(range(32))))


class TestEncryptedDisk(DurableStoreContract):
    def make(self, folder):
        return EncryptedCheckpointer(DiskCheckpointer(folder / "state"), AESGCM(bytes(range(32))))


class TestEncryptedDistant(StoreContract):
    def make(self, folder):
        return EncryptedCheckpointer(DistantStore(), AESGCM(bytes(range(32))))


class Slow(MemoryRows):
    """A store of plain functions that no event loop may call."""

    inline = 0


class TestDiskWithFsync(StoreContract):
    def make(self, folder):
        return DiskCheckpointer(folder / "state", fsync=True)


@pytest.fixture
def disk(tmp_path):
    with DiskCheckpointer(tmp_path / "state") as store:
        yield store


@contextlib.contextmanager
def locked(store):
    """Another writer has the store's database, and does not let go."""
    other = sqlite3.connect(store.directory / "cache.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield other
    finally:
        other.close()


def run(code):
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert found.returncode == 0, found.stderr
    return found.stdout


def rows(store):
    return plain(store).rows()


# ---- the directory


def test_the_directory_is_made_on_the_first_write_and_is_private(tmp_path):
    store = DiskCheckpointer(tmp_path / "a" / "state")
    assert (rows(store), plain(store).keys(), plain(store).head("t"), store.size()) == ([], [], None, 0)
    assert not (tmp_path / "a").exists()
    plain(store).append("t", None, b"1", {})
    assert stat.S_IMODE((tmp_path / "a" / "state").stat().st_mode) == 0o700
    store.close()


def test_a_thread_may_be_held_before_anything_is_written(tmp_path):
    store = DiskCheckpointer(tmp_path / "a" / "state")
    assert plain(store).hold("t")
    assert stat.S_IMODE((tmp_path / "a" / "state").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a" / "state" / "threads.lock").stat().st_mode) == 0o600
    plain(store).release("t")


def test_a_file_in_place_of_the_directory_is_refused_when_the_store_is_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="file' is a file, not a directory"):
        DiskCheckpointer(tmp_path / "file")


async def test_a_state_directory_that_cannot_be_made_costs_the_save_not_the_answer(tmp_path):
    (tmp_path / "file").write_text("in the way")
    directory = tmp_path / "file" / "state"
    agent = Agent(ScriptedModel(["42"]), checkpointer=DiskCheckpointer(directory))
    turn = await agent.run("go")
    assert (turn.status, turn.text, turn.saved) == ("ended", "42", False)
    assert isinstance(turn.error, CheckpointError)
    assert str(turn.error).startswith(f"cannot write the state in '{directory}'")
    assert "\n" not in str(turn.error)


def test_where_no_lock_file_can_be_made_a_thread_is_still_held_in_this_process(tmp_path):
    (tmp_path / "file").write_text("in the way")
    one, two = DiskCheckpointer(tmp_path / "file" / "state"), DiskCheckpointer(tmp_path / "file" / "state")
    assert [plain(one).hold("t"), plain(two).hold("t"), plain(two).hold("u")] == [True, False, True]
    plain(one).release("t")
    plain(two).release("u")
    assert plain(two).hold("t")
    plain(two).release("t")


def test_a_directory_under_another_name_is_the_same_store(tmp_path, disk):
    (tmp_path / "link").symlink_to(disk.directory)
    assert plain(disk).hold("t")
    assert not plain(DiskCheckpointer(tmp_path / "link")).hold("t")
    plain(disk).release("t")


def test_what_a_store_may_let_go_of_is_said_when_it_is_made(tmp_path):
    kept = Retention(boundaries=3)
    assert DiskCheckpointer(tmp_path, retention=kept).retention == MemoryCheckpointer(retention=kept).retention == kept
    assert DiskCheckpointer(tmp_path).retention == MemoryCheckpointer().retention == Retention(None, None)


# ---- what stands in the database


def test_every_value_is_a_raw_row_of_sqlite_and_nothing_is_ever_evicted(tmp_path):
    with DiskCheckpointer(tmp_path) as store:
        plain(store).append("t", None, b"1", {"a": os.urandom(2_000_000)})
    with sqlite3.connect(tmp_path / "cache.db") as db:
        assert set(db.execute("SELECT mode, filename FROM Cache")) == {(1, None)}
        settings = dict(db.execute("SELECT key, value FROM Settings"))
    db.close()
    assert (settings["eviction_policy"], settings["cull_limit"]) == ("none", 0)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


class Bomb:
    def __reduce__(self):
        return (os.mkdir, (os.environ["BOMB"],))


FORGERIES = {
    "value": "UPDATE Cache SET mode = 4, value = :bomb",
    "text": "UPDATE Cache SET value = 'text'",
    "file": "UPDATE Cache SET mode = 4, filename = 'x.val', value = NULL",
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_value_forged_as_a_pickle_is_refused_and_runs_nothing(tmp_path, kind):
    os.environ["BOMB"] = str(tmp_path / "exploded")
    with DiskCheckpointer(tmp_path / "state") as store:
        plain(store).append("t", None, b"1", {"log/t//1": b"x"})
    bomb = pickle.dumps(Bomb())
    (tmp_path / "state" / "x.val").write_bytes(bomb)
    with sqlite3.connect(tmp_path / "state" / "cache.db") as db:
        db.execute(FORGERIES[kind], {"bomb": bomb})
    db.close()
    with DiskCheckpointer(tmp_path / "state") as store:
        assert plain(store).rows("log/", "log0") == [("log/t//1", b"(not raw bytes)")]
        reads = [lambda: plain(store).head("t"), lambda: plain(store).get("log/t//1"),
                 lambda: plain(store).append("t", b"1", b"2", {})]  # fmt: skip
        for read in reads:
            with pytest.raises(CorruptSegment, match="refusing to read it"):
                read()
    assert not (tmp_path / "exploded").exists()


def test_a_key_forged_as_a_pickle_is_no_row_and_runs_nothing(tmp_path):
    os.environ["BOMB"] = str(tmp_path / "exploded")
    with DiskCheckpointer(tmp_path / "state") as store:
        plain(store).append("t", None, b"1", {"log/t//1": b"x", "log/t//2": b"y"})
    with sqlite3.connect(tmp_path / "state" / "cache.db") as db:
        db.execute("UPDATE Cache SET raw = 0 WHERE key = 'log/t//1'")
        db.execute("INSERT INTO Cache(key, raw, mode, value) VALUES (?, 0, 1, x'00')", (pickle.dumps(Bomb()),))
    db.close()
    with DiskCheckpointer(tmp_path / "state") as store:
        assert plain(store).rows("log/", "log0") == [("log/t//2", b"y")]
        assert (plain(store).keys("log/", "log0"), plain(store).get("log/t//1")) == (["log/t//2"], None)
    assert not (tmp_path / "exploded").exists()


def test_a_database_that_is_garbage_is_a_named_error(tmp_path):
    (tmp_path / "cache.db").write_bytes(b"garbage" * 1000)
    store = DiskCheckpointer(tmp_path)
    for verb, act in (
        ("read", lambda: plain(store).head("t")),
        ("write", lambda: plain(store).append("t", None, b"1", {})),
    ):
        with pytest.raises(CheckpointError, match=f"cannot {verb} the state in .*: file is not a database"):
            act()


def test_a_full_disk_is_a_named_error_and_damages_nothing(disk):
    plain(disk).append("t", None, b"1", {"a": os.urandom(10_000)})
    before, (pages,) = rows(disk), disk.plain._writer.con.execute("PRAGMA page_count").fetchone()
    disk.plain._writer.con.execute(f"PRAGMA max_page_count = {pages + 3}")
    for _ in range(3):
        with pytest.raises(CheckpointError, match=r"cannot write the state in .*: database or disk is full"):
            plain(disk).append("t", b"1", b"2", {"a": b"", "b": os.urandom(1_000_000)}, ["a"])
    assert rows(disk) == before
    plain(disk).append("t", b"1", b"2", {"c": b"small"})
    disk.plain._writer.con.execute("PRAGMA max_page_count = 1000000")
    plain(disk).append("t", b"2", b"3", {"b": bytes(1_000_000)})
    assert disk.plain._writer.con.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert plain(disk).keys("a", "d") == ["a", "b", "c"]


def test_the_write_ahead_log_stays_small_and_a_large_append_does_not_leave_it_large(disk):
    log, head, largest = disk.directory / "cache.db-wal", None, 0
    for number in range(300):
        plain(disk).append("t", head, head := b"%d" % number, {f"log/t//{number:04}": os.urandom(2000)})
        largest = max(largest, log.stat().st_size)
        disk.plain._worker.finish()  # As after a turn: what there is to tidy up is done.
    assert largest < 2**20
    plain(disk).append("t", head, head, {"blob/x": os.urandom(5_000_000)})
    for number in range(3):
        plain(disk).append("t", head, head, {f"log/{number}": b""})
        disk.plain._worker.finish()
    assert log.stat().st_size < 2**20


def test_the_room_of_deleted_rows_is_given_back(disk):
    names = [f"log/t//{number:04}" for number in range(100)]
    plain(disk).append("t", None, b"1", {name: os.urandom(100_000) for name in names})
    assert disk.size() > 10_000_000
    plain(disk).append("t", b"1", b"2", {}, names[1:])
    disk.close()
    assert disk.size() < 2_500_000
    assert plain(disk).keys("log/", "log0") == names[:1]


def test_a_store_that_is_set_up_is_opened_without_a_write(tmp_path):
    with DiskCheckpointer(tmp_path) as store:
        plain(store).append("t", None, b"1", {})
        with locked(store), DiskCheckpointer(tmp_path) as other:
            assert plain(other).head("t") == b"1"


# ---- others that write


def test_an_append_waits_for_other_writers_until_its_time_is_over(tmp_path, disk):
    plain(disk).append("t", None, b"1", {})
    hasty = DiskCheckpointer(tmp_path / "state", timeout=0.02)
    with locked(disk) as other, ThreadPoolExecutor(1) as pool, hasty:
        with pytest.raises(TimeoutError, match=r"the database was locked by other writers for more than 0.02 s"):
            plain(hasty).append("t", b"1", b"2", {"a": b"1"})
        waiting = pool.submit(plain(disk).append, "t", b"1", b"2", {"a": b"1"})
        assert (plain(disk).head("t"), rows(disk)) == (b"1", [("head/t", b"1")])  # Who reads does not wait.
        assert not waiting.done()
        other.execute("ROLLBACK")
        waiting.result()
    assert rows(disk) == [("a", b"1"), ("head/t", b"2")]


def test_a_store_that_was_open_works_on_in_a_forked_process(tmp_path):
    found = run(f"""
import os
from minideep import DiskCheckpointer
from functools import cache
from minideep.testing.plain import PlainStore
plain = cache(PlainStore)
store = DiskCheckpointer({str(tmp_path)!r})
plain(store).append("t", None, b"1", {{}})
plain(store).hold("t")
store._calls.pool.executor.submit(print, "parent", flush=True).result()
ready, go = os.pipe(), os.pipe()
if os.fork() == 0:
    plain(store).append("t", b"1", b"2", {{}})
    print("child", plain(store).hold("t"), plain(store).hold("u"), flush=True)
    plain(store).release("t")
    store._calls.pool.executor.submit(print, "child's thread", flush=True).result()
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    store.close()
    os._exit(0)
os.read(ready[0], 1)
print(plain(store).head("t"), plain(store).hold("t"), plain(store).hold("u"))
os.write(go[1], b"x")
os.wait()
print(plain(store).hold("u"))
store.close()
""")
    assert found.splitlines() == ["parent", "child False True", "child's thread", "b'2' False False", "True"]


def test_a_fork_beside_an_append_takes_nothing_from_it(tmp_path):
    """It waits until that is through: half of it would be in the child for ever."""
    found = run(f"""
import os, time
from threading import Thread
from minideep import DiskCheckpointer
from functools import cache
from minideep.testing.plain import PlainStore
plain = cache(PlainStore)
store = DiskCheckpointer({str(tmp_path)!r})
plain(store).append("t", None, b"1", {{}})
def fork():
    if os.fork() == 0:
        print(plain(store).head("t"), plain(store).keys("a", "c"), flush=True)
        plain(store).append("u", None, b"1", {{"c": b"1"}})
        store.close()
        os._exit(0)
    os.wait()
thread = Thread(target=fork)
class Rows(dict):
    def items(self):
        yield "a", bytes(20_000_000)  # More than is kept in memory: a part is in the log already.
        thread.start()
        time.sleep(0.1)
        yield "b", b"1"
    def values(self):
        return []
plain(store).append("t", b"1", None, Rows())
thread.join()
print(plain(store).keys(), store.plain._writer.run(lambda con: con.execute("PRAGMA integrity_check").fetchall(), 1))
store.close()
""")
    assert found.splitlines() == ["None ['a', 'b']", "['a', 'b', 'c', 'head/u'] [('ok',)]"]


@tool
async def ping() -> str:
    """Answer."""
    return "pong"


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
    time.sleep(moment)
    process.kill()
    process.wait()
    process.stdout.close()
    with DiskCheckpointer(tmp_path) as store:
        agent = Agent(ScriptedModel(lambda request: "ok"), [ping], checkpointer=store)
        if plain(store).head("t") is not None:
            assert agent.get_state("t").status in ("running", "ended")
        turn = agent.run_sync("go on", "t")
    assert (turn.status, turn.saved) == ("ended", True)


class SlowToRelease(Slow):
    def release(self, space, thread):
        time.sleep(0.02)
        super().release(space, thread)


async def test_a_thread_is_free_for_who_knows_that_its_turn_is_over_however_long_the_release_takes():
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=threaded(SlowToRelease(Retention())))
    assert (await agent.run("go", "t", key="k")).text == "one"
    for _ in range(3):  # Nothing is appended, so the release is all that is left to do.
        assert (await agent.run("go", "t", key="k")).text == "one"
    assert (await agent.run("more", "t")).text == "two"


async def test_a_turn_that_is_cancelled_while_its_thread_is_released_leaves_it_free():
    store = threaded(SlowToRelease(Retention()))
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
    await agent.run("go", "t", key="k")
    await agent.run("go", "t", key="k")  # Its release is on its way.
    cancelled = asyncio.ensure_future(agent.run("more", "t"))
    await asyncio.sleep(0.001)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    await asyncio.sleep(0.1)
    assert not await store.held("t")
