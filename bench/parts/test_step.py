"""A step: one reply of a model and its tools. They answer at once, so that nearly all of the time is the harness's."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from work import NO_LIMIT, STEPS, Turn, counted, ping, ping_on_a_thread, pings

from minideep import Agent, Middleware, create_deep_agent
from minideep.backends import StateBackend
from minideep.events import TextDelta
from minideep.messages import AssistantMessage, ToolMessage, UserMessage
from minideep.middleware import (
    EnvironmentMiddleware,
    FilesystemMiddleware,
    HumanInTheLoopMiddleware,
    MemoryMiddleware,
    OffloadMiddleware,
    PatchToolCallsMiddleware,
    PromptCachingMiddleware,
    SkillsMiddleware,
    SubAgentMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
)
from minideep.models import ScriptedModel
from minideep.ports import Emit, Reply, Request

ROUNDS = 30


def bare(model: Any) -> Agent:
    return Agent(model, [ping, ping_on_a_thread], limits=NO_LIMIT)


def usual(model: Any, **more: Any) -> Agent:
    return create_deep_agent(model, [ping, ping_on_a_thread], limits=NO_LIMIT, **more)


def runs(agent: Callable[[Any], Agent]) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    return lambda model: agent(model).run("go", "t")


def only(middleware: Middleware) -> Callable[[Any], Agent]:
    return lambda model: Agent(model, [ping], middleware=[middleware], limits=NO_LIMIT)


def alone() -> dict[str, Middleware]:
    """Return each middleware, as `create_deep_agent` makes it."""
    files, model = StateBackend(), ScriptedModel([])
    return {
        "todos": TodoListMiddleware(),
        "files": FilesystemMiddleware(files),
        "offload": OffloadMiddleware(files),
        "subagents": SubAgentMiddleware([]),
        "summarization": SummarizationMiddleware(model, files),
        "summarization with a window": SummarizationMiddleware(ScriptedModel([], window=10**9), files),
        "prompt caching": PromptCachingMiddleware(),
        "patching": PatchToolCallsMiddleware(),
        "skills": SkillsMiddleware(["/skills"], files),
        "memory": MemoryMiddleware(["/AGENTS.md"], files),
        "environment": EnvironmentMiddleware(),
        "approvals": HumanInTheLoopMiddleware({"delete": True}),
    }


async def by_hand(model: Any) -> None:
    """Run the loop that anybody would write first: it saves nothing, checks nothing and cannot be stopped."""
    tools = {ping.name: ping}
    messages: list[Any] = [UserMessage("go")]
    while True:
        message: AssistantMessage = (await model.complete(Request("", messages), None)).message
        messages.append(message)
        if not message.calls:
            return
        for call in message.calls:
            messages.append(ToolMessage(await tools[call.name].function(**call.args), call.id, call.name))


async def answers(model: Any) -> list[Reply]:
    return [await model.complete(Request("", []), None) for _ in range(STEPS)]


def test_the_scripted_model(measure, runner):
    """A step: a reply, and an async tool that answers at once."""
    reply = pings()
    measure(lambda: runner.run(answers(ScriptedModel(lambda request: reply))), rounds=ROUNDS, each=STEPS)


def test_a_loop_by_hand(measure, runner):
    """A step: a reply, and an async tool that answers at once."""
    measure(Turn(runner, by_hand, pings()).forward, rounds=ROUNDS, each=STEPS)


STACKS = {"a bare agent": bare, "the usual list": usual} | {
    f"only {name}": only(middleware) for name, middleware in alone().items()
}


@pytest.mark.parametrize("agent", STACKS.values(), ids=STACKS)
def test_step_overhead(measure, runner, agent):
    """A step: a reply, and an async tool that answers at once."""
    measure(Turn(runner, runs(agent), pings()).forward, rounds=ROUNDS, each=STEPS)


@pytest.mark.parametrize("count", [1, 2, 5, 20], ids=counted("tool"))
def test_async_tools_at_once(measure, runner, count):
    """A step with several calls of async tools, bare agent."""
    measure(Turn(runner, runs(bare), pings(count)).forward, rounds=ROUNDS, each=STEPS)


@pytest.mark.parametrize("count", [1, 2, 5, 20], ids=counted("tool"))
def test_plain_tools_at_once(measure, runner, count):
    """A step with several calls of plain functions, each on an OS thread, bare agent."""
    turn = Turn(runner, runs(bare), pings(count, "ping_on_a_thread"))
    measure(lambda: turn.forward(STEPS // 5), rounds=ROUNDS // 3, each=STEPS // 5)


@pytest.mark.parametrize(
    "taken", [0, 1_000, 5_000, pytest.param(20_000, marks=pytest.mark.full)], ids="step {:,}".format
)
@pytest.mark.parametrize("agent", [bare, usual], ids=["a bare agent", "the usual list"])
def test_steps_early_and_late_in_a_turn(measure, runner, agent, taken):
    """A step by how many the turn has taken before."""
    turn = Turn(runner, runs(agent), pings())
    turn.forward(taken)
    measure(turn.forward, rounds=5, each=STEPS)


async def listened_to(agent: Agent) -> None:
    async for _ in agent.stream("go"):
        pass


async def followed(agent: Agent) -> None:
    await agent.start("go", "t")
    async for _ in agent.follow("t"):
        pass


LISTENERS = {"nobody": lambda agent: agent.run("go", "t"), "the one who began it": listened_to, "a follower": followed}


@pytest.mark.parametrize("begin", LISTENERS.values(), ids=LISTENERS)
def test_listeners(measure, runner, begin):
    """A step by who listens to it, bare agent."""
    measure(Turn(runner, lambda model: begin(bare(model)), pings()).forward, rounds=ROUNDS, each=STEPS)


class Speaking:
    """A model that says *pieces* pieces of text, and lets others go on between them."""

    name = "speaking"

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        for _ in range(self.pieces):
            if emit:
                emit(TextDelta("word "))
            await asyncio.sleep(0)
        return Reply(AssistantMessage("word " * self.pieces))


@pytest.mark.parametrize("begin", LISTENERS.values(), ids=LISTENERS)
def test_pieces_of_text(measure, runner, begin):
    """One piece of streamed text by who listens to it, the event loop's own work included."""
    measure(lambda: runner.run(begin(Agent(Speaking(1_000)))), rounds=10, each=1_000)


@pytest.mark.parametrize("durability", ["turn", "step", "tool"])
def test_a_batch_of_tools_with_all_that_the_harness_does(measure, runner, store, durability):
    """A step with five tools, the usual list, serialized, routed and saved (a local tool takes some 20 ms)."""
    turn = Turn(runner, runs(lambda model: usual(model, checkpointer=store, durability=durability)), pings(5))
    measure(lambda: turn.forward(10), rounds=ROUNDS, each=10)
