"""Events of a thread after a number, over all its runs and whatever merges happen."""

import pytest
from harness.agents import LONG, ping, pings, sub, task

from minideep import Agent, HistoryCut, MemoryCheckpointer, Retention, create_deep_agent
from minideep.checkpoint import open_store, read_page
from minideep.checkpoint.rewriting import merge
from minideep.models import ScriptedModel


def talked(store, turns=6):
    """Return all events of a thread with runs below it, of several turns."""
    for number in range(turns):
        child = sub("critic", ScriptedModel([pings("x", "y"), "critique"]))
        script = ScriptedModel([[*pings("a"), task("critic", f"t{number}")], "ok"])
        create_deep_agent(script, [ping], subagents=[child], checkpointer=store).run_sync("go", "t")
    return pages(store, 0, 256)


def pages(store, after, limit):
    found = []
    while events := read_page(open_store(store), "t", after, limit).events:
        found += events
        after = events[-1].number
    return found


def test_pages_from_anywhere_hold_every_later_event_once_and_in_order(store):
    whole = talked(store)
    assert [event.number for event in whole] == list(range(1, len(whole) + 1))
    assert {event.path for event in whole} == {(), *((f"t{number}",) for number in range(6))}
    for after in range(0, len(whole) + 1, 3):
        found = pages(store, after, 7)
        assert found == whole[after:]
        assert [event.path for event in found] == [event.path for event in whole[after:]]


def test_a_number_that_the_log_does_not_have_is_told_from_one_that_it_has(store):
    last = talked(store, 1)[-1].number
    assert [read_page(open_store(store), "t", after).known for after in (0, 1, last, last + 5)] == [0, 1, last, last]
    assert read_page(open_store(store), "unknown", 0) is None


def test_what_retention_removed_is_named_and_the_rest_is_read():
    store = MemoryCheckpointer(retention=Retention(boundaries=1))
    agent = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)
    for _ in range(4):
        agent.run_sync("go", "t")
        store.close()
    with pytest.raises(HistoryCut):
        read_page(open_store(store), "t", 1)
    assert read_page(open_store(store), "t", 0).events == []
    store.retention = Retention()
    agent.run_sync("go", "t")
    for after in (0, 12):
        assert [event.number for event in read_page(open_store(store), "t", after).events] == [13, 14, 15]


@pytest.mark.parametrize("text", ["go", "go" + LONG])
@pytest.mark.parametrize("change", ["merge", "append"])
def test_a_merge_or_an_append_between_two_queries_is_noticed(text, change):
    class Changing(MemoryCheckpointer):
        """Changes the thread when its keys have been read, once."""

        changed = True

        async def read(self, *ranges):
            found = await super().read(*ranges)
            if not self.changed and not ranges[0].values:
                self.changed = True
                if change == "append":
                    agent.run_sync(text, "t")
                else:
                    merge(open_store(self), "t", [key for key, _ in found[0]])
            return found

    store = Changing()
    agent = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)
    for _ in range(3):
        agent.run_sync(text, "t")
    store.changed = False
    assert [event.number for event in read_page(open_store(store), "t", 4).events] == [5, 6, 7, 8, 9]
    assert store.changed
