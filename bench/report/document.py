"""The results that a report is made of: what `bench.compare` has measured, and what `pytest bench/` has."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

Measured = dict[str, Any]
OURS = ("minideep", "deep_minideep")


class Row(NamedTuple):
    """A contender in one configuration."""

    contender: str
    configuration: str

    @property
    def is_ours(self) -> bool:
        return self.contender in OURS


class Document:
    """Results by row, work, size and name. A value is the median of its repeats."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.lines: list[Measured] = data["measurements"]
        self._lines = {(Row(line["contender"], line["configuration"]), line["work"], line["n"]): line
                       for line in self.lines}  # fmt: skip

    @classmethod
    def read(cls, path: Path) -> "Document":
        return cls(json.loads(path.read_text()))

    def title(self, row: Row) -> str:
        """Return the name of a row as tables and pictures show it."""
        title = self.data["titles"].get(row.contender, row.contender)
        return f"{title}, {row.configuration}" if row.configuration not in ("", "none") else title

    def short(self, row: Row) -> str:
        """Return a name for pictures: of others without the class or function that is called."""
        title = self.title(Row(row.contender, ""))
        known = title if row.is_ours else re.sub(r" (create_\w+|[A-Z]\w+)$", "", title)
        return f"{known}, {row.configuration}" if row.configuration not in ("", "none") else known

    def graph(self, row: Row) -> str:
        """Return the name of a row of the curve, where both are graphs of nodes and neither an agent of its own."""
        return f"{'minideep' if row.is_ours else 'LangGraph'}, {row.configuration}"

    def kept(self, row: Row) -> str:
        """Return where its threads are: `caller`, `memory` or `disk`."""
        return self.data["kept"].get(row.contender, {}).get(row.configuration, "caller")

    def rows(self, work: str) -> list[Row]:
        """Return the rows that have done a work, in their order."""
        found = dict.fromkeys(
            Row(line["contender"], line["configuration"]) for line in self.lines if line["work"] == work
        )
        places = list(self.data["titles"])
        return sorted(found, key=lambda row: places.index(row.contender) if row.contender in places else len(places))

    def sizes(self, work: str) -> list[int]:
        return sorted({line["n"] for line in self.lines if line["work"] == work})

    def size(self, work: str, wanted: int) -> int:
        """Return the *wanted* size of a work, or the largest one if there is none."""
        found = self.sizes(work)
        return wanted if wanted in found else max(found, default=0)

    def line(self, row: Row, work: str, n: int) -> Measured | None:
        return self._lines.get((row, work, n))

    def value(self, row: Row, work: str, n: int, name: str) -> float | None:
        line = self.line(row, work, n)
        found = line["values"].get(name) if line else None
        return median(found) if found else None

    def stopped(self, row: Row, work: str, n: int) -> int | None:
        """Return where a measurement of this size or a smaller one was stopped."""
        ends = [line["stopped_at"] for size in self.sizes(work) if size <= n and (line := self.line(row, work, size))]
        return next((end for end in ends if end is not None), None)

    def ours(self, row: Row) -> Row:
        """Return minideep's row that a row is compared with: threads are in the same place, and with the same tools."""
        mine = OURS[row.contender in ("deepagents", "deep_minideep") or row.configuration == "compaction"]
        there = {"caller": "none", "memory": "memory", "disk": "turn"}[self.kept(row)]
        return Row(mine, row.configuration if row.configuration in ("", "compaction") else there)

    def least(self, rows: Iterable[Row], work: str, n: int, name: str) -> Iterator[Row]:
        """Yield the row of each contender with the least of a value."""
        best: dict[str, tuple[float, Row]] = {}
        for row in rows:
            value = self.value(row, work, n, name)
            if value is not None and (row.contender not in best or value < best[row.contender][0]):
                best[row.contender] = value, row
        yield from (row for _, row in best.values())
