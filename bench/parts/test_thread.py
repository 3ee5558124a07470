"""A thread: it is loaded, resumed, read and forked, by the turns that it has. Each has 3 steps and 6 KB of results."""

import asyncio
from functools import cache
from typing import Any

import pytest
from work import Pages, reading, text

from minideep import Agent, Approve, DiskCheckpointer, Interrupt, Middleware, ToolCall, UserMessage
from minideep.checkpoint import open_store, open_thread
from minideep.events import Compacted
from minideep.models import ScriptedModel
from minideep.ports import Request

PAGES, LOOK_3, ASK_FIRST = Pages(), reading(3), "ask first"


class Compacting(Middleware):
    """Replaces all but the last message by a summary, every 100 turns."""

    async def before_finish(self, ctx):
        if ctx.state.turn % 100 == 90:
            ctx.record(Compacted(UserMessage(text(3_000)), len(ctx.state.messages) - 1))


class Asking(Middleware):
    """Has the call `p1` wait for a person."""

    async def before_tool(self, ctx, call):
        return Interrupt(call, "may I?") if call.id == "p1" and ctx.decision is None else call


def looks_three_times(request: Request) -> Any:
    """Do the work of a turn. Its first call has the id `p1` if somebody wants to be asked first."""
    last = request.messages[-1]
    return ToolCall("look", {}, "p1") if last.role == "user" and last.text == ASK_FIRST else LOOK_3(request)


def agent_on(store: DiskCheckpointer, *middleware: Middleware) -> Agent:
    return Agent(ScriptedModel(looks_three_times), [PAGES.tool], middleware=[Asking(), *middleware], checkpointer=store)


async def lived(agent: Agent, turns: int) -> None:
    for _ in range(turns):
        PAGES.print(3)
        assert (await agent.run("go", "t")).saved
    agent.fork("t", thread_id="paused")
    assert (await agent.run(ASK_FIRST, "paused")).status == "paused"


@pytest.fixture(scope="session")
def thread(tmp_path_factory):
    """Return a function that returns the folder of a store whose thread `t` has some turns, and perhaps compactions."""

    @cache  # By how it is called: always with both.
    def made(turns: int, compacted: bool) -> Any:
        folder = tmp_path_factory.mktemp("thread")
        with DiskCheckpointer(folder) as store:
            asyncio.run(lived(agent_on(store, *[Compacting()] * compacted), turns))
        return folder

    return made


AGES = pytest.mark.parametrize(
    "turns", [10, 100, 1_000, pytest.param(10_000, marks=pytest.mark.full)], ids="{:,} turns".format
)
THREADS = pytest.mark.parametrize(
    ("turns", "compacted"),
    [
        pytest.param(10, False, id="10 turns"),
        pytest.param(100, False, id="100 turns"),
        pytest.param(1_000, False, id="1,000 turns"),
        pytest.param(1_000, True, id="1,000 turns, compacted every 100"),
        pytest.param(10_000, False, id="10,000 turns", marks=pytest.mark.full),
        pytest.param(10_000, True, id="10,000 turns, compacted every 100", marks=pytest.mark.full),
    ],
)


@THREADS
def test_load(measure, thread, turns, compacted):
    """Loading a thread to continue it."""
    with DiskCheckpointer(thread(turns, compacted)) as store:
        checked = open_store(store)
        assert open_thread(checked, "t"), "there is no thread"
        measure(lambda: open_thread(checked, "t"), rounds=10)


@THREADS
def test_resume_time(measure, runner, thread, turns, compacted):
    """Resuming a paused turn with a decision, in a process that has not seen the thread: 3 steps follow."""
    folder = thread(turns, compacted)

    def paused() -> str:
        PAGES.print(3)
        with DiskCheckpointer(folder) as store:
            return agent_on(store).fork("paused")

    async def resumed(name: str) -> None:
        store = DiskCheckpointer(folder)
        turn = await agent_on(store).resume(name, {"p1": Approve()})
        assert turn.status == "ended", turn
        await store.aclose()

    measure(lambda name: runner.run(resumed(name)), setup=paused, rounds=5)


@AGES
def test_a_turn_by_a_new_agent(measure, runner, thread, turns):
    """A turn of 3 steps by an agent that is built for it, on a store that is open, as in a service."""
    with DiskCheckpointer(thread(turns, False)) as store:

        def forked() -> str:
            PAGES.print(3)
            return agent_on(store).fork("t")

        async def turn(name: str) -> None:
            assert (await agent_on(store).run("go", name)).saved

        measure(lambda name: runner.run(turn(name)), setup=forked, rounds=5)


READS = {
    "the state": lambda agent: agent.get_state("t"),
    "the state at boundary 5": lambda agent: agent.get_state("t", at=5),
    "the history": lambda agent: agent.history("t"),
    "the transcript": lambda agent: agent.transcript("t"),
    "a difference": lambda agent: agent.diff("t", 1, 2),
    "the list of threads": lambda agent: agent.threads(),
}


@AGES
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reading(measure, thread, turns, read):
    """Reading a thread."""
    with DiskCheckpointer(thread(turns, False)) as store:
        agent = agent_on(store)
        measure(lambda: read(agent), rounds=5)


@THREADS
def test_fork(measure, thread, turns, compacted):
    """Forking a thread: a copy of its rows under another name."""
    with DiskCheckpointer(thread(turns, compacted)) as store:
        agent = agent_on(store)
        measure(lambda: agent.fork("t"), rounds=5)
