"""Stores that are forked or verified while somebody else writes to them."""

import multiprocessing
import threading
import time
from contextlib import closing, suppress

from harness.histories import agent_on
from harness.stores import plain
from minideep import Agent, CheckpointError, DiskCheckpointer, Retention, UnknownThread
from minideep.models import ScriptedModel


def load_whole(agent, thread_id):
    """Read everything that can be asked of a thread."""
    agent.get_state(thread_id, subagents=True)
    for boundary in agent.history(thread_id):
        agent.get_state(thread_id, at=boundary.at, subagents=True)
    return agent.transcript(thread_id), agent.export(thread_id), agent.runs(thread_id)


def forks_beside_a_writer(folder, seconds):
    """Fork a thread on a disk for *seconds*, beside a writer that compacts it, cuts it, and now and then starts it anew.

    Returns the number of forks, and what was wrong with any.
    """
    stop, wrong, forks = threading.Event(), [], 0

    def write():
        with closing(DiskCheckpointer(folder, retention=Retention(boundaries=1))) as store:
            agent, turn = agent_on(store), 0
            while not stop.is_set():
                agent.run_sync(("plain", "compact", "large", "task")[turn % 4], "t")
                turn += 1
                if turn % 40 == 0:
                    store.close()
                    agent.delete("t")

    writer = threading.Thread(target=write)
    writer.start()
    with closing(DiskCheckpointer(folder)) as store:
        agent, until = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store), time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                with suppress(UnknownThread):
                    agent.fork("t", thread_id="f")
                    forks += 1
                    load_whole(agent, "f")
                    assert agent.run_sync("plain", "f").saved
                    agent.delete("f")
        except CheckpointError as exc:
            wrong.append(f"fork {forks}: {exc!r}")
        finally:
            stop.set()
            writer.join()
    return forks, wrong


def write_all_the_time(folder, stop):
    """Run turns, merges, cuts, forks and deletes, until *stop* is set."""
    with closing(DiskCheckpointer(folder, retention=Retention(boundaries=1, seconds=0.2))) as store:
        agent, turn = agent_on(store), 0
        while not stop.is_set():
            agent.run_sync(("plain", "compact", "large", "task", "plain")[turn % 5], f"t{turn % 3}")
            turn += 1
            if turn % 7 == 0:
                agent.fork(f"t{turn % 3}", thread_id="f")
                agent.run_sync("large", "f")
                agent.delete("f")
            if turn % 40 == 0:
                store.close()
                agent.delete(f"t{turn % 3}")


def verified_beside_a_writer(folder, seconds):
    """Verify a store for *seconds* beside a process that writes to it; return how often, and the false alarms."""
    context = multiprocessing.get_context("spawn")
    stop, looks, wrong = context.Event(), 0, []
    writer = context.Process(target=write_all_the_time, args=(folder, stop), daemon=True)
    writer.start()
    with DiskCheckpointer(folder) as store:
        try:
            while writer.is_alive() and not plain(store).keys("head/", "head0"):
                time.sleep(0.01)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                wrong += store.verify()
                looks += 1
        finally:
            stop.set()
            writer.join(60)
        return looks, wrong + store.verify() + [f"the writer ended with {writer.exitcode}"] * (writer.exitcode != 0)
