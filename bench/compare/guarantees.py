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
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle, groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from .contender import about, load
from .trial import STEPS, THREAD, Child, Messages, Place, Trial, attempt, continued, in_child, read, run_turn

FATAL, LATENCY = 5, 0.05
FULL = 4096
"""The size that a file may have while the disk is full, in bytes: enough for the effects."""
NAMES = ("kill", "repeats", "conflict", "failed save")
PROMISED_NOT = ("turn", "repeats")


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
    work, until = Trial(place.folder, pause=LATENCY), time.monotonic() + 10

    async def run() -> str:
        async with place.session(work) as session:
            (place.folder / f"ready{turn}").touch()
            while len(list(place.folder.glob("ready*"))) < 2 and time.monotonic() < until:
                time.sleep(0.001)
            return await session.turn(THREAD, work.question(turn))

    return await attempt(run())


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


def held(lines: Iterable[dict[str, Any]]) -> bool:
    """Print what minideep does not keep of what it promises; `turn` alone may repeat finished calls."""
    ours = [line for line in lines if line["work"] == "guarantee" and "minideep" in line["contender"]]
    broken = [one for one in ours if one["verdict"] != "pass" and (one["configuration"], one["name"]) != PROMISED_NOT]
    for line in broken:
        print(f"bound: {line['contender']}, {line['configuration']}, {line['name']} DOES NOT HOLD: {line['seen']}")
    return not broken


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

    return run_alone(guarantees, table, __doc__, held=held)


if __name__ == "__main__":
    sys.exit(main())
