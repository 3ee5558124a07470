"""Many agents at once in one process, on one event loop. All have asked their models before the first is answered."""

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from work import counted, ping, pings

from minideep import Agent, AssistantMessage, DiskCheckpointer, create_deep_agent
from minideep.ports import Emit, Reply, Request


class Meeting:
    """A model that asks for a tool call once *count* turns have come to it, and is done then."""

    name = "meeting"

    def __init__(self, count: int) -> None:
        self.all_here = asyncio.Barrier(count)

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        if request.messages[-1].role == "tool":
            return Reply(AssistantMessage("done"))
        await self.all_here.wait()
        return Reply(AssistantMessage(tuple(pings())))


async def crowd(count: int, build: Callable[[Any], Agent], *, each: bool = False) -> None:
    """Run *count* turns of one agent at once; with *each*, of as many agents."""
    model = Meeting(count)
    agents = [build(model) for _ in range(count)] if each else [build(model)] * count
    turns = await asyncio.gather(*(agent.run("go", str(number)) for number, agent in enumerate(agents)))
    assert all(turn.text == "done" for turn in turns)


def memory_each(runner: asyncio.Runner, count: int, *how: Any) -> float:
    """Return the KiB that each turn took when all together took the most."""
    tracemalloc.start()
    try:
        runner.run(crowd(count, *how))
        return tracemalloc.get_traced_memory()[1] / 1024 / count
    finally:
        tracemalloc.stop()


def bare(model: Any) -> Agent:
    return Agent(model, [ping])


def usual(model: Any) -> Agent:
    return create_deep_agent(model, [ping])


CROWDS = {
    "1 of a bare agent": (1, bare),
    "1,000 of a bare agent": (1_000, bare),
    "10,000 of a bare agent": (10_000, bare),
    "1,000 with the usual list": (1_000, usual),
}


@pytest.mark.parametrize(("count", "build"), CROWDS.values(), ids=CROWDS)
def test_many_turns_in_memory(measure, runner, count, build):
    """A turn with one tool call, one of many at once, each on a thread of its own in memory."""
    many = count > 1_000
    info = {} if many else {"KiB each": lambda: memory_each(runner, count, build)}
    rounds = 2 if many else 3
    measure(lambda: runner.run(crowd(count, build)), rounds=rounds, each=count, calls=not many, **info)


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.full)], ids=counted("bare agent"))
def test_many_agents_in_memory(measure, runner, count):
    """A turn with one tool call, each by an agent that is built for it, all at once."""
    measure(lambda: runner.run(crowd(count, bare, each=True)), rounds=3, each=count)


@pytest.mark.parametrize("count", [1, 8, 64, pytest.param(512, marks=pytest.mark.full)], ids=counted("turn"))
def test_many_turns_on_a_disk(measure, runner, tmp_path, count):
    """A turn with one tool call, one of several at once, on one store on a disk."""
    with DiskCheckpointer(tmp_path) as store:
        measure(
            lambda: runner.run(crowd(count, lambda model: Agent(model, [ping], checkpointer=store))),
            rounds=10,
            each=count,
        )
