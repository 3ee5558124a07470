"""Evaluation: run an agent on a golden set and check each whole turn with assertions."""

from .assertions import any_of, only_for, stays_within
from .calls import calls_all, calls_at_most, calls_exactly, calls_in_order, calls_only, never_calls
from .cases import Case, Result, Spread
from .comparison import Compared, Comparison, Delta
from .golden import ExpectedCall, Golden
from .judges import grounded, judge
from .loading import load
from .recorded import from_thread
from .report import Report
from .running import evaluate
from .scores import Failure, Score
from .trajectory import Assertion, Call, Trajectory

__all__ = [
    "Assertion",
    "Call",
    "Case",
    "Compared",
    "Comparison",
    "Delta",
    "ExpectedCall",
    "Failure",
    "Golden",
    "Report",
    "Result",
    "Score",
    "Spread",
    "Trajectory",
    "any_of",
    "calls_all",
    "calls_at_most",
    "calls_exactly",
    "calls_in_order",
    "calls_only",
    "evaluate",
    "from_thread",
    "grounded",
    "judge",
    "load",
    "never_calls",
    "only_for",
    "stays_within",
]
