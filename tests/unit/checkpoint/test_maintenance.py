"""Retention by age: a thread is marked, and deleted later, if nobody used it meanwhile and the clock was right."""

import gc
import subprocess
import sys
import textwrap

import msgspec
import pytest
from harness.histories import agent_on
from harness.stores import plain

from minideep import Agent, DiskCheckpointer, MemoryCheckpointer, Retention
from minideep.checkpoint import layout as names, maintenance
from minideep.checkpoint.maintenance import expire
from minideep.checkpoint.store import open_store
from minideep.models import ScriptedModel

HOUR, DAY, YEAR = 3600, 86_400, 365 * 86_400


def reply(request):
    return "ok"


def threads(store):
    return sorted(info.thread_id for info in Agent("offline:", checkpointer=store).threads())


def used(store, *threads):
    """Run a turn of each thread; returns when that was."""
    agent = Agent(ScriptedModel(reply), checkpointer=store)
    for thread in threads:
        agent.run_sync("hello", thread)
    store.close()
    return names.read_head(thread, plain(store).head(thread)).updated


@pytest.mark.parametrize(("seconds", "grace"), [(30 * DAY, DAY), (HOUR, HOUR / 10)])
def test_a_thread_is_marked_first_and_deleted_a_day_or_a_tenth_of_its_time_later(store, seconds, grace):
    then = used(store, "t")
    store.retention = Retention(seconds=seconds)
    expire(open_store(store), then + seconds - 1)
    assert plain(store).keys("mark/", "mark0") == []
    due = then + seconds + 1
    for now in (due, due + 1, due + grace - 1):
        expire(open_store(store), now)
        assert threads(store) == ["t"]
    expire(open_store(store), due + grace)
    assert plain(store).keys("", "\x7f") == []


def test_a_clock_that_is_a_year_ahead_for_one_turn_deletes_nothing(store):
    then = used(store, "a", "b", "c")
    store.retention = Retention(seconds=30 * DAY)
    for turn in range(10):  # Now and then the clock is wrong, for longer and longer.
        expire(open_store(store), then + turn * DAY + YEAR + turn * HOUR)
        expire(open_store(store), then + turn * DAY + 5)
    assert threads(store) == ["a", "b", "c"]
    assert plain(store).keys("mark/", "mark0") == []


def test_a_mark_of_the_future_is_made_anew(store):
    then = used(store, "t")
    store.retention = Retention(seconds=HOUR)
    expire(open_store(store), then + YEAR)
    expire(open_store(store), then + 2 * HOUR)
    expire(open_store(store), then + 2 * HOUR + 60)
    assert threads(store) == ["t"]
    expire(open_store(store), then + 2 * HOUR + HOUR / 10)
    assert threads(store) == []


def test_a_thread_that_is_used_after_it_was_marked_is_kept(store):
    then = used(store, "t", "u")
    store.retention = Retention(seconds=HOUR)
    expire(open_store(store), then + 2 * HOUR)
    store.retention = Retention()
    used(store, "t")
    store.retention = Retention(seconds=HOUR)
    expire(open_store(store), then + 9 * HOUR)
    assert threads(store) == ["t"]
    used(store, "t")
    expire(open_store(store), then + 60)
    assert (threads(store), plain(store).keys("mark/", "mark0")) == (["t"], [])


def test_a_thread_that_waits_for_a_person_or_was_cut_short_is_kept(store):
    agent = agent_on(store)
    for name in ("pay", "ask", "payer", "plain", "fail"):
        agent.run_sync(name, name)
    agent.run_sync("plain", "killed")
    head = plain(store).head("killed")
    changed = msgspec.structs.replace(names.read_head("killed", head), status="running")
    plain(store).append("killed", head, msgspec.msgpack.encode(changed), {})
    store.close()
    store.retention = Retention(seconds=HOUR)
    for hours in (2, 3, 4, YEAR):
        expire(open_store(store), changed.updated + hours * HOUR)
    assert threads(store) == ["ask", "killed", "pay", "payer"]
    assert plain(store).keys("mark/", "mark0") == []


def test_a_thread_that_is_run_or_was_changed_at_the_last_moment_is_kept(store):
    then = used(store, "t")
    store.retention = Retention(seconds=HOUR)
    expire(open_store(store), then + 2 * HOUR)
    assert plain(store).hold("t")
    expire(open_store(store), then + 3 * HOUR)
    assert threads(store) == ["t"]
    plain(store).release("t")
    before = plain(store).head("t")
    plain(store).append("t", before, before + b"", {"use/t/x": b"", "ref/x/t": b""})
    changed = msgspec.structs.replace(names.read_head("t", before), append=b"another")
    plain(store).append("t", before, msgspec.msgpack.encode(changed), {})
    maintenance._delete(open_store(store), "t", before)
    assert threads(store) == ["t"]


def test_a_mark_outlives_the_process_and_a_fork_has_none(tmp_path):
    code = """
    import sys
    from minideep import DiskCheckpointer, Retention
    from minideep.checkpoint.maintenance import expire
    from minideep.checkpoint.store import open_store
    with DiskCheckpointer(sys.argv[1], retention=Retention(seconds=3600)) as store:
        expire(open_store(store), float(sys.argv[2]))
    """
    with DiskCheckpointer(tmp_path) as store:
        then = used(store, "t")
        for hours in (2, 3):
            command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path), str(then + hours * HOUR)]
            subprocess.run(command, check=True)
            if hours == 2:
                assert plain(store).keys("mark/", "mark0") == ["mark/t/"]
                Agent("offline:", checkpointer=store).fork("t", thread_id="f")
                assert plain(store).keys("mark/", "mark0") == ["mark/t/"]
        assert threads(store) == ["f"]
        Agent("offline:", checkpointer=store).delete("f")
        assert plain(store).keys("", "\x7f") == []


def test_a_damaged_mark_or_head_keeps_its_thread_and_stops_nothing(store):
    then = used(store, "a", "b", "c")
    store.retention = Retention(seconds=HOUR)
    expire(open_store(store), then + 2 * HOUR)
    plain(store).append("a", plain(store).head("a"), plain(store).head("a"), {"mark/a/": b"\x92\xa1\xff"})
    plain(store).append("b", plain(store).head("b"), b"\xff", {})
    expire(open_store(store), then + 3 * HOUR)
    assert threads(store) == ["a", "b"]


def test_each_store_is_looked_at_though_others_come_and_go():
    """Sixty stores had six addresses among them, and most were never looked at."""
    for _ in range(60):
        store = MemoryCheckpointer(retention=Retention(seconds=YEAR))
        used(store, "t")
        head = names.read_head("t", plain(store).head("t"))
        old = msgspec.structs.replace(head, updated=head.updated - 2 * YEAR)
        plain(store).append("t", plain(store).head("t"), msgspec.msgpack.encode(old), {})
        maintenance._last_look.pop(store)
        used(store, "u")
        assert plain(store).keys("mark/", "mark0") == ["mark/t/"]
        del store
        gc.collect(0)
