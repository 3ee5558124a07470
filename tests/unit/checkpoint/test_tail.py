"""The last segment of a thread: appends go on with it while it is small, beside readers, merges, kills and forks."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import msgspec
import pytest
from harness.agents import LONG, texts
from harness.histories import join_all
from harness.stores import plain

from minideep import Agent, DiskCheckpointer, MemoryCheckpointer, Retention
from minideep.checkpoint import format as codec, open_store
from minideep.checkpoint.journal import Journal
from minideep.checkpoint.log import TAIL_SIZE
from minideep.checkpoint.replay import read_consistently, segments
from minideep.checkpoint.rewriting import truncate
from minideep.events import Noted, UserSaid
from minideep.messages import UserMessage
from minideep.models import ScriptedModel

WORDS = Path(__file__).read_text().split()


def prose(random, size):
    text = ""
    while len(text) < size:
        text += f"{random.choice(WORDS)} {random.randrange(10**4)} "
    return text[:size]


def chatting(store, **settings):
    return Agent(ScriptedModel(lambda request: f"re {request.messages[-1].text}"), checkpointer=store, **settings)


def keys(store, thread="t"):
    return plain(store).keys(f"log/{thread}//", f"log/{thread}/0")


def spans(store, thread="t"):
    """The numbers of the first and the last event of each segment."""
    return [tuple(map(int, key.rpartition("/")[2].split("-"))) for key in keys(store, thread)]


def log_of(store, thread="t"):
    """The events of a thread, each with its number and time."""
    return read_consistently(
        open_store(store), thread, lambda log: [one for _, found in segments(log, ()) for one in found]
    )


# ---- bytes


def test_a_turn_of_a_short_chat_takes_at_most_450_bytes_of_the_database(tmp_path):
    random = Random(5)
    with DiskCheckpointer(tmp_path) as store:
        agent = Agent(ScriptedModel(lambda request: prose(random, 130)), checkpointer=store)
        for number in range(400):
            assert agent.run_sync(prose(random, 40), f"chat-{number // 5}").saved
    assert (tmp_path / "cache.db").stat().st_size / 400 < 450


def test_small_appends_share_a_segment_and_a_large_one_closes_it(store):
    agent = chatting(store)
    for _ in range(3):
        agent.run_sync("hi", "t")
    assert spans(store) == [(1, 9)]
    agent.run_sync("hi" + LONG, "t")
    assert spans(store) == [(1, 10), (11, 12)]
    agent.run_sync("hi", "t")
    assert spans(store)[0] == (1, 10)
    raw = [codec.read_header(data, key).bytes_raw for key, data in plain(store).rows("log/t//", "log/t/0")]
    assert all(size < TAIL_SIZE + len(LONG) + 500 for size in raw)


def test_the_sizes_of_a_thread_are_those_of_its_rows(store):
    agent, raw, stored = chatting(store), 0, 0
    for number in range(25):
        costs = agent.run_sync(f"hi {number}", "t").costs
        raw, stored = raw + costs.bytes_raw, stored + costs.bytes_stored
    (info,) = agent.threads()
    rows = plain(store).rows("log/t//", "log/t/0")
    assert info.bytes_stored == sum(len(data) for _, data in rows)
    headers = [codec.read_header(data, key) for key, data in rows]
    assert info.bytes_raw == sum(header.bytes_raw for header in headers)
    assert 0 < raw <= info.bytes_raw
    assert 0 < stored <= info.bytes_stored


# ---- who opens it


def test_another_agent_goes_on_with_the_segment(store):
    for number in range(3):
        chatting(store).run_sync(f"hi {number}", "t")
    assert spans(store) == [(1, 9)]
    assert texts(chatting(store).transcript("t"))[::2] == ["hi 0", "hi 1", "hi 2"]


@pytest.mark.parametrize("timed", [True, False])
def test_small_segments_of_an_earlier_version_are_gone_on_with_at_their_own_times(store, timed):
    Agent(ScriptedModel(lambda request: time.sleep(0.01) or "re hi"), checkpointer=store).run_sync("hi", "t")
    (((key, data),), head) = plain(store).rows("log/t//", "log/t/0"), plain(store).head("t")
    header, body = codec.unseal(data, key, codec.SEGMENT)
    rows, prior, found = {}, 0, log_of(store)
    for number, event, *ms in msgspec.msgpack.decode(body):  # Formats before 1.4 had no times of events.
        event = [msgspec.msgpack.encode([number, event, *(ms if timed else [])])]
        age = header.age if timed else 0
        one = msgspec.structs.replace(
            header, first=number, last=number, prior=prior, bytes_raw=codec.raw_size(event), age=age
        )
        rows[f"log/t//{number:016}-{number:016}"], prior = codec.seal(one, event), number
    plain(store).append("t", head, head, rows, [key])
    before = log_of(store)
    assert timed == (before == found)
    chatting(store).run_sync("hi again", "t")
    assert spans(store) == [(1, 1), (2, 2), (3, 6)]
    assert log_of(store)[:3] == before
    assert store.verify() == []


def test_after_a_clock_that_went_back_another_segment_begins():
    store = open_store(MemoryCheckpointer())
    journal = Journal("t", store)
    said = UserSaid(UserMessage("hi"), 1.0)

    async def append():
        time.sleep(0.01)
        journal.record((), said if not journal.number else Noted("me", "k", 1))
        await journal.append()

    store.wait_for(append)
    store.wait_for(append)
    assert spans(store.inner) == [(1, 2)]
    journal.base += 10**9  # As if the clock had been ahead until now.
    store.wait_for(append)
    store.wait_for(append)
    assert spans(store.inner) == [(1, 2), (3, 4)]
    found = [at for _, _, at in log_of(store.inner)]
    assert found == sorted(found)
    assert found[-1] - found[0] < 100


# ---- beside others


def test_a_turn_goes_on_though_somebody_has_merged_the_segment(store):
    agent = chatting(store)
    for text in ("hi 1" + LONG, "hi 2"):
        agent.run_sync(text, "t")
    assert join_all(store)
    turn = agent.run_sync("hi 3", "t")
    assert (turn.status, turn.saved) == ("ended", True)
    assert [text[:4] for text in texts(chatting(store).transcript("t"))[::2]] == ["hi 1", "hi 2", "hi 3"]
    assert store.verify() == []


def test_a_merge_while_a_turn_runs_loses_nothing(store):
    agent = Agent(ScriptedModel(lambda request: ["ok", join_all(store)][0]), checkpointer=store)
    for number in range(4):
        assert agent.run_sync(f"hi {number}{LONG * (number % 2)}", "t").saved
    assert len(agent.transcript("t")) == 8
    assert store.verify() == []


def test_a_fork_ends_within_the_segment_at_a_boundary_and_within_a_turn(store):
    def reply(request):
        if request.messages[-1].text == "three":
            agent.fork("t", at=1, thread_id="one")
            agent.fork("t", thread_id="running")
        return "ok"

    agent = Agent(ScriptedModel(reply), checkpointer=store)
    for text in ("one", "two", "three"):
        agent.run_sync(text, "t")
    assert (spans(store), spans(store, "one"), spans(store, "running")) == ([(1, 9)], [(1, 3)], [(1, 7)])
    assert texts(agent.transcript("one")) == ["one", "ok"]
    other = Agent(ScriptedModel(["resumed", "more"]), checkpointer=store)
    assert other.resume_sync("running").text == "resumed"
    assert other.run_sync("more", "one").text == "more"
    assert texts(agent.transcript("running")) == ["one", "ok", "two", "ok", "three", "resumed"]
    assert texts(agent.transcript("t")) == ["one", "ok", "two", "ok", "three", "ok"]
    assert [boundary.at for boundary in agent.history("t")] == [1, 2, 3]
    assert store.verify() == []


def test_a_cut_within_the_segment_leaves_one_to_go_on_with(store):
    agent = chatting(store)
    for number in range(5):
        agent.run_sync(f"hi {number}", "t")
    store.retention = Retention(boundaries=2)
    truncate(open_store(store), "t")
    store.retention = Retention()
    assert spans(store) == [(13, 15)]
    agent.run_sync("hi 5", "t")
    assert spans(store) == [(13, 18)]
    assert [boundary.said for boundary in agent.history("t")] == ["hi 3", "hi 4", "hi 5"]
    assert store.verify() == []


def test_what_is_redacted_stays_so_when_a_segment_is_gone_on_with(store):
    def masked(event):
        if isinstance(event, UserSaid):
            return msgspec.structs.replace(event, message=UserMessage("XXX"))
        return event

    agent = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store, redact=masked)
    agent.run_sync("SECRET", "t")
    agent.run_sync("SECRET", "t")
    Agent(ScriptedModel(lambda request: "ok"), checkpointer=store).run_sync("plain", "t")
    assert spans(store) == [(1, 9)]
    assert texts(agent.transcript("t"))[::2] == ["XXX", "XXX", "plain"]


KILLED = """
import os, signal, sys
from minideep import Agent, DiskCheckpointer
from minideep.models import ScriptedModel

def reply(request):
    if request.messages[-1].text == "two":
        print("here", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return "ok"

agent = Agent(ScriptedModel(reply), checkpointer=DiskCheckpointer(sys.argv[1]))
agent.run_sync("one", "t")
agent.run_sync("two", "t")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_process_that_is_killed_between_two_appends_loses_nothing_that_it_has_saved(tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=env, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"here\n"), done.stderr
    with DiskCheckpointer(tmp_path) as store:
        agent = Agent(ScriptedModel(["went on"]), checkpointer=store)
        assert (spans(store), store.verify()) == ([(1, 4)], [])
        assert (agent.get_state("t").status, texts(agent.transcript("t"))) == ("running", ["one", "ok", "two"])
        assert agent.resume_sync("t").text == "went on"
        assert len(keys(store)) == 1
        assert texts(agent.transcript("t")) == ["one", "ok", "two", "went on"]
        assert store.verify() == []
