"""Reports: a table for people, JUnit XML for machines."""

from xml.etree import ElementTree as Xml

from harness.blueprints import asked, plan, research
from harness.evaluations import CAPITAL, script
from msgspec import structs

from minideep.blueprint import Blueprint
from minideep.evals import Case, Failure, Golden, Report, evaluate


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
    assert Report(tuple(cases)).table() == (
        "#  result  status  seconds  steps  tokens  cost  golden\n"
        "1  pass    ended      0.25      3       0    $0  What is the capital of France?\n"
        "2  FAIL    ended      0.25      3       0    $0  And of England?\n"
        "     answers_as_expected: expected 'London' in the answer, found 'It is Leeds'\n"
        "     answer: It is Leeds\n"
        "     thread eval-1\n"
        "3  pass    ended      0.25      3       0    $0  And of Italy?\n"
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
    assert len(lines) == 1 + 4 + 3 + 1
    assert 'a\\x00\\x1b[2J\\ud800\\ufffe\\u202e ]]><&"é' in lines[1]
