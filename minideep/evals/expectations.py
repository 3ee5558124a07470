"""Checks what a golden expects of its turn, in every evaluation."""

from collections.abc import Sequence
from unicodedata import normalize

from ..turn import Turn
from .calls import calls_in_order
from .trajectory import Assertion, Trajectory, answer_of

MAX_QUOTED = 200
"""Characters of a text that a problem quotes."""


def expectations(trajectory: Trajectory) -> Sequence[Assertion]:
    """Return the assertions that the golden of a trajectory makes."""
    calls = trajectory.golden.expected_calls
    return (
        ends_as_expected,
        answers_as_expected,
        delivers_the_artifacts,
        *([calls_in_order(*calls)] if calls else []),
    )


def ends_as_expected(trajectory: Trajectory) -> str | None:
    """The turn has the expected status. One that ended has a whole answer, and one that escalated asks a question."""
    turn, expected = trajectory.turn, trajectory.golden.expected_status
    if turn.status != expected:
        return f"expected the turn to be {expected}, but it is {turn.status} ({_why(turn)})"
    if expected == "ended" and turn.reason != "done":
        return f"the turn ended because the last reply was {turn.reason}"
    if expected == "ended" and not answer_of(turn).strip():
        return "the turn ended with an empty answer"
    if expected == "escalated" and not turn.question.strip():
        return "the turn escalated without a question"
    return None


def answers_as_expected(trajectory: Trajectory) -> str | None:
    """The answer contains the expected one, ignoring case and white space; see `answer_of`."""
    expected, answer = trajectory.golden.expected_final_answer, answer_of(trajectory.turn)
    if _plain(expected) in _plain(answer):
        return None
    return f"expected {expected[:MAX_QUOTED]!r} in the answer, found {answer[:MAX_QUOTED]!r}"


def delivers_the_artifacts(trajectory: Trajectory) -> str | None:
    """Every expected artifact was delivered, with the status `done`."""
    there = trajectory.artifacts
    statuses = {name: there.get(name.lstrip("/"), "missing") for name in trajectory.golden.expected_artifact_set}
    if problems := [f"{name!r} is {status}" for name, status in statuses.items() if status != "done"]:
        return f"{', '.join(problems)}; delivered: {', '.join(map(repr, there)) or 'nothing'}"
    return None


def _why(turn: Turn) -> str:
    if turn.error:
        return f"{type(turn.error).__name__}: {turn.error}"
    if turn.status == "paused":
        return f"it waits for a decision about {', '.join(wait.call.name for wait in turn.interrupts)}"
    return turn.question[:MAX_QUOTED] if turn.status == "escalated" else turn.reason


def _plain(text: str) -> str:
    # One letter may be one character or two: é is also e with an accent behind it.
    return " ".join(normalize("NFC", text.casefold()).split())
