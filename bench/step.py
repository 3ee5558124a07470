"""Measure a step, one model reply and its tools, with a model and tools that answer at once.

    python bench/step.py

Microseconds of wall time per step, with every request kept: early in a run, late in it, and what the harness takes of
the latter, without the scripted model. Beside each row stands a loop written by hand, which asks the same model and
runs the same tools, and keeps nothing but the messages. Contenders take turns, and of several runs each the best
counts. Exits with the number of figures over their bounds.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from time import perf_counter

from minideep import Agent, AssistantMessage, Limits, ToolCall, ToolMessage, UserMessage, create_deep_agent, tool
from minideep.messages import Message
from minideep.models import ScriptedModel
from minideep.ports import Request

RUNS = 7
Drive = Callable[[ScriptedModel], Awaitable[object]]
"""Asks a model until it is done."""


@tool
async def ping(text: str = "") -> str:
    """Answer at once."""
    return "pong"


async def answer(call: ToolCall) -> Message:
    return ToolMessage(await ping.function(**json.loads(call.raw)), call.id, call.name)


async def by_hand(model: ScriptedModel) -> None:
    messages: list[Message] = [UserMessage("go")]
    while calls := (await ask(model, messages)).calls:
        if len(calls) == 1:
            messages.append(await answer(calls[0]))
        else:
            messages += await asyncio.gather(*map(answer, calls))


async def ask(model: ScriptedModel, messages: list[Message]) -> AssistantMessage:
    reply = await model.complete(Request("", messages, (ping,)), None)
    messages.append(reply.message)
    return reply.message


async def model_alone(model: ScriptedModel) -> None:
    while (await model.complete(Request("", ()), None)).message.calls:
        pass


async def bare(model: ScriptedModel) -> None:
    turn = await Agent(model, [ping], limits=Limits(steps=None)).run("go")
    assert turn.status == "ended", turn.error


async def default(model: ScriptedModel) -> None:
    turn = await create_deep_agent(model, [ping], limits=Limits(steps=None)).run("go")
    assert turn.status == "ended", turn.error


def spent(drive: Drive, calls: int, steps: int) -> list[float]:
    """Drive one run of *steps* steps with *calls* parallel calls each; return when each request came, in seconds."""
    replies = [[ToolCall("ping", {"text": "x"}, f"call-{step}-{n}") for n in range(calls)] for step in range(steps)]
    times: list[float] = []

    def say(request: object) -> object:
        times.append(perf_counter())
        return replies[len(times) - 1] if len(times) <= steps else "done"

    model = ScriptedModel(say)  # type: ignore[arg-type]
    asyncio.run(drive(model))  # type: ignore[arg-type]
    assert len(model.requests) == steps + 1
    return times


def per_step(times: list[float], first: int, last: int) -> float:
    return (times[last] - times[first]) / (last - first) * 1e6


def best(drives: list[Drive], calls: int, steps: int) -> list[tuple[float, float]]:
    """Return the microseconds per step of each, early (10 to 110) and late (the last 100): the best of several runs."""
    found = [(float("inf"), float("inf")) for _ in drives]
    for _ in range(RUNS):
        for place, drive in enumerate(drives):
            times, (early, late) = spent(drive, calls, steps), found[place]
            found[place] = min(early, per_step(times, 10, 110)), min(late, per_step(times, steps - 100, steps))
    return found


def main() -> int:
    broken = 0
    print(f"{'':38} {'early':>9} {'late':>9} {'harness':>9} {'bound':>8} {'by hand':>9} {'growth':>7}")
    for calls, steps, rows in (
        (1, 5000, [("one async tool, bare agent", bare, 12.0), ("one async tool, default agent", default, 20.0)]),
        (5, 500, [("five parallel async tools, bare agent", bare, 90.0)]),
    ):
        model, hand, *measured = best([model_alone, by_hand, *(drive for _, drive, _ in rows)], calls, steps)
        print(f"{'the scripted model alone':38} {model[0]:6.1f} µs {model[1]:6.1f} µs")
        own = hand[1] - model[1]
        print(f"{'a loop written by hand':38} {hand[0]:6.1f} µs {hand[1]:6.1f} µs {own:6.1f} µs")
        for (name, _, bound), (early, late) in zip(rows, measured, strict=True):
            harness = late - model[1]
            broken += harness > bound or late > 1.5 * early
            shown = f"{name:38} {early:6.1f} µs {late:6.1f} µs {harness:6.1f} µs {bound:5.0f} µs"
            print(f"{shown} {harness / own:7.1f} x {late / early:5.2f} x")
    return broken


if __name__ == "__main__":
    sys.exit(main())
