"""A table as wide as the terminal: a label, as many columns as fit, and a bar of characters in the rest."""

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from .text import safe

BLOCKS = {"model": "█", "tools": "▒", "rest": "░", "run": "─"}
LETTERS = {"model": "#", "tools": "=", "rest": ".", "run": "-"}
"""The characters of a bar, by what a part of it stands for: as most terminals can show it, and in ASCII."""
SHORTEST_BAR, LONGEST_BAR = 10, 60
SHORTEST_LABEL, LONGEST_LABEL = 14, 44
GAP = 2
TEXTS = ("status", "models")
"""Columns of text; those of numbers end at the right."""
Part = tuple[str, float, float]
"""A part of a bar: what it stands for, and where it begins and ends, from 0 to 1."""


class Row(Struct):
    """A line of a table: its label, cells by the names of their columns, and a bar."""

    label: str
    cells: dict[str, str]
    bar: Sequence[Part] = ()


def table(title: str, columns: Sequence[str], rows: Sequence[Row], width: int, glyphs: dict[str, str]) -> Table:
    """Return a table of *rows* that is at most *width* wide. Of the *columns* it has those with cells for which there
    is room, the first ones first. They stand in the order of the cells of the rows.
    """
    has_bars = any(row.bar for row in rows)
    longest = min(LONGEST_LABEL, max((cell_len(safe(row.label)) for row in rows), default=0))
    label = min(longest, max(SHORTEST_LABEL, width // 4))
    shortest = max(SHORTEST_BAR, width // 6)
    names, left = _fitting(columns, rows, width - label - has_bars * (shortest + GAP))
    label, left = min(longest, label + left), left - min(longest - label, left)
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    made.add_column(title, width=label, no_wrap=True)
    for name, room in names.items():
        made.add_column(name, width=room, no_wrap=True, justify="left" if name in TEXTS else "right")
    bar = min(LONGEST_BAR, shortest + left) if has_bars else 0
    if bar:
        made.add_column("", width=bar, no_wrap=True)
    for row in rows:
        cells = [Text(safe(text)) for text in (row.label, *(row.cells.get(name, "") for name in names))]
        made.add_row(*cells, *([Text(drawn(row.bar, bar, glyphs))] if bar else ()))
    return made


def _fitting(columns: Sequence[str], rows: Sequence[Row], width: int) -> tuple[dict[str, int], int]:
    """Return the columns that fit into *width*, in their order, each with its own width; and what is left."""
    fitting: dict[str, int] = {}
    for name in columns:
        texts = [row.cells[name] for row in rows if row.cells.get(name)]
        room = max(cell_len(text) for text in (name, *texts))
        if texts and room + GAP <= width:
            fitting[name] = room
            width -= room + GAP
    order = dict.fromkeys(name for row in rows for name in row.cells)
    return {name: fitting[name] for name in order if name in fitting}, width


def drawn(parts: Sequence[Part], width: int, glyphs: dict[str, str]) -> str:
    """Return a bar of at most *width* characters. A part that is too short for one is left out, unless all are.

    >>> drawn([("model", 0.2, 0.6), ("tools", 0.6, 0.9)], 10, LETTERS)
    '  ####==='
    >>> drawn([("model", 0.21, 0.22), ("tools", 0.22, 0.24)], 10, LETTERS)
    '  ='
    """
    cells = [" "] * width
    for kind, begin, end in parts:
        first, last = round(begin * width), round(end * width)
        cells[first:last] = glyphs[kind] * (last - first)
    bar = "".join(cells).rstrip()
    if parts and not bar:
        kind, begin, _ = max(parts, key=lambda part: part[2] - part[1])
        bar = " " * min(width - 1, int(begin * width)) + glyphs[kind]
    return bar
