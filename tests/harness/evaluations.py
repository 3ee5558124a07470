"""Blueprints to evaluate, and what one golden fails with."""

from harness.blueprints import Parts, end, plan, research
from minideep.blueprint import ASSERTIONS
from minideep.evals import Golden, evaluate

CAPITAL = Golden("What is the capital of France?", "paris", ("facts.md",))
PLAN, END = plan(research()), end("It is {{facts.md}}")


def script(planner=PLAN, reflection=END, role="Paris,  it is."):
    """A model with one reply for each part, or a function of its request."""
    return Parts(*map(always, (planner, reflection, role)))


def always(said):
    return said if callable(said) else lambda: said


def each(*artifacts):
    """A plan with one subtask for each artifact."""
    return plan(*map(research, artifacts))


async def failures(agent, golden=CAPITAL, assertions=ASSERTIONS, **options):
    """The problems of one golden by assertion: what it expects, and the assertions about blueprints."""
    report = await evaluate(agent, [golden], assertions, **options)
    return {failure.assertion: failure.problem for failure in report.cases[0].failures}
