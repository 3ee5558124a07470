"""Measure a turn without tools: beside raw SQLite, late in a thread, with others at once, and from four processes.

    python bench/turn.py

The model answers at once, so all that is measured is the harness and the store. Raw SQLite writes the same rows, by the
same statements and settings, in the same process, after each turn or each batch of turns: both see the same load. A
turn is two transactions. Prints each figure with its bound:

- the time of a turn on a disk, as a multiple of its two transactions alone;
- a turn of a default agent at turn 200 and 800 of its thread, as a multiple of one at turn 20: Python calls and time;
- the same with a new agent for each turn, which reads the thread from the store: without a bound, it grows;
- turns a second of 64 threads at once, as a share of what raw SQLite does one after the other;
- the 99th percentile of a turn while four processes run turns on one folder.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from bounds import bound, verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from harness.calls import calls_of

from minideep import Agent, DiskCheckpointer, MemoryCheckpointer, create_deep_agent
from minideep.checkpoint import database, layout
from minideep.models import ScriptedModel

TURNS, AT_ONCE, ROUNDS, PROCESSES, SECONDS = 1500, 64, 6, 4, 6.0
EARLY, LATER = 20, (200, 800)


class Recorded(DiskCheckpointer):
    """Remembers what is appended."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.changes: list[tuple[dict[str, bytes], list[str]]] = []

    async def append(self, thread, expected, head, rows, deletes=(), **how):
        await super().append(thread, expected, head, rows, deletes, **how)
        self.changes.append(({**rows, layout.head_key(thread): head}, list(deletes)))


class Raw:
    """A database like that of a store, to which the same rows are written."""

    def __init__(self, folder: str) -> None:
        Path(folder).mkdir()
        self.con = database.connect(Path(folder, "cache.db"))
        database.set_up(self.con, Path(folder))
        self.con.execute("PRAGMA synchronous = NORMAL")

    def write(self, store: Recorded) -> None:
        """Write what the store has appended since the last time, each append in a transaction."""
        for rows, deletes in store.changes:
            with self.con:
                self.con.execute("BEGIN IMMEDIATE")
                for key in deletes:
                    self.con.execute(database.DELETE, (key,))
                database.put(self.con, rows)


def model() -> ScriptedModel:
    return ScriptedModel(lambda request: "It is so.")


def agent_on(store, *, default: bool = False) -> Agent:
    return create_deep_agent(model(), checkpointer=store) if default else Agent(model(), checkpointer=store)


async def beside_raw(folder: str) -> None:
    store, raw = Recorded(f"{folder}/ours"), Raw(f"{folder}/raw")
    agent, times = agent_on(store), {"wall": ([], []), "CPU": ([], [])}
    for _ in range(TURNS):
        store.changes.clear()
        begun = perf_counter(), process_time()
        await agent.run("Is it so?", "t")
        between = perf_counter(), process_time()
        raw.write(store)
        ended = perf_counter(), process_time()
        for at, kind in enumerate(times.values()):
            kind[0].append(between[at] - begun[at])
            kind[1].append(ended[at] - between[at])
    store.close()
    ours, theirs = (median(one[TURNS // 10 :]) * 1e6 for one in times["wall"])
    print(f"a turn without tools on a disk: {ours:.0f} µs; its two transactions alone: {theirs:.0f} µs")
    for kind, (turns, transactions) in times.items():
        bound(f"a turn, in its two transactions ({kind} time)", median(turns) / median(transactions), 3.5)


async def by_age(store, *, fresh: bool) -> dict[int, tuple[float, int]]:
    """Return the microseconds and the Python calls of a turn, by its number in the thread."""
    found, agent, number = {}, agent_on(store, default=True), 0

    async def turn() -> float:
        nonlocal agent, number
        number += 1
        if fresh:
            agent = agent_on(store, default=True)
        begun = process_time()
        await agent.run(f"Is it so, for the time {number}?", "t")
        return (process_time() - begun) * 1e6

    for at in (EARLY, *LATER):
        while number < at - 10:
            await turn()
        found[at] = median([await turn() for _ in range(20)]), await calls_of(turn())
    return found


async def late(folder: str) -> None:
    for name, store in (("in memory", MemoryCheckpointer()), ("on a disk", DiskCheckpointer(f"{folder}/late"))):
        found = await by_age(store, fresh=False)
        shown = ", ".join(f"{at}: {time:.0f} µs, {calls} calls" for at, (time, calls) in found.items())
        print(f"a turn of a default agent {name}, by its number: {shown}")
        for at in LATER:
            bound(f"turn {at} to turn {EARLY}, Python calls", found[at][1] / found[EARLY][1], 1.3)
            bound(f"turn {at} to turn {EARLY}, CPU time", found[at][0] / found[EARLY][0], 1.3)
    with DiskCheckpointer(f"{folder}/fresh") as store:
        found = await by_age(store, fresh=True)
        shown = ", ".join(f"{at}: {time:.0f} µs" for at, (time, _) in found.items())
        print(f"the same with a new agent for each turn, built and the thread read: {shown}")


async def at_once(folder: str) -> None:
    store, raw = Recorded(f"{folder}/many"), Raw(f"{folder}/many raw")
    agent, ours, theirs = agent_on(store), 0.0, 0.0

    async def life(thread: int) -> None:
        for _ in range(8):
            await agent.run("Is it so?", f"t{thread}")

    for number in range(ROUNDS):
        store.changes.clear()
        begun = perf_counter()
        await asyncio.gather(*map(life, range(AT_ONCE)))
        between = perf_counter()
        raw.write(store)
        if number:  # The first warms up.
            ours, theirs = ours + between - begun, theirs + perf_counter() - between
    store.close()
    turns = (ROUNDS - 1) * AT_ONCE * 8
    print(f"{AT_ONCE} threads at once: {turns / ours:,.0f} turns a second; raw SQLite: {turns / theirs:,.0f}")
    bound("turns a second, as a share of raw SQLite", theirs / ours, 1 / 3, least=True)


async def work(folder: str, thread: str) -> list[float]:
    """Run turns on one thread for some seconds; return the milliseconds of each."""
    agent, times, until = agent_on(DiskCheckpointer(folder)), [], perf_counter() + SECONDS
    while (begun := perf_counter()) < until:
        await agent.run("Is it so?", thread)
        times.append((perf_counter() - begun) * 1000)
    return times


def processes(folder: str) -> None:
    command = [sys.executable, __file__, f"{folder}/shared"]
    workers = [
        subprocess.Popen([*command, f"t{number}"], stdout=subprocess.PIPE, text=True) for number in range(PROCESSES)
    ]
    times = sorted(time for worker in workers for time in json.loads(worker.communicate()[0]))
    rate = len(times) / SECONDS
    print(f"{PROCESSES} processes on one folder: {rate:,.0f} turns a second, median {median(times):.1f} ms")
    bound("99th percentile of a turn", times[int(len(times) * 0.99)], 100.0, "ms")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(beside_raw(folder))
        asyncio.run(late(folder))
        asyncio.run(at_once(folder))
        processes(folder)
    return verdict()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(asyncio.run(work(*sys.argv[1:]))))
    else:
        sys.exit(main())
