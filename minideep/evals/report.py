"""What an evaluation found: a table for people, JUnit XML for machines."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from msgspec import Struct

from ..checks import check_fields
from ..costs import in_words
from .golden import Golden

NAMED, TOLD = 60, 300
"""Characters of a goal, and of a problem, that the table shows."""
HEADS = ("#", "result", "status", "seconds", "steps", "tokens", "state bytes", "goal")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Failure(Struct, frozen=True):
    """One assertion that did not hold."""

    assertion: str
    """Its name; `turn` where there was no turn to look at."""
    problem: str

    @property
    def said(self) -> str:
        return f"{self.assertion}: {self.problem}"


class Case(Struct, frozen=True):
    """What came of one golden."""

    golden: Golden
    thread_id: str
    """Under which the agent's store keeps it."""
    status: str
    """The turn's; `raised` if there was none."""
    failures: tuple[Failure, ...] = ()
    seconds: float = 0.0
    """Of the turn and its assertions."""
    steps: int = 0
    """Model replies, subagents and a blueprint's own policy included."""
    tokens: int = 0
    """At least, if those of any reply are `unknown`."""
    state_bytes: int = 0
    unknown: int = 0
    """Replies whose tokens are not known, or not all of them."""

    @property
    def passed(self) -> bool:
        return not self.failures


class Report(Struct, frozen=True):
    """What came of a golden set, in its order."""

    cases: tuple[Case, ...]

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[Case, ...]:
        return tuple(case for case in self.cases if not case.passed)

    @property
    def seconds(self) -> float:
        """Of all cases, one after the other."""
        return sum(case.seconds for case in self.cases)

    @property
    def steps(self) -> int:
        return sum(case.steps for case in self.cases)

    @property
    def tokens(self) -> int:
        return sum(case.tokens for case in self.cases)

    @property
    def unknown(self) -> int:
        """Replies whose tokens are not known, or not all of them."""
        return sum(case.unknown for case in self.cases)

    def table(self) -> str:
        """A line for each case, those of what failed below it, and the totals; control characters are spelled out."""
        rows = _aligned([HEADS, *(_row(place, case) for place, case in enumerate(self.cases, start=1))])
        lines = [rows[0]]
        for row, case in zip(rows[1:], self.cases, strict=True):
            problems = [f"     {_one_line(failure.said, TOLD)}" for failure in case.failures]
            lines += [row, *problems, *([f"     thread {case.thread_id}"] if problems else [])]
        done = f"{len(self.cases) - len(self.failed)} of {len(self.cases)} passed"
        tokens = in_words(self.tokens, self.unknown)
        return "\n".join([*lines, f"{done}, {self.seconds:.1f} s, {self.steps:,} steps, {tokens} tokens"])

    def junit(self) -> str:
        """One suite, a test for each case, a failure for each assertion that did not hold."""
        raised = sum(case.status == "raised" for case in self.cases)
        counts = {"tests": len(self.cases), "failures": len(self.failed) - raised, "errors": raised}
        root = Xml.Element("testsuites")
        about = {"name": "minideep.evals", "time": f"{self.seconds:.3f}"}
        suite = Xml.SubElement(root, "testsuite", about | {name: str(count) for name, count in counts.items()})
        for place, case in enumerate(self.cases, start=1):
            suite.append(_testcase(place, case))
        Xml.indent(root)
        return Xml.tostring(root, encoding="unicode") + "\n"


def _row(place: int, case: Case) -> tuple[str, ...]:
    tokens = in_words(case.tokens, case.unknown)
    numbers = (f"{case.seconds:.2f}", f"{case.steps:,}", tokens, f"{case.state_bytes:,}")
    result = "pass" if case.passed else "FAIL"
    return (str(place), result, case.status, *numbers, _one_line(case.golden.goal, NAMED))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines: words to the left, numbers to the right, and the last column as it is."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for row in rows:
        cells = [
            cell.ljust(width) if head in ("result", "status") else cell.rjust(width)
            for head, cell, width in zip(HEADS[:-1], row[:-1], widths[:-1], strict=True)
        ]
        lines.append("  ".join([*cells, row[-1]]))
    return lines


def _one_line(text: str, most: int) -> str:
    """*text* without line breaks, cut off, and nothing in it that a terminal would obey."""
    flat = "".join(letter if letter.isprintable() else _spelled(letter) for letter in " ".join(text.split()))
    return flat if len(flat) <= most else f"{flat[: most - 3]}..."


def _spelled(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def _testcase(place: int, case: Case) -> Xml.Element:
    name = f"{place}: {_one_line(case.golden.goal, TOLD)}"
    test = Xml.Element("testcase", classname="minideep.evals", name=name, time=f"{case.seconds:.3f}")
    kind = "error" if case.status == "raised" else "failure"
    for failure in case.failures:
        named = {"type": _one_line(failure.assertion, NAMED), "message": _one_line(failure.said, TOLD)}
        found = Xml.SubElement(test, kind, named)
        found.text = _for_xml(failure.problem)
    tokens = in_words(case.tokens, case.unknown)
    about = f"thread {case.thread_id}, {case.status}, {case.steps:,} steps, {tokens} tokens"
    Xml.SubElement(test, "system-out").text = f"{about}, {case.state_bytes:,} bytes of state"
    return test


def _for_xml(text: str) -> str:
    """*text* with what XML cannot say spelled out."""
    return _NOT_XML.sub(lambda found: _spelled(found[0]), text)
