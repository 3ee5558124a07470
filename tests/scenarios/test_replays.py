"""Threads are run again: exactly, without a network, and with another model; and they stay as they are."""

import asyncio
import itertools
from collections import defaultdict
from random import Random
from types import SimpleNamespace

import pytest
from harness.simulation import quiet
from harness.simulation.actors import spec
from harness.simulation.life import Life
from harness.simulation.loop import PROCESS
from harness.stores import plain
from msgspec import structs

from minideep import (
    Agent,
    Approve,
    DiskCheckpointer,
    Edit,
    HistoryCut,
    Reject,
    ToolCall,
    Usage,
    create_deep_agent,
    tool,
)
from minideep.backends import FilesystemBackend
from minideep.checkpoint import open_store, thread_events
from minideep.events import Compacted
from minideep.messages import ToolMessage
from minideep.middleware.context.summarizer import PROMPT
from minideep.models import ScriptedModel
from minideep.replay import Recording
from minideep.testing import forbid_requests, recorded

CHILD = "You do one task for another agent"


@tool
async def look(about: str = "") -> str:
    """Look at something of 5 KB."""
    return f"{about} " + "lorem ipsum dolor sit amet\n" * 200


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def rows_of(store):
    return dict(plain(store).rows("", "\x7f"))


class Busy(ScriptedModel):
    """A main agent that plans, looks, writes, delegates and pays; its subagents look and pay. It reports its usage."""

    def __init__(self, steps, first=0):
        super().__init__(self._says, 32_000)
        self._steps, self._step, self._below = steps, itertools.count(first), itertools.count()

    async def complete(self, request, emit):
        reply = await super().complete(request, emit)
        size = sum(len(message.text) for message in request.messages) // 4
        return structs.replace(reply, usage=Usage(size, 10), cost=size / 1e6, model="busy-1")

    def _says(self, request):
        if request.system == PROMPT:
            return "Known: a thing."
        if CHILD in request.system:
            return self._child(request, next(self._below))
        step = next(self._step)
        if step >= self._steps or step % 60 == 59:
            return f"done with step {step}"
        if step % 50 == 5:
            task = {"description": f"look, {step}", "subagent_type": "general-purpose"}
            return [ToolCall("task", {**task, "description": f"look, {step}.{n}"}) for n in range(3)]
        if step % 40 == 7:
            return [ToolCall("pay", {"amount": step}), ToolCall("look", {"about": "beside"})]
        if step % 40 == 2:
            todo = {"content": f"step {step}", "status": "in_progress"}
            return ToolCall("write_todos", {"todos": [todo]})
        if step % 29 == 4:
            return ToolCall("write_file", {"file_path": f"/notes{step}", "content": "y" * 8_000})
        return [ToolCall("look", {"about": str(step)}) for _ in range(4 if step % 17 == 3 else 1)]

    def _child(self, request, count):
        if isinstance(request.messages[-1], ToolMessage) and request.messages[-1].name == "pay":
            return "an answer"
        return ToolCall("pay", {"amount": 1}) if count % 9 == 8 else ToolCall("look", {"about": "below"})


def deep(model, store, *tools, root=None):
    backend = FilesystemBackend(root) if root else None
    options = {"interrupt_on": {"pay": True}, "checkpointer": store, "backend": backend}
    return create_deep_agent(model, tools or [look, pay], **options)


async def lived(agent, steps):
    """Run turns on the thread `t` until the main agent has made *steps* replies; decide about whatever waits."""
    kinds = itertools.cycle([Approve(), Edit({"amount": 77}), Reject("not now")])
    turn, replies = await agent.run("Find everything.", "t"), 0
    while True:
        replies += turn.costs.steps
        if turn.status == "paused":
            turn = await agent.resume("t", {wait.key: next(kinds) for wait in turn.interrupts})
        elif replies < steps:
            turn = await agent.run("Go on.", "t")
        else:
            return turn


def transcripts(agent):
    return {path: agent.transcript("t", path) for path in [None, *(info.path for info in agent.runs("t"))]}


async def test_a_thread_of_200_steps_replays_exactly_and_with_another_model_and_is_not_touched(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "other").mkdir()
    store = DiskCheckpointer(tmp_path / "store")
    mine = deep(Busy(200), store, root=tmp_path / "root")
    await lived(mine, 200)
    store.close()
    events = thread_events(open_store(store), "t")
    assert sum(isinstance(event, Compacted) for event in events) > 3
    recording = Recording(events, "t")
    assert sum(len(run.replies) for run in recording.runs.values()) >= 200
    assert len(recording.runs) > 6
    assert sum(len(given.decisions) for given in recording.inputs) > 4
    before, rows = transcripts(mine), rows_of(store)

    ran = []

    @tool(name="look")
    async def looked(about: str = "") -> str:
        """Look."""
        ran.append(about)
        return ""

    @tool(name="pay")
    async def paid(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return ""

    with forbid_requests():
        replay = await recorded(store, "t").run(deep("openai:gpt-5", store, looked, paid, root=tmp_path / "other"))
    assert replay.differences == []
    assert transcripts(replay.agent) == before
    assert ran == []
    assert list((tmp_path / "other").iterdir()) == []
    assert rows_of(store) == rows
    recorded(store, "t").save(tmp_path / "t.jsonl")
    replay = await recorded(tmp_path / "t.jsonl").run(deep("openai:gpt-5", store, looked, paid))
    assert replay.differences == []
    replay = await deep("openai:gpt-5", store, looked, paid).replay("t", model=Busy(200, first=3))
    kinds = {line.split(": ")[1] for line in replay.differences}
    assert "no longer called" in kinds
    assert len(replay.turns) == len([given for given in recording.inputs if given.message])
    assert ran == []
    assert rows_of(store) == rows


class Elsewhere:
    """Stands in for a simulated process: its tools run in a replay only if they run others."""

    chances = SimpleNamespace(tool_error=0.0)

    def __init__(self):
        self.life, self.random, self.promises = self, Random(1), SimpleNamespace(begins=lambda *what: None)


@pytest.mark.parametrize("seeds", [range(25), range(25, 50)])
def test_threads_that_failed_stopped_waited_and_were_killed_replay_exactly(seeds):
    """Of simulated lives: subagents, approvals, cancellations, crashes, messages in between, in any combination."""
    count = defaultdict(int)
    with quiet():
        for seed in seeds:
            (life := Life(seed)).live()
            store = life.server.reader()
            agent = Agent("openai:gpt-5")
            agent.spec = spec(life.deep)
            for info in Agent("offline:", checkpointer=store).threads():
                try:
                    events = thread_events(open_store(store), info.thread_id)
                except HistoryCut:
                    count["cut"] += 1
                    continue
                replay = asyncio.run(elsewhere(recorded(store, info.thread_id), agent))
                assert replay.differences == [], (seed, info.thread_id)
                again = thread_events(open_store(replay.agent.checkpointer), info.thread_id)
                assert said(events, info.thread_id) == said(again, info.thread_id), (seed, info.thread_id)
                count["same"] += 1
    assert count["same"] > 15


async def elsewhere(recording, agent):
    PROCESS.set(Elsewhere())
    return await recording.run(agent)


def said(events, thread):
    """The messages of each run, in the order of its call; ids of calls may be made from the numbers of events."""
    runs = Recording(events, thread).runs.values()
    return sorted([(message.role, message.text) for _, message in run.messages] for run in runs)
