"""Bytes that an earlier version wrote are read for ever: each format's events, and a thread as it lay in a store."""

import json
from hashlib import sha256
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from harness.agents import LONG
from harness.stores import plain

from minideep import (
    Agent,
    Approve,
    Interrupt,
    Limits,
    MemoryCheckpointer,
    Middleware,
    Retention,
    Todo,
    ToolCall,
    ToolContext,
    Usage,
    events as ev,
)
from minideep.checkpoint import format as codec, layout as names, read_page
from minideep.checkpoint.rewriting import merge
from minideep.checkpoint.store import open_store
from minideep.costs import Costs, Step
from minideep.export import plain as plain_json
from minideep.messages import (
    AssistantMessage,
    Audio,
    Citation,
    Document,
    Image,
    MediaLink,
    ProviderBlock,
    Text,
    Thinking,
    UserMessage,
    Video,
)
from minideep.models import ScriptedModel
from minideep.state import Answer, Edit, Failure, Reject, Respond
from minideep.tools import tool

FROZEN = sorted((Path(__file__).parent / "frozen").glob("*.json"))
EVERY_BLOCK = (
    Text("é", (Citation("https://é.example", "É", "un é", 0, 1, "anthropic", b'{"type":"web"}'),)),
    Thinking("hm", "anthropic", b'{"signature":"x"}'),
    ToolCall("ls", {"big": 2**70, "lone": "\ud800", "none": None}, "c1"),
    Image(b"\x89PNG", "image/jpeg"),
    Audio(b"RIFF", "audio/mpeg"),
    Video(b"ftyp", "video/webm"),
    Document(b"%PDF", "text/plain", "a.pdf"),
    MediaLink("https://é.example/a.pdf", "application/pdf"),
    ProviderBlock("openai", b'{"type":"new"}'),
)
WAIT = Interrupt(ToolCall("pay", {"amount": 5}, "p"), "sure?", ("t1", "t2"), ("approve", "reject"), True)
COSTS = Costs(0.5, 0.25, 0.125, 0.0625, 2, 1, 7, Usage(1, 2, 3, 4, 5, 6), 0.5, 80, 60, 90, [Step(0.5, 0.25, 0.125)], 1)
EVERY_EVENT = [
    ev.UserSaid(UserMessage(EVERY_BLOCK), 1.5, Limits(7, 9, 11, 0.5, 60.0, 2, 5), "Rubric", "main", "k1"),
    ev.ModelReplied(AssistantMessage(EVERY_BLOCK), "truncated", Usage(1, 2, 3, 4, 5, 6), "m", 0.5, 0.25),
    ev.ToolReturned("c1", EVERY_BLOCK, True, True, 0.5),
    ev.ToolWaiting("c1", (WAIT,)),
    ev.Decided("c1", Edit({"amount": 6})),
    ev.Decided("c1", Approve()),
    ev.Decided("c1", Reject("no")),
    ev.Decided("c1", Respond("42")),
    ev.Decided("c1", Answer("42")),
    ev.Resumed(2.5, Limits(None, 1, 2, 0.25, 30.0, 1, 3), ("c1",), 3.5),
    ev.CallStarted("c1"),
    ev.TurnPaused(3.5, COSTS),
    ev.TurnEnded(4.5, "refused", COSTS),
    ev.TurnEscalated(5.5, "which?", COSTS),
    ev.TurnFailed(6.5, "Overloaded", "busy", Failure(True, 2.5, "overloaded_error"), COSTS),
    ev.TurnCancelled(7.5, "too late", COSTS),
    ev.TurnExhausted(8.5, "cost", "the cost of 1 reply is unknown", COSTS),
    ev.TodosWritten((Todo("a", "in_progress"), Todo("b", "completed"))),
    ev.FileWritten("/a", "text", 4, "sha", 9.5, ("c1",), True, "c1"),
    ev.FileWritten("/b", b"\xff", 1, "sha", 9.5, ("c1",), True, "c1"),
    ev.FileEdited("/a", "te", "to", True, 4, "sha", 10.5, ("c1",), "c1"),
    ev.FileDeleted("/a", 11.5, ("c1",), "c1"),
    ev.Compacted(UserMessage("so far"), 3, Usage(1, 2, 3, 4, 5, 6), "m", 0.5, 0.25),
    ev.MessagesReplaced(1, 3, (UserMessage(EVERY_BLOCK), AssistantMessage("ü")), 12.5),
    ev.Noted("me", "key", {"plain": [1, "x", None, 2.5]}, "append"),
]


def test_there_is_a_sample_of_every_event_with_no_field_at_its_default():
    assert {type(event) for event in EVERY_EVENT} == set(get_args(ev.AnyEvent))
    for event in EVERY_EVENT:
        for field in msgspec.structs.fields(event):
            assert getattr(event, field.name) != field.default, f"{type(event).__name__}.{field.name}"


class Ask(Middleware):
    async def before_tool(self, ctx, call):
        return Interrupt(call, "sure?") if call.name == "pay" and ctx.decision is None else call


class Forgetful(Middleware):
    """Compacts once."""

    async def before_finish(self, ctx):
        ctx.record(ev.Compacted(UserMessage("so far: much"), 3))


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
async def look(ctx: ToolContext) -> str:
    """Give a large result, and write a large file and a small one."""
    ctx.record(ev.FileWritten("/large", "x" * 120_000, 120_000, sha256(b"x" * 120_000).hexdigest(), 1.0))
    ctx.record(ev.FileWritten("/medium", "y" * 5_000, 5_000, sha256(b"y" * 5_000).hexdigest(), 1.0))
    ctx.record(ev.FileEdited("/large", "x" * 120_000, "z", False, 1, sha256(b"z").hexdigest(), 1.0))
    return "z" * 120_000


