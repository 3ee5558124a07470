"""What a thread went through: every boundary can be looked at, whatever was joined, compacted, cut off or forked since."""

import json

import pytest
from harness.agents import ping
from harness.histories import TURNS, agent_on, join_all, resumed, whole
from harness.stores import plain
from hypothesis import example, given, settings, strategies as st

from minideep import (
    Agent,
    Approve,
    ConfigError,
    HistoryCut,
    MemoryCheckpointer,
    Text,
    ToolCall,
    UnknownThread,
    create_deep_agent,
)
from minideep.checkpoint import open_store
from minideep.checkpoint.rewriting import truncate
from minideep.models import ScriptedModel
from minideep.ports import Retention


def lived(store, schedule, **settings):
    """Run the schedule, answering every question; the state at each boundary as it was when it was reached."""
    agent, seen = agent_on(store, **settings), {}
    for name in schedule:
        turn = agent.run_sync(name, "t")
        seen[len(seen) + 1] = whole(agent.get_state("t", subagents=True), store)
        if turn.status == "paused":
            turn = resumed(agent, "t", {wait.call_id: Approve() for wait in turn.interrupts})
            seen[len(seen) + 1] = whole(agent.get_state("t", subagents=True), store)
    store.close()
    return agent, seen


SCHEDULES = st.lists(st.sampled_from(sorted(TURNS)), min_size=1, max_size=7)


@settings(max_examples=40, deadline=None)
@given(SCHEDULES, st.sampled_from(["turn", "step", "tool"]))
def test_every_boundary_is_what_it_was_joined_or_not(schedule, durability):
    store = MemoryCheckpointer()
    agent, seen = lived(store, schedule, durability=durability)
    assert [boundary.at for boundary in agent.history("t")] == list(seen)
    for at, state in seen.items():
        assert whole(agent.get_state("t", at=at, subagents=True), store) == state
    transcript = agent.transcript("t")
    join_all(store)
    assert join_all(store) == 0
    for at, state in seen.items():
        assert whole(agent.get_state("t", at=at, subagents=True), store) == state
    assert whole(agent.get_state("t", subagents=True), store) == seen[len(seen)]
    assert agent.transcript("t") == transcript


@settings(max_examples=25, deadline=None)
@given(SCHEDULES, st.data())
def test_a_fork_is_the_thread_as_it_was_and_lives_on_its_own(schedule, data):
    store = MemoryCheckpointer()
    agent, seen = lived(store, schedule)
    if data.draw(st.booleans()):
        join_all(store)
    at = data.draw(st.sampled_from(list(seen)))
    assert agent.fork("t", at=at, thread_id="f") == "f"
    for before in range(1, at + 1):
        assert whole(agent.get_state("f", at=before, subagents=True), store) == seen[before]
    assert whole(agent.get_state("f", subagents=True), store) == seen[at]
    assert agent.history("f") == agent.history("t")[:at]
    agent.delete("t")
    assert whole(agent.get_state("f", subagents=True), store) == seen[at]
    assert len(agent.runs("f")) == len(plain(store).keys("run/f/", "run/f0"))
    said = len(agent.transcript("f"))
    turn = agent_on(store).run_sync("files", "f")
    assert (turn.status, turn.saved) == ("ended", True)
    assert len(agent.transcript("f")) >= said + len(turn.messages)
    agent.delete("f")
    assert plain(store).keys("", "\x7f") == []


