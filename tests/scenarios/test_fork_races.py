"""A fork that is made while its source is appended to, merged, cut or deleted is a whole thread, or raises a named error."""

from functools import partial

import pytest
from harness.busy import forks_beside_a_writer, load_whole
from harness.histories import agent_on, cut, join_all, whole
from harness.stores import InstrumentedStore, plain

from minideep import CorruptSegment, MemoryCheckpointer


def before_read(store, number, act):
    """Call *act* before the read of this number, counted from now."""
    left = [number]

    def count(operation, *args):
        left[0] -= operation in ("get", "rows", "keys")
        if not left[0]:
            store.before = None
            act()

    store.before = count


def cut_to_one(store):
    cut(store, 1)


def begin_again(store):
    agent_on(store).delete("t")
    agent_on(store).run_sync("task", "t")


@pytest.mark.parametrize("meanwhile", [cut_to_one, begin_again, join_all], ids=["cut", "begun again", "merged"])
def test_a_fork_is_whole_whatever_happens_to_the_thread_between_any_two_reads(meanwhile):
    for at in range(1, 99):
        store = InstrumentedStore()
        agent = agent_on(store)
        for name in ("plain", "compact", "large", "task", "plain", "plain"):
            agent.run_sync(name, "t")
        before_read(store, at, partial(meanwhile, store))
        agent.fork("t", thread_id="f")
        reached, store.before = store.before is None, None
        load_whole(agent, "f")
        if not reached:
            assert whole(agent.get_state("f", subagents=True), store) == whole(
                agent.get_state("t", subagents=True), store
            )
            return
    raise AssertionError("a fork reads its store too often")


@pytest.mark.parametrize("blob", [0, 1], ids=["a file", "a call"])
def test_a_fork_whose_shared_blob_is_gone_is_refused_and_leaves_nothing(blob):
    store = MemoryCheckpointer()
    agent = agent_on(store)
    agent.run_sync("large", "t")
    store.plain._remove(plain(store).keys("blob/", "blob0")[blob])
    with pytest.raises(CorruptSegment, match="is missing"):
        agent.fork("t", thread_id="f")
    assert plain(store).head("f") is None


def test_every_fork_of_a_busy_thread_on_a_disk_loads_whole(tmp_path):
    forks, wrong = forks_beside_a_writer(tmp_path, seconds=1.5)
    assert forks
    assert wrong == []
