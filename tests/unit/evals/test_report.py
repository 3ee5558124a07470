"""Reports: a table for people, JUnit XML for machines."""

import json
from xml.etree import ElementTree as Xml

import pytest
from harness.blueprints import asked, plan, research
from harness.evaluations import CAPITAL, script
from msgspec import structs

from minideep import ConfigError
from minideep.blueprint import Blueprint
from minideep.evals import Case, Failure, Golden, Report, Score, Spread, evaluate
from minideep.evals.texts import counted, dollars, money


def regressed():
    """Evaluate three goldens, of which one regresses."""
    goldens = [CAPITAL, Golden("And of England?", "London"), Golden("And of Italy?", "Rome")]

    def role(request):
        return next((said for key, said in (("Italy", "Rome"), ("France", "Paris")) if key in asked(request)), "Leeds")

    def planner(request):
        return plan(research(task=asked(request).split("\n")[1]))

    return evaluate(Blueprint(script(planner, role=role)), goldens)


async def test_one_regression_of_three_fails_the_set_and_is_named():
    report = await regressed()
    assert (report.passed, [case.golden.expected_final_answer for case in report.failed]) == (False, ["London"])
    case = structs.replace(report.cases[1], thread_id="eval-1")
    cases = [structs.replace(one, seconds=0.25, state_bytes=1_234) for one in (report.cases[0], case, report.cases[2])]
    assert Report(tuple(cases), {"kept": True}).table() == (
        "#  result  status  seconds  steps  calls  tokens  cost  golden\n"
        "1  pass    ended      0.25      3      0       0    $0  What is the capital of France?\n"
        "2  FAIL    ended      0.25      3      0       0    $0  And of England?\n"
        "     answers_as_expected: expected 'London' in the answer, found 'It is Leeds'\n"
        "     answer: It is Leeds\n"
        "     thread eval-1\n"
        "3  pass    ended      0.25      3      0       0    $0  And of Italy?\n"
        "2 of 3 passed, 0.8 s, 9 steps, 0 tokens, $0"
    )


async def test_junit_has_a_test_for_each_golden_and_a_failure_for_each_assertion():
    report = await regressed()
    suite = Xml.fromstring(report.junit())[0]
    assert {name: suite.get(name) for name in ("name", "tests", "failures", "errors")} == {
        "name": "minideep.evals", "tests": "3", "failures": "1", "errors": "0",
    }  # fmt: skip
    assert [test.get("name") for test in suite] == [
        "1: What is the capital of France?", "2: And of England?", "3: And of Italy?",
    ]  # fmt: skip
    problem = "expected 'London' in the answer, found 'It is Leeds'"
    (failure,) = suite.iter("failure")
    assert failure.attrib == {"type": "answers_as_expected", "message": f"answers_as_expected: {problem}"}
    assert failure.text == problem
    assert report.cases[1].thread_id in suite[1].find("system-out").text


def test_control_characters_are_escaped_in_both_reports():
    evil = 'a\x00\x1b[2J\ud800\ufffe\u202e\r\n]]><&"é'
    cases = (
        Case(Golden(evil), "eval-1", "ended", (Failure(evil, evil), Failure("other", "b"))),
        Case(Golden("x"), "eval-2", "raised", (Failure("turn", "OSError: c"),)),
    )
    report = Report(cases)
    (suite,) = Xml.fromstring(report.junit().encode())
    spelled = 'a\\x00\\x1b[2J\\ud800\\ufffe\u202e\r\n]]><&"é'
    assert [one.text for one in suite.iter("failure")] == [spelled.replace("\r\n", "\n"), "b"]
    assert [one.get("type") for one in suite.iter("error")] == ["turn"]
    assert (suite.get("failures"), suite.get("errors")) == ("1", "1")
    lines = report.table().split("\n")
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 1 + 3 + 2 + 1
    assert 'a\\x00\\x1b[2J\\ud800\\ufffe\\u202e ]]><&"é' in lines[1]


# ---- several runs of a golden


