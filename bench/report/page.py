"""The page: tables and sentences about the results, as Markdown."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

from ..compare.tables import NOTES
from .document import Document, Row
from .words import megabytes, micros, millis, size, three, times

MARKS = {"pass": "✓ pass", "fail": "✗ fail", "no store": "– no store"}
FOLDED = 12
"""Rows of a table over which it is folded."""
GUARANTEES = ("kill", "repeats", "conflict", "failed save")
HEAD = """# What it costs

Made by `python -m bench.report` on {date}, in {minutes} minutes ({mode}), on {cpu}, {cores} cores, Python {python}.
All values are in [results.json](results.json); `python -m bench.report --from bench/report/results.json` draws this
page again. Contenders: {versions}.

Everybody does [the same scripted work](../compare/README.md): models and tools answer at once, so that all time is the
harness's own; a real step takes as much longer as they do. A value is the median of the repeats. A column `×` says how
many times minideep's value it is: that of `Agent`, or of `create_deep_agent` for deepagents, with threads kept in the
same place. Below 1 the other one is better.
"""


ROUND = """A round plans, writes one new file of 160 KB, and reflects. LangGraph keeps every file in its state, but for
`files on disk`. Early: rounds 3 to 7; late: the last five. A put is a call that writes to the store; with `turn` and
`exit` there is one, in the last round, and with `async` they go on behind the rounds, until the turn ends.
"""
MEANING = "What each word means, and how it is tried, is on [the page of the comparison](../compare/README.md)."


class Column(NamedTuple):
    """A value of a work at a size, in words; *ratio* False leaves out the column beside it."""

    head: str
    work: str
    n: int
    name: str
    words: Callable[[float], str]
    ratio: bool = True


def markdown(document: Document, pictures: dict[str, str]) -> str:
    """Return the whole page. *pictures* has the question of each picture, by the name of its file."""
    parts = [head(document)]
    for title, name, note, table in SECTIONS:
        body = table(document)
        if not body:
            continue
        parts.append(f"## {title}\n")
        if name in pictures:
            parts.append(f"![{pictures[name]}]({name}.svg)\n")
        if name in MAIN:
            parts += compared(document, *MAIN[name](document))
        parts.append(folded(body) if name else body)
        if note:
            parts.append(f"{NOTES[note]}\n")
    parts += own_parts(document)
    return "\n".join(parts)


def head(document: Document) -> str:
    data, machine = document.data, document.data["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    about = {"date": data["date"], "minutes": data["minutes"], "mode": data["mode"], "versions": versions}
    return HEAD.format(**about, cpu=machine["cpu"], cores=machine["cores"], python=machine["python"])


def compared(document: Document, column: Column, kept: str) -> Iterator[str]:
    """Yield what minideep's value of a column is beside LangChain's and deepagents', and who has a better one, of those
    whose threads are *kept* in the same place.
    """
    there = (row for row in document.rows(column.work) if document.kept(row) == kept)
    rows = [row for row in there if row.configuration != "compaction"]
    yield f"**{column.head[0].upper()}{column.head[1:]}:**\n"
    for mine, theirs in (("minideep", "langgraph"), ("deep_minideep", "deepagents")):
        for best in document.least([row for row in rows if row.contender == theirs], *column[1:4]):
            ours = document.ours(best)._replace(contender=mine)
            value, other = (document.value(row, *column[1:4]) for row in (ours, best))
            if value and other:
                pair = (f"{document.title(row)} {column.words(found)}" for row, found in ((ours, value), (best, other)))
                yield f"- {' · '.join(pair)} · {times(other / value)}"
    better = [document.title(row) for row in rows if not row.is_ours and wins(document, row, column)]
    yield f"- Better than minideep: {' · '.join(better) or 'nobody'}\n"


def wins(document: Document, row: Row, column: Column) -> bool:
    value, ours = (document.value(one, *column[1:4]) for one in (row, document.ours(row)))
    return value is not None and ours is not None and value < ours


def folded(table: str) -> str:
    """Return a table of many rows such that a reader opens it."""
    count = table.count("\n|") - 1
    return table if count <= FOLDED else f"<details><summary>All {count} rows</summary>\n\n{table}\n</details>\n"


# ---- tables


def rows_of(cells: Iterable[Sequence[str]]) -> str:
    """Return a table: the first row has the heads, and the first column is text."""
    heads, *rows = cells
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(text.replace('|', '/') for text in line)} |" for line in lines) + "\n"


def table(document: Document, columns: Sequence[Column], rows: Sequence[Row], work: str) -> str:
    """Return a table of *rows*, of those that have any value. The last column says which were stopped."""
    largest = max((column.n for column in columns if column.work == work), default=0)
    ends = {row: document.stopped(row, work, largest) for row in rows}
    said = any(end is not None for end in ends.values())
    heads = [""]
    for column in columns:
        heads += [column.head, "×"] if column.ratio else [column.head]
    lines = [[*heads, *(["stopped at"] if said else [])]]
    for row in rows:
        cells = [text for column in columns for text in valued(document, row, column)]
        if any(text.strip("–") for text in cells):
            end = ends[row]
            lines.append([document.title(row), *cells, *(["" if end is None else f"{end:,}"] if said else [])])
    return rows_of(lines) if len(lines) > 1 else ""


def valued(document: Document, row: Row, column: Column) -> list[str]:
    value = document.value(row, column.work, column.n, column.name)
    ours = document.value(document.ours(row), column.work, column.n, column.name)
    text = "–" if value is None else column.words(value)
    if not column.ratio:
        return [text]
    return [text, "" if value is None or not ours or row == document.ours(row) else three(value / ours)]


def steps(document: Document) -> str:
    n = document.size("steps", 200)
    columns = [Column(f"early, N={n:,}", "steps", n, "early_us", micros, ratio=False)]
    columns += [Column(f"late, N={one:,}", "steps", one, "late_us", micros) for one in document.sizes("steps")]
    return table(document, columns, document.rows("steps"), "steps") + spread(document, n)


def spread(document: Document, n: int) -> str:
    """Return how far apart the repeats of the most important value are."""
    found = [line["values"].get("late_us", []) for line in document.lines if (line["work"], line["n"]) == ("steps", n)]
    ratios = [max(values) / min(values) for values in found if len(values) > 1 and min(values) > 0]
    if not ratios:
        return ""
    return (
        f"\nThe largest repeat of late, N={n:,} is {times(median(ratios))} the smallest one (the median of all rows).\n"
    )


def turns(document: Document) -> str:
    sizes = document.sizes("turns")
    columns = [Column("first", "turns", n, "first_ms", millis) for n in sizes[-1:]]
    columns += [Column(f"last of {n:,}", "turns", n, "last_ms", millis) for n in sizes]
    return table(document, columns, document.rows("turns"), "turns")


def disk(document: Document) -> str:
    sizes, n = document.sizes("turns"), document.size("steps", 200)
    columns = [Column(f"{one:,} turns", "turns", one, "disk_bytes", size) for one in sizes]
    columns += [Column(f"1 turn of {n:,} steps", "steps", n, "disk_bytes", size)]
    columns += [Column("its commits", "steps", n, "commits", three)]
    columns += [Column(f"reading {one:,} turns", "turns", one, "load_ms", millis) for one in sizes[-1:]]
    rows = dict.fromkeys([*document.rows("turns"), *document.rows("steps")])
    return table(document, columns, [row for row in rows if document.kept(row) == "disk"], "turns")


def loops(document: Document) -> str:
    """Return what each contender's loop takes a step, and what a store in memory and each disk add to that."""
    n = document.size("steps", 200)
    lines = [["", "loop", "+ memory", "+ disk", "together"]]
    for row in document.rows("steps"):
        loop, memory, whole = (document.value(Row(row.contender, name), "steps", n, "step_us")
                               for name in ("none", "memory", row.configuration))  # fmt: skip
        if document.kept(row) == "disk" and row.configuration != "compaction" and loop and whole:
            before = loop if memory is None else memory
            added = "–" if memory is None else signed(memory - loop)
            lines.append([document.title(row), micros(loop), added, signed(whole - before), micros(whole)])
    return rows_of(lines) if len(lines) > 1 else ""


