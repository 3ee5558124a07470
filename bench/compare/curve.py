"""Files in the state: the milliseconds and bytes of each of 50 rounds that write a new file of 160 KB each.

    python -m bench.compare.curve [--smoke | --full] [--only minideep,langgraph] [--out FILE.json]

A round plans, writes one file, and reflects; everything answers at once. Each turn runs in a process of its own, after
a small one that warms it up. A round ends when its reflection is asked; the last one when the turn has returned, so it
contains the save at the boundary. "A put" is the mean of the round's calls that write to the store. `stored` is the
folder of the store; after the last round its store is closed.
"""

import asyncio
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from operator import or_
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypedDict

from .work import WORDS

ROUNDS, SIZE = 50, 160 * 1024
EARLY, LATE = slice(2, 7), slice(-5, None)  # Rounds 3 to 7, whose middle is the fifth, and the last five.
CONFIGURATIONS = {
    "minideep": ("blueprint, turn", "blueprint, step", "bare, turn", "bare, step"),
    "langgraph": ("sync", "async", "exit", "sync, files on disk"),
}
LINE = "{:10} {:20} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>9} {:>10} {:>9}"
PLAN = {"role": "research-specialist", "instruction": "Write it."}


@cache
def text_of(part: int) -> str:
    """Return the text of a file: never the same as another one, and about as compressible as prose."""
    random, words, size = Random(part), list[str](), 0
    while size < SIZE:
        words.append(f"{random.choice(WORDS)} {random.randrange(10**4)}")
        size += len(words[-1]) + 1
    return " ".join(words)[:SIZE]


class Rounds:
    """Notes the milliseconds, the puts and the stored megabytes of each round."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.puts: list[float] = []
        self.values: dict[str, list[float]] = {"round_ms": [], "put_ms": [], "stored_mb": []}
        self.began = time.perf_counter()

    @contextmanager
    def put(self) -> Iterator[None]:
        """Time one call that writes to the store."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.puts.append((time.perf_counter() - began) * 1000)

    def end(self) -> None:
        """End a round. What it takes to note that is in none."""
        self.values["round_ms"].append((time.perf_counter() - self.began) * 1000)
        self.values["put_ms"].append(statistics.mean(self.puts) if self.puts else 0.0)
        self.puts = []
        self.values["stored_mb"].append(self.stored())
        self.began = time.perf_counter()

    def stored(self) -> float:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()) / 1e6

    def close(self) -> None:
        """Count again what the last round has left, now that its store is closed."""
        self.values["stored_mb"][-1] = self.stored()


# ---- minideep


def run_minideep(folder: Path, configuration: str, count: int) -> Rounds:
    from minideep import DiskCheckpointer

    rounds = Rounds(folder)

    class Timed(DiskCheckpointer):
        async def append(self, thread: Any, expected: Any, head: Any, *rest: Any, **how: Any) -> None:
            if head == expected:  # Merging segments, which no turn waits for.
                return await super().append(thread, expected, head, *rest, **how)
            with rounds.put():
                return await super().append(thread, expected, head, *rest, **how)

    shape, durability = configuration.split(", ")
    with Timed(folder) as store:
        make = make_blueprint if shape == "blueprint" else make_bare
        agent = make(rounds, count, store, durability)
        rounds.began = time.perf_counter()
        turn = asyncio.run(agent.run("Write all parts", "t"))
        rounds.end()
        assert turn.raise_for_status().saved
        assert len(agent.get_state("t").files) >= (count if shape == "bare" else 1)
    rounds.close()
    return rounds


def make_blueprint(rounds: Rounds, count: int, store: Any, durability: Any) -> Any:
    """Planner, a subagent that replies with the file, reflection, cleanup."""
    from minideep.blueprint import Blueprint
    from minideep.models import ScriptedModel

    decisions = [json.dumps({"decision": "replan", "reason": "a part is missing"})] * (count - 1)
    decisions.append(json.dumps({"decision": "end", "final_answer": "All parts are written."}))
    asked = iter(range(count))

    def reflect(request: object) -> str:
        if number := next(asked):
            rounds.end()
        return decisions[number]

    plans = [{"subtasks": [{**PLAN, "expected_artifact": f"part{part}.md"}], "reasoning": ""} for part in range(count)]
    return Blueprint(
        ScriptedModel([text_of(part) for part in range(count)]),
        planner_model=ScriptedModel([json.dumps(plan) for plan in plans]),
        reflection_model=ScriptedModel(reflect),
        max_reflection_depth=count + 1,
        checkpointer=store,
        durability=durability,
    )


def make_bare(rounds: Rounds, count: int, store: Any, durability: Any) -> Any:
    """One agent; its tool writes the file into the state of the thread, where nothing is evicted."""
    from minideep import Agent, ToolCall, ToolContext, tool
    from minideep.events import FileWritten
    from minideep.models import ScriptedModel

    @tool
    async def write(part: int, ctx: ToolContext) -> str:
        """Write a part."""
        data = text_of(part).encode()
        digest = hashlib.sha256(data).hexdigest()
        ctx.record(FileWritten(f"/part{part}.md", data.decode(), len(data), digest, time.time()))
        return f"part {part} is written"

    asked = iter(range(count + 1))

    def reply(request: object) -> str | ToolCall:
        if (number := next(asked)) > 0 and number < count:
            rounds.end()
        return ToolCall("write", {"part": number}) if number < count else "All parts are written."

    return Agent(ScriptedModel(reply), [write], checkpointer=store, durability=durability)


# ---- LangGraph


