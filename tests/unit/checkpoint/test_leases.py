"""Leases that are lost: the old holder stops and saves nothing, and the new one is never in its way."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from harness.stores import DistantStore, plain

from minideep import Agent, DiskCheckpointer, ThreadBusy, ThreadConflict, ToolCall, tool
from minideep.checkpoint import open_store
from minideep.checkpoint.journal import Journal
from minideep.events import UserSaid
from minideep.messages import UserMessage
from minideep.models import ScriptedModel
from minideep.state import Limits


async def test_a_runner_whose_lease_is_lost_stops_before_its_next_effect_and_the_new_one_goes_on():
    store, effects = DistantStore(), []

    def runner(name, at=None):
        @tool
        async def act() -> str:
            """Have an effect."""
            effects.append(name)
            if len(effects) == at:
                store.leases["t"].lose()  # Its connection is cut while the call runs.
            return "done"

        def say(request):
            acted = sum(message.role == "tool" for message in request.messages)
            return ToolCall("act") if acted < 3 else "ok"

        return Agent(ScriptedModel(say), [act], checkpointer=store)

    lost = await runner("old", at=1).run("go", "t")
    assert (lost.status, lost.reason, lost.saved) == ("failed", "ThreadConflict", False)
    assert isinstance(lost.error, ThreadConflict)
    turn = await runner("new").resume("t")
    assert (turn.status, turn.saved, effects) == ("ended", True, ["old", "new", "new", "new"])


async def test_what_a_runner_appends_after_its_lease_is_lost_is_refused_and_the_new_holder_has_no_conflict():
    store = DistantStore()
    agents = [Agent(ScriptedModel([]), checkpointer=store) for _ in range(2)]
    old, new = (Journal("t", open_store(store)) for _ in agents)
    for journal in (old, new):
        journal.record((), UserSaid(UserMessage("go"), 0.0, Limits()))
    old.lease = (await store.open("t")).lease
    store.leases["t"].lose()
    new.lease = (await store.open("t")).lease
    store.trips.clear()
    with pytest.raises(ThreadConflict, match="was lost"):
        await old.append()
    assert store.trips == []  # It need not ask.
    await new.append()


async def test_a_lease_that_ends_unnoticed_is_found_out_by_the_append_itself():
    store = DistantStore()
    old, new = (Journal("t", open_store(store)) for _ in range(2))
    for journal in (old, new):
        journal.record((), UserSaid(UserMessage("go"), 0.0, Limits()))
    old.lease = (await store.open("t")).lease
    store.leases["t"].release()
    new.lease = (await store.open("t")).lease
    with pytest.raises(ThreadConflict, match="no longer held"):
        await old.append()
    await new.append()


# ---- a lease on a disk


RUNNER = """
import asyncio, sys
from minideep import Agent, DiskCheckpointer, ToolCall, tool
from minideep.models import ScriptedModel

@tool
async def act() -> str:
    print("acts", flush=True)
    await asyncio.sleep(0.2)
    return "done"

