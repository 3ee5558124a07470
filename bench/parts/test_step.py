"""A step: one reply of a model and its tools, which answer at once. All of the time is the harness's, but for the model."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from work import NO_LIMIT, Pausing, ping, ping_on_a_thread, pings

from minideep import Agent, DiskCheckpointer, MemoryCheckpointer, Middleware, create_deep_agent
from minideep.backends import StateBackend
from minideep.messages import AssistantMessage, ToolMessage, UserMessage
from minideep.middleware import (
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
from minideep.ports import Reply, Request

STEPS, ROUNDS = 100, 30


class Turn:
    """A turn that stands still between rounds, so that only its steps are measured."""

    def __init__(self, runner: asyncio.Runner, agent: Callable[[Any], Agent], calls: list[Any], thread: Any = None):
        self.runner, self.model = runner, Pausing(calls)
        self.task = runner.get_loop().create_task(agent(self.model).run("go", thread))

    def forward(self, steps: int = STEPS) -> None:
        self.runner.run(self.model.forward(steps))


@pytest.fixture
def runner():
    with asyncio.Runner() as runner:
        yield runner


def bare(model: Any) -> Agent:
    return Agent(model, [ping, ping_on_a_thread], limits=NO_LIMIT)


def usual(model: Any, **more: Any) -> Agent:
    return create_deep_agent(model, [ping, ping_on_a_thread], limits=NO_LIMIT, **more)


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
    model = Pausing(pings())
    task = runner.get_loop().create_task(by_hand(model))
    measure(lambda: runner.run(model.forward(STEPS)), rounds=ROUNDS, each=STEPS)
    assert not task.done()


STACKS = {"a bare agent": bare, "the usual list": usual} | {
    f"only {name}": only(middleware) for name, middleware in alone().items()
}


@pytest.mark.parametrize("agent", STACKS.values(), ids=STACKS)
def test_step_overhead(measure, runner, agent):
    """A step: a reply, and an async tool that answers at once."""
    turn = Turn(runner, agent, pings())
    measure(turn.forward, rounds=ROUNDS, each=STEPS)
    assert not turn.task.done()
