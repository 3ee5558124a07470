"""Evaluation: run an agent on a golden set and check each whole turn with assertions."""

from .assertions import (
    ASSERTIONS,
    answers_as_expected,
    delivers_the_artifacts,
    ends_honestly,
    roles_are_themselves,
    state_is_small,
)
from .golden import Golden, load
from .report import Case, Failure, Report
from .running import evaluate
from .trajectory import Assertion, Trajectory

__all__ = [
    "ASSERTIONS",
    "Assertion",
    "Case",
    "Failure",
    "Golden",
    "Report",
    "Trajectory",
    "answers_as_expected",
    "delivers_the_artifacts",
    "ends_honestly",
    "evaluate",
    "load",
    "roles_are_themselves",
    "state_is_small",
]
