"""Reads what an assertion says about a trajectory: nothing, a problem, or a score."""

from typing import Annotated

from msgspec import Meta, structs

from ..checks import UserWritten, check_fields
from ..documented import Struct
from ..kinds import shown

Share = Annotated[float, Meta(ge=0, le=1)]
THRESHOLD = 0.5
"""The least score that passes, unless an assertion sets another."""


class Score(UserWritten, frozen=True):
    """A score from 0 to 1. One below its threshold fails the case.

    Raises:
        ConfigError: the value or the threshold is not a number from 0 to 1, or a field has another type.
    """

    value: Share
    reason: str = ""
    name: str = ""
    """Empty: the name of the assertion that returned it."""
    threshold: Share = THRESHOLD

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def passed(self) -> bool:
        return self.value >= self.threshold

    def __str__(self) -> str:
        """Return the score in words, for a failure: `0.25, expected at least 0.5: it names no source`."""
        return f"{self.value:.2g}, expected at least {self.threshold:g}{self.reason and f': {self.reason}'}"


Verdict = None | str | bool | float | Score
"""What an assertion returns: None or True if nothing is wrong; a text that says what is, or False; or a score, as a
number from 0 to 1 or a `Score`.
"""


class Failure(Struct, frozen=True):
    """A failed assertion."""

    assertion: str
    """Its name, or `turn` if there was no turn to check."""
    problem: str

    def __str__(self) -> str:
        return f"{self.assertion}: {self.problem}"


def read_verdict(verdict: object, name: str) -> Score | Failure | None:
    """Return what the assertion *name* means by its *verdict*: a score with a name, a failure, or None if it passes."""
    match verdict:
        case None | True:
            return None
        case False:
            return Failure(name, "it returned False")
        case str():
            return Failure(name, verdict)
        case Score():
            return structs.replace(verdict, name=verdict.name or name)
        case int() | float() if 0 <= verdict <= 1:
            return Score(float(verdict), name=name)
        case _:
            wanted = "return None, what is wrong, or a score from 0 to 1"
            return Failure(name, f"it returned {shown(verdict)}; {wanted}")
