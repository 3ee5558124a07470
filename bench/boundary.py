"""What a checkpoint costs: the boundary of a turn, by what the turn added and by how long the thread is.

    python bench/boundary.py

For each store: milliseconds of saving a turn (both appends) early and late in a thread of many turns, and bytes before
and after compression; then encoding, compressing and storing apart, beside a bare `diskcache.Cache.add` of as much.
"""

import asyncio
import statistics
import sys
import tempfile
from pathlib import Path
from random import Random
from time import perf_counter

import diskcache

from minideep import Agent, DiskCheckpointer, MemoryCheckpointer, ToolCall, codec, tool
from minideep.events import ToolReturned
from minideep.models import ScriptedModel

TURNS = 300
WORDS = Path(__file__).read_text().split()
RANDOM = Random(7)


def prose(size: int) -> str:
    """Text that was never said before, about as compressible as prose."""
    text = ""
    while len(text) < size:
        text += f"{RANDOM.choice(WORDS)} {RANDOM.randrange(10**4)} "
    return text[:size]


@tool
async def look() -> str:
    """Look up 2,000 characters."""
    return prose(2000)


async def thread(store: object, turns: int, steps: int) -> list[tuple[float, int, int]]:
    """Milliseconds of saving, raw and stored bytes, a turn."""
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


def median(act: object, rounds: int = 200) -> float:
    """Milliseconds."""
    times = []
    for _ in range(rounds):
        started = perf_counter()
        act()  # type: ignore[operator]
        times.append((perf_counter() - started) * 1000)
    return statistics.median(times)


def apart(folder: str) -> None:
    events = [ToolReturned(f"c{number}", prose(2000)) for number in range(3)]
    bodies = [codec.encode(number, event) for number, event in enumerate(events, 1)]
    header = codec.Header("t", (), 1, 3, 0, b"id", codec.raw_size(bodies), 1.0)
    data = codec.seal(header, bodies)
    store, cache, number = DiskCheckpointer(folder + "/a"), diskcache.Cache(folder + "/b"), iter(range(10**6))
    head = [None]

    def append() -> None:
        new = str(next(number)).encode()
        store.append("t", head[0], new, {f"log/t//{new.decode()}": data})
        head[0] = new  # type: ignore[call-overload]

    print(f"three results of 2,000 characters: {sum(map(len, bodies)):,} B raw, {len(data):,} B stored")
    print(f"  encode           {median(lambda: [codec.encode(1, event) for event in events]):8.4f} ms")
    print(f"  compress, seal   {median(lambda: codec.seal(header, bodies)):8.4f} ms")
    print(f"  append           {median(append):8.4f} ms")
    print(f"  bare Cache.add   {median(lambda: cache.add(str(next(number)), data)):8.4f} ms")
    store.close()
    cache.close()


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        report("memory, 3 steps a turn", asyncio.run(thread(MemoryCheckpointer(), TURNS, 3)))
        for steps in (3, 30):
            with DiskCheckpointer(f"{folder}/{steps}") as store:
                report(f"disk, {steps} steps a turn", asyncio.run(thread(store, TURNS, steps)))
        apart(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