@settings(max_examples=25, deadline=None)
@given(SCHEDULES, st.integers(1, 4), st.booleans())
@example(["compact", "plain", "plain", "compact", "plain", "plain"], 4, False)
@example(["task", "task", "plain", "task", "payer"], 3, True)
def test_after_a_cut_the_kept_boundaries_are_what_they_were_and_the_others_are_refused(schedule, keep, joined):
    store = MemoryCheckpointer()
    agent, seen = lived(store, schedule)
    if joined:
        join_all(store)
    store.retention = Retention(boundaries=keep)
    truncate(open_store(store), "t")
    first = max(1, len(seen) - keep + 1) if len(seen) > keep + keep // 4 else 1
    for at in range(1, first):
        with pytest.raises(HistoryCut, match=f"thread 't' begins with boundary {first}; retention removed"):
            agent.get_state("t", at=at)
    for at in range(first, len(seen) + 1):
        ours, theirs = whole(agent.get_state("t", at=at, subagents=True), store), seen[at]
        assert {**ours, "subagents": 0} == {**theirs, "subagents": 0}
        assert ours["subagents"].items() <= theirs["subagents"].items()
        # Only what was over at the first boundary that is left may be gone.
        over = {key for key, run in seen[first]["subagents"].items() if run["status"] == "ended"}
        assert theirs["subagents"].keys() - ours["subagents"].keys() <= over
    assert [boundary.at for boundary in agent.history("t")] == list(range(first, len(seen) + 1))
    assert len(agent.transcript("t")) > 0
    turn = agent_on(store).run_sync("compact", "t")
    assert (turn.saved, agent.get_state("t").turn) == (True, len(seen) + 1)
    used = {key.split("/")[1] for key in plain(store).keys("blob/", "blob0")}
    assert used == {key.split("/")[1] for key in plain(store).keys("ref/", "ref0")}
    agent.delete("t")
    assert plain(store).keys("", "\x7f") == []


def test_a_boundary_that_never_was_is_refused_by_name(store):
    agent = Agent(ScriptedModel(["one", "two"]), checkpointer=store)
    agent.run_sync("first", "t")
    for at in (0, -1, True, "1", None.__class__):
        with pytest.raises(ConfigError, match="get_state: at must be a whole number of 1 or more, or None, not "):
            agent.get_state("t", at=at)
    with pytest.raises(ConfigError, match="thread 't' has no boundary 2; its newest one is 1"):
        agent.get_state("t", at=2)
    for read in (agent.get_state, agent.history, agent.transcript, agent.runs, agent.export, agent.fork, agent.delete):
        with pytest.raises(UnknownThread, match="no thread 'nope'"):
            read("nope")
    assert [info.thread_id for info in agent.threads()] == ["t"]


def test_history_tells_how_each_turn_ended_and_what_it_cost(store):
    agent = agent_on(store)
    for name in ("pay", "fail", "ask", "plain"):
        agent.run_sync(name, "t")
    lines = [(line.at, line.status, line.reason, line.said, line.text, line.steps) for line in agent.history("t")]
    assert lines == [
        (1, "paused", "", "pay", "", 1),
        (2, "failed", "MiddlewareError", "fail", "", 1),
        (3, "escalated", "question", "ask", "", 1),
        (4, "ended", "done", "plain", "done", 1),
    ]
    times = [line.time for line in agent.history("t")]
    assert times == sorted(times)


def test_the_transcript_keeps_what_a_compaction_took_out_of_context(store):
    agent = agent_on(store)
    for name in ("plain", "compact", "plain"):
        agent.run_sync(name, "t")
    assert [message.text for message in agent.get_state("t").messages] == ["so far 2", "compacted", "plain", "done"]
    said = [message.text for message in agent.transcript("t")]
    assert said == ["plain", "done", "compact", "", "pong", "compacted", "plain", "done"]


def test_a_resume_reads_the_base_and_what_follows_only(store):
    agent = agent_on(store)
    for name in ("plain", "compact", "plain"):
        agent.run_sync(name, "t")
    store.close()  # What is to be joined is.
    first = plain(store).keys("log/t//", "log/t/0")[0]
    plain(store).append(
        "t", plain(store).head("t"), plain(store).head("t"), {}, [first]
    )  # What lies before the base is not looked at.
    turn = agent_on(store).run_sync("plain", "t")
    assert (turn.status, turn.saved) == ("ended", True)
    assert agent.get_state("t", at=3).turn == 3


