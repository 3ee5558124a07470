"""What a tool returns that is neither text nor blocks, as text for a model: JSON where it is data."""

import inspect
from typing import Any, cast

import msgspec

from .kinds import shown
from .messages import clean


def text_of_value(value: Any) -> str:
    """Return *value* as JSON or, if JSON cannot express it, its `str`.

    Raises:
        TypeError: it has no text of its own.
    """
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError):
        return clean(_own_text(value))


def _own_text(value: Any) -> str:
    """Return the `str` of a value. Python's own, with nothing but the address of the object, would mislead a model."""
    kind = cast(type[Any], type(value))
    if inspect.iscoroutine(value):
        value.close()  # Or Python warns, somewhere else, that it was never awaited.
        raise TypeError(f"it returned the coroutine {value.__qualname__!r}; write `return await ...`")
    if kind.__str__ is object.__str__ and (kind.__repr__ is object.__repr__ or hasattr(value, "__next__")):
        raise TypeError(f"it returned {shown(value)}, which has no text; return text, a dict or a list")
    return str(value)