def signed(value: float) -> str:
    return f"−{micros(-value)}" if value < 0 else micros(value)


def starts(document: Document) -> str:
    columns = [
        Column(head, "import", 0, name, words)
        for head, name, words in [
            ("import and build", "import_ms", millis), ("memory after it", "rss_mb", megabytes),
            ("modules", "modules", three), ("one more agent", "build_ms", millis),
            ("its memory", "build_kib", lambda value: size(value * 1024)),
        ]
    ]  # fmt: skip
    return table(document, columns, document.rows("import"), "import")


def prompts(document: Document) -> str:
    columns = [Column("before anything is said", "request", 0, "overhead_tokens", three)]
    for n in document.sizes("session"):
        columns.append(Column(f"{n:,} steps", "session", n, "input_tokens", three))
        columns.append(Column("repeated", "session", n, "cached_share", "{:.0%}".format, ratio=False))
    rows = dict.fromkeys([*document.rows("request"), *document.rows("session")])
    return table(document, columns, list(rows), "session")


def curves(document: Document) -> str:
    """Return early rounds beside late ones: the five around the fifth, and the last five."""
    n = document.size("curve", 50)
    lines = [["", "the whole turn", "kept after it", "a round, early", "late", "×", "a put, early", "late", "×"]]
    for row in document.rows("curve"):
        line = document.line(row, "curve", n)
        values = line["values"] if line else {}
        cells = [*pair(values.get("round_ms", [])), *pair(values.get("put_ms", []))]
        kept = median(repeat[-1] for repeat in values["stored_mb"])
        whole = median(sum(repeat) for repeat in values["round_ms"])
        lines.append([document.graph(row), millis(whole), megabytes(kept), *cells])
    return f"{rows_of(lines)}\n{ROUND}" if len(lines) > 1 else ""