def test_a_run_below_is_found_by_its_call_and_has_a_history_and_a_transcript(store):
    agent = agent_on(store)
    agent.run_sync("task", "t")
    (run,) = agent.runs("t")
    assert (run.agent, run.status, run.steps, run.path) == ("helper", "ended", 2, (run.call_id,))
    assert run.bytes_stored > 0
    assert run.updated >= run.created > 0
    assert [message.role for message in agent.transcript("t", run.call_id)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert [line.status for line in agent.history("t", run.call_id)] == ["ended"]
    with pytest.raises(ConfigError, match=f"no run is called 'x'; runs: '{run.call_id}'"):
        agent.transcript("t", "x")


def test_a_diff_says_what_changed_between_two_boundaries(store):
    agent = agent_on(store)
    for name in ("plain", "files", "todos", "task", "pay"):
        agent.run_sync(name, "t")
    resumed(agent, "t", {wait.call_id: Approve() for wait in agent.get_state("t").interrupts})
    diff = agent.diff("t", 1, 4)
    assert diff.files == {"/a": "added", "/helped": "added"}
    assert [todo.content for todo in diff.todos] == ["a"]
    assert (diff.messages[0].text, diff.messages[-1].text, len(diff.subagents)) == ("files", "ok", 1)
    assert diff.status == ("ended", "ended")
    assert list(agent.diff("t", 4, 6).notes) == ["ledger"]
    assert agent.diff("t", 3, 4).todos is None
    with pytest.raises(ConfigError, match="boundary 4 is not before boundary 1; name the earlier one first"):
        agent.diff("t", 4, 1)


def test_the_export_is_json_lines_of_the_whole_tree(store):
    agent = agent_on(store)
    agent.run_sync("task", "t")
    lines = [json.loads(line) for line in agent.export("t")]
    assert [(line["path"], line["type"], line["turn"]) for line in lines[:5]] == [
        ([], "human", 1), ([], "ai", 1), ([], "tool", 1), ([], "tool", 1), ([], "ai", 1),
    ]  # fmt: skip
    assert lines[0] == {"path": [], "agent": "main", "turn": 1, "type": "human", "content": "task"}
    call = lines[1]["tool_calls"][0]
    assert lines[2] == {"path": [], "agent": "main", "turn": 1, "type": "tool", "content": "helped", "name": "task",
                        "tool_call_id": call["id"], "is_error": False}  # fmt: skip
    assert [line["agent"] for line in lines[5:]] == ["helper"] * 4
    assert lines[5]["path"] == [call["id"]]


async def test_an_exported_thread_can_be_replayed_with_a_scripted_model(store):
    agent = agent_on(store)
    await agent.run("files", "t")
    replies = []
    for message in agent.transcript("t"):
        if message.role == "assistant":
            replies.append(list(message.calls) or message.text)
    again = create_deep_agent(ScriptedModel(replies))
    assert (await again.run("files", "t")).messages == tuple(agent.transcript("t"))


def test_large_files_are_read_wherever_they_are_kept(store):
    agent = agent_on(store)
    agent.run_sync("large", "t")
    agent.run_sync("files", "t")
    fresh = agent_on(store)
    entry = fresh.get_state("t").files["/large"]
    assert (entry.content, entry.blob, entry.size) == (None, True, 120_000)
    assert fresh.read_file("t", "/large") == "large " * 20_000
    assert fresh.read_file("t", "/a").startswith("two")
    with pytest.raises(ConfigError, match="thread 't' has no file '/a'; its files: /large"):
        fresh.read_file("t", "/a", at=1)


def test_a_fork_of_a_waiting_thread_can_be_answered_another_way(store):
    agent = agent_on(store)
    agent.run_sync("payer", "t")
    agent.fork("t", thread_id="f")
    for thread in ("t", "f"):
        (wait,) = agent.get_state(thread).interrupts
        assert resumed(agent, thread, {wait.call_id: Approve()}).text == "paid"
    with pytest.raises(ConfigError, match="thread 'f' exists already"):
        agent.fork("t", thread_id="f")


def test_what_a_person_can_say_survives_a_fork_and_an_export(store):
    agent = Agent(ScriptedModel([ToolCall("ping", {"text": "\ud800", "big": 2**70, "nan": float("nan")}), "ok"]), [ping],
                  checkpointer=store)  # fmt: skip
    agent.run_sync([Text("é\x00")], "a/b ü")
    new = agent.fork("a/b ü")
    assert agent.transcript(new) == agent.transcript("a/b ü")
    assert [json.loads(line)["type"] for line in agent.export(new)] == ["human", "ai", "tool", "ai"]


class Moving(MemoryCheckpointer):
    """A store in which a thread moves on just before its segments are read."""

    meanwhile = None

    async def read(self, *ranges):
        if self.meanwhile and any(one.start.startswith("log/t//") for one in ranges):
            act, self.meanwhile = self.meanwhile, None
            act()
        return await super().read(*ranges)


def test_a_reader_sees_the_thread_as_its_head_said_whatever_is_appended_and_joined_meanwhile():
    store = Moving()
    agent = agent_on(store)
    for name in ("plain", "task"):
        agent.run_sync(name, "t")
    before = whole(agent.get_state("t", subagents=True), store)
    transcript = agent.transcript("t")

    def move():
        agent_on(store).run_sync("files", "t")
        join_all(store)

    store.meanwhile = move
    assert whole(agent.get_state("t", subagents=True), store) == before
    store.meanwhile = move
    assert len(agent.transcript("t")) == len(transcript) + 6
    assert len(agent.transcript("t")) == len(transcript) + 12


def test_a_reader_reads_again_when_the_thread_is_cut_meanwhile():
    store = Moving()
    agent = agent_on(store)
    for _ in range(3):
        agent.run_sync("plain", "t")

    def cut():
        store.retention = Retention(boundaries=1)
        truncate(open_store(store), "t")

    store.meanwhile = cut
    assert [boundary.at for boundary in agent.history("t")] == [3]
    assert agent.fork("t", thread_id="f") == "f"
    assert [boundary.at for boundary in agent.history("f")] == [3]


class Late(MemoryCheckpointer):
    """A store that cuts a thread while it is forked: once its state is read, before its segments are copied."""

    late = False

    async def read(self, *ranges):
        if self.late and ranges[0].start == "log/t//":
            self.late = False
            truncate(open_store(self), "t")
        return await super().read(*ranges)


def test_a_fork_of_a_thread_that_is_cut_meanwhile_is_whole():
    store = Late()
    agent = agent_on(store)
    for _ in range(3):
        agent.run_sync("plain", "t")
    store.retention, store.late = Retention(boundaries=1), True
    agent.fork("t", thread_id="f")
    assert not store.late
    assert whole(agent.get_state("f", subagents=True), store) == whole(agent.get_state("t", subagents=True), store)
    assert agent.history("f") == agent.history("t")


def test_a_reader_of_a_thread_that_is_deleted_meanwhile_is_told_that_there_is_none():
    store = Moving()
    agent = agent_on(store)
    agent.run_sync("plain", "t")
    store.meanwhile = lambda: agent.delete("t")
    with pytest.raises(UnknownThread):
        agent.get_state("t")


@pytest.mark.parametrize(
    "bad", [{"boundaries": 0}, {"boundaries": 2.5}, {"boundaries": True}, {"seconds": -1}, {"seconds": "1"}]
)
def test_a_retention_that_keeps_nothing_is_refused(bad):
    with pytest.raises(ConfigError, match=r"^Retention: (boundaries|seconds) must be"):
        Retention(**bad)
