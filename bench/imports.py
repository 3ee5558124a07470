"""Measure a start: importing the public names and building a default agent, beside importing the dependencies alone.

    python bench/imports.py

Milliseconds, the best of several processes, which take turns; all have compiled bytecode, in a folder of their own.
Nothing is loaded before it is used, so what the first turn loads, and the database of a disk, are a line of their own.
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
TURN = """
import asyncio
from minideep import DiskCheckpointer, create_deep_agent
from minideep.models import ScriptedModel
asyncio.run(create_deep_agent(model=ScriptedModel(["hello"]), checkpointer=DiskCheckpointer({folder!r})).run("hi"))
"""
BOUND = 1.4
RUNS = 15


def best(programs: dict[str, str], env: dict[str, str]) -> dict[str, float]:
    """Return the milliseconds that each of *programs* takes in a new process, less those of an empty one."""

    def once(code: str) -> float:
        started = perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=env)
        return (perf_counter() - started) * 1000

    programs = {"": "pass"} | programs
    rounds = [{name: once(code) for name, code in programs.items()} for _ in range(RUNS + 1)]
    least = {name: min(times[name] for times in rounds[1:]) for name in programs}
    return {name: least[name] - least[""] for name in programs if name}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = f"{folder}/bytecode"
        turn = TURN.format(folder=f"{folder}/state")
        took = best({"floor": FLOOR, "ours": OURS, "turn": turn}, env)
    ratio = took["ours"] / took["floor"]
    print(f"asyncio, msgspec, zstandard and diskcache:        {took['floor']:6.1f} ms")
    print(f"public names and a default agent:                 {took['ours']:6.1f} ms   {ratio:.2f}x (bound {BOUND}x)")
    print(f"a default agent, and its first turn, on a disk:   {took['turn']:6.1f} ms")
    return ratio > BOUND


if __name__ == "__main__":
    sys.exit(main())
