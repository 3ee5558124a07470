"""The results as tables for a terminal, and the bounds that they are held to."""

from collections.abc import Iterable
from typing import NamedTuple

from .contender import about
from .results import Results

OURS = {"caller": "none", "memory": "memory", "disk": "turn"}
"""minideep's configuration that a row is compared with: where its threads are kept in the same place."""
DEEP = ("deep_minideep", "deepagents")
NOTES = {
    "A step": """From one model call to the next in the last tenth of one turn of N steps, in microseconds. Model and
tools answer at once, so that a real step takes as much longer as they do. x: times minideep's row that keeps threads
in the same place (create_deep_agent's for deepagents, Agent's for all others). Saving that goes on after a model call
is in it as far as it delays the next one; the whole turn with everything saved is in "Loop and storage apart". A value
with > is that at the moment at which the work was stopped.""",
    "A turn": """The latency of a turn of three steps on one thread: the median of its first five and of its last five,
in milliseconds. "none": the caller or the agent keeps the messages. Reading the thread before each turn and saving it
after it are in it where a contender does that.""",
    "On the disk": """What is there after the store was closed, and the time of opening it and reading the thread again
in the same process. Commits: SQLite transactions that write in one turn of 200 steps; files opened to write if there
is no database. Their price on a real disk, one or more fsyncs each, depends on the disk and is not in any figure.
minideep makes a reserve of 1 MiB with each store, which is in its bytes.""",
    "A start": """Importing a contender with its scripted model and building an agent, in a fresh process with compiled
bytecode, over what Python and this program had loaded. Memory: the process after it. A provider's SDK is in it where
the contender imports one by then; minideep imports it with the first request. The last two columns: one more agent.""",
    "Tokens": """At four characters each, with requests written as OpenAI's chat API takes them. Overhead: the first
request without the question. A session is one turn: the sum of all its requests, summaries included, and the share of
them that an earlier request began with, which a provider's prefix cache can hold. With "compaction" the model has a
window of 64,000 tokens; without, none compacts; agno compacts between turns alone. The texts of real tools and
summaries differ.""",
    "Loop and storage apart": """Microseconds a step of a whole turn of N steps, with everything saved: the loop with no
store; what a store in memory adds, which is encoding or copying; and what a disk adds to that (to the loop, if there
is no store in memory). minideep without a store has one of its own in memory, and encodes events as it goes. A minus is
noise, or a way that is shorter with a store.""",
}


class Row(NamedTuple):
    contender: str
    configuration: str

    @property
    def title(self) -> str:
        said = about(self.contender)
        return f"{said.title}, {self.configuration}" if self.configuration else said.title

    @property
    def kept(self) -> str:
        return about(self.contender).configurations.get(self.configuration, "caller")

    @property
    def ours(self) -> "Row":
        """Return minideep's row that this one is compared with."""
        configuration = self.configuration if self.configuration in ("", "compaction") else OURS[self.kept]
        deep = self.contender in DEEP or configuration == "compaction"
        return Row("deep_minideep" if deep else "minideep", configuration)


class Column(NamedTuple):
    """A value of a work at a size; *scale* brings it to the unit in the head."""

    head: str
    work: str
    n: int
    value: str
    scale: float = 1.0
    ratio: bool = True