def repeated():
    """A report of two goldens with three runs each, one of which was left out."""
    failed = (Failure("is_short", "it has 9 lines"),)

    def case(golden, run, **about):
        return Case(Golden(golden, id=golden[0]), f"t{run}", "ended", run=run, **about)

    return Report(
        (
            case(
                "always", 1, steps=2, tool_calls=4, tokens=10, cost=0.1, seconds=1.0, scores=(Score(0.5, name="style"),)
            ),
            case(
                "always", 2, steps=4, tool_calls=6, tokens=30, cost=0.3, seconds=2.0, scores=(Score(1.0, name="style"),)
            ),
            case("always", 3, steps=3, tool_calls=5, tokens=20, cost=0.2, seconds=3.0),
            case(
                "sometimes", 1, steps=1, tokens=5, cost=0.1, unpriced=1, unknown=1, failures=failed, answer="no\n\x1b"
            ),
            structs.replace(case("sometimes", 2, steps=1, failures=failed), status="escalated"),
            Case(Golden("sometimes", id="s"), status="not run", failures=(Failure("budget", "$1 are spent"),), run=3),
        ),
        {"repeat": 3},
    )


def test_the_table_has_a_line_for_each_golden_with_means_and_deviations():
    assert repeated().table() == (
        "#  result          status                     seconds  steps  calls      tokens              cost                style"
        "  golden\n"
        "1  3/3             ended                   2.00 ±1.00   3 ±1   5 ±1      20 ±10  $0.2000 ±$0.1000  0.75 ±0.35 (2 of 3)"
        "  a\n"
        "2  0/2, 1 not run  ended ×1, escalated ×1        0.00      1      0  at least 2          $0.1000+                    -"
        "  s\n"
        "     is_short: it has 9 lines (2 runs)\n"
        "     not run: budget: $1 are spent\n"
        "     answer: no \\x1b\n"
        "3 of 5 passed, 1 not run, 6.0 s, 11 steps, at least 65 tokens, at least $0.7000"
    )


async def test_a_report_survives_json():
    for report in (repeated(), await regressed()):
        assert Report.from_json(report.json()) == report
        assert Report.from_json(report.json().encode()).table() == report.table()
    assert json.loads(repeated().json())["cases"][0]["scores"][0]["value"] == 0.5


def test_a_report_of_a_newer_version_is_read_as_far_as_it_is_known():
    raw = json.loads(repeated().json()) | {"more": 1}
    raw["cases"][0]["golden"]["more"] = raw["cases"][0]["more"] = 2
    assert Report.from_json(json.dumps(raw)) == repeated()


@pytest.mark.parametrize("raw", ["", "{", "[]", "{}", '{"cases": 5}', b"\xff", "[" * 10_000])
def test_what_is_no_report_is_one_error(raw):
    with pytest.raises(ConfigError, match=r"this is not a report that `Report\.json` wrote: "):
        Report.from_json(raw)


def test_a_report_with_a_lone_surrogate_or_nan_survives_json():
    report = Report((Case(Golden("\ud800", metadata={"x": [1, None, "\udfff"]}), "t", "ended"),))
    assert Report.from_json(report.json()) == report


def test_junit_names_each_run_and_skips_those_that_were_not_run():
    suite = Xml.fromstring(repeated().junit())[0]
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "6", "failures": "2", "errors": "0", "skipped": "1"}
    assert [test.get("name") for test in suite] == ["1.1: a", "1.2: a", "1.3: a", "2.1: s", "2.2: s", "2.3: s"]
    assert [one.get("message") for one in suite.iter("skipped")] == ["budget: $1 are spent"]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([3], "3"), ([2, 4], "3 ±1.41"), ([2, 3], "2.5 ±0.707"), ([12_000, 12_690], "12,345 ±488"), ([0], "0"),
        ([3, 3], "3"), ([123.4], "123"),
    ],
)  # fmt: skip
def test_counts_are_shown_in_few_digits(values, shown):
    assert counted(Spread.of(values)) == shown


@pytest.mark.parametrize(
    ("amount", "shown"), [(0, "$0"), (0.00002, "$0.000020"), (0.0123, "$0.0123"), (12.5, "$12.5000")]
)
def test_small_amounts_are_not_shown_as_nothing(amount, shown):
    assert (money(amount, 0), money(amount, 1) != shown, dollars(Spread(amount))) == (shown, True, shown)


def test_a_case_that_was_not_run_has_not_passed():
    case = Case(Golden("a"), status="not run")
    assert (case.passed, Report((case,)).passed, Report((case,)).failed) == (False, False, ())
    assert not Report(()).passed
