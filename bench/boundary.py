"""Measure a checkpoint: the boundary of a turn, and each part of it alone.

    python bench/boundary.py

For each store: milliseconds of saving a turn (both appends) early and late in a thread of many turns, and bytes before
and after compression. Then the parts of one append of three results of 2,000 characters: encoding, compressing,
storing, and the hop to the store's thread that a larger append takes; beside them a bare `diskcache.Cache.add` and a
raw `sqlite3` insert of the same bytes. Fails if the median append costs more than 3 times the bare add.
"""

import asyncio
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from random import Random
from time import perf_counter

import diskcache
from harness.stores import plain

from minideep import Agent, DiskCheckpointer, MemoryCheckpointer, ToolCall, tool
from minideep.checkpoint import format as codec
from minideep.events import ToolReturned
from minideep.models import ScriptedModel

TURNS, ROUNDS, MOST = 300, 2000, 3.0
WORDS = Path(__file__).read_text().split()
RANDOM = Random(7)


def prose(size: int) -> str:
    """Return new text, about as compressible as prose."""
    text = ""
    while len(text) < size:
        text += f"{RANDOM.choice(WORDS)} {RANDOM.randrange(10**4)} "
    return text[:size]


@tool
async def look() -> str:
    """Look up 2,000 characters."""
    return prose(2000)


async def thread(store: object, turns: int, steps: int) -> list[tuple[float, int, int]]:
    """Return the milliseconds of saving, the raw bytes and the stored bytes of each turn."""
    script = ([ToolCall("look")] * steps + ["done"]) * turns
    agent = Agent(ScriptedModel(script), [look], checkpointer=store)  # type: ignore[arg-type]
    costs = [(await agent.run("go", "t")).costs for _ in range(turns)]
    return [(cost.save_s * 1000, cost.bytes_raw, cost.bytes_stored) for cost in costs]


def report(name: str, rows: list[tuple[float, int, int]]) -> None:
    early, late = ([row[0] for row in part] for part in (rows[5:55], rows[-50:]))
    raw, stored = sum(row[1] for row in rows), sum(row[2] for row in rows)
    print(
        f"{name:28} {statistics.median(early):7.2f} ms early {statistics.median(late):7.2f} ms late "
        f"{raw / len(rows):9,.0f} B raw {stored / len(rows):9,.0f} B stored a turn"
    )


def timed(act: Callable[[], object]) -> float:
    """Return the milliseconds that *act* takes."""
    started = perf_counter()
    act()
    return (perf_counter() - started) * 1000


async def hop(executor: Executor) -> float:
    """Return the milliseconds of a call on another thread that does nothing."""
    started = perf_counter()
    await asyncio.get_running_loop().run_in_executor(executor, int)
    return (perf_counter() - started) * 1000


def apart(folder: str) -> bool:
    """Time each part of an append, interleaved so that all see the same load; return True within the bound."""
    events = [ToolReturned(f"c{number}", prose(2000)) for number in range(3)]
    bodies = [codec.encode(number, event) for number, event in enumerate(events, 1)]
    header = codec.Header("t", (), 1, 3, 0, b"id", codec.raw_size(bodies), 1.0)
    data, number = codec.seal(header, bodies), iter(range(10**6))
    store, cache = DiskCheckpointer(folder + "/a"), diskcache.Cache(folder + "/b")
    raw = sqlite3.connect(folder + "/c", isolation_level=None)
    raw.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; CREATE TABLE rows (key TEXT PRIMARY KEY, value)"
    )
    head: list[bytes | None] = [None]

    def append() -> None:
        new = b"%d" % next(number)
        plain(store).append("t", head[0], new, {f"log/t//{new.decode()}": data})
        head[0] = new

    parts: dict[str, Callable[[], float]] = {
        "encode": lambda: timed(lambda: [codec.encode(1, event) for event in events]),
        "compress, seal": lambda: timed(lambda: codec.seal(header, bodies)),
        "store: append of the segment and the head": lambda: timed(append),
        "hop, where an append is over 64 KiB": lambda: asyncio.run(hop(store._calls.pool.executor)),
        "bare diskcache.Cache.add": lambda: timed(lambda: cache.add(str(next(number)), data)),
        "raw sqlite3 insert": lambda: timed(
            lambda: raw.execute("INSERT INTO rows VALUES (?, ?)", (next(number), data))
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(ROUNDS):
        for name, part in parts.items():
            if "hop" not in name or len(times[name]) < 200:
                times[name].append(part())
    print(f"three results of 2,000 characters: {sum(map(len, bodies)):,} B raw, {len(data):,} B stored")
    for name, found in times.items():
        worst = sorted(found)[int(len(found) * 0.99)]
        print(f"  {name:44} median {statistics.median(found):7.4f} ms   99 % {worst:7.4f} ms")
    ours = sum(statistics.median(times[name]) for name in list(parts)[:3])
    ratio = ours / statistics.median(times["bare diskcache.Cache.add"])
    print(f"  encoded, compressed and stored: {ratio:.2f} times the bare add (bound {MOST})")
    for one in (store, cache, raw):
        one.close()
    return ratio <= MOST


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        report("memory, 3 steps a turn", asyncio.run(thread(MemoryCheckpointer(), TURNS, 3)))
        for steps in (3, 30):
            with DiskCheckpointer(f"{folder}/{steps}") as store:
                report(f"disk, {steps} steps a turn", asyncio.run(thread(store, TURNS, steps)))
        return 0 if apart(folder) else 1


if __name__ == "__main__":
    sys.exit(main())
