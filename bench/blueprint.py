"""Measure a turn of a blueprint that writes much: 50 rounds, each with a new file of 160 KB, on a real store.

    python bench/blueprint.py

A round is planner, one subtask, reflection and cleanup, with models that answer at once. Prints with bounds: appends;
the size of the state; late rounds against early ones; saving 50 rounds against saving 5; with `durability="step"` the
appends of a late round against those of an early one; a wave of 8 subtasks against a wave of 1. Each turn has a process
of its own, because memory that another one has used is faster. `bench.compare.curve` has the rounds beside LangGraph's.
"""

import asyncio
import pickle
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from multiprocessing import get_context
from time import perf_counter
from typing import Any, NamedTuple

from boundary import prose
from bounds import bound, verdict

from minideep import Agent, DiskCheckpointer
from minideep.blueprint import Blueprint
from minideep.checkpoint import format as codec
from minideep.costs import Costs
from minideep.models import ScriptedModel
from minideep.plain_json import to_json

RUNS, FEW, ROUNDS = 7, 5, 50
EARLY, LATE = slice(2, 7), slice(-5, None)  # Rounds 3 to 7, and the last 5.
TEXTS = [prose(160 * 1024) for _ in range(ROUNDS)]


def fresh(act: Callable[..., Any], *how: Any) -> list[Any]:
    """Call *act* several times, each in a new process, and return the results."""
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        return pool.starmap(act, [how] * RUNS, chunksize=1)


def middle(times: Iterable[float]) -> float:
    """Return the median, in milliseconds."""
    return statistics.median(times) * 1000


def early_and_late(what: str, runs: list[list[float]], most: float) -> None:
    """Print the medians of early and late rounds, in the best of all runs for each round."""
    best = [min(times) for times in zip(*runs, strict=True)]
    early, late = middle(best[EARLY]), middle(best[LATE])
    bound(f"{what}: {early:.2f} ms early, {late:.2f} ms late, ratio", late / early, most)


class Counting(DiskCheckpointer):
    """Notes the seconds of each append that moves the head; one that merges segments does not."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.appends: list[float] = []

    async def append(self, thread, expected, head, rows, deletes=(), **how):
        started = perf_counter()
        await super().append(thread, expected, head, rows, deletes, **how)
        if head != expected:
            self.appends.append(perf_counter() - started)


class Lived(NamedTuple):
    """The measurements of one turn, in seconds and bytes."""

    seconds: float
    rounds: list[float]
    """From one question to reflection to the next."""
    appends: list[float]
    """Of the turn, in the store alone."""
    appending: list[float]
    """The same, a round."""
    costs: Costs
    state: int
    pickled: int
    file: int


def plan(*names: str) -> str:
    whose = {"role": "research-specialist", "instruction": "Write it."}
    return to_json({"subtasks": [{**whose, "expected_artifact": name} for name in names], "reasoning": ""}).decode()


def decisions(rounds: int) -> Iterator[str]:
    """Yield the replies of reflection."""
    for count in range(1, rounds):
        yield to_json({"decision": "replan", "reason": f"part {count + 1} is missing"}).decode()
    yield '{"decision": "end", "final_answer": "All parts are written."}'


def live(rounds: int, durability: Any) -> Lived:
    """Run one turn of *rounds* rounds in a new store that is already open."""
    said, marks = decisions(rounds), list[tuple[float, int]]()

    def reflect(request: object) -> str:
        marks.append((perf_counter(), len(store.appends)))
        return next(said)

    with tempfile.TemporaryDirectory() as folder:
        with Counting(folder) as store:
            Agent(ScriptedModel(["hello"]), checkpointer=store).run_sync("hello")
            agent = Blueprint(
                ScriptedModel(TEXTS),
                planner_model=ScriptedModel(plan(f"part{count}.md") for count in range(rounds)),
                reflection_model=ScriptedModel(reflect),
                max_reflection_depth=60,
                checkpointer=store,
                durability=durability,
            )
            store.appends.clear()
            marks.append((perf_counter(), 0))
            turn = agent.run_sync("Write all parts", "t")
            seconds = perf_counter() - marks[0][0]
            assert turn.raise_for_status().saved
            state = agent.get_state("t")
        sizes = len(codec.encode_state(state)), len(pickle.dumps(state)), store.size()
    passed = [end - start for (start, _), (end, _) in pairwise(marks)]
    appending = [sum(store.appends[start:end]) for (_, start), (_, end) in pairwise(marks)]
    return Lived(seconds, passed, store.appends, appending, turn.costs, *sizes)


def turns() -> None:
    few, many, stepwise = fresh(live, FEW, "turn"), fresh(live, ROUNDS, "turn"), fresh(live, ROUNDS, "step")
    one, costs = many[-1], many[-1].costs
    print(f"a turn of {ROUNDS} rounds that each write 160 KB: {middle(life.seconds for life in many):.0f} ms")
    print(f"  {costs.bytes_raw:,} B of events and files, {costs.bytes_stored:,} B stored; database file {one.file:,} B")
    bound("appends", len(one.appends), 2)
    bound("the state at the end, in its own encoding", one.state / 1000, 500, "KB")
    bound("the state at the end, pickled", one.pickled / 1000, 500, "KB")
    early_and_late("a round of 4 steps", [life.rounds for life in many], 1.5)
    short, long = (middle(life.costs.save_s for life in lives) for lives in (few, many))
    bound(f"saving {FEW} rounds {short:.1f} ms, {ROUNDS} rounds {long:.1f} ms, ratio", long / short, 13)
    appends, stored = len(stepwise[-1].appends), stepwise[-1].costs.bytes_stored
    print(f'the same with durability="step": {appends} appends, {stored:,} B stored')
    early_and_late("a round and saving it", [life.rounds for life in stepwise], 2)
    early_and_late("its appends", [life.appending for life in stepwise], 2)


def wave(width: int) -> float:
    """Return the seconds of a turn with one wave of *width* subtasks of 50 ms each."""
    agent = Blueprint(
        ScriptedModel(lambda request: asyncio.sleep(0.05, "done")),
        planner_model=ScriptedModel([plan(*(f"part{count}.md" for count in range(width)))]),
        reflection_model=ScriptedModel(decisions(1)),
    )
    started = perf_counter()
    agent.run_sync("Write all parts").raise_for_status()
    return perf_counter() - started


def fan_out() -> None:
    one, eight = (middle(wave(width) for _ in range(RUNS)) for width in (1, 8))
    print("a turn of one wave, with a model that takes 50 ms")
    bound(f"1 subtask {one:.1f} ms, 8 subtasks {eight:.1f} ms, ratio", eight / one, 1.3)


def main() -> int:
    turns()
    fan_out()
    return verdict()


if __name__ == "__main__":
    sys.exit(main())
