"""What each contender keeps when something goes wrong: a kill, two turns at once, a disk that is full.

    python -m bench.compare.guarantees [--smoke | --full] [--only minideep,langgraph] [--out FILE.json]

Every scenario begins with a thread that has one finished turn of 8 steps, and then uses real processes on a real disk.

    kill         the process dies (SIGKILL) in its second turn: half of the times in the tool of step 5, half in the
                 model call that would ask for it. Another process looks at the thread and resumes it; if the user's
                 message is not there, or nothing can be resumed, it is sent again, as a user would.
                 Pass: the message was there, the turn was resumed to its answer, and in the end nothing is missing.
    repeats      the tool calls that ran twice in the course of that. Pass: at most the call that the kill caught.
    conflict     two processes, then two threads of one process, run a turn each on the same thread at the same time.
                 Pass: every turn that returned an answer is stored whole, and each call is followed by its result,
                 as providers demand. An error is a refusal, and no loss.
    failed save  from the tool of step 5 on no file may grow (RLIMIT_FSIZE), until the turn has returned or raised. If
                 it raised, it is resumed or sent again; then a third turn runs, and another process reads the thread.
                 Pass: nothing is missing in the end, and no call but that of step 5 ran twice.

A model takes 50 ms, a tool no time. Effects are lines that the tool appends to a file.
"""

import asyncio
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import combinations, cycle, groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from .contender import Contender, Session, about, load
from .work import DONE, Work

STEPS, FATAL, LATENCY, PATIENCE = 8, 5, 0.05, 120
FULL = 4096
"""The size that a file may have while the disk is full, in bytes: enough for the effects."""
THREAD = "t"
NAMES = ("kill", "repeats", "conflict", "failed save")
FORK = multiprocessing.get_context("fork")  # The imports of a contender are made once.

Messages = list[tuple[str, str]]


class Trial(Work):
    """The work on one thread. What *trap* does happens when *place*, "tool" or "model", reaches *page*."""

    def __init__(
        self, folder: Path, trap: Callable[[], None] | None = None, place: str = "", page: int = -1, pause: float = 0
    ) -> None:
        super().__init__(STEPS, turns=4)
        self.folder = folder
        self.trap = trap
        self.trapped = place, page
        self.pause = pause

    def read(self, page: int) -> str:
        with (self.folder / "effects").open("a") as effects:
            effects.write(f"{page}\n")
        self.reached("tool", page)
        return super().read(page)

    def reply(self, last: str, request: Callable[[], Sequence[str]]) -> int | None:
        time.sleep(self.pause)
        page = super().reply(last, request)
        self.reached("model", page)
        return page

    def reached(self, place: str, page: int | None) -> None:
        if self.trap and self.trapped == (place, page):
            self.trap()

    def effects(self, turn: int) -> Counter[int]:
        """Return how often each call of a turn ran, by its step."""
        lines = (self.folder / "effects").read_text().split()
        pages = (int(line) - turn * STEPS for line in lines)
        return Counter(page + 1 for page in pages if 0 <= page < STEPS)

    def missing(self, messages: Messages, turns: Iterable[int]) -> list[str]:
        """Return what of some finished turns is not in the messages, or is there twice."""
        found, turns = list[str](), list(turns)
        for turn in turns:
            asked = sum(self.question(turn) in text for role, text in messages if role == "user")
            pages = self.pages[turn * STEPS : (turn + 1) * STEPS]
            results = Counter(sum(page in text for role, text in messages if role != "assistant") for page in pages)
            parts = [("the user's message", 1 - asked), ("results", results[0])]
            found += [f"{name} of turn {turn + 1}" for name, lacking in parts if lacking > 0]
            if asked > 1 or any(times > 1 for times in results):
                found.append(f"turn {turn + 1} is there twice")
        found += ["an answer"] * (sum(DONE in text for _, text in messages) < len(turns))
        asks = [role == "assistant" and DONE not in text for role, text in messages]
        answered = [role == "tool" for role, _ in messages[1:]] + [False]
        torn = any(ask and not result for ask, result in zip(asks, answered, strict=True))
        return found + ["the order of calls and results"] * torn

    def is_mixed(self, messages: Messages, turns: Iterable[int]) -> bool:
        """Return True if messages of one of the turns stand among those of another one."""
        spans = list[range]()
        for turn in turns:
            texts = [self.question(turn), *self.pages[turn * STEPS : (turn + 1) * STEPS]]
            at = [place for place, (_, text) in enumerate(messages) if any(one in text for one in texts)]
            spans.append(range(min(at, default=0), max(at, default=0) + 1))
        return any(range(max(a.start, b.start), min(a.stop, b.stop)) for a, b in combinations(spans, 2))


