"""Measure building an agent that was built before, as a service does for each request.

    python bench/build.py

Microseconds are the best of several rounds; KiB are what `tracemalloc` counts while one agent is built; calls are those
of Python functions, which do not depend on the machine.
"""

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable

from bounds import bound, verdict

from minideep import Agent, MemoryCheckpointer, Subagent, create_deep_agent
from minideep.models import ScriptedModel

MODEL, STORE = ScriptedModel([]), MemoryCheckpointer()
CHILDREN = [Subagent(name=name, description="finds things") for name in ("finder", "reader", "critic")]
Build = Callable[[], object]


async def look(place: str, times: int = 1) -> str:
    """Look."""
    return place


def bare() -> Agent:
    return Agent(MODEL, [look], checkpointer=STORE)


def default() -> Agent:
    return create_deep_agent(MODEL, [look], checkpointer=STORE)


def with_subagents() -> Agent:
    return create_deep_agent(MODEL, [look], checkpointer=STORE, subagents=CHILDREN)


def with_own_tool() -> Agent:
    user = object()

    async def ask(place: str, times: int = 1) -> str:
        """Ask."""
        return f"{place} {user}"

    return create_deep_agent(MODEL, [ask], checkpointer=STORE)


def microseconds(build: Build, rounds: int = 30, each: int = 50) -> float:
    def once() -> float:
        started = time.process_time()
        for _ in range(each):
            build()
        return (time.process_time() - started) / each * 1e6

    return min(once() for _ in range(rounds))


def kibibytes(build: Build) -> float:
    gc.collect()
    tracemalloc.start()
    agent = build()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del agent
    return peak / 1024


def calls(build: Build) -> int:
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    build()
    sys.setprofile(None)
    return count


def main() -> int:
    builds: dict[str, tuple[Build, float, float]] = {
        "Agent with one tool": (bare, 25, 8),
        "default agent with one tool": (default, 250, 40),
        "default agent with one tool and three subagents": (with_subagents, 500, 45),
        "default agent with a tool that is made for the request": (with_own_tool, 250, 40),
    }
    for name, (build, most_time, most_memory) in builds.items():
        build()
        print(f"{name}: {calls(build)} calls")
        bound("time", microseconds(build), most_time, "µs")
        bound("memory", kibibytes(build), most_memory, "KiB")
    return verdict()


if __name__ == "__main__":
    sys.exit(main())
