"""What is measured in each mode, as tasks: one task is one fresh process."""

import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from subprocess import PIPE, Popen, TimeoutExpired
from time import perf_counter
from typing import Any, Literal

from . import environment
from .contender import about
from .curve import CONFIGURATIONS as CURVES
from .guarantees import NAMES, stores

Mode = Literal["smoke", "default", "full"]
Line = dict[str, Any]


@dataclass
class Sizes:
    steps: tuple[int, ...]
    aside: tuple[int, ...]
    """The steps where threads are in memory, where a contender's other entry is used, and with compaction."""
    turns: tuple[int, ...]
    session: tuple[int, ...]
    commits: int
    curve: int
    """The rounds of the curve of files in the state."""
    kills: int
    """For each store of a contender; with 1, only its first store is put to the test."""
    limit_s: float
    """The seconds after which a measurement is stopped."""
    rounds: int
    minutes: float
    """The time after which nothing is repeated any more. The first round always ends."""
    dear_s: float
    """The seconds of a task over which it is done in the first round alone."""


SIZES: dict[Mode, Sizes] = {
    "smoke": Sizes((4,), (4,), (2,), (6,), 4, 3, 1, 20, 1, 1, 20),
    "default": Sizes((10, 50, 200, 500), (200,), (10, 100, 200), (120, 400), 200, 50, 6, 20, 3, 12.5, 2),
    "full": Sizes(
        (10, 50, 200, 500, 2000), (50, 200, 500), (10, 100, 200), (120, 400), 200, 50, 60, 60, 5, 24 * 60, 600
    ),
}


@dataclass
class Task:
    """A process to run, and what it is to measure."""

    contender: str
    measurements: list[Line]
    limit_s: float
    timed: bool = True
    """False: what it counts does not depend on what else the machine does."""
    program: str = "worker"
    took_s: float = 0.0
    failed: str = ""
    lines: list[Line] = field(default_factory=list[Line])

    @property
    def name(self) -> str:
        parts = {f"{one['configuration']} {one['work']}": None for one in self.measurements}
        return f"{self.contender}, {', '.join(parts) if len(parts) < 4 else f'{len(parts)} works'}"

    def run(self) -> None:
        """Run the process. What it printed is in `lines`, and what went wrong in `failed`."""
        started = perf_counter()
        task = {"contender": self.contender, "measurements": self.measurements, "limit_s": self.limit_s}
        argument = self.contender if self.program == "start" else json.dumps(task)
        command = [str(environment.PYTHON), "-W", "ignore", "-m", f"{__package__}.{self.program}", argument]
        until = 120 + self.limit_s * sum(len(one["sizes"]) for one in self.measurements)
        with Popen(
            command, cwd=environment.ROOT, env=environment.variables(), stdout=PIPE, stderr=PIPE, text=True
        ) as run:
            try:
                out, errors = run.communicate(timeout=until)
            except TimeoutExpired:  # What is limited ends by itself; a contender hangs where nothing is measured.
                run.kill()
                out, errors = run.communicate()
                self.failed = f"{self.name} did not end within {until:.0f} s\n"
        self.lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"contender"')]
        self.took_s = perf_counter() - started
        if run.returncode:
            self.failed += errors.strip() or f"exit code {run.returncode}"

    def missing(self) -> list[tuple[str, str, int]]:
        """Return the measurements that gave no line, but for larger ones of a work that was stopped."""
        there = {(line["configuration"], line["work"], line["n"]) for line in self.lines}
        wanted = [(one["configuration"], one["work"], n) for one in self.measurements for n in one["sizes"]]
        stopped = {(line["configuration"], line["work"]) for line in self.lines if line["stopped_at"] is not None}
        return [key for key in wanted if key not in there and key[:2] not in stopped]


def rounds(mode: Mode, only: Iterable[str]) -> Iterator[list[Task]]:
    """Yield the tasks of each round, one contender after the other, so that all see the same load."""
    sizes = SIZES[mode]
    for number in range(sizes.rounds):
        kinds = [small] if mode == "smoke" else [start, steps, turns, curves, *([counts, guarantees] * (number == 0))]
        yield [task for kind in kinds for name in only for task in kind(name, sizes)]


def start(name: str, sizes: Sizes) -> list[Task]:
    return [Task(name, each([""], "import", (0,)), 60, program="start")]


def steps(name: str, sizes: Sizes) -> list[Task]:
    chosen = main_ones(name)
    return [
        Task(name, each([one], "steps", sizes.steps if one in chosen else sizes.aside), sizes.limit_s)
        for one in about(name).configurations
    ]


def main_ones(name: str) -> list[str]:
    """Return the configurations that are measured at all sizes: no store, and each way of storing on a disk."""
    aside = ("ainvoke", "compaction")
    configurations = about(name).configurations.items()
    return [one for one, kept in configurations if one == "none" or (kept == "disk" and not one.startswith(aside))]


def turns(name: str, sizes: Sizes) -> list[Task]:
    if "turns" in about(name).cannot:
        return []
    return [
        Task(name, [{"configuration": one, "work": "turns", "sizes": list(sizes.turns)}], sizes.limit_s)
        for one in main_ones(name)
    ]


def counts(name: str, sizes: Sizes) -> list[Task]:
    """What is counted, and may be done beside something else."""
    configurations = about(name).configurations
    spoken = [one for one in configurations if one in ("none", "compaction")]
    disks = [one for one, kept in configurations.items() if kept == "disk"]
    found = [*each(["none"], "request", (0,)), *each(spoken, "session", sizes.session)]
    tasks = [Task(name, found, 10 * sizes.limit_s, timed=False)]
    return tasks + [
        Task(name, each([one], "commits", (sizes.commits,)), 10 * sizes.limit_s, timed=False) for one in disks
    ]


def curves(name: str, sizes: Sizes) -> list[Task]:
    found = [each([one], "curve", (sizes.curve,)) for one in CURVES.get(name, ())]
    return [Task(name, one, sizes.limit_s, program="curve") for one in found]


def guarantees(name: str, sizes: Sizes) -> list[Task]:
    """One process for all stores of a contender: it only forks others, which inherit the imports."""
    kept = stores(name)[: 1 if sizes.kills == 1 else None] or ["none"]
    found = [{**one, "kills": sizes.kills} for one in each(kept, "guarantee", range(len(NAMES)))]
    return [Task(name, found, 60, timed=False, program="guarantees")]


def small(name: str, sizes: Sizes) -> list[Task]:
    """Everything that a contender does, in a few processes, of which some run at the same time."""
    tasks = [task for kind in (steps, turns, counts) for task in kind(name, sizes)]
    together = Task(name, [one for task in tasks for one in task.measurements], sizes.limit_s)
    drawn = [one for task in curves(name, sizes) for one in task.measurements]
    found = [together, *start(name, sizes), *guarantees(name, sizes)]
    found += [Task(name, drawn, sizes.limit_s, program="curve")] * bool(drawn)
    return [replace(task, timed=False) for task in found]


def run(tasks: list[Task]) -> Iterator[Task]:
    """Run what is timed alone, and what is counted on all cores."""

    def done(task: Task) -> Task:
        task.run()
        return task

    yield from map(done, (task for task in tasks if task.timed))
    with ThreadPoolExecutor(cores()) as pool:
        yield from pool.map(done, (task for task in tasks if not task.timed))


def each(configurations: Iterable[str], work: str, sizes: Iterable[int]) -> list[Line]:
    """Return a measurement for each configuration and size."""
    return [{"configuration": one, "work": work, "sizes": [n]} for one in configurations for n in sizes]


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
