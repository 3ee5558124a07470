"""Functions and scripts in a process of their own."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


def run_apart(function: Callable[..., object], *args: object) -> None:
    """Call *function* of a module in a new process, and fail if it raises there.

    A function that forks needs this: pytest's process has threads, which a child would not have but may wait for.
    """
    process = get_context("spawn").Process(target=function, args=args)
    process.start()
    process.join()
    assert process.exitcode == 0, f"{function.__name__} failed in its process; the captured stderr says why"


def python(code: str, *args: object, warns: bool = False, seconds: float = 60, **more: Any) -> str:
    """Run *code*, which may import `harness`, with *args* in `sys.argv`, and return what it prints.

    It may write nothing to stderr, unless it *warns*. A test that forks, or that limits its process, needs this: the
    process of the tests has threads and goes on.
    """
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])} | more.pop("env", {})
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=env, **more)
    assert done.returncode == 0, done.stderr
    assert warns or not done.stderr, done.stderr
    return done.stdout
