"""Who waits for a thread gets it in its turn; who does not wait is told at once; and no event loop is held up."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from threading import Event, Thread

import pytest
from harness.stores import plain

from minideep import Agent, DiskCheckpointer, MemoryCheckpointer, ThreadBusy
from minideep.checkpoint import Journal, open_store
from minideep.errors import CheckpointError
from minideep.events import UserSaid
from minideep.messages import UserMessage
from minideep.models import ScriptedModel
from minideep.state import Limits

BUSY = """
import asyncio, sys
from minideep import Agent, DiskCheckpointer, ThreadBusy
from minideep.models import ScriptedModel

async def say(request):
    await asyncio.sleep(0.01)
    return "ok"

async def main(wait):
    agent, number = Agent(ScriptedModel(say), checkpointer=DiskCheckpointer(sys.argv[1])), 0
    while True:
        try:
            await agent.run("go", "t", wait=wait)
        except ThreadBusy:
            await asyncio.sleep(0)
        number += 1
        if number == 5:
            print("busy", flush=True)

asyncio.run(main(sys.argv[2] == "wait"))
"""


class Busy:
    """A process that runs turn after turn on one thread."""

    def __init__(self, folder, how):
        self.process = subprocess.Popen([sys.executable, "-c", BUSY, str(folder), how], stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def __enter__(self):
        return self.process

    def __exit__(self, *exc):
        self.process.kill()
        self.process.communicate()


def talker(store):
    return Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)


class Rounds:
    """Counts how often the event loop has come round, and the longest time in which it has not."""

    def __init__(self):
        self.count, self.longest = 0, 0.0
        self._counting = asyncio.create_task(self._count())

    async def _count(self):
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.001)
            now = time.monotonic()
            self.count, self.longest, last = self.count + 1, max(self.longest, now - last), now

    def stop(self):
        self._counting.cancel()
        return self


@pytest.mark.parametrize("how", ["wait", "again and again"])
async def test_a_waiter_gets_its_turn_beside_a_process_that_runs_turn_after_turn(tmp_path, how):
    with DiskCheckpointer(tmp_path) as store, Busy(tmp_path, how):
        agent, overtaken = talker(store), []
        for number in range(5):
            before = len(said(agent))
            turn = await asyncio.wait_for(agent.run(f"mine {number}", "t", wait=True), 20)
            assert turn.saved
            overtaken.append(said(agent).index(f"mine {number}") - before)
        assert sum(overtaken) < 30, overtaken


def said(agent):
    return [message.text for message in agent.get_state("t").messages if message.role == "user"]


async def test_waiters_of_one_process_get_the_thread_in_the_order_in_which_they_came(store):
    agent, order = talker(store), []

    async def turn(number):
        await agent.run(f"{number}", "t", wait=True)
        order.append(number)

    assert plain(store).hold("t")
    waiting = []
    for number in range(10):
        waiting.append(asyncio.create_task(turn(number)))
        await asyncio.sleep(0.002)
    plain(store).release("t")
    await asyncio.gather(*waiting)
    assert order == list(range(10))


async def test_beside_a_waiter_who_does_not_wait_is_told_at_once_and_a_waiter_may_give_up(store):
    agent = talker(store)
    assert plain(store).hold("t")
    waiting = asyncio.create_task(agent.run("go", "t", wait=True))
    await asyncio.sleep(0.01)
    with pytest.raises(ThreadBusy, match="thread 't' is being run"):
        await agent.run("me too", "t")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    plain(store).release("t")
    assert (await agent.run("now", "t")).saved


@pytest.mark.parametrize("who", ["another process", "another thread"])
async def test_turns_beside_somebody_who_writes_do_not_hold_up_the_loop(tmp_path, who):
    """Each of 100 first appends tried for 20 ms: the loop stood still for 2 s."""
    with DiskCheckpointer(tmp_path) as store:
        agent = talker(store)
        await agent.run("begin", "t0")
        other = sqlite3.connect(tmp_path / "cache.db", isolation_level=None, check_same_thread=False)
        if who == "another process":
            other.execute("BEGIN IMMEDIATE")
        else:
            taken = Event()
            Thread(target=store.plain._writer.run, args=(lambda con: taken.wait(20), 1)).start()
        rounds = Rounds()
        await asyncio.sleep(0.01)
        turns = asyncio.gather(*(agent.run("go", f"t{number}") for number in range(100)))
        try:
            await asyncio.sleep(0.5)
            assert rounds.stop().longest < 1.5
            assert not turns.done()
        finally:
            other.close()
            if who == "another thread":
                taken.set()
        assert all(turn.saved for turn in await turns)


@pytest.mark.parametrize("kind", ["memory", "disk"])
async def test_very_many_appends_at_once_are_spread_over_many_rounds_of_the_loop(tmp_path, kind):
    with DiskCheckpointer(tmp_path) if kind == "disk" else MemoryCheckpointer() as store:
        journals = [Journal(f"t{number}", open_store(store)) for number in range(1500)]
        for journal in journals:
            journal.record((), UserSaid(UserMessage("go"), 0.0, Limits()))
        rounds = Rounds()
        await asyncio.gather(*(journal.append() for journal in journals))
        assert rounds.stop().count > 10
        assert len(plain(store).keys("head/", "head0")) == 1500


async def test_a_cancel_of_very_many_appends_that_wait_for_their_round_comes_after_each_is_written(store):
    journals = [Journal(f"t{number}", open_store(store)) for number in range(500)]
    for journal in journals:
        journal.record((), UserSaid(UserMessage("go"), 0.0, Limits()))
    rounds, appends = Rounds(), [asyncio.create_task(journal.append()) for journal in journals]
    for _ in range(3):
        await asyncio.sleep(0)
        for append in appends:
            append.cancel()
    await asyncio.wait(appends)
    assert rounds.stop().count > 3
    written = len(plain(store).keys("head/", "head0"))
    assert written == sum(not journal.unsaved for journal in journals) >= 500 - 16
    assert sum(append.cancelled() for append in appends) >= 500 - 4 * 16


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="this system stops no processes")
async def test_a_process_that_is_stopped_inside_an_append_costs_others_their_saves_and_no_more(tmp_path):
    code = f"""