def tables(results: Results) -> str:
    n, t, s = (sizes(results, work) for work in ("steps", "turns", "session"))
    middle = 200 if 200 in n else n[-1] if n else 0
    steps = [Column(f"N={one:,}", "steps", one, "late_us") for one in n]
    turns = [Column("first", "turns", one, "first_ms", ratio=False) for one in t[-1:]]
    turns += [Column(f"last of {one}", "turns", one, "last_ms") for one in t]
    disk = [Column(f"{one} turns, KB", "turns", one, "disk_bytes", 1e-3) for one in t]
    disk += [Column(f"{middle} steps, KB", "steps", middle, "disk_bytes", 1e-3)]
    disk += [Column("commits", "steps", middle, "commits")]
    disk += [Column(f"load {one} turns, ms", "turns", one, "load_ms") for one in t[-1:]]
    disk += [Column("most memory, MB", "steps", n[-1] if n else 0, "peak_rss_mb", ratio=False)]
    start = [("import, ms", "import_ms"), ("memory, MB", "rss_mb"), ("modules", "modules")]
    start += [("build, ms", "build_ms"), ("build, KiB", "build_kib")]
    tokens = [Column("overhead", "request", 0, "overhead_tokens")]
    tokens += [Column(f"{one} steps, 1,000", "session", one, "input_tokens", 1e-3) for one in s]
    tokens += [Column(f"repeated at {one}", "session", one, "cached_share", 100, ratio=False) for one in s]
    spread = [Column(f"from - to at {middle}", "steps", middle, "late_us")] if results.rounds > 1 else []
    return "\n\n".join(
        [
            table(results, "A step", steps, spread),
            table(results, "A turn", turns),
            table(results, "On the disk", disk, stored=True),
            table(results, "A start", [Column(head, "import", 0, value) for head, value in start]),
            table(results, "Tokens", tokens),
            apart(results, middle),
        ]
    )


def sizes(results: Results, work: str) -> list[int]:
    return sorted({n for _, _, found, n in results.measurements if found == work})


def table(
    results: Results, title: str, columns: list[Column], spread: Iterable[Column] = (), stored: bool = False
) -> str:
    """Return a table with a row for each configuration that has one of the values."""
    works = {column.work for column in columns}
    rows: dict[Row, None] = {}
    for contender, configuration, work, _ in results.measurements:
        row = Row(contender, configuration)
        if work in works and (not stored or row.kept == "disk"):
            rows[row] = None
    lines = [["", *(column.head for column in columns), *(column.head for column in spread)]]
    for row in sorted(rows, key=lambda row: place(results, row)):
        cells = [cell(results, row, column) for column in columns]
        lines.append(
            [row.title, *cells, *(from_to(results, row, column) for column in spread), cut(results, row, works)]
        )
    return f"{title}\n{aligned(lines)}\n{NOTES[title]}"


def place(results: Results, row: Row) -> tuple[int, int]:
    configurations = [*about(row.contender).configurations]
    known = row.configuration in configurations
    return results.contenders.index(row.contender), configurations.index(row.configuration) if known else -1


def cell(results: Results, row: Row, column: Column) -> str:
    """Return a value, and how many times minideep's it is."""
    value = results.one(*row, column.work, column.n, column.value)
    if value is None:
        return "-"
    ours = results.one(*row.ours, column.work, column.n, column.value)
    cut = results.stopped(*row, column.work)
    text = f"{'>' * bool(cut and cut[0] == column.n)}{number(value * column.scale)}"
    return f"{text} x{number(value / ours)}" if ours and column.ratio and row.ours != row else text


def from_to(results: Results, row: Row, column: Column) -> str:
    found = results.all(*row, column.work, column.n, column.value)
    return f"{number(min(found))} - {number(max(found))}" if found else "-"


def cut(results: Results, row: Row, works: Iterable[str]) -> str:
    """Say where a row was stopped."""
    found = [(work, results.stopped(*row, work)) for work in sorted(works)]
    return ", ".join(f"stopped at {at[1]:,} of {at[0]:,} {work}" for work, at in found if at)


