"""Measure a start: importing the public names and building a default agent, beside importing the dependencies alone.

    python bench/imports.py

Milliseconds, the best of several processes; both have compiled bytecode, in a folder of their own.
"""

import os
import subprocess
import sys
import tempfile
from time import perf_counter

FLOOR = "import asyncio, msgspec, zstandard, diskcache"
OURS = """
from minideep import *
from minideep.models import ScriptedModel
create_deep_agent(model=ScriptedModel([]))
"""
BOUND = 1.6
RUNS = 15


def best(code: str, env: dict[str, str]) -> float:
    """Return the milliseconds that *code* takes in a new process, less those of an empty one."""

    def once(program: str) -> float:
        started = perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True, env=env)
        return perf_counter() - started

    once(code)
    return (min(once(code) for _ in range(RUNS)) - min(once("pass") for _ in range(RUNS))) * 1000


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = folder
        floor, ours = best(FLOOR, env), best(OURS, env)
    print(f"asyncio, msgspec, zstandard and diskcache: {floor:6.1f} ms")
    print(f"public names and a default agent:          {ours:6.1f} ms   {ours / floor:.2f}x (bound {BOUND}x)")
    return ours / floor > BOUND


if __name__ == "__main__":
    sys.exit(main())
