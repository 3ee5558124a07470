"""Forks of a process: parent and child go on with the store, whatever their threads were doing."""

import os
import sqlite3
import textwrap

import pytest
from harness.processes import python
from harness.stores import plain

from minideep import DiskCheckpointer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

PRELUDE = """
import gc, os, sys, time, warnings
from functools import cache
from threading import Thread
from minideep import Agent, DiskCheckpointer, MemoryCheckpointer
from minideep.models import ScriptedModel
from minideep.testing.plain import PlainStore

plain = cache(PlainStore)
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # From Python 3.12 on.

folder = sys.argv[1]

def forked(act):
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except BaseException as exc:
            print("child:", repr(exc), flush=True)
            os._exit(1)
        os._exit(0)
    return pid

def succeeded(pids, seconds=20):
    until, left = time.monotonic() + seconds, set(pids)
    good = 0
    while left and time.monotonic() < until:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            left.discard(pid)
            good += status == 0
        else:
            time.sleep(0.01)
    for pid in left:
        os.kill(pid, 9)
    return good
"""


def run(code, *args):
    """Run a script in a process of its own, since pytest's has threads; return the lines it prints."""
    return python(PRELUDE + textwrap.dedent(code), *args).splitlines()


def test_every_child_of_a_parent_that_appends_all_the_time_can_write(tmp_path):
    code = """
        stores = [DiskCheckpointer(f"{folder}/{name}") for name in "ab"]
        going = True

        def append(store, thread):
            head = None
            while going:
                new = os.urandom(8)
                plain(store).append(thread, head, new, {f"log/{thread}": os.urandom(20_000)})
                head = new

        def come_and_go():
            while going:
                PlainStore(DiskCheckpointer(folder + "/a")).head("t")  # Its connections die with it, at any moment.
                MemoryCheckpointer()._calls.pool.executor
                for store in stores:
                    if plain(store).hold("busy"):
                        plain(store).release("busy")

        def write(number):
            for store in stores:
                plain(store).append(f"child {number}", None, b"1", {})
                assert plain(store).hold(f"child {number}")
                store._calls.pool.executor.submit(plain(store).head, "t").result()

        threads = [Thread(target=append, args=(store, name)) for store in stores for name in ("t", "u")]
        threads.append(Thread(target=come_and_go))
        for thread in threads:
            thread.start()
        pids = []
        for number in range(int(sys.argv[2])):
            time.sleep(0.005)
            pids.append(forked(lambda: write(number)))
        print(succeeded(pids))
        going = False
        for thread in threads:
            thread.join()
        for store in stores:
            print(len(plain(store).keys("head/child", "head/childz")), store.plain._writer.run(
                lambda con: con.execute("PRAGMA integrity_check").fetchall(), 1))
    """
    assert run(code, tmp_path, 15) == ["15", *["15 [('ok',)]"] * 2]


def test_what_a_child_writes_is_kept_though_its_parent_closes_the_store_meanwhile(tmp_path):
    code = """
        store = DiskCheckpointer(folder)
        plain(store).append("t", None, b"1", {})
        (ready, tell), (go_on, let) = os.pipe(), os.pipe()

        def write():
            plain(store).append("t", b"1", b"2", {"a": b"1"})
            os.write(tell, b"x")
            os.read(go_on, 1)
            plain(store).append("t", b"2", b"3", {"b": b"1"})

        pid = forked(write)
        os.read(ready, 1)
        store.close()
        os.write(let, b"x")
        print(succeeded([pid]))
    """
    assert run(code, tmp_path) == ["1"]
    with DiskCheckpointer(tmp_path) as store:
        assert plain(store).rows() == [("a", b"1"), ("b", b"1"), ("head/t", b"3")]


def test_a_turn_of_a_child_is_saved_while_its_parent_runs_turns(tmp_path):
    code = """
        agent = Agent(ScriptedModel(lambda request: "ok" * 5000), checkpointer=DiskCheckpointer(folder))

        def talk(thread):
            while going:
                agent.run_sync("go", thread)

        def turn():
            assert Agent(ScriptedModel(["ok"]), checkpointer=agent.checkpointer).run_sync("go").saved

        going = True
        talking = Thread(target=talk, args=("t",))
        talking.start()
        pids = []
        for _ in range(5):
            time.sleep(0.02)
            pids.append(forked(turn))
        print(succeeded(pids))
        going = False
        talking.join()
    """
    assert run(code, tmp_path) == ["5"]


def test_a_child_may_use_a_store_in_memory_and_holds_no_thread_of_its_parent(tmp_path):
    code = """
        store, going = MemoryCheckpointer(), True

        def append():
            number = 0
            while going:
                number += 1
                plain(store).append(f"t{number}", None, b"1", {})

        def write():
            plain(store).append("child", None, b"1", {})
            assert plain(store).hold("held")

        plain(store).hold("held")
        thread = Thread(target=append)
        thread.start()
        pids = [forked(write) for _ in range(20)]
        print(succeeded(pids), plain(store).head("child"), plain(store).hold("held"))
        going = False
        thread.join()
    """
    assert run(code, tmp_path) == ["20 None False"]


def test_a_process_may_fork_while_an_append_waits_for_another_writer(tmp_path):
    with DiskCheckpointer(tmp_path) as store:
        plain(store).append("t", None, b"1", {})
    other = sqlite3.connect(tmp_path / "cache.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    code = """
        store = DiskCheckpointer(folder)

        def wait():
            try:
                plain(store).append("t", b"1", b"2", {})
            except TimeoutError as exc:
                print(exc)

        waiting = Thread(target=wait, daemon=True)
        waiting.start()
        time.sleep(0.1)
        began = time.monotonic()
        print(succeeded([forked(lambda: plain(store).head("t"))]), waiting.is_alive(), time.monotonic() - began < 20)
    """
    try:
        assert run(code, tmp_path) == ["1 True True"]
    finally:
        other.close()
