"""Measure a step, one model reply and its tools, with a model and tools that answer at once.

    python bench/step.py

Microseconds of wall time per step, the best of several runs, with every request kept. Exits with the number of figures
over their bounds.
"""

import asyncio
import sys
from collections.abc import Callable
from time import perf_counter

from minideep import Agent, Limits, ToolCall, create_deep_agent, tool
from minideep.models import ScriptedModel

RUNS = 7


@tool
async def ping(text: str = "") -> str:
    """Answer at once."""
    return "pong"


def spent(make: Callable[[ScriptedModel], Agent], calls: int, steps: int) -> list[float]:
    """Run one turn of *steps* steps with *calls* parallel calls each; return when each model call began, in seconds."""
    reply = [ToolCall("ping", {"text": "x"}) for _ in range(calls)]
    times: list[float] = []

    def say(request: object) -> object:
        times.append(perf_counter())
        return reply if len(times) <= steps else "done"

    model = ScriptedModel(say)  # type: ignore[arg-type]
    turn = asyncio.run(make(model).run("go"))
    assert turn.status == "ended", turn.error
    assert len(model.requests) == steps + 1
    return times


def per_step(times: list[float], first: int, last: int) -> float:
    return (times[last] - times[first]) / (last - first) * 1e6


def best(make: Callable[[ScriptedModel], Agent], calls: int, steps: int) -> tuple[float, float]:
    """Return the microseconds per step, early (10 to 110) and late (the last 100), the best of several runs."""
    runs = [spent(make, calls, steps) for _ in range(RUNS)]
    return min(per_step(run, 10, 110) for run in runs), min(per_step(run, steps - 100, steps) for run in runs)


def bare(model: ScriptedModel) -> Agent:
    return Agent(model, [ping], limits=Limits(steps=None))


def default(model: ScriptedModel) -> Agent:
    return create_deep_agent(model, [ping], limits=Limits(steps=None))


def main() -> int:
    rows = [
        ("one async tool, bare agent", bare, 1, 5000, 20.0),
        ("one async tool, default agent", default, 1, 5000, 35.0),
        ("five parallel async tools, bare agent", bare, 5, 500, 120.0),
    ]
    broken = 0
    print(f"{'':40} {'early':>9} {'late':>9} {'bound':>9} {'growth':>7}")
    for name, make, calls, steps, bound in rows:
        early, late = best(make, calls, steps)
        broken += max(early, late) > bound or late > 1.5 * early
        print(f"{name:40} {early:6.1f} µs {late:6.1f} µs {bound:6.0f} µs {late / early:6.2f}x")
    return broken


if __name__ == "__main__":
    sys.exit(main())
