"""The time of every event stands in the log, to a millisecond, whatever is done to its segment."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from harness.agents import LONG, ping, sub, task
from harness.stores import plain

from minideep import Agent, MemoryCheckpointer, Retention, ToolCall, create_deep_agent
from minideep.checkpoint import format as codec, open_store
from minideep.checkpoint.boundaries import runs_at
from minideep.checkpoint.layout import after, log_prefix
from minideep.checkpoint.replay import read_consistently, segments
from minideep.checkpoint.rewriting import merge
from minideep.events import TurnEnded, UserSaid
from minideep.models import ScriptedModel


def times(store, thread="t"):
    """Return the time of each event of a thread, by its number."""

    def read(log):
        begins = {(): log.head.truncation.number if log.head.truncation else 0}
        runs = [(), *runs_at(log, log.head.number)]
        found = (entry for run in runs for _, entries in segments(log, run, begins.get(run, 0)) for entry in entries)
        return {number: at for number, _, at in found}

    return dict(sorted(read_consistently(open_store(store), thread, read).items()))


class Slow:
    """A model that takes 20 ms for each reply and makes two calls."""

    def __init__(self):
        self.asked = []

    async def __call__(self, request):
        await asyncio.sleep(0.02)
        self.asked.append(time.time())
        return ToolCall("ping") if len(self.asked) % 3 else "done"


@pytest.mark.parametrize("durability", ["turn", "step", "tool"])
async def test_each_event_has_the_time_at_which_it_happened(store, durability):
    model, began = Slow(), time.time()
    agent = Agent(ScriptedModel(model), [ping], checkpointer=store, durability=durability)
    await agent.run("go", "t")
    await agent.run("more", "t")
    found, ended = list(times(store).values()), time.time()
    assert found == sorted(found)
    assert began - 0.002 <= found[0] <= found[-1] <= ended
    for asked in model.asked:  # A reply was recorded right after it came.
        assert any(-0.002 <= at - asked < 0.015 for at in found)


async def test_merging_and_forking_leave_the_times_of_events_as_they_were():
    store = MemoryCheckpointer()
    agent = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)
    for text in ("one", "two", "three"):
        await agent.run(text + LONG, "t")
        await asyncio.sleep(0.01)
    before, prefix = times(store), log_prefix("t", ())
    agent.fork("t", at=2, thread_id="u")
    forked = times(store, "u")
    assert forked == {number: before[number] for number in forked}
    keys = plain(store).keys(prefix, after(prefix))
    assert merge(open_store(store), "t", keys) > 0
    assert len(plain(store).keys(prefix, after(prefix))) == 1
    assert times(store) == before
    agent.fork("t", at=2, thread_id="v")
    assert times(store, "v") == forked


async def test_truncation_leaves_the_times_of_what_it_keeps():
    store = MemoryCheckpointer(retention=Retention(boundaries=2))
    agent, seen = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store), {}
    for text in ("one", "two", "three", "four", "five"):
        await agent.run(text, "t")
        seen |= times(store)
        store.close()
    kept = times(store)
    assert 0 < len(kept) < len(seen)
    assert kept == {number: seen[number] for number in kept}


async def test_the_events_of_a_subagent_have_their_own_times(store):
    agent = create_deep_agent(
        ScriptedModel([task("digger"), "done"]), subagents=[sub("digger", ScriptedModel(Slow()))], checkpointer=store
    )
    await agent.run("go", "t")
    found = list(times(store).values())
    assert found == sorted(found)
    assert found[-1] - found[0] > 0.05


async def test_a_redacted_event_keeps_its_time():
    def hidden(event):
        return UserSaid(type(event.message)("***"), *list(vars_of(event))[1:]) if isinstance(event, UserSaid) else event

    def vars_of(event):
        return (getattr(event, name) for name in event.__struct_fields__)

    store, before = MemoryCheckpointer(), time.time()
    agent = Agent(ScriptedModel(Slow()), [ping], checkpointer=store, redact=hidden)
    await agent.run("secret", "t")
    found = list(times(store).values())
    assert found[-1] - found[0] > 0.05
    assert found[0] >= before - 0.002


async def test_a_clock_that_is_set_back_gives_no_negative_times():
    event = TurnEnded(1.0)
    header = codec.Header("t", (), 1, 2, 0, b"12345678", 0, 1000.0, age=250)
    assert header.base == 999_750
    data = [codec.encode(1, event, 0), codec.encode(2, event, 40)]
    moved = codec.split_events(b"\x92" + b"".join(data), "key", -30)
    assert [codec.decode_recorded(one).ms for one in moved] == [0, 10]


def test_the_time_of_an_event_of_an_earlier_format_is_that_of_its_append():
    frozen = json.loads((Path(__file__).parents[2] / "frozen" / "1.3.json").read_text())
    store = MemoryCheckpointer()
    plain(store).append(
        "thread/ü", None, bytes.fromhex(frozen["head"]), {k: bytes.fromhex(v) for k, v in frozen["rows"].items()}
    )
    found = times(store, "thread/ü")
    start = log_prefix("thread/ü", ())
    headers = [codec.read_header(data, key) for key, data in plain(store).rows(start, after(start))]
    assert {round(header.at, 3) for header in headers} <= set(found.values())


@pytest.mark.parametrize("ms", [0, 127, 70_000, 2**33])
def test_a_time_is_read_back_as_it_was_written(ms):
    recorded = codec.decode_recorded(codec.encode(7, TurnEnded(1.0), ms))
    assert (recorded.number, recorded.event, recorded.ms) == (7, TurnEnded(1.0), ms)
