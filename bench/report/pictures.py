"""The pictures of the report. Each answers the question in its title."""

from collections.abc import Callable, Iterable
from statistics import median

from matplotlib.figure import Figure

from .charts import Dots, Line, Shares, dots, lines, shares, stacked_lines
from .document import Document, Row
from .words import megabytes, micros, millis, size, three

CURVES = ("blueprint, turn", "sync", "async", "exit", "sync, files on disk")
"""The configurations of the curve that are drawn; the table has all of them."""


def step(document: Document) -> Figure | None:
    n, rows = document.size("steps", 200), list[tuple[float, Dots]]()
    for row in without_a_store(document, "steps"):
        early, late = (document.value(row, "steps", n, name) for name in ("early_us", "late_us"))
        if early and late:
            says = f"{micros(early)} → {micros(late)}"
            rows.append((late, Dots(document.short(row), says, [[early, late]], row.is_ours)))
    return drawn(f"What does a step cost, early ○ and late ● in a turn of {n:,}?", rows, micros)


def turn(document: Document) -> Figure | None:
    sizes, found = document.sizes("turns"), list[Line]()
    for row in best_on_disk(document, "turns", "last_ms"):
        values = [(n, document.value(row, "turns", n, "last_ms")) for n in sizes]
        there = [(n, value) for n, value in values if value]
        found.append(Line(document.short(row), *zip(*there, strict=True), row.is_ours))
    title = f"How does a turn's latency grow over {max(sizes, default=0):,} turns, saved on a disk?"
    return lines(title, found, millis, "turns of the thread so far") if found else None


def stored(document: Document) -> Figure | None:
    n, rows = document.size("turns", 200), list[tuple[float, Dots]]()
    for row in on_disk(document, "turns"):
        bytes_, end = document.value(row, "turns", n, "disk_bytes"), document.stopped(row, "turns", n)
        if bytes_:
            says = size(bytes_) if end is None else f"{size(bytes_)} at turn {end}"
            rows.append((bytes_, Dots(document.short(row), says, [[bytes_]], row.is_ours, hollow=end is not None)))
    return drawn(f"How many bytes does a thread keep after {n:,} turns?", rows, size)


def apart(document: Document) -> Figure | None:
    n, rows = document.size("steps", 200), list[tuple[float, Shares]]()
    for row in best_on_disk(document, "steps", "step_us"):
        loop, memory, whole = (document.value(Row(row.contender, name), "steps", n, "step_us")
                               for name in ("none", "memory", row.configuration))  # fmt: skip
        if loop and whole:
            middle = max(loop, memory or loop)
            parts = [loop, middle - loop, max(0.0, whole - middle)]
            scale, unit = (1, "µs") if whole < 1000 else (1000, "ms")
            shown = parts if memory else (parts[0], parts[2])
            says = f"{' + '.join(three(part / scale) for part in shown)} {unit}"
            rows.append((whole, Shares(document.short(row), says, parts, row.is_ours)))
    title = f"Where does a step's time go, in a turn of {n:,}: the loop, keeping it in memory, the disk?"
    found = [row for _, row in sorted(rows, key=lambda one: one[0])]
    return shares(title, ("loop", "+ memory", "+ disk"), found) if found else None


def start(document: Document) -> Figure | None:
    rows = list[tuple[float, Dots]]()
    for row in document.rows("import"):
        ms, mb = (document.value(row, "import", 0, name) for name in ("import_ms", "rss_mb"))
        if ms and mb:
            rows.append((ms, Dots(document.short(row), f"{millis(ms)} · {megabytes(mb)}", [[ms], [mb]], row.is_ours)))
    return drawn("What does importing and building an agent cost, in time and in memory?", rows, millis, megabytes)


def curve(document: Document) -> Figure | None:
    n = document.size("curve", 50)
    chosen = [row for row in document.rows("curve") if row.configuration in CURVES]
    panels = [
        (heading, [found for row in chosen if (found := rounds(document, row, n, name, number))], words)
        for number, (heading, name, words) in enumerate(
            [
                ("kept on the disk", "stored_mb", megabytes),
                ("time of a round; the last one has what is saved at the end", "round_ms", millis),
            ]
        )
    ]
    title = f"How do bytes and latency grow over {n} rounds that each write a file of 160 KB?"
    return stacked_lines(title, panels, "rounds so far") if all(found for _, found, _ in panels) else None


def rounds(document: Document, row: Row, n: int, name: str, smooth: int) -> Line | None:
    """Return the median of each round over all repeats. With *smooth*, that of five rounds at a time, but for the last
    round.
    """
    line = document.line(row, "curve", n)
    repeats = line["values"].get(name) if line else None
    if not repeats:
        return None
    values = [median(found) for found in zip(*repeats, strict=True)]
    if smooth:
        values = [median(values[max(0, at - 2) : at + 3]) for at in range(len(values) - 1)] + values[-1:]
    found = [(at, value) for at, value in enumerate(values, 1) if value > 0]
    return Line(document.graph(row), *zip(*found, strict=True), row.is_ours) if found else None


def tokens(document: Document) -> Figure | None:
    rows = list[tuple[float, Dots]]()
    for row in document.rows("request"):
        count = document.value(row, "request", 0, "overhead_tokens")
        if count:
            rows.append((count, Dots(document.short(row), three(count), [[count]], row.is_ours)))
    return drawn("How many tokens does a request have before anything is said?", rows, three)


PICTURES: dict[str, Callable[[Document], Figure | None]] = {
    "step": step, "turn": turn, "stored": stored, "apart": apart, "start": start, "curve": curve, "tokens": tokens,
}  # fmt: skip
"""By the name of the file. A picture of what was not measured is None."""


# ---- rows


def without_a_store(document: Document, work: str) -> Iterable[Row]:
    return [row for row in document.rows(work) if row.configuration == "none"]


def on_disk(document: Document, work: str) -> list[Row]:
    """Return the rows that keep threads on a disk, but for other ways of calling the same and for compaction."""
    others = ("compaction", "ainvoke")
    return [
        row for row in document.rows(work) if document.kept(row) == "disk" and not row.configuration.startswith(others)
    ]


def best_on_disk(document: Document, work: str, name: str) -> list[Row]:
    """Return one row of each contender: the best of those that were measured up to the largest size; of minideep the
    default.
    """
    rows = [row for row in on_disk(document, work) if not row.is_ours or row == document.ours(row)]
    found: dict[str, Row] = {}
    for n in reversed(document.sizes(work)):
        for row in document.least(rows, work, n, name):
            if document.stopped(row, work, n) is None:
                found.setdefault(row.contender, row)
    return [found[name] for name in dict.fromkeys(row.contender for row in rows) if name in found]


def drawn(title: str, rows: list[tuple[float, Dots]], *panels: Callable[[float], str]) -> Figure | None:
    """Draw rows in the order of their values, the least first."""
    return dots(title, [row for _, row in sorted(rows, key=lambda one: one[0])], *panels) if rows else None
