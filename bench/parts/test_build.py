"""A start: an agent is built, and in a fresh process the package is imported before."""

import os
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest
from work import ping

from minideep import Agent, MemoryCheckpointer, Subagent, create_deep_agent
from minideep.models import ScriptedModel

MODEL, STORE = ScriptedModel([]), MemoryCheckpointer()
SUBAGENTS = [Subagent(name=name, description=f"does {name}") for name in ("research", "writing", "review")]
AGENTS = {
    "a bare agent": lambda: Agent(MODEL, [ping], checkpointer=STORE),
    "the usual list": lambda: create_deep_agent(MODEL, [ping], checkpointer=STORE),
    "the usual list and 3 subagents": lambda: create_deep_agent(MODEL, [ping], checkpointer=STORE, subagents=SUBAGENTS),
}


@pytest.mark.parametrize("build", AGENTS.values(), ids=AGENTS)
def test_an_agent_is_built(measure, build):
    """Building an agent, once others were built before, as a service does for each request."""
    measure(build, rounds=100, **{"KiB kept": lambda: kept(build)})


def kept(build: Any) -> float:
    """Return the KiB of memory that one more agent keeps."""
    build()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        _agent = build()
        return (tracemalloc.get_traced_memory()[0] - before) / 1024
    finally:
        tracemalloc.stop()


MEMORY = "print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
BARE = "from minideep import Agent, DiskCheckpointer; from minideep.models import ScriptedModel"
USUAL = "from minideep import *; from minideep.models import ScriptedModel; create_deep_agent(model=ScriptedModel([]))"
STARTS = {
    "an empty process": "",
    "asyncio, msgspec, zstandard and diskcache": "import asyncio, msgspec, zstandard, diskcache",
    "a bare agent and a store on disk": f"{BARE}; Agent(ScriptedModel([]), checkpointer=DiskCheckpointer('unused'))",
    "the public names and a default agent": USUAL,
    "the SDK of Anthropic": "import anthropic",
    "the SDK of OpenAI": "import openai",
}


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Return the environment of processes that find compiled bytecode, in a folder of its own."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    paths = os.pathsep.join(path for path in sys.path if path)
    return env | {"PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("bytecode")), "PYTHONPATH": paths}


@pytest.mark.parametrize("code", STARTS.values(), ids=STARTS)
def test_a_process_starts(measure, compiled, code):
    """A fresh process, with compiled bytecode, that imports and ends."""

    def start() -> str:
        command = [sys.executable, "-c", f"{code}\n{MEMORY}"]
        return subprocess.run(command, env=compiled, capture_output=True, text=True, check=True).stdout

    start()  # It compiles.
    measure(start, rounds=5, calls=False, **{"MB": lambda: int(start()) / 1024})
