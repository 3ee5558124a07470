"""A golden: a goal, and what a turn must come to."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import structs

from ..checks import UserWritten, check_fields
from ..errors import ConfigError
from ..export import json_line, plain
from ..plain_json import to_json, too_deep

EndStatus = Literal["ended", "paused", "escalated", "failed", "cancelled", "exhausted"]
"""The status of a turn at its boundary."""


class ExpectedCall(UserWritten, frozen=True):
    """A call to a tool as somebody expects it: `ExpectedCall("read_file", {"path": "/notes.md"})`.

    Raises:
        ConfigError: it has no name, or a field has another type.
    """

    name: str
    args: Mapping[str, Any] = {}
    """Arguments that the call must have; it may have more. A mapping inside is matched in part as well. A function is
    called with the argument, and says whether it fits.
    """

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.name.strip():
            raise ConfigError("an expected call has no name; write that of a tool")

    def __str__(self) -> str:
        args = ", ".join(f"{name}={_shown(value)}" for name, value in self.args.items())
        return f"{self.name}({args})" if args else self.name


CallPattern = str | ExpectedCall
"""A call that is expected: the name of a tool, or that and some of the arguments."""


def as_expected(call: CallPattern) -> ExpectedCall:
    """Return a call with the arguments that are expected: none in particular, if it is a name alone."""
    return ExpectedCall(call) if isinstance(call, str) else call


class Golden(UserWritten, frozen=True):
    """A goal, and what its turn must come to. What it expects is checked in every evaluation.

    Raises:
        ConfigError: the goal is empty, or a field has another type.
    """

    goal: str
    expected_final_answer: str = ""
    """Text that the answer must contain, ignoring case and white space. Empty: any answer will do."""
    expected_artifact_set: tuple[str, ...] = ()
    """Artifacts that must be delivered, by their name in the plan or their file's. Others may be delivered too."""
    expected_status: EndStatus = "ended"
    """The status of the turn at its end. `ended` also wants an answer that is whole, and `escalated` a question."""
    expected_calls: tuple[CallPattern, ...] = ()
    """Calls that the main run must make, in this order; others may stand between."""
    id: str = ""
    """Its name in reports; empty: the goal. No two goldens of an evaluation have the same name."""
    earlier: tuple[str, ...] = ()
    """What the person says before the goal, each a turn of the same thread. Only the turn of the goal is checked."""
    files: Mapping[str, str] = {}
    """Texts by path, which the agent is given with the first message: `Agent.run(files=...)`."""
    metadata: Mapping[str, Any] = {}
    """Plain data of your own, kept in the report."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not all(text.strip() for text in (self.goal, *self.earlier)):
            raise ConfigError("its goal is empty; say what the agent should do")
        calls = [dict(as_expected(call).args) for call in self.expected_calls]
        for name, value in (("metadata", dict(self.metadata)), ("expected_calls", calls)):
            _check_plain(name, value)

    @property
    def name(self) -> str:
        """Its id or, if it has none, its goal."""
        return self.id or self.goal

    def json(self) -> str:
        """Return it as one line of JSON, as `load` reads it, without the fields that are at their defaults."""
        written = {field.name: getattr(self, field.name) for field in structs.fields(self)}
        default = {field.name: field.default for field in structs.fields(self)}
        return json_line({name: plain(value) for name, value in written.items() if value and value != default[name]})


def _check_plain(name: str, value: Any) -> None:
    """Check that a report can keep *value*."""
    try:
        if too_deep(value):
            raise ConfigError(f"its {name} nest deeper than 100 levels")
        to_json(value)
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"its {name} must be values that JSON can express: {exc}") from None


def _shown(value: Any) -> str:
    return getattr(value, "__name__", None) or repr(value)
