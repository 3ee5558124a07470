"""Golden sets: goals with expected results, as lines of JSON."""

import os
from codecs import BOM_UTF8
from pathlib import Path

import msgspec

from ..checks import UserWritten, check_fields, checked
from ..errors import ConfigError
from ..kinds import Pathname

MAX_FILE = 16 * 2**20
"""Bytes of a golden set."""


class Golden(UserWritten, frozen=True, forbid_unknown_fields=True):
    """A goal and its expected results.

    Raises:
        ConfigError: the goal is empty, or a field has another type.
    """

    goal: str
    expected_final_answer: str = ""
    """Text that the answer must contain, ignoring case and white space. Empty: any answer will do."""
    expected_artifact_set: tuple[str, ...] = ()
    """Artifacts that must be delivered, by their name in the plan or their file's. Others may be delivered too."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.goal.strip():
            raise ConfigError("its goal is empty; say what the agent should do")


_EXPECTED = '{"goal": "...", "expected_final_answer": "...", "expected_artifact_set": ["..."]}, the last two optional'
_decoder = msgspec.json.Decoder(Golden)


@checked
def load(path: Pathname) -> list[Golden]:
    """Read a golden set from a file of at most 16 MiB: one JSON object a line. Blank lines are skipped.

    Raises:
        ConfigError: the file cannot be read or is empty, or a line is not a golden. Names the file and the line.
    """
    file = os.fsdecode(path)
    goldens = [
        _golden(line, f"{file!r}, line {number}")
        for number, line in enumerate(_content(file).removeprefix(BOM_UTF8).split(b"\n"), start=1)
        if line.strip()
    ]
    if not goldens:
        raise ConfigError(f"the golden set {file!r} is empty; expected lines of {_EXPECTED}")
    return goldens


def _content(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except (OSError, ValueError) as exc:
        raise ConfigError(f"the golden set at path {path!r} cannot be read: {exc}") from None
    if len(data) > MAX_FILE:
        raise ConfigError(f"the golden set at path {path!r} has more than {MAX_FILE:,} bytes; split it")
    return data


def _golden(line: bytes, where: str) -> Golden:
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, ConfigError) as exc:  # msgspec raises a `ValueError` since 0.21.
        raise ConfigError(f"{where}: {exc}; expected {_EXPECTED}") from None
