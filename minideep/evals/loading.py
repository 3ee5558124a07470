"""Reads golden sets from files: JSON, one object a line, or a YAML list."""

import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from ..checks import checked
from ..errors import ConfigError
from ..kinds import Pathname
from ..mistakes import did_you_mean
from .golden import Golden

MAX_FILE = 16 * 2**20
"""Bytes of a golden set."""
MAX_YAML = 2**20
"""Bytes of a golden set in YAML, which is read a hundred times more slowly."""
_EXPECTED = '{"goal": "...", "expected_final_answer": "...", ...}: all but the goal may be left out'
_FIELDS = Golden.__struct_fields__
_MEANT = dict.fromkeys(("input", "inputs", "prompt", "question", "task"), "goal") | dict.fromkeys(
    ("answer", "expected", "expected_answer", "expected_output", "output", "reference"), "expected_final_answer"
)
"""What other tools call a field."""


@checked
def load(path: Pathname) -> list[Golden]:
    """Read a golden set from a file: a YAML list of at most 1 MiB if its name ends with `.yaml` or `.yml`; otherwise
    JSON of at most 16 MiB, one object a line. Blank lines are skipped.

    Raises:
        ConfigError: the file cannot be read or is empty, or something in it is not a golden. Names the file and the
            place.
    """
    file = os.fsdecode(path)
    is_yaml = file.lower().endswith((".yaml", ".yml"))
    data = _content(file, MAX_YAML if is_yaml else MAX_FILE).removeprefix(BOM_UTF8)
    goldens = [_golden(raw, f"{file!r}, {place}") for place, raw in (_items(data, file) if is_yaml else _lines(data))]
    if not goldens:
        raise ConfigError(f"the golden set {file!r} is empty; expected {_EXPECTED}")
    return goldens


def _content(path: str, limit: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as exc:
        raise ConfigError(f"the golden set at path {path!r} cannot be read: {exc}") from None
    if len(data) > limit:
        raise ConfigError(f"the golden set at path {path!r} has more than {limit:,} bytes; split it")
    return data


def _lines(data: bytes) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield f"line {number}", line


def _items(data: bytes, file: str) -> Iterator[tuple[str, bytes]]:
    """Yield each item of a YAML list as JSON, which is then read like a line."""
    listed = _yaml(data, file)
    if listed is None:
        return
    if not isinstance(listed, list):
        raise ConfigError(f"the golden set {file!r} must be a list of goldens: `- goal: ...`")
    for number, item in enumerate(cast(list[Any], listed), start=1):
        try:
            yield f"item {number}", msgspec.json.encode(item)
        except (TypeError, ValueError, RecursionError) as exc:
            raise ConfigError(f"{file!r}, item {number}: {exc}") from None


def _yaml(data: bytes, file: str) -> Any:
    import yaml  # Takes 40 ms, which JSON should not pay.

    try:
        # By events first: an alias can multiply its target until the memory is full.
        for event in yaml.parse(data, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise ConfigError(f"{file!r}, line {line}: it uses an alias (*); write the value out")
        return yaml.safe_load(data)
    except RecursionError:
        raise ConfigError(f"the golden set {file!r} nests too deep") from None
    except (yaml.YAMLError, ValueError, OverflowError) as exc:
        raise ConfigError(f"the golden set {file!r} is not YAML: {' '.join(str(exc).split())}") from None


def _golden(raw: bytes, where: str) -> Golden:
    try:
        found = msgspec.json.decode(raw, type=dict[str, Any])
        for name in found.keys() - set(_FIELDS):
            meant = f"; did you mean {_MEANT[name]!r}?" if name in _MEANT else did_you_mean(name, _FIELDS)
            raise ConfigError(f"unknown field `{name}`{meant}")
        return msgspec.json.decode(raw, type=Golden)
    except (msgspec.MsgspecError, ValueError, RecursionError, ConfigError) as exc:
        quotes = (
            "; put it in quotes" if "Expected `str`" in str(exc) else ""
        )  # YAML takes 1815, yes and dates for no text.
        raise ConfigError(f"{where}: {exc}{quotes}; expected {_EXPECTED}") from None