class Place(NamedTuple):
    """A contender in one configuration, and the folder of a trial."""

    contender: Contender
    configuration: str
    folder: Path
    many: bool
    """False if a thread can have one turn only."""

    @property
    def before(self) -> tuple[int, ...]:
        """The turns that a thread has before the one of the scenario."""
        return (0,) if self.many else ()

    @asynccontextmanager
    async def session(self, work: Work) -> AsyncIterator[Session]:
        (store := self.folder / "store").mkdir(exist_ok=True)
        session = await self.contender.open(self.configuration, store, work)
        try:
            yield session
        finally:
            await session.close()


# ---- processes


class Child:
    """A forked process that runs a coroutine function and hands back what it returned."""

    def __init__(self, act: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self.answer, answer = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=_in_child, args=(answer, act, args))
        self.process.start()
        answer.close()

    def result(self) -> Any:
        """Return what it returned, or None if it was killed.

        Raises:
            RuntimeError: it raised, or it does not end.
        """
        try:
            if not self.answer.poll(PATIENCE):
                self.process.kill()
                raise RuntimeError(f"a process did not end within {PATIENCE} s")
            result, problem = self.answer.recv()
        except EOFError:
            result, problem = None, ""
        self.process.join()
        if problem:
            raise RuntimeError(f"{problem}: {result}")
        return result


