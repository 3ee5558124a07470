"""Many agents at once in one process, on one event loop. All have asked their models before the first is answered."""

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from work import counted, ping, pings

from minideep import Agent, DiskCheckpointer, create_deep_agent
from minideep.models import ScriptedModel
from minideep.ports import Request


class Crowd:
    """Agents that each take a turn of two steps, the first of which begins for none before all have come to it."""

    def __init__(self, count: int, build: Callable[[Any], Agent]) -> None:
        self.all_here, self.answered = asyncio.Barrier(count), asyncio.Event()
        self.agents = [build(ScriptedModel(self._say)) for _ in range(count)]

    async def run(self) -> None:
        turns = await asyncio.gather(*(agent.run("go", str(number)) for number, agent in enumerate(self.agents)))
        assert all(turn.text == "done" for turn in turns)

    def _say(self, request: Request) -> Any:
        return "done" if request.messages[-1].role == "tool" else self._wait()

    async def _wait(self) -> Any:
        await self.all_here.wait()
        return pings()


async def crowded(count: int, build: Callable[[Any], Agent]) -> None:
    await Crowd(count, build).run()


def memory_each(runner: asyncio.Runner, count: int, build: Callable[[Any], Agent]) -> float:
    """Return the most KiB that an agent and its turn took, while all were there."""
    runner.run(crowded(10, build))
    tracemalloc.start()
    try:
        runner.run(crowded(count, build))
        return tracemalloc.get_traced_memory()[1] / 1024 / count
    finally:
        tracemalloc.stop()


def bare(model: Any) -> Agent:
    return Agent(model, [ping])


def usual(model: Any) -> Agent:
    return create_deep_agent(model, [ping])


CROWDS = {
    "1 bare agent": (1, bare),
    "1,000 bare agents": (1_000, bare),
    "10,000 bare agents": (10_000, bare),
    "1,000 with the usual list": (1_000, usual),
}


@pytest.mark.parametrize(("count", "build"), CROWDS.values(), ids=CROWDS)
def test_many_agents_in_memory(measure, runner, count, build):
    """A turn with one tool call of one of many agents at once, each built for it, in memory."""
    measure(
        lambda: runner.run(crowded(count, build)),
        rounds=2 if count > 1_000 else 5,
        each=count,
        **{"KiB each": lambda: memory_each(runner, min(count, 1_000), build)},
    )


@pytest.mark.parametrize("count", [1, 8, 64, pytest.param(512, marks=pytest.mark.full)], ids=counted("turn"))
def test_many_turns_on_a_disk(measure, runner, tmp_path, count):
    """A turn with one tool call of several at once, on one store on a disk."""
    with DiskCheckpointer(tmp_path) as store:
        build = lambda model: Agent(model, [ping], checkpointer=store)  # noqa: E731
        measure(lambda: runner.run(crowded(count, build)), rounds=10, each=count)