import time
from minideep import DiskCheckpointer
from functools import cache
from minideep.testing.plain import PlainStore
plain = cache(PlainStore)
store = DiskCheckpointer({str(tmp_path)!r})
class Rows(dict):
    def items(self):
        yield "a", b"1"
        print("inside", flush=True)
        time.sleep(60)
plain(store).append("t", None, b"1", {{}})
plain(store).append("t", b"1", None, Rows())
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        os.kill(process.pid, signal.SIGSTOP)
        with DiskCheckpointer(tmp_path, timeout=0.2) as store:
            assert (plain(store).head("t"), plain(store).get("a"), plain(store).keys()) == (b"1", None, ["head/t"])
            with pytest.raises(
                TimeoutError, match=r"cannot write .*: the database was locked by other writers for more"
            ):
                plain(store).append("u", None, b"1", {})
            for write in [asyncio.create_task(_write(store, f"u{n}")) for n in range(20)]:  # More than it has threads.
                with pytest.raises(CheckpointError, match="was locked by other writers"):
                    await write
        with DiskCheckpointer(tmp_path) as store:
            turn, rounds = asyncio.create_task(talker(store).run("go", "v")), Rounds()
            await asyncio.sleep(0.5)
            assert rounds.stop().longest < 1.5
            process.kill()
            assert (await turn).saved
    finally:
        process.kill()
        process.communicate()


async def _write(store, name):
    journal = Journal(name, open_store(store))
    journal.record((), UserSaid(UserMessage("go"), 0.0, Limits()))
    await journal.append()