def _in_child(answer: Any, act: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # What a contender logs about the failures.
        os.dup2(quiet, stream)
    answer.send(asyncio.run(outcome(act(*args))))


async def outcome(act: Awaitable[Any]) -> tuple[Any, str]:
    """Return what *act* returns, and the name of the exception if it raised one."""
    try:
        return await act, ""
    except Exception as problem:  # noqa: BLE001  Whatever a contender raises is its outcome.
        return str(problem), type(problem).__name__


def in_child(act: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    return Child(act, *args).result()


async def attempt(turn: Awaitable[str]) -> str:
    """Return "" if *turn* ends with its answer, or else what came instead."""
    text, problem = await outcome(turn)
    return problem or ("" if text == DONE else "another answer")


async def run_turn(place: Place, work: Trial, turn: int) -> str:
    async with place.session(work) as session:
        return await attempt(session.turn(THREAD, work.question(turn)))


async def read(place: Place) -> Messages:
    """Return what a new session finds. A store that it cannot read has no message but the name of the error."""

    async def messages() -> Messages:
        async with place.session(Trial(place.folder)) as session:
            return await session.messages(THREAD)

    found, problem = await outcome(messages())
    return [("unreadable", problem)] if problem else found


async def continued(place: Place, work: Trial, turn: int) -> tuple[Messages, bool, str]:
    """Look at a turn that was cut short, and resume it or send its message again.

    Return what was there, True if it was resumed, and what was raised.
    """
    there = await read(place)
    async with place.session(work) as session:
        if any(work.question(turn) in text for role, text in there if role == "user"):
            problem = await attempt(session.resume(THREAD))
            if problem != "LookupError":
                return there, True, problem
        return there, False, await attempt(session.turn(THREAD, work.question(turn)))


# ---- kill, and what runs again


class Killed(NamedTuple):
    """What became of one thread."""

    kept: Messages
    resumed: bool
    problem: str
    missing: list[str]
    effects: Counter[int]
    caught: bool
    """True if the kill came in the tool."""


def kill(place: Place, where: str) -> Killed:
    trap = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
    doomed = Trial(place.folder, trap, where, STEPS + FATAL - 1, LATENCY)
    if (said := in_child(run_turn, place, doomed, 1)) is not None:
        raise RuntimeError(f"the turn was not killed: {said}")
    work = Trial(place.folder, pause=LATENCY)
    kept, resumed, problem = in_child(continued, place, work, 1)
    missing = work.missing(in_child(read, place), (*place.before, 1))
    return Killed(kept, resumed, problem, missing, work.effects(1), where == "tool")


def judge_kills(runs: list[Killed]) -> tuple[bool, str]:
    work, seen = Trial(Path()), Counter[str]()
    for run in runs:
        there = any(work.question(1) in text for role, text in run.kept if role == "user")
        results = sum(any(page in text for _, text in run.kept) for page in work.pages[STEPS : STEPS + FATAL - 1])
        start = f"resumed with {results} of {FATAL - 1} results" if run.resumed else "the message is there, no way on"
        words = [start if there else "the user's message is lost"]
        words += [f"the store is unreadable ({text})" for role, text in run.kept if role == "unreadable"]
        words += [f"it raised {run.problem}"] * bool(run.problem)
        words += [f"in the end without {', '.join(run.missing)}"] * bool(run.missing)
        seen["; ".join(words)] += 1
    good = all(run.resumed and not run.problem and not run.missing for run in runs)
    return good, counted(seen, len(runs))


def judge_repeats(runs: list[Killed]) -> tuple[bool, str]:
    again = Counter(step for run in runs for step, times in run.effects.items() if times > 1)
    finished = [step for run in runs for step, times in run.effects.items() if times > 1 and step < FATAL]
    return not finished, repeated(again, len(runs), sum(run.caught for run in runs))


def counted(seen: Counter[str], of: int) -> str:
    return "; ".join(f"{count} of {of}: {words}" for words, count in seen.most_common())


def repeated(again: Counter[int], of: int, caught: int) -> str:
    """Say which calls ran twice, and how often."""
    counts = groupby(sorted(again), key=lambda step: again[step])
    words = [f"{calls(list(steps))} in {count} of {of}" for count, steps in counts]
    return f"{', '.join(words) or 'none'} (call {FATAL} was running in {caught})"


def calls(steps: Sequence[int]) -> str:
    """Name calls by their steps."""
    if len(steps) == 1:
        return f"call {steps[0]}"
    in_a_row = steps[-1] - steps[0] == len(steps) - 1
    return f"calls {steps[0]} to {steps[-1]}" if in_a_row else f"calls {', '.join(map(str, steps))}"


# ---- two turns at once


async def meet(place: Place, turn: int) -> str:
    """Run a turn as soon as the other one is ready, too."""
    work = Trial(place.folder, pause=LATENCY)
    async with place.session(work) as session:
        (place.folder / f"ready{turn}").touch()
        while len(list(place.folder.glob("ready*"))) < 2:
            time.sleep(0.001)
        return await attempt(session.turn(THREAD, work.question(turn)))


async def meet_in_threads(place: Place) -> list[str]:
    said = dict[int, str]()
    threads = [threading.Thread(target=lambda t=turn: said.update({t: asyncio.run(meet(place, t))})) for turn in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [said.get(turn, "nothing") for turn in (1, 2)]


class Met(NamedTuple):
    """What became of two turns at once."""

    who: str
    raised: list[str]
    missing: list[str]
    mixed: bool


def conflict(place: Place, who: str) -> Met:
    if who == "threads":
        said = in_child(meet_in_threads, place)
    else:
        said = [child.result() for child in [Child(meet, place, turn) for turn in (1, 2)]]
    done = [*place.before, *(turn for turn, problem in enumerate(said, 1) if not problem)]
    work, messages = Trial(place.folder), in_child(read, place)
    return Met(
        who, [problem for problem in said if problem], work.missing(messages, done), work.is_mixed(messages, done)
    )


def judge_conflicts(runs: list[Met]) -> tuple[bool, str]:
    words = list[str]()
    for who, group in groupby(runs, key=lambda run: run.who):
        seen = Counter(met_in_words(run) for run in group)
        words.append(f"{who}: {counted(seen, seen.total())}")
    return not any(run.missing for run in runs), "; ".join(words)


def met_in_words(run: Met) -> str:
    what = f"refused with {' and '.join(run.raised)}" if run.raised else "both answered"
    lost = ", ".join(part.partition(" of turn ")[0] for part in run.missing)  # Which of the two is a matter of chance.
    end = f"lost: {lost}" if run.missing else "all there, but mixed" if run.mixed else "all there"
    return f"{what}, {end}"


# ---- a save that fails


def fill_disk() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def free_disk() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)


async def suffer(place: Place) -> dict[str, Any]:
    """Run a turn on a disk that is full from step 5 on, recover when it is free again, and run another turn."""
    work = Trial(place.folder, fill_disk, "tool", STEPS + FATAL - 1, LATENCY)
    said: dict[str, Any] = {"recovery": "", "resumed": False, "later": ""}

    async with place.session(work) as session:
        said["problem"] = await attempt(session.turn(THREAD, work.question(1)))
        free_disk()
        work.trap, said["calls"] = None, len(work.asked_at)
        if place.before and not said["problem"]:
            said["later"] = await attempt(session.turn(THREAD, work.question(2)))
    if said["problem"]:
        _, said["resumed"], said["recovery"] = await continued(place, work, 1)
        if place.before:
            said["later"] = await run_turn(place, work, 2)
    return said


def failed_save(place: Place) -> tuple[bool, str]:
    said, work = in_child(suffer, place), Trial(place.folder)
    missing = work.missing(in_child(read, place), (*place.before, 1, *(turn + 2 for turn in place.before)))
    again = sorted(step for step, times in work.effects(1).items() if times > 1)
    words = ["the answer is returned"]
    if said["problem"]:
        words = [f"{said['problem']} after {said['calls']} of {STEPS + 1} model calls"]
        words.append("resumed" if said["resumed"] else "sent again")
        words += [f"{calls(again)} ran again"] if again else []
    words += [f"then {said[at]}" for at in ("recovery", "later") if said[at]]
    words.append(f"missing in the end: {', '.join(missing)}" if missing else "all is stored in the end")
    good = not (missing or said["recovery"] or said["later"] or [step for step in again if step != FATAL])
    return good, "; ".join(words)


# ---- one contender, and the table of all


def stores(contender: str) -> list[str]:
    """Return the configurations that keep threads on a disk, but none that differs from another only in who awaits."""
    kept = [name for name, kept in about(contender).configurations.items() if kept == "disk" and name != "compaction"]
    return [name for name in kept if not name.startswith("ainvoke ") or name.split()[-1] not in kept]


def judge(contender: str, configuration: str, kills: int) -> Iterator[tuple[str, str]]:
    """Put a configuration of a contender through everything; yield verdicts, and what was seen, in order of `NAMES`."""
    if configuration not in stores(contender):
        yield from [("no store", "it keeps no threads")] * len(NAMES)
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Place(load(contender), configuration, Path(folder), "turns" not in about(contender).cannot)
        for good, seen in verdicts(place, kills):
            yield "pass" if good else "fail", seen


def verdicts(begun: Place, kills: int) -> Iterator[tuple[bool, str]]:
    """Begin a thread, and judge what becomes of copies of it."""
    for turn in begun.before:
        if problem := asyncio.run(run_turn(begun, Trial(begun.folder), turn)):  # It also imports all that is lazy.
            raise RuntimeError(f"{begun.configuration}: an ordinary turn raised {problem}")

    def copied(act: Callable[..., Any], *args: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(begun.folder, folder, dirs_exist_ok=True)
            return act(begun._replace(folder=Path(folder)), *args)

    runs = [copied(kill, where) for where in sorted(islice(cycle(("tool", "model")), kills))]
    yield judge_kills(runs)
    yield judge_repeats(runs)
    tries = range(max(1, kills // 2))
    yield judge_conflicts([copied(conflict, who) for who in ("processes", "threads") for _ in tries])
    yield copied(failed_save)


def table(lines: Iterable[dict[str, Any]]) -> str:
    """Return a line of verdicts for each configuration, and below them what was seen."""
    form = "{:16} {:14}" + " {:12}" * len(NAMES)
    rows, details = [form.format("", "", *NAMES).rstrip()], list[str]()
    found = [line for line in lines if line["work"] == "guarantee"]
    for (contender, configuration), group in groupby(
        found, key=lambda line: (line["contender"], line["configuration"])
    ):
        by_name = {line["name"]: line for line in group}
        rows.append(form.format(contender, configuration, *(by_name[name]["verdict"] for name in NAMES)).rstrip())
        if by_name["kill"]["verdict"] != "no store":
            details.append(f"{contender}, {configuration}")
            details += [f"  {name:12} {by_name[name]['seen']}" for name in NAMES]
    return "\n".join(["Guarantees", *rows, "", "What was seen", *details])


def main() -> int:
    if sys.argv[1:2] and sys.argv[1].startswith("{"):
        task = json.loads(sys.argv[1])
        for one in {one["configuration"]: one for one in task["measurements"]}.values():
            line = {"contender": task["contender"], "configuration": one["configuration"], "work": "guarantee"}
            for number, (verdict, seen) in enumerate(judge(task["contender"], one["configuration"], one["kills"])):
                said = {"name": NAMES[number], "verdict": verdict, "seen": seen}
                print(json.dumps({**line, "n": number, "stopped_at": None, **said}), flush=True)
        return 0
    from .alone import run_alone  # A measurement does not import it.
    from .plan import guarantees

    return run_alone(guarantees, table, __doc__)


if __name__ == "__main__":
    sys.exit(main())
