"""A service builds an agent for each request: that costs little time and memory, and what is kept is never wrong."""

import asyncio
import gc
import threading
import tracemalloc
import weakref

import pytest
from harness.agents import ping
from harness.calls import calls_of

from minideep import Agent, MemoryCheckpointer, Subagent, ToolCall, create_deep_agent
from minideep.models import ScriptedModel

MODEL, STORE = ScriptedModel([]), MemoryCheckpointer()
CHILDREN = [Subagent(name=name, description="finds things") for name in ("finder", "reader", "critic")]


def bare():
    return Agent(MODEL, [ping], "You find things.", checkpointer=STORE)


def default():
    return create_deep_agent(MODEL, [ping], "You find things.", checkpointer=STORE)


def with_subagents():
    return create_deep_agent(MODEL, [ping], "You find things.", checkpointer=STORE, subagents=CHILDREN)


def with_a_tool_of_the_request():
    user = object()

    async def look(place: str, times: int = 1) -> str:
        """Look."""
        return f"{place} of {user}"

    return create_deep_agent(MODEL, [look], "You find things.", checkpointer=STORE)


@pytest.mark.parametrize(
    ("build", "most"), [(bare, 80), (default, 710), (with_subagents, 1330), (with_a_tool_of_the_request, 720)]
)
async def test_a_second_agent_is_built_in_few_calls_of_functions(build, most):
    async def work():
        build()

    build()
    assert await calls_of(work()) <= most


@pytest.mark.parametrize(("build", "most"), [(default, 30), (with_subagents, 45)])
def test_a_second_agent_takes_few_kilobytes(build, most):
    build()
    gc.collect()
    tracemalloc.start()
    try:
        agent = build()
        peak = tracemalloc.get_traced_memory()[1] / 1024
    finally:
        tracemalloc.stop()
    assert agent.spec.tools
    assert peak <= most


@pytest.mark.parametrize("build", [bare, default, with_subagents, with_a_tool_of_the_request])
def test_nothing_remembers_an_agent_that_its_owner_has_dropped(build):
    agent = build()
    gone = weakref.ref(agent)
    del agent
    gc.collect()
    assert gone() is None


def test_threads_that_build_agents_at_once_get_each_their_own():
    answers = {}

    def serve(number):
        async def whoami() -> str:
            """Say who asks."""
            return f"request {number}"

        for _ in range(20):
            agent = create_deep_agent(ScriptedModel([ToolCall("whoami"), "done"]), [whoami])
            answers.setdefault(number, set()).add(asyncio.run(agent.run("go")).messages[2].text)

    threads = [threading.Thread(target=serve, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: {f"request {number}"} for number in range(8)}
