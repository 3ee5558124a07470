"""The results of an evaluation: a table for people, JUnit XML for machines."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from ..checks import check_fields
from ..costs import in_words
from ..documented import Struct
from .golden import Golden

GOAL_SHOWN, PROBLEM_SHOWN = 60, 300
"""Characters of a goal and of a problem in the table."""
HEADS = ("#", "result", "status", "seconds", "steps", "tokens", "state bytes", "goal")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Failure(Struct, frozen=True):
    """A failed assertion."""

    assertion: str
    """Its name, or `turn` if there was no turn to check."""
    problem: str

    def __str__(self) -> str:
        return f"{self.assertion}: {self.problem}"


class Case(Struct, frozen=True):
    """The result of one golden."""

    golden: Golden
    thread_id: str
    """The thread in the agent's store."""
    status: str
    """The status of the turn, or `raised` if there was none."""
    failures: tuple[Failure, ...] = ()
    seconds: float = 0.0
    """Time that the turn and its assertions took."""
    steps: int = 0
    """Model replies, with those of subagents and the computed ones of a blueprint."""
    tokens: int = 0
    """A lower bound if the tokens of any reply are `unknown`."""
    state_bytes: int = 0
    unknown: int = 0
    """Replies whose tokens are unknown or not fully reported."""

    @property
    def passed(self) -> bool:
        return not self.failures


class Report(Struct, frozen=True):
    """The results of a golden set, in its order."""

    cases: tuple[Case, ...]

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def passed(self) -> bool:
        """True if every case passed."""
        return not self.failed

    @property
    def failed(self) -> tuple[Case, ...]:
        return tuple(case for case in self.cases if not case.passed)

    @property
    def seconds(self) -> float:
        """The sum over all cases, including those that ran at the same time."""
        return sum(case.seconds for case in self.cases)

    @property
    def steps(self) -> int:
        return sum(case.steps for case in self.cases)

    @property
    def tokens(self) -> int:
        return sum(case.tokens for case in self.cases)

    @property
    def unknown(self) -> int:
        """Replies whose tokens are unknown or not fully reported."""
        return sum(case.unknown for case in self.cases)

    def table(self) -> str:
        """Return a line for each case with its failures below it, and the totals. Control characters are escaped."""
        rows = _aligned([HEADS, *(_row(place, case) for place, case in enumerate(self.cases, start=1))])
        lines = [rows[0]]
        for row, case in zip(rows[1:], self.cases, strict=True):
            problems = [f"     {_one_line(str(failure), PROBLEM_SHOWN)}" for failure in case.failures]
            lines += [row, *problems, *([f"     thread {case.thread_id}"] if problems else [])]
        done = f"{len(self.cases) - len(self.failed)} of {len(self.cases)} passed"
        tokens = in_words(self.tokens, self.unknown)
        return "\n".join([*lines, f"{done}, {self.seconds:.1f} s, {self.steps:,} steps, {tokens} tokens"])

    def junit(self) -> str:
        """Return JUnit XML: one suite with a test for each case and a failure for each failed assertion."""
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
    return (str(place), result, case.status, *numbers, _one_line(case.golden.goal, GOAL_SHOWN))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return *rows* as lines: words aligned left, numbers right, and the last column unpadded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for row in rows:
        cells = [
            cell.ljust(width) if head in ("result", "status") else cell.rjust(width)
            for head, cell, width in zip(HEADS[:-1], row[:-1], widths[:-1], strict=True)
        ]
        lines.append("  ".join([*cells, row[-1]]))
    return lines


def _one_line(text: str, limit: int) -> str:
    """Return *text* on one line of at most *limit* characters, with control characters escaped."""
    flat = "".join(letter if letter.isprintable() else _escaped(letter) for letter in " ".join(text.split()))
    return flat if len(flat) <= limit else f"{flat[: limit - 3]}..."


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def _testcase(place: int, case: Case) -> Xml.Element:
    name = f"{place}: {_one_line(case.golden.goal, PROBLEM_SHOWN)}"
    test = Xml.Element("testcase", classname="minideep.evals", name=name, time=f"{case.seconds:.3f}")
    kind = "error" if case.status == "raised" else "failure"
    for failure in case.failures:
        named = {"type": _one_line(failure.assertion, GOAL_SHOWN), "message": _one_line(str(failure), PROBLEM_SHOWN)}
        found = Xml.SubElement(test, kind, named)
        found.text = _for_xml(failure.problem)
    tokens = in_words(case.tokens, case.unknown)
    about = f"thread {case.thread_id}, {case.status}, {case.steps:,} steps, {tokens} tokens"
    Xml.SubElement(test, "system-out").text = f"{about}, {case.state_bytes:,} bytes of state"
    return test


def _for_xml(text: str) -> str:
    """Return *text* with the characters that XML forbids escaped."""
    return _NOT_XML.sub(lambda found: _escaped(found[0]), text)
