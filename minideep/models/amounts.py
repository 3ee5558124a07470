"""Amounts in answers, which servers write in many forms, or leave out."""

from typing import Any, cast

from .answers import Wire

MAX_COUNT = 2**53
"""No reply takes more tokens, or dollars; sums of larger numbers would lose precision."""


def nested(value: Any, *names: str) -> Any:
    """Follow *names* into nested objects, starting at *value*; return None if one is missing."""
    for name in names:
        value = cast(Wire, value).get(name) if isinstance(value, dict) else None
    return value


def token_count(usage: Any, *names: str) -> int | None:
    """Return the number of tokens under *names*, or None. Some servers write it as a float."""
    value = nested(usage, *names)
    return round(value) if _is_amount(value) else None


def dollars(usage: Any, *names: str) -> float | None:
    """Return the amount of money under *names*, or None."""
    value = nested(usage, *names)
    return float(value) if _is_amount(value) else None


def _is_amount(value: Any) -> bool:
    # NaN or a negative number would defeat every budget it is added to.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