async def main():
    store = DiskCheckpointer(sys.argv[1], lease=0.5)
    agent = Agent(ScriptedModel(lambda request: ToolCall("act")), [act], checkpointer=store)
    turn = await agent.run("go", "t")
    print(turn.status, turn.reason, turn.saved, flush=True)

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="this system stops no processes")
async def test_a_holder_that_is_stopped_loses_the_thread_and_finds_out_when_it_goes_on(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", RUNNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        for _ in range(4):  # It runs for longer than the lease, and keeps it.
            assert process.stdout.readline() == "acts\n"
        with DiskCheckpointer(tmp_path, lease=0.5) as store:
            agent = Agent(ScriptedModel(["taken over"]), checkpointer=store)
            with pytest.raises(ThreadBusy):
                await agent.run("mine", "t")
            assert await store.held("t")
            process.send_signal(signal.SIGSTOP)
            turn = await agent.run("mine", "t", wait=True)
            assert (turn.text, turn.saved) == ("taken over", True)
            process.send_signal(signal.SIGCONT)
            *_, last = process.stdout.read().splitlines()
            assert last == "failed ThreadConflict False"
            assert [message.text for message in agent.get_state("t").messages] == ["go", "mine", "taken over"]
    finally:
        process.kill()
        process.communicate()


async def test_a_thread_that_was_taken_over_from_a_stopped_holder_is_held(tmp_path):
    code = f"""
import time
from minideep import DiskCheckpointer
from minideep.testing.plain import PlainStore
print(PlainStore(DiskCheckpointer({str(tmp_path)!r}, lease=0.2)).hold("t"), flush=True)
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"True\n"
        process.send_signal(signal.SIGSTOP)
        with DiskCheckpointer(tmp_path, lease=0.2) as one, DiskCheckpointer(tmp_path, lease=0.2) as two:
            for _ in range(3):  # Again and again: the system's lock stays with the stopped one.
                opened = await one.open("t", wait=20.0)
                assert (await two.open("t"), await two.held("t")) == (None, True)
                opened.lease.release()
            opened = await one.open("t", wait=20.0)
            process.kill()
            process.wait()
            assert (await two.open("t"), await two.held("t")) == (None, True)  # Though the lock of the system is free.
            opened.lease.release()
            assert not await two.held("t")
            again = await two.open("t")
            assert again is not None
            again.lease.release()
    finally:
        process.kill()
        process.communicate()


async def test_a_holder_that_dies_frees_its_thread_at_once_whatever_the_lease(tmp_path):
    code = f"""
import os
from minideep import DiskCheckpointer
from minideep.testing.plain import PlainStore
print(PlainStore(DiskCheckpointer({str(tmp_path)!r}, lease=600)).hold("t"), flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.stdout == b"True\n"
    with DiskCheckpointer(tmp_path, lease=600) as store:
        assert not await store.held("t")
        (await store.open("t")).lease.release()


async def test_a_lease_is_renewed_while_its_turn_runs_and_its_row_goes_with_it(tmp_path):
    with DiskCheckpointer(tmp_path, lease=0.2) as store, DiskCheckpointer(tmp_path, lease=0.2) as other:
        opened = await store.open("t")
        until = time.monotonic() + 1
        while time.monotonic() < until:
            assert await other.open("t") is None
            await asyncio.sleep(0.02)
        assert not opened.lease.lost
        await store.append("t", None, b"1", {}, lease=opened.lease, release=True)
        (await other.open("t")).lease.release()
        count = store.plain._reader.run(lambda con: con.execute("SELECT count(*) FROM Leases").fetchone(), 1)
        assert count == (0,)
        assert plain(store).rows() == [("head/t", b"1")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
async def test_an_append_is_refused_once_the_lease_is_somebody_else_s_and_the_holder_is_told(tmp_path):
    with DiskCheckpointer(tmp_path, lease=60) as store:
        journal, lost = Journal("t", open_store(store)), []
        journal.record((), UserSaid(UserMessage("go"), 0.0, Limits()))
        journal.lease = (await store.open("t")).lease
        journal.lease.on_lost(lambda: lost.append(True))
        with closing(sqlite3.connect(tmp_path / "cache.db")) as other, other:
            other.execute("UPDATE Leases SET token = 'of another process'")
        with pytest.raises(ThreadConflict, match="taken over by another process"):
            await journal.append()
        assert lost == [True]
        journal.lease.release()


def test_a_store_without_a_lease_needs_no_table_for_it(tmp_path):
    with DiskCheckpointer(tmp_path) as store:
        assert plain(store).hold("t")
        plain(store).append("t", None, b"1", {})
        tables = store.plain._reader.run(lambda con: con.execute("SELECT name FROM sqlite_master").fetchall(), 1)
        assert "Leases" not in str(tables)
        plain(store).release("t")


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="this system stops no processes")
async def test_who_is_stopped_while_it_waits_keeps_nobody_from_the_thread(tmp_path):
    code = f"""
from minideep import DiskCheckpointer
from minideep.testing.plain import PlainStore
store = PlainStore(DiskCheckpointer({str(tmp_path)!r}, lease=0.2))
print("waits", flush=True)
store.open("t", wait=60.0)
"""
    with DiskCheckpointer(tmp_path, lease=0.2) as one:
        opened = await one.open("t")
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        try:
            assert process.stdout.readline() == b"waits\n"
            await asyncio.sleep(0.3)
            process.send_signal(signal.SIGSTOP)
            opened.lease.release()
            again = await one.open("t", wait=20.0)
            assert again is not None
            again.lease.release()
        finally:
            process.kill()
            process.communicate()
