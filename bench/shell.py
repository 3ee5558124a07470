"""Run commands that behave badly, and measure what they cost.

    python bench/shell.py [commands=500]

First a command that starts grandchildren, ignores SIGTERM and prints until it is stopped, at least 1 GB: how long after
its time is over it ends, how much memory this process took, and how many of its processes are left. Then so many short
commands: the time of one, in times of starting Python alone, and the descriptors that they leave open. Exits with 1 if
a bound is broken.
"""

import asyncio
import resource
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bounds import bound, verdict
from harness.sandboxes import running

from minideep.backends import Executed, LocalShellBackend
from minideep.testing import tool_context

TIMEOUT = 4.0
AT_LEAST = 1_000_000_000


def peak() -> float:
    """Return the most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(backend: LocalShellBackend, command: str, timeout: float) -> Executed:
    async def execute() -> Executed:
        return await backend.execute(tool_context(), command, timeout)

    return asyncio.run(execute())


def stubborn(backend: LocalShellBackend) -> None:
    mark = f"1000.{secrets.randbelow(10**9):09}"
    child = f"trap '' TERM HUP INT; sleep {mark} & setsid sleep {mark} & env -i setsid sleep {mark} &"
    command = (
        f"trap '' TERM; (sh -c \"{child} sleep {mark}\" &); {child} yes \"$(head -c 60000 /dev/zero | tr '\\0' x)\""
    )
    run(backend, "true", 10.0)
    before, started = peak(), perf_counter()
    found = run(backend, command, TIMEOUT)
    took = perf_counter() - started
    print(f"a command that ignores SIGTERM, has grandchildren, and printed {found.dropped / 1e9:.2f} GB")
    bound("GB that it printed", found.dropped / 1e9, AT_LEAST / 1e9, "GB", least=True)
    bound("until it had ended, after its time was over", took - TIMEOUT, 1.0, "s")
    bound("memory of this process, more than before", peak() - before, 8.0, "MB")
    bound("its processes that are left", len(running(mark)), 0)


def short(backend: LocalShellBackend, commands: int) -> None:
    descriptors = len(list(Path("/dev/fd").iterdir()))
    times: list[float] = []
    alone: list[float] = []
    for number in range(commands):
        started = perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)
        alone.append(perf_counter() - started)
        started = perf_counter()
        found = run(backend, "echo x; exit 3", 10.0)
        times.append(perf_counter() - started)
        assert (found.output, found.exit_code) == ("x\n", 3), (number, found)
    print(f"{commands} short commands")
    median, python = sorted(times)[commands // 2], sorted(alone)[commands // 2]
    print(f"  one command, the median: {median * 1000:.0f} ms; starting Python alone: {python * 1000:.0f} ms")
    bound("one command, in times of starting Python alone", median / python, 6.0)
    bound("descriptors that are left open", len(list(Path("/dev/fd").iterdir())) - descriptors, 0)


def main() -> int:
    commands = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory() as folder:
        backend = LocalShellBackend(Path(folder))
        stubborn(backend)
        short(backend, commands)
    return verdict()


if __name__ == "__main__":
    sys.exit(main())
