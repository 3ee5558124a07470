"""A person changes a thread between two turns: messages and files, as events."""

import asyncio

import pytest
from hypothesis import given, settings, strategies as st

from minideep import (
    Agent,
    Approve,
    AssistantMessage,
    ConfigError,
    DiskCheckpointer,
    Interrupt,
    MemoryCheckpointer,
    Middleware,
    ToolCall,
    ToolMessage,
    UnknownThread,
    UserMessage,
    create_deep_agent,
    events,
    tool,
)
from minideep.backends import FilesystemBackend
from minideep.blueprint import Blueprint
from minideep.models import ScriptedModel


def update(agent, thread_id="t", **change):
    asyncio.run(agent.update_state(thread_id, **change))


def texts(agent, thread_id="t"):
    return [message.text for message in agent.get_state(thread_id).messages]


@pytest.fixture(params=["memory", "disk"])
def store(request, tmp_path):
    return MemoryCheckpointer() if request.param == "memory" else DiskCheckpointer(tmp_path / "s")


def chat(store, *replies):
    return Agent(model := ScriptedModel([*replies]), checkpointer=store), model


def test_a_message_is_replaced_and_the_next_turn_shows_the_new_one(store):
    agent, model = chat(store, "42", "ok")
    agent.run_sync("question", "t")
    old = agent.get_state("t").messages
    update(agent, messages=[old[0], AssistantMessage("43")])
    agent.run_sync("sure?", "t")
    assert [message.text for message in model.requests[1].messages] == ["question", "43", "sure?"]
    assert [message.text for message in agent.transcript("t")] == ["question", "42", "43", "sure?", "ok"]
    assert agent.get_state("t", at=1).messages[-1].text == "43"


def test_messages_are_added_removed_and_replaced_in_the_middle(store):
    agent, _ = chat(store, "a", "b", "c")
    for question in ("1", "2", "3"):
        agent.run_sync(question, "t")
    keep = agent.get_state("t").messages
    update(agent, messages=[keep[0], keep[1], *keep[4:]])
    assert texts(agent) == ["1", "a", "3", "c"]
    update(agent, messages=[UserMessage("0"), AssistantMessage("z"), *agent.get_state("t").messages])
    assert texts(agent) == ["0", "z", "1", "a", "3", "c"]
    update(agent, messages=[])
    assert texts(agent) == []
    assert agent.get_state("t").turn == 3


def test_another_agent_object_reads_the_change_out_of_the_store(tmp_path):
    agent, _ = chat(DiskCheckpointer(tmp_path / "s"), "a")
    agent.run_sync("1", "t")
    update(agent, messages=[UserMessage("one"), AssistantMessage("A")])
    agent.checkpointer.close()
    later, model = chat(DiskCheckpointer(tmp_path / "s"), "b")
    later.run_sync("2", "t")
    assert [message.text for message in model.requests[0].messages] == ["one", "A", "2"]
    assert later.checkpointer.verify() == []


def test_the_event_is_as_large_as_the_change(store):
    agent, _ = chat(store, *["x" * 50_000] * 4)
    for question in ("1", "2", "3", "4"):
        agent.run_sync(question, "t")
    before = agent.threads()[0].bytes_raw
    messages = agent.get_state("t").messages
    update(agent, messages=[*messages[:3], AssistantMessage("short"), *messages[4:]])
    assert agent.threads()[0].bytes_raw - before < 300
    update(agent, messages=agent.get_state("t").messages)  # Nothing has changed.
    assert agent.threads()[0].bytes_raw - before < 300


def paused(store=None):
    class Ask(Middleware):
        async def before_tool(self, ctx, call):
            return Interrupt(call, "sure?") if ctx.decision is None else call

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    script = ScriptedModel(["hi", ToolCall("pay", {"amount": 5}, "p"), "done"])
    agent = Agent(script, [pay], middleware=[Ask()], checkpointer=store)
    agent.run_sync("hello", "t")
    agent.run_sync("pay", "t")
    return agent


def test_while_a_call_waits_what_is_before_it_can_change_and_the_call_goes_on(store):
    agent = paused(store)
    messages = agent.get_state("t").messages
    update(agent, messages=[UserMessage("only this"), messages[-1]])
    turn = agent.resume_sync("t", {"p": Approve()})
    assert turn.status == "ended"
    assert texts(agent) == ["only this", "", "paid 5", "done"]


@pytest.mark.parametrize("change", [lambda old: old[:-1], lambda old: [*old, AssistantMessage("more")]])
def test_the_reply_whose_calls_wait_stays_the_last_message(change):
    agent = paused()
    before = agent.get_state("t")
    with pytest.raises(ConfigError, match="messages"):
        update(agent, messages=change(before.messages))
    assert agent.get_state("t") == before


@pytest.mark.parametrize(
    "messages",
    [
        [UserMessage("a"), ToolMessage("result", "c1", "ls")],
        [UserMessage("a"), AssistantMessage((ToolCall("ls", {}, "c1"),)), UserMessage("b")],
        [UserMessage("a"), AssistantMessage((ToolCall("ls", {}, "c1"),))],
    ],
    ids=["a result without its call", "a call without its result", "a call at the end"],
)
def test_no_call_loses_its_result(messages, store):
    agent, _ = chat(store, "a", "b")
    agent.run_sync("1", "t")
    with pytest.raises(ConfigError, match="a call would lose its result, or a result its call"):
        update(agent, messages=messages)
    assert texts(agent) == ["1", "a"]
    assert agent.run_sync("2", "t").text == "b"