def delegating(agent, id):
    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Have it done."""
        return (await ctx.run(agent, "pay 5")).text

    script = ScriptedModel([ToolCall("delegate", {}, id), "done"])
    return Agent(script, [delegate], name=f"agent-{id}", continues=["top"])


def paused_thread():
    """A thread of one turn that compacts, one that ends, and one that waits two levels below; the last are joined."""
    payer = Agent(ScriptedModel([ToolCall("pay", {"amount": 5}, "p"), "paid"]), [pay], middleware=[Ask()], name="payer")
    store = MemoryCheckpointer()
    script = ScriptedModel([ToolCall("look", {}, "l"), "hello"])
    Agent(script, [look], middleware=[Forgetful()], checkpointer=store, name="top").run_sync(
        "hi", "thread/ü", key="k/ü"
    )
    Agent(ScriptedModel(["hello again"]), checkpointer=store, name="top").run_sync(f"hi again{LONG}", "thread/ü")
    top = delegating(delegating(payer, "t2"), "t1")
    top.checkpointer = store
    turn = top.run_sync("pay it", "thread/ü")
    assert turn.interrupts[0].path == ("t1", "t2")
    prefix = names.log_prefix("thread/ü", ())
    keys = plain(store).keys(prefix, names.after(prefix))
    assert merge(open_store(store), "thread/ü", keys[-2:]) > 0
    kinds = {key.split("/")[0] for key in plain(store).keys("", "\x7f")}
    assert kinds == {"base", "blob", "head", "key", "log", "ref", "run", "use"}
    cut_thread(store)
    return store


def cut_thread(store):
    """A thread whose beginning was cut off."""
    store.retention = Retention(boundaries=1)
    agent = Agent(ScriptedModel(["one", "two", "three"]), checkpointer=store)
    for text in ("first", "second", "third"):
        agent.run_sync(text, "cut/ü")
        store.close()
    assert names.read_head("cut/ü", plain(store).head("cut/ü")).truncation.turn == 3


def frozen_now():
    """The bytes of this version, for a new file when the format's number is raised."""
    store = paused_thread()
    state = Agent("offline:", checkpointer=store).get_state("thread/ü", subagents=True)
    return {
        "format": list(codec.FORMAT),
        "events": [codec.encode(number, event, 300 * number).hex() for number, event in enumerate(EVERY_EVENT, 1)],
        "plain": [plain_json(event) for event in EVERY_EVENT],
        "head": plain(store).head("thread/ü").hex(),
        "rows": {key: value.hex() for key, value in plain(store).rows("", "\x7f") if key != names.head_key("thread/ü")},
        "state": plain_json(state),
    }


RENAMED = {"passing": "transient", "asked": "requested_by", "depth": "max_depth", "fanout": "max_children"}
"""Fields that had other names when the earlier fixtures were written; the bytes have none."""


def holds(now, then):
    """Whether *now* is what was written *then*; fields may have been added since, or renamed."""
    if isinstance(then, dict):
        names = {key: key if key in now else RENAMED.get(key, key) for key in then} if isinstance(now, dict) else {}
        return isinstance(now, dict) and all(name in now and holds(now[name], then[key]) for key, name in names.items())
    if isinstance(then, list):
        return len(now) == len(then) and all(map(holds, now, then))
    return now == then


def test_this_format_has_its_bytes_frozen():
    assert [path.stem for path in FROZEN][-1] == "{}.{}".format(*codec.FORMAT)


@pytest.mark.parametrize("path", FROZEN, ids=lambda path: path.stem)
def test_frozen_events_are_read_as_they_were_written(path):
    frozen = json.loads(path.read_text())
    events = [codec.decode(bytes.fromhex(data)) for data in frozen["events"]]
    assert holds([plain_json(event) for event in events], frozen["plain"])
    if path == FROZEN[-1]:
        assert events == EVERY_EVENT
        assert [
            codec.encode(number, event, 300 * number).hex() for number, event in enumerate(EVERY_EVENT, 1)
        ] == frozen["events"]


@pytest.mark.parametrize("path", FROZEN, ids=lambda path: path.stem)
async def test_a_frozen_thread_is_loaded_and_goes_on(path):
    frozen = json.loads(path.read_text())
    store = MemoryCheckpointer()
    rows = {key: bytes.fromhex(value) for key, value in frozen["rows"].items()}
    plain(store).append("thread/ü", None, bytes.fromhex(frozen["head"]), rows)
    reader = Agent("offline:", checkpointer=store, continues=["agent-t1"])
    assert holds(plain_json(reader.get_state("thread/ü", subagents=True)), frozen["state"])
    assert [info.title for info in reader.threads() if info.thread_id == "thread/ü"] == ["hi"]
    if names.head_key("cut/ü") in rows:
        assert [(boundary.at, boundary.text) for boundary in reader.history("cut/ü")] == [(3, "three")]
        assert len(reader.transcript("cut/ü")) == 6
    assert reader.transcript("thread/ü")[0].text == "hi"
    numbers = [event.number for event in read_page(open_store(store), "thread/ü", 0).events]
    for place, number in enumerate(numbers):
        page = read_page(open_store(store), "thread/ü", number)
        assert [event.number for event in page.events] == numbers[place + 1 :]
    turn = await reader.run("never mind", "thread/ü")
    assert (turn.status, turn.saved) == ("ended", True)
    assert [state.status for state in reader.get_state("thread/ü", subagents=True).subagents.values()] == ["cancelled"]
