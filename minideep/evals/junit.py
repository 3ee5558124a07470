"""A report as JUnit XML, for CI."""

import re
from xml.etree import ElementTree as Xml

from ..costs import in_words
from .cases import RAISED, Case, Cases
from .texts import NAME_SHOWN, PROBLEM_SHOWN, escaped, money, one_line

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Cases) -> str:
    """Return one suite with a test for each case and a failure for each failed assertion."""
    raised = sum(case.status == RAISED for case in report.cases)
    counts = {"tests": len(report.cases), "failures": len(report.failed) - raised}
    counts |= {"errors": raised, "skipped": len(report.not_run)}
    root = Xml.Element("testsuites")
    about = {"name": "minideep.evals", "time": f"{report.seconds:.3f}"}
    suite = Xml.SubElement(root, "testsuite", about | {name: str(count) for name, count in counts.items()})
    repeated = any(case.run > 1 for case in report.cases)
    for place, result in enumerate(report.results, start=1):
        for case in result.cases:
            name = f"{place}{f'.{case.run}' if repeated else ''}: {one_line(case.golden.name, PROBLEM_SHOWN)}"
            suite.append(_testcase(name, case))
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode") + "\n"


def _testcase(name: str, case: Case) -> Xml.Element:
    test = Xml.Element("testcase", classname="minideep.evals", name=name, time=f"{case.seconds:.3f}")
    kind = "error" if case.status == RAISED else "failure" if case.ran else "skipped"
    for failure in case.failures:
        named = {"type": one_line(failure.assertion, NAME_SHOWN), "message": one_line(str(failure), PROBLEM_SHOWN)}
        found = Xml.SubElement(test, kind, named)
        found.text = _for_xml(failure.problem)
    tokens = in_words(case.tokens, case.unknown)
    about = f"thread {case.thread_id}, {case.status}, {case.steps:,} steps, {tokens} tokens"
    about = f"{about}, {money(case.cost, case.unpriced)}, {case.state_bytes:,} bytes of state"
    Xml.SubElement(test, "system-out").text = about
    return test


def _for_xml(text: str) -> str:
    """Return *text* with the characters that XML forbids escaped."""
    return _NOT_XML.sub(lambda found: escaped(found[0]), text)