def pair(repeats: list[list[float]]) -> list[str]:
    early, late = (
        [value for repeat in repeats for value in repeat[part] if value] for part in (slice(2, 7), slice(-5, None))
    )
    if not early or not late:
        return ["–", millis(median(late)) if late else "–", ""]
    first, last = median(early), median(late)
    return [millis(first), millis(last), three(last / first)]


def guarantees(document: Document) -> str:
    found: dict[Row, dict[str, dict[str, Any]]] = {}
    for line in document.lines:
        if line["work"] == "guarantee":
            found.setdefault(Row(line["contender"], line["configuration"]), {})[line["name"]] = line
    if not found:
        return ""
    lines = [["", *GUARANTEES]]
    for row, verdicts in found.items():
        lines.append(
            [document.title(row), *(MARKS.get(verdicts.get(name, {}).get("verdict", ""), "") for name in GUARANTEES)]
        )
    seen = [
        f"- **{document.title(row)}**: " + "; ".join(f"{name}: {verdicts[name]['seen']}" for name in verdicts) + "."
        for row, verdicts in found.items()
        if any(line["verdict"] != "no store" for line in verdicts.values())
    ]
    said = "\n".join(seen)
    return f"{rows_of(lines)}\n<details><summary>What was seen</summary>\n\n{said}\n\n</details>\n\n{MEANING}\n"


def own_parts(document: Document) -> Iterator[str]:
    """Yield the tables of `pytest bench/`, one for each of its groups."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for part in document.data.get("parts", []):
        groups.setdefault(part["group"], []).append(part)
    if groups:
        yield "## Our own parts\n\nMeasured by `pytest bench/`; a time is that of one of what the heading names.\n"
    for group, parts in groups.items():
        counted = list(dict.fromkeys(name for part in parts for name in part["extra_info"]))
        lines = [["", "median", "least", *counted]]
        for part in parts:
            values = [part["extra_info"].get(name) for name in counted]
            texts = [
                "" if value is None else three(value) if isinstance(value, int | float) else str(value)
                for value in values
            ]
            lines.append([part["name"], micros(part["median"] * 1e6), micros(part["min"] * 1e6), *texts])
        yield f"### {group}\n\n{rows_of(lines)}"


MAIN: dict[str, Callable[[Document], tuple[Column, str]]] = {
    "step": lambda found: (main(found, "a late step of {:,}, without a store", "steps", "late_us", micros), "caller"),
    "turn": lambda found: (main(found, "the last of {:,} turns, on a disk", "turns", "last_ms", millis), "disk"),
    "stored": lambda found: (main(found, "bytes after {:,} turns", "turns", "disk_bytes", size), "disk"),
    "start": lambda _: (Column("time to import and build", "import", 0, "import_ms", millis), "caller"),
    "tokens": lambda _: (Column("tokens before anything is said", "request", 0, "overhead_tokens", three), "caller"),
}
"""The value of each picture that is also said in words, and where the threads of the rows are kept."""


def main(document: Document, head: str, work: str, name: str, words: Callable[[float], str]) -> Column:
    n = document.size(work, 200)
    return Column(head.format(n), work, n, name, words)


SECTIONS: list[tuple[str, str, str, Callable[[Document], str]]] = [
    ("A step", "step", "A step", steps),
    ("A turn", "turn", "A turn", turns),
    ("On the disk", "stored", "On the disk", disk),
    ("Loop and storage apart", "apart", "Loop and storage apart", loops),
    ("A start", "start", "A start", starts),
    ("Tokens", "tokens", "Tokens", prompts),
    ("Files in the thread", "curve", "", curves),
    ("What survives a kill, a conflict, a failed save?", "", "", guarantees),
]
"""Each with its title, its picture, the note of the comparison about it, and its table."""