def test_a_thread_that_does_not_exist_or_was_cut_short_is_not_changed(store):
    agent, _ = chat(store, "a")
    with pytest.raises(UnknownThread):
        update(agent, messages=[])

    agent.run_sync("go", "t")
    cut = agent.fork("t", after=1)  # A turn of which only the input is there.
    assert agent.get_state(cut).status == "running"
    with pytest.raises(ConfigError, match="cut short in the middle of a turn; `resume` it first"):
        update(agent, cut, messages=[])


def test_files_of_the_thread_are_written_and_deleted_and_the_model_must_read_them_again():
    write = ToolCall("write_file", {"file_path": "/a.md", "content": "by the model"})
    again = ToolCall("write_file", {"file_path": "/a.md", "content": "blindly"})
    agent = create_deep_agent(ScriptedModel([write, "ok", again, "done"]))
    agent.run_sync("go", "t")
    update(agent, files={"/a.md": "by a person", "/b.bin": b"\xff"})
    assert (agent.read_file("t", "/a.md"), agent.read_file("t", "/b.bin")) == ("by a person", b"\xff")
    turn = agent.run_sync("again", "t")
    assert "changed since you read it" in turn.messages[-2].text
    update(agent, files={"/b.bin": None})
    assert set(agent.get_state("t").files) == {"/a.md"}


def test_files_on_a_disk_are_written_and_not_deleted_from_afar(tmp_path):
    agent = create_deep_agent(ScriptedModel(["ok"]), backend=FilesystemBackend(tmp_path))
    agent.run_sync("go", "t")
    update(agent, files={"/a.md": "text"})
    assert (tmp_path / "a.md").read_text() == "text"
    with pytest.raises(ConfigError, match="not kept in the thread"):
        update(agent, files={"/a.md": None})
    with pytest.raises(ConfigError, match="no file"):
        update(agent, files={"/none.md": None})


def test_a_change_is_refused_whole():
    agent = create_deep_agent(ScriptedModel(["ok"]))
    agent.run_sync("go", "t")
    before = agent.get_state("t")
    with pytest.raises(ConfigError):
        update(agent, messages=[UserMessage("x")], files={"/none": None})
    assert agent.get_state("t") == before
    assert agent.run_sync("more", "t").status == "failed"  # The script is over, and the thread goes on.


def test_the_change_is_an_event_for_those_who_read_them():
    agent, _ = chat(None, "a")
    agent.run_sync("1", "t")
    update(agent, messages=[UserMessage("one")])

    async def read():
        return [event async for event in agent.follow("t")]

    changed = asyncio.run(read())[-1]
    assert isinstance(changed, events.MessagesReplaced)
    assert (changed.start, changed.stop, changed.messages) == (0, 2, (UserMessage("one"),))
    assert events.from_json(changed.json()) == changed


def test_a_replay_says_that_it_cannot_repeat_the_change():
    agent, _ = chat(MemoryCheckpointer(), "a", "b")
    agent.run_sync("1", "t")
    agent.run_sync("2", "t")
    update(agent, messages=[])
    with pytest.raises(ConfigError, match="changed by `update_state` at event 7"):
        asyncio.run(agent.replay("t", model=ScriptedModel(["x", "y"])))
    assert asyncio.run(agent.replay("t", at=1, model=ScriptedModel(["x"]))).turn.text == "x"


def test_a_fork_and_a_diff_see_the_change():
    agent, _ = chat(MemoryCheckpointer(), "a", "b")
    agent.run_sync("1", "t")
    update(agent, messages=[UserMessage("one"), AssistantMessage("A")])
    agent.run_sync("2", "t")
    agent.fork("t", at=1, thread_id="f")
    assert texts(agent, "f") == ["one", "A"]
    assert [message.text for message in agent.diff("t", 1, 2).messages] == ["2", "b"]


messages = st.lists(st.sampled_from([UserMessage("u"), AssistantMessage("a"), UserMessage("v")]), max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.lists(messages, min_size=1, max_size=4))
def test_the_messages_are_what_was_given_and_a_new_reader_finds_the_same(changes):
    store = MemoryCheckpointer()
    agent, _ = chat(store, "a", "b")
    agent.run_sync("1", "t")
    for change in changes:
        update(agent, messages=change)
        assert agent.get_state("t").messages == change
    reader, _ = chat(store, "end")
    assert reader.get_state("t") == agent.get_state("t")
    assert reader.run_sync("2", "t").messages[0].text == "2"
    assert reader.get_state("t").began >= 0


async def test_files_are_given_to_a_blueprint_between_two_turns():
    requests = []
    script = ScriptedModel(lambda request: requests.append(request.messages[0].text) or "no plan")
    agent = Blueprint(script)
    assert (await agent.run("goal", "t")).status == "escalated"
    await agent.update_state("t", files={"sales.md": "7"})
    del requests[:]
    await agent.run("go on", "t")
    assert '"name":"sales.md"' in requests[0]
