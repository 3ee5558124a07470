"""Turns what a tool returns, if it is neither text nor blocks, into text for a model: JSON where it is data."""

import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from os import PathLike, fspath
from typing import Any, cast

import msgspec

from .kinds import shown
from .messages import AnyBlock, Block, Text, clean

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def text_of_value(value: Any) -> str:
    """Return *value* as JSON or, if JSON cannot express it, its `str`; bytes that are text as that text.

    Raises:
        TypeError: it, or something in it, has no text of its own.
    """
    if isinstance(value, bytes | bytearray):  # Of a program or a page, perhaps: nobody reads base64.
        with suppress(UnicodeDecodeError):
            return bytes(cast(bytes, value)).decode()
    try:
        raw = msgspec.json.encode(value, enc_hook=_as_data)
    except _NoText as exc:
        raise TypeError(str(exc)) from None  # The model reads the name of the class, too.
    except (TypeError, ValueError, OverflowError):  # Keys that are no texts, numbers that are too large.
        return clean(_ADDRESS.sub("", str(value)))
    # One text, such as a date, stands for itself: a model reads no quotes round it.
    return msgspec.json.decode(raw) if raw.startswith(b'"') else raw.decode()


def content_of(parts: Sequence[Any]) -> tuple[AnyBlock, ...]:
    """Return a list in which some parts are blocks as blocks: an image in JSON would be read as its letters."""
    return tuple([cast(AnyBlock, part) if isinstance(part, Block) else _as_text(part) for part in parts])


def _as_text(part: Any) -> Text:
    return Text(part if isinstance(part, str) else text_of_value(part))


class _NoText(TypeError):
    """A value says nothing but its address, which would mislead a model."""


def _as_data(value: Any) -> Any:
    """Return a value that JSON does not know as one that it does, or as its text."""
    match value:
        case list() | tuple() | frozenset():  # As a key; anywhere else JSON knows them.
            raise TypeError("a key must be a text or a number")
        case BaseException():
            return f"{type(value).__name__}: {value}"
        case PathLike():
            return str(cast(Any, fspath(cast(Any, value))))
        case _ if hasattr(value, "model_dump"):  # Of Pydantic.
            return value.model_dump(mode="json")
        case _ if hasattr(value, "tolist"):  # Numbers and arrays of numpy and its like.
            return value.tolist()
        case Mapping():
            return dict(cast(Mapping[Any, Any], value))
        case Collection():
            return list(cast(Collection[Any], value))
        case _:
            return _own_text(value)


def _own_text(value: Any) -> str:
    kind = cast(type[Any], type(value))
    if inspect.iscoroutine(value):
        value.close()  # Or Python warns, somewhere else, that it was never awaited.
        raise _NoText(f"it returned the coroutine {value.__qualname__!r}; write `return await ...`")
    if isinstance(value, Iterator) or (kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__):
        raise _NoText(f"it returned {shown(value)}, which has no text; return text, a dict or a list")
    return _ADDRESS.sub("", str(value))