def number(value: float) -> str:
    """Return a number with three digits that count."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def aligned(lines: list[list[str]]) -> str:
    widths = [max(len(line[at]) for line in lines if at < len(line)) for at in range(max(map(len, lines)))]
    texts = [
        "  ".join(
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=False))
        )
        for line in lines
    ]
    return "\n".join(text.rstrip() for text in texts)


def apart(results: Results, n: int) -> str:
    """Return the table that subtracts: a loop, what a store in memory adds, and what each disk adds."""
    lines = [["", "loop", "+ memory", "+ disk", "together"]]
    for contender in results.contenders:
        configurations = about(contender).configurations
        for configuration, kept in configurations.items():
            entry = configuration.split()[0]  # "ainvoke exit" has the loop of "ainvoke".
            names = (entry, "") if configurations[entry] == "caller" else ("none", "memory")
            loop, memory, whole = (
                results.one(contender, name, "steps", n, "step_us") for name in (*names, configuration)
            )
            if kept != "disk" or configuration == "compaction" or loop is None or whole is None:
                continue
            before = memory if memory is not None else loop
            cells = [number(loop), number(before - loop) if memory is not None else "-", number(whole - before)]
            lines.append([Row(contender, configuration).title, *cells, number(whole)])
    return f"Loop and storage apart, N={n}\n{aligned(lines)}\n{NOTES['Loop and storage apart']}"


# ---- bounds

SAVERS = tuple(Row("langgraph", name) for name, kept in about("langgraph").configurations.items() if kept == "disk")


class Promise(NamedTuple):
    """*ours* is at most one *least*th of the least of *theirs*."""

    text: str
    work: str
    n: int
    value: str
    ours: Row
    theirs: tuple[Row, ...]
    least: float

    def ratio(self, results: Results) -> float | None:
        """Return how many times ours the least of theirs is; None if one was not measured.

        If theirs was stopped before, it is its value at that moment, which is less than at the end.
        """
        ours = results.one(*self.ours, self.work, self.n, self.value)
        stops = [results.stopped(*row, self.work) for row in self.theirs]
        sizes = [min(self.n, stop[0]) if stop else self.n for stop in stops]
        found = [results.one(*row, self.work, n, self.value) for row, n in zip(self.theirs, sizes, strict=True)]
        least = min((value for value in found if value is not None), default=None)
        return least / ours if least and ours else None


BARE, DEEP_BARE = Row("minideep", "none"), Row("deep_minideep", "none")
LANGGRAPH, DEEPAGENTS = (Row("langgraph", "none"), Row("langgraph", "ainvoke")), (Row("deepagents", "none"),)
STARTS = Row("deep_minideep", ""), (Row("deepagents", ""),)
PROMISES = (
    Promise("a step of 200, Agent to create_agent", "steps", 200, "late_us", BARE, LANGGRAPH, 100),
    Promise("a step of 200, create_deep_agent to deepagents", "steps", 200, "late_us", DEEP_BARE, DEEPAGENTS, 200),
    Promise("the last turn of 200, to deepagents with its saver in exit", "turns", 200, "last_ms",
            Row("deep_minideep", "turn"), (Row("deepagents", "exit"),), 300),
    Promise("bytes after 200 turns, to the best of LangGraph", "turns", 200, "disk_bytes",
            Row("minideep", "turn"), SAVERS, 45),
    Promise("import with an agent built, to deepagents", "import", 0, "import_ms", *STARTS, 8),
    Promise("memory after it, to deepagents", "import", 0, "rss_mb", *STARTS, 3),
)  # fmt: skip


def bounds(results: Results) -> bool:
    """Print each promise and what was found; return False if one does not hold.

    A promise about contenders that `--only` leaves out is left out.
    """
    chosen = [
        promise
        for promise in PROMISES
        if {promise.ours.contender, *(row.contender for row in promise.theirs)} <= {*results.contenders}
    ]
    held = [bound(promise, promise.ratio(results)) for promise in chosen]
    return all([*held, *(grows(results, promise) for promise in PROMISES if promise.work == "steps")])


def bound(promise: Promise, ratio: float | None) -> bool:
    if ratio is None:
        print(f"bound: {promise.text}: NOT MEASURED")
        return False
    verdict = "holds" if ratio >= promise.least else "DOES NOT HOLD"
    print(f"bound: {promise.text}: 1/{number(ratio)} (at most 1/{promise.least:.0f}) {verdict}")
    return ratio >= promise.least


def grows(results: Results, promise: Promise) -> bool:
    """Check that the ratio of a step is larger in a long turn than in a short one."""
    ratios = [promise._replace(n=n).ratio(results) for n in (50, 500)]
    short, long = (ratio or 0.0 for ratio in ratios)
    if not short or not long:
        return True
    text, verdict = promise.text.replace(" of 200", ""), "holds" if long > short else "DOES NOT HOLD"
    print(f"bound: {text}: 1/{number(short)} at N=50 grows to 1/{number(long)} at N=500 {verdict}")
    return long > short
