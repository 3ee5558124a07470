"""Measure one contender in a process of its own: `python -m bench.compare.worker JSON`.

The argument has a contender, the seconds that one measurement may take, and a list of measurements: a configuration, a
work and a size each; where turns are counted, several sizes, at which the same thread is measured. For each of them
one line of JSON is printed as soon as it is there. A measurement that takes longer ends the process: its line says at
which step or turn it was stopped.
"""

import asyncio
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median
from time import perf_counter, process_time
from typing import Any

from . import environment
from .contender import load
from .start import peak
from .work import DONE, Work

Values = dict[str, float]
TURN = 3
"""The steps of a turn where turns are counted."""


def main() -> None:
    task = json.loads(sys.argv[1])
    for one in task["measurements"]:
        with tempfile.TemporaryDirectory(dir=environment.FOLDER) as folder:  # A system's /tmp may be in memory.
            asyncio.run(measure(Run(task["contender"], one, Path(folder), task["limit_s"])))


async def measure(run: "Run") -> None:
    """Do one measurement, and print a line for each size."""
    async for values in WORKS[run.line["work"]](run):
        run.say(values)


class Run:
    """A configuration of a contender with a folder, and the clock that stops a measurement."""

    def __init__(self, name: str, one: dict[str, Any], folder: Path, limit_s: float) -> None:
        self.contender, self.limit_s = load(name), limit_s
        self.all, self.folder = folder, folder / "threads"
        self.configuration, self.sizes = one["configuration"], one["sizes"]
        self.line = {"contender": name, "configuration": self.configuration, "work": one["work"]}
        self.stores = self.contender.CONFIGURATIONS[self.configuration] == "disk"

    @property
    def n(self) -> int:
        return self.sizes[0]

    def say(self, values: Values, stopped_at: int | None = None) -> None:
        """Print the line of the next size."""
        print(json.dumps({**self.line, "n": self.sizes.pop(0), "stopped_at": stopped_at, "values": values}), flush=True)

    async def open(self, work: Work) -> Any:
        self.folder.mkdir(exist_ok=True)
        return await self.contender.open(self.configuration, self.folder, work)

    async def warm(self, work: Work) -> Any:
        """Return a session after a turn of one step on another thread: what first use loads or makes is there."""
        session = await self.open(work)
        steps, work.steps = work.steps, 1
        await session.turn("warm-up", work.question(0))
        await session.messages("warm-up")
        work.steps = steps
        work.asked_at.clear()
        return session

    @contextmanager
    def limited(self, at: Callable[[], tuple[int, Values]]) -> Iterator[None]:
        """Stop after the limit, from another OS thread: no contender can hold up or catch that.

        *at* returns where the work is then, and the values so far.
        """

        def stop() -> None:
            place, values = at()
            self.say(values | ({"disk_bytes": self.size()} if self.stores else {}), place)
            shutil.rmtree(self.all, ignore_errors=True)
            os._exit(0)

        timer = threading.Timer(self.limit_s, stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    async def stored(self, work: Work, messages: int) -> Values:
        """Measure what is on the disk now, and how long an agent takes to open it and read the thread."""
        if not self.stores:
            return {}
        size = self.size()
        started = perf_counter()
        session = await self.open(work)
        found = await session.messages("thread")
        took = perf_counter() - started
        await session.close()
        if len(found) < messages:
            raise AssertionError(f"{len(found)} messages are stored, not {messages}")
        return {"disk_bytes": size, "load_ms": took * 1e3}


def steps_of(work: Work) -> Values:
    """Return the microseconds of a step in the first and in the last tenth of a turn, from model call to model call."""
    times = [later - sooner for sooner, later in zip(work.asked_at, work.asked_at[1:], strict=False)]
    if not times:
        return {}
    part = max(3, len(times) // 10)
    return {"early_us": mean(times[:part]) * 1e6, "late_us": mean(times[-part:]) * 1e6}


async def steps(run: Run) -> AsyncIterator[Values]:
    """Run one turn of n steps; if that is short, up to 25 times, each in a new store, and take the median."""
    found: list[Values] = []
    while not found or (len(found) < 25 and sum(values["wall_s"] for values in found) < 1):
        run.folder = run.all / f"threads-{len(found)}"
        found.append(await one_turn(run))
    yield {name: median(values[name] for values in found) for name in found[0]}


async def one_turn(run: Run) -> Values:
    work = Work(run.n)
    session = await run.warm(work)
    with run.limited(lambda: (len(work.asked_at), steps_of(work))):
        started, cpu = perf_counter(), process_time()
        said = await session.turn("thread", work.question(0))
        wall, cpu = perf_counter() - started, process_time() - cpu
    check(said, work, run.n + 1)
    await session.close()
    values = {**steps_of(work), "step_us": wall / run.n * 1e6, "wall_s": wall, "cpu_s": cpu}
    return values | await run.stored(work, 2 * run.n + 1) | {"peak_rss_mb": peak()}


async def turns(run: Run) -> AsyncIterator[Values]:
    """Run turns of three steps on one thread. At each size close the store, measure it, and go on in a new session."""
    work = Work(TURN, run.sizes[-1])
    session = await run.warm(work)
    times: list[float] = []
    while run.sizes:
        with run.limited(lambda: (len(times), turns_of(times))):
            while len(times) < run.n:
                started = perf_counter()
                said = await session.turn("thread", work.question(len(times)))
                times.append(perf_counter() - started)
        check(said, work, run.n * (TURN + 1))
        values = turns_of(times)
        if run.stores:
            await session.close()
            values |= await run.stored(work, run.n * 2 * (TURN + 1))
            session = await run.open(work)
        yield values
    await session.close()


def turns_of(times: Sequence[float]) -> Values:
    """Return the milliseconds of the first and of the last turns, each the median of five."""
    part = min(5, len(times))
    if not part:
        return {}
    return {"first_ms": median(times[:part]) * 1e3, "last_ms": median(times[-part:]) * 1e3, "wall_s": sum(times)}


async def commits(run: Run) -> AsyncIterator[Values]:
    """Count the commits of one turn of n steps, or the files that are opened to write if nothing is a database."""
    counter = Commits(run.folder)
    work = Work(run.n)
    session = await run.warm(work)
    counter.commits = counter.writes = 0
    with run.limited(lambda: (len(work.asked_at), {})):
        await session.turn("thread", work.question(0))
    await session.close()
    yield {"commits": counter.commits or counter.writes}


class Commits:
    """Counts the transactions that write, by a trace of the statements on every SQLite connection of this process.

    A statement that changes something outside of BEGIN and COMMIT is a transaction.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.commits = self.writes = 0
        self.connect = sqlite3.connect
        sqlite3.connect = sqlite3.dbapi2.connect = self.traced
        sys.addaudithook(self.hear)

    def traced(self, *args: Any, **options: Any) -> sqlite3.Connection:
        connection = self.connect(*args, **options)
        connection.set_trace_callback(Statements(self))
        return connection

    def hear(self, event: str, args: Sequence[Any]) -> None:
        if event == "open" and str(args[0]).startswith(self.folder):
            self.writes += bool(args[2] & (os.O_WRONLY | os.O_RDWR))


class Statements:
    def __init__(self, counter: Commits) -> None:
        self.counter = counter
        self.is_open = self.wrote = False

    def __call__(self, statement: str) -> None:
        word = statement.lstrip().partition(" ")[0].upper().rstrip(";")
        if word == "BEGIN":
            self.is_open, self.wrote = True, False
        elif word in ("COMMIT", "END", "ROLLBACK"):
            self.counter.commits += self.wrote and word != "ROLLBACK"
            self.is_open = False
        elif word in ("INSERT", "UPDATE", "DELETE", "REPLACE"):
            self.wrote = True
            self.counter.commits += not self.is_open


class Requests:
    """Adds up what is sent. Keeps the last requests, of which the next one may repeat the beginning."""

    def __init__(self) -> None:
        self.characters = self.repeated = 0
        self.last: list[Sequence[str]] = []

    def __call__(self, request: Sequence[str]) -> None:
        self.characters += sum(map(len, request))
        self.repeated += max((repeated(before, request) for before in self.last), default=0)
        self.last = [*self.last[-2:], request]


def repeated(before: Sequence[str], request: Sequence[str]) -> int:
    """Return the characters of the parts with which both requests begin."""
    characters = 0
    for one, other in zip(before, request, strict=False):
        if one != other:
            break
        characters += len(one)
    return characters


async def request(run: Run) -> AsyncIterator[Values]:
    """Return the tokens, at four characters each, that the first request carries besides the question."""
    seen = Requests()
    work = Work(1, see=seen)
    session = await run.open(work)
    work.see = lambda request: (seen(request), setattr(work, "see", None))[0]
    await session.turn("thread", work.question(0))
    await session.close()
    yield {"overhead_tokens": (seen.characters - len(work.question(0))) / 4}


async def session(run: Run) -> AsyncIterator[Values]:
    """Run one turn of n steps; return the tokens of all requests, and the share of them that was sent before."""
    seen = Requests()
    work = Work(run.n, see=seen)
    opened = await run.open(work)
    with run.limited(lambda: (len(work.asked_at), {})):
        said = await opened.turn("thread", work.question(0))
    check(said, work, run.n + 1)
    await opened.close()
    yield {"input_tokens": seen.characters / 4, "cached_share": seen.repeated / seen.characters}


def check(said: str, work: Work, calls: int) -> None:
    if said != DONE or len(work.asked_at) != calls:
        raise AssertionError(f"the work was not done: {len(work.asked_at)} model calls, not {calls}; said {said!r}")


WORKS = {"steps": steps, "turns": turns, "commits": commits, "request": request, "session": session}

if __name__ == "__main__":
    main()