class Files(TypedDict):
    """The state of the published blueprint: every file stays in it."""

    messages: list
    plan: dict
    files: Annotated[dict, or_]
    step: int
    reflection_depth: int


def run_langgraph(folder: Path, configuration: str, count: int) -> Rounds:
    from langgraph.checkpoint.sqlite import SqliteSaver

    rounds = Rounds(folder)

    class Timed(SqliteSaver):
        def put(self, *args: Any, **how: Any) -> Any:
            with rounds.put():
                return super().put(*args, **how)

    durability, *apart = configuration.split(", ")
    with Timed.from_conn_string(str(folder / "graph.sqlite")) as saver:
        app = make_graph(rounds, count, folder / "files" if apart else None).compile(checkpointer=saver)
        begun = {"messages": ["Write all parts"], "plan": {}, "files": {}, "step": 0, "reflection_depth": 0}
        config = {"configurable": {"thread_id": "t"}, "recursion_limit": 4 * count + 10}
        rounds.began = time.perf_counter()
        state = app.invoke(begun, config, durability=durability)
        rounds.end()
        assert len(state["files"]) == count
    rounds.close()
    return rounds


def make_graph(rounds: Rounds, count: int, apart: Path | None) -> Any:
    """Plain nodes: planner, writer, reflection. With *apart* the writer writes to that folder and keeps the path."""
    from langgraph.graph import END, StateGraph

    def planner(state: Files) -> dict:
        return {"plan": {"subtasks": [{**PLAN, "expected_artifact": f"part{state['step']}.md"}]}}

    def writer(state: Files) -> dict:
        step, content = state["step"], text_of(state["step"])
        name, entry = f"part{step}.md", {"content": content, "written_at_step": step, "status": "done"}
        if apart:
            apart.mkdir(exist_ok=True)
            (apart / name).write_text(content)
            entry |= {"content": None, "disk_path": str(apart / name)}
        return {"files": {name: entry}, "step": step + 1}

    def reflection(state: Files) -> dict:
        if state["reflection_depth"]:
            rounds.end()
        return {"reflection_depth": state["reflection_depth"] + 1}

    graph = StateGraph(Files)
    for node in (planner, writer, reflection):
        graph.add_node(node.__name__, node)
    graph.set_entry_point("planner")
    for before, after in pairwise(("planner", "writer", "reflection")):
        graph.add_edge(before, after)
    graph.add_conditional_edges("reflection", lambda state: "planner" if state["reflection_depth"] < count else END)
    return graph


# ---- one measurement, and the table of all

RUN = {"minideep": run_minideep, "langgraph": run_langgraph}
NOTE = """A round plans, writes one file of 160 KB, and reflects; everything answers at once. Medians of all repeats. A
put: the mean of a round's calls that write a checkpoint to the store. The last round contains the save at the end of
the turn. Stored: the folder of the store half-way, and when it is closed. "bare" is an Agent whose tool writes the
file; "files on disk" a node that writes it beside the store, by hand, and keeps its path in the state."""


def measure(contender: str, configuration: str, count: int) -> dict[str, list[float]]:
    """Warm up with a turn of two rounds, then return the values of each of *count* rounds."""
    for part in range(count):
        text_of(part)
    for rounds in (2, count):
        with tempfile.TemporaryDirectory() as folder:
            run = RUN[contender](Path(folder), configuration, rounds)
    return run.values


def table(lines: Iterable[dict[str, Any]]) -> str:
    """Return early against late, what is stored, and the whole turn."""
    head = ("", "", "a round", "a round", "late /", "the last", "a put", "a put", "stored", "stored", "the turn")
    under = ("", "", "3-7, ms", "late, ms", "early", "round", "3-7, ms", "late, ms", "half, MB", "all, MB", "s")
    rows = [row_of(line) for line in lines if line["work"] == "curve"]
    return "\n".join(["Files in the state", LINE.format(*head), LINE.format(*under), *rows, NOTE])


def row_of(line: dict[str, Any]) -> str:
    values = line["values"]
    early, late = (middle(run[part] for run in values["round_ms"]) for part in (EARLY, LATE))
    puts = [middle([put for put in run[part] if put] for run in values["put_ms"]) for part in (EARLY, LATE)]
    whole = statistics.median(sum(run) for run in values["round_ms"]) / 1000
    half, end = (statistics.median(run[at] for run in values["stored_mb"]) for at in (line["n"] // 2 - 1, -1))
    last = statistics.median(run[-1] for run in values["round_ms"])
    shown = (early, late, early and late / early, last, *puts, half, end)
    texts = [f"{value:,.1f}" if value else "-" for value in shown]
    return LINE.format(line["contender"], line["configuration"], *texts, f"{whole:.2f}")


def middle(parts: Iterable[Iterable[float]]) -> float:
    """Return the median over all repeats; 0 if nothing was measured."""
    return statistics.median([value for part in parts for value in part] or [0.0])


def main() -> int:
    if sys.argv[1:2] and sys.argv[1].startswith("{"):
        task = json.loads(sys.argv[1])
        for one in task["measurements"]:
            (n,) = one.pop("sizes")
            values = measure(task["contender"], one["configuration"], n)
            line = {"contender": task["contender"], **one, "n": n, "stopped_at": None, "values": values}
            print(json.dumps(line), flush=True)
        return 0
    from .alone import run_alone  # A measurement does not import it.
    from .plan import curves

    return run_alone(curves, table, __doc__, repeat=True)


if __name__ == "__main__":
    sys.exit(main())
