"""Golden sets: goals, each with what is expected of the turn, as lines of JSON."""

import os
from codecs import BOM_UTF8
from pathlib import Path

import msgspec
from msgspec import Struct

from ..checks import check_fields, checked
from ..errors import ConfigError
from ..kinds import Pathname

MAX_FILE = 16 * 2**20
"""Bytes that a golden set may have."""


class Golden(Struct, frozen=True, forbid_unknown_fields=True):
    """One goal, and what is expected.

    Raises:
        ConfigError: it has no goal, or its artifacts are one text instead of several names.
    """

    goal: str
    expected_final_answer: str = ""
    """What the answer contains, spaces and capitals aside; empty: anything will do."""
    expected_artifact_set: tuple[str, ...] = ()
    """Names of artifacts, as the plan says them or as they are stored; others may be there as well."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.goal.strip():
            raise ConfigError("its goal is empty; say what the agent is to do")


_EXPECTED = '{"goal": "...", "expected_final_answer": "...", "expected_artifact_set": ["..."]}, the last two optional'
_decoder = msgspec.json.Decoder(Golden)


@checked
def load(path: Pathname) -> list[Golden]:
    """The golden set in a file: one JSON object a line, blank lines aside, 16 MiB at most.

    Raises:
        ConfigError: it cannot be read, holds nothing, or a line of it is no golden; names the file and the line.
    """
    file = os.fsdecode(path)
    goldens = [
        _golden(line, f"{file!r}, line {number}")
        for number, line in enumerate(_content(file).removeprefix(BOM_UTF8).split(b"\n"), start=1)
        if line.strip()
    ]
    if not goldens:
        raise ConfigError(f"the golden set {file!r} is empty; each of its lines is {_EXPECTED}")
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
    except (msgspec.MsgspecError, ValueError, ConfigError) as exc:  # A decoder's own is a `ValueError` since 0.21.
        raise ConfigError(f"{where}: {exc}; expected {_EXPECTED}") from None
