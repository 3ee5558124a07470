"""JSON of plain data: everything that `json.loads` can return survives, and what a model wrote as arguments is kept."""

from typing import Any

import msgspec

from .errors import ConfigError

MAX_NESTING = 100
"""The most levels of lists and mappings in plain data: readers recurse, and the caller's stack may be deep already."""


def to_json(value: Any) -> bytes:
    """Encode plain data as compact JSON. Everything that `json.loads` can return survives, lone surrogates, NaN and big
    integers included.

    Raises:
        TypeError: *value* holds something that JSON cannot express.
    """
    try:
        raw = msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _written_by_python(value)
    # msgspec, which is faster, writes NaN and the infinities as null: where a null stands, `json` must look again.
    return _written_by_python(value) if b"null" in raw else raw


def _written_by_python(value: Any) -> bytes:
    import json  # Loaded for what msgspec refuses.

    return json.dumps(value, separators=(",", ":")).encode()


def arguments_json(value: Any) -> bytes:
    """Encode a call's arguments with `to_json`.

    Raises:
        ConfigError: JSON cannot express them.
        ValueError: they nest deeper than 100 levels.
    """
    if too_deep(value):
        raise ValueError(f"arguments nest deeper than {MAX_NESTING} levels")
    try:
        return to_json(value)
    except TypeError as exc:
        raise ConfigError(f"args must be a mapping of values that JSON can express: {exc}") from None


def too_deep(value: Any) -> bool:
    """Return whether lists and mappings in *value* nest deeper than 100 levels."""
    level: list[Any] = [value]  # Level by level: recursion would fail on the very values that are refused here.
    for _ in range(MAX_NESTING):
        inner: list[Any] = [item for item in level if isinstance(item, dict | list | tuple)]
        if not inner:
            return False
        level = [part for item in inner for part in (item.values() if isinstance(item, dict) else item)]  # pyright: ignore
    return True


def from_json(raw: bytes | str) -> Any:
    """Decode JSON as `json.loads` does: NaN, infinities and lone surrogates included.

    Raises:
        ValueError: *raw* is not JSON.
    """
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:  # Perhaps only for NaN or a lone surrogate, which msgspec refuses.
        return _read_by_python(raw)


def _read_by_python(raw: bytes | str) -> Any:
    import json

    return json.loads(raw)


def is_json(raw: bytes) -> bool:
    """Return whether `from_json` can decode *raw*."""
    try:
        _syntax.decode(raw)
    except msgspec.DecodeError:
        try:
            _read_by_python(raw)
        except (ValueError, RecursionError):
            return False
    return True


_syntax = msgspec.json.Decoder(msgspec.Raw)  # Checks the syntax, and builds no values.


def parse_arguments(text: str) -> bytes:
    """Convert the arguments that a model wrote to the form that `ToolCall` keeps: text that is not a JSON object
    becomes a JSON string, so that the model can be shown its mistake.
    """
    try:
        value = from_json(text or "{}")
        return arguments_json(value if isinstance(value, dict) else text)
    except (ValueError, RecursionError):
        return to_json(text)
