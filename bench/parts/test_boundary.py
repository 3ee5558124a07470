"""A boundary: a turn begins and ends, and what it added is saved."""

import sqlite3
from typing import Any

import diskcache
import pytest
from harness.stores import plain
from work import Pages, done, reading, text

from minideep import Agent, DiskCheckpointer, MemoryCheckpointer
from minideep.models import ScriptedModel

TURNS = 10


async def turns(agent: Agent, count: int = TURNS, said: str = "go") -> int:
    """Run some turns, and return the bytes that the last one stored."""
    for _ in range(count):
        turn = await agent.run(said, "t")
    assert turn.saved, turn.status
    return turn.costs.bytes_stored


AGES = [0, 100, 1_000, pytest.param(10_000, marks=pytest.mark.full)]


@pytest.mark.parametrize("age", AGES, ids="turn {:,}".format)
def test_a_turn_without_tools_by_its_number(measure, runner, store, age):
    """A turn without tools, from input to boundary, by the turns before it."""
    agent = Agent(ScriptedModel(done), checkpointer=store)
    stored = runner.run(turns(agent, age + 1))
    measure(lambda: runner.run(turns(agent)), rounds=10, each=TURNS, **{"B stored": stored})


STATES = {"10 KB": 10_000, "1 MB": 10**6, "10 MB": 10**7}


@pytest.mark.parametrize("size", STATES.values(), ids=[f"state of {name}" for name in STATES])
def test_put_latency_by_state_size(measure, runner, store, size):
    """A turn that adds 1 KB, by the size of the thread's state."""
    agent, part = Agent(ScriptedModel(done), checkpointer=store), min(size, 10**6)
    for _ in range(size // part):
        runner.run(turns(agent, 1, text(part)))
    measure(lambda said: runner.run(turns(agent, TURNS, said)), setup=lambda: text(1_000), rounds=10, each=TURNS)


SIZES = {"1 KB": 1_000, "10 KB": 10_000, "100 KB": 10**5, "1 MB": 10**6}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_a_turn_by_what_it_adds(measure, runner, store, size):
    """A turn with one tool call, by the size of the result."""
    pages = Pages(size)
    agent = Agent(ScriptedModel(reading(1)), [pages.tool], checkpointer=store)
    pages.print(1)
    stored = runner.run(turns(agent, 1))
    measure(lambda _: runner.run(turns(agent, 1)), setup=lambda: pages.print(1), rounds=10, **{"B stored": stored})


DISKS: dict[str, dict[str, Any]] = {"disk": {}, "disk with a lease": {"lease": 30}, "disk with fsync": {"fsync": True}}


@pytest.mark.parametrize("durability", ["turn", "step", "tool"])
@pytest.mark.parametrize("where", ["memory", *DISKS])
def test_durabilities(measure, runner, tmp_path, where, durability):
    """A turn of 3 steps with results of 2,000 characters, by its durability."""
    pages, kept = Pages(), DiskCheckpointer(tmp_path, **DISKS[where]) if where in DISKS else MemoryCheckpointer()
    agent = Agent(ScriptedModel(reading(3)), [pages.tool], checkpointer=kept, durability=durability)
    measure(lambda _: runner.run(turns(agent, TURNS)), setup=lambda: pages.print(3 * TURNS), rounds=10, each=TURNS)
    kept.close()


BODY = text(4_096).encode()


def test_a_bare_insert_of_sqlite(measure, tmp_path):
    """One append of 4 KB and a head, beside what is under it."""
    with sqlite3.connect(tmp_path / "raw.db", isolation_level=None) as raw:
        raw.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; CREATE TABLE rows (key TEXT PRIMARY KEY, value)"
        )
        measure(lambda key: raw.execute("INSERT INTO rows VALUES (?, ?)", (key, BODY)), setup=numbers(), rounds=200)
    raw.close()


def test_diskcache_add(measure, tmp_path):
    """One append of 4 KB and a head, beside what is under it."""
    with diskcache.Cache(tmp_path) as cache:
        measure(lambda key: cache.add(key, BODY), setup=numbers(), rounds=200)


def test_an_append(measure, store):
    """One append of 4 KB and a head, beside what is under it."""
    rows, head = plain(store), [None]

    def append(key: str) -> None:
        new = key.encode()
        rows.append("t", head[0], new, {f"log/t//{key}": BODY})
        head[0] = new

    measure(append, setup=numbers(), rounds=200)


def numbers() -> Any:
    keys = (f"{number:09}" for number in range(10**6))
    return lambda: next(keys)
