"""Measure a long thread: saving a turn early and late, the bytes kept, loading, and resuming after compactions.

    python bench/growth.py [turns]

A thread of 1,000 turns of 3 steps, each with a new result of 2,000 characters. Prints with bounds: the median and 99th
percentile of saving a turn (both appends), late against early; the largest merged segment; stored bytes against
one-shot compression of all events; the database file; the write-ahead log; the time to load the whole thread; and, with
a compaction every 100 turns, the time to resume it.
"""

import asyncio
import sqlite3
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import zstandard
from boundary import look, prose
from bounds import bound, verdict
from harness.stores import plain

from minideep import Agent, DiskCheckpointer, Middleware, ToolCall, UserMessage
from minideep.checkpoint import format as codec, open_store, open_thread
from minideep.events import Compacted
from minideep.models import ScriptedModel


class Compacting(Middleware):
    """Replaces all but the last message by a summary, every 100 turns."""

    async def before_finish(self, ctx):
        if ctx.state.turn % 100 == 0:
            ctx.record(Compacted(UserMessage(prose(3000)), len(ctx.state.messages) - 1))


class Watched(DiskCheckpointer):
    """Notes the sizes of merged segments."""

    largest = merges = 0

    async def append(self, thread, expected, head, rows, deletes=(), **how):
        await super().append(thread, expected, head, rows, deletes, **how)
        if deletes:
            self.merges += 1
            self.largest = max(self.largest, *map(len, rows.values()))


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[int(len(times) * share)]


async def live(store: DiskCheckpointer, turns: int, middleware=()) -> list[float]:
    """Return the milliseconds of saving each turn."""
    script = ([ToolCall("look")] * 3 + ["done"]) * turns
    agent = Agent(ScriptedModel(script), [look], middleware=middleware, checkpointer=store)
    return [(await agent.run("go", "t")).costs.save_s * 1000 for _ in range(turns)]


def events_of(store: DiskCheckpointer) -> tuple[bytes, int]:
    """Return every event of the thread as its segments hold them, and the bytes of the segments."""
    found = plain(store).rows("log/", "log0")
    raw = b"".join(
        codec.encode(one.number, one.event, one.ms) for key, data in found for one in codec.read_segment(data, key)[1]
    )
    return raw, sum(len(data) for _, data in found)


def best(act, rounds: int = 5) -> float:
    """Return the milliseconds of the fastest round: the work alone, without other load of the machine."""
    times = []
    for _ in range(rounds):
        started = perf_counter()
        act()
        times.append((perf_counter() - started) * 1000)
    return min(times)


def long_thread(folder: str, turns: int) -> None:
    with Watched(folder) as store:
        times = asyncio.run(live(store, turns))
        wal = Path(folder, "cache.db-wal").stat().st_size
    early, late = times[10 : turns // 2], times[turns // 2 :]
    print(f"a thread of {turns:,} turns of 3 steps, results of 2,000 characters; saving a turn, both appends")
    print(f"  turns 10 to {turns // 2}: median {percentile(early, 0.5):.2f} ms, 99 % {percentile(early, 0.99):.2f} ms")
    print(
        f"  turns {turns // 2} to {turns}: median {percentile(late, 0.5):.2f} ms, 99 % {percentile(late, 0.99):.2f} ms"
    )
    bound("median, late to early", percentile(late, 0.5) / percentile(early, 0.5), 1.5)
    bound("99th percentile, late to early", percentile(late, 0.99) / percentile(early, 0.99), 2.0)
    print(f"  {store.merges} merges; the largest segment has {store.largest:,} bytes")
    with DiskCheckpointer(folder) as store:
        raw, stored = events_of(store)
        one_shot = len(zstandard.compress(raw, 3))
        bound("segments to one-shot zstd-3 of all events", stored / one_shot, 1.15)
        bound("write-ahead log at the end", wal / 2**20, 1.0, "MiB")
        with sqlite3.connect(Path(folder, "cache.db")) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        bound("database file to one-shot zstd-3", Path(folder, "cache.db").stat().st_size / one_shot, 1.35)
        print(f"  {len(raw):,} bytes of events, {one_shot:,} compressed in one shot, {stored:,} in segments")
        bound("loading the thread", best(lambda: open_thread(open_store(store), "t")), 60.0, "ms")


def compacted_thread(folder: str, turns: int) -> None:
    print("the same with a compaction every 100 turns; resuming reads the snapshot and the segments after it")
    with DiskCheckpointer(folder) as store:
        asyncio.run(live(store, turns - 1, [Compacting()]))
        checked = open_store(store)
        bound("resuming, 99 turns after the last compaction", best(lambda: open_thread(checked, "t")), 10.0, "ms")
        agent = Agent(ScriptedModel([]), checkpointer=store)
        print(
            f"  boundary {turns // 2}: {best(lambda: agent.get_state('t', at=turns // 2)):.1f} ms; "
            f"the whole transcript: {best(lambda: agent.transcript('t'), 2):.0f} ms"
        )
        assert len(agent.transcript("t")) == (turns - 1) * 8


def main(turns: int = 1000) -> int:
    with tempfile.TemporaryDirectory() as folder:
        long_thread(f"{folder}/long", turns)
        compacted_thread(f"{folder}/compacted", turns)
    return verdict()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
