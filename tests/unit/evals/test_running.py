"""An assertion may end in any way: it fails its own case, and the others run."""

import pytest

from minideep import Agent
from minideep.evals import Golden, evaluate
from minideep.models import ScriptedModel


def exits(trajectory):
    raise SystemExit(3)


def fails(trajectory):
    pytest.fail("it is too long")


@pytest.mark.parametrize(("assertion", "problem"), [(exits, "SystemExit: 3"), (fails, "Failed: it is too long")])
async def test_what_is_no_exception_is_that_cases_failure(assertion, problem):
    report = await evaluate(Agent(ScriptedModel(lambda request: "yes")), [Golden("a"), Golden("b")], [assertion])
    assert [(case.status, [str(failure) for failure in case.failures]) for case in report.cases] == [
        ("ended", [f"{assertion.__name__}: {problem}"])
    ] * 2
