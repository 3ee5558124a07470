"""Structured output: the JSON in a model's text, converted to a type."""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_FENCED = re.compile(r"```[\w-]*[^\S\n]*\n(.*?)```", re.DOTALL)
# An unterminated string extends to the end; otherwise each quote in the text would be tried as the start of another.
_STRING = r'("(?:\\.|[^"\\])*+"?)'
_COMMENT = re.compile(_STRING + r"|(?:#|//)[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)


def json_in(text: str) -> Any:
    """Return the JSON value in *text*.

    That is the whole text, else the content of a fence, else everything from the first `{` to the last `}`. Comments
    and trailing commas, which models write, are ignored.

    Raises:
        ValueError: nothing is valid JSON. The message describes the first problem and quotes none of the text.
    """
    problem = ""
    for candidate in _candidates(text):
        for form in (candidate, _COMMA.sub(_only_strings, _COMMENT.sub(_only_strings, candidate))):
            try:
                return msgspec.json.decode(form)
            except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as exc:
                problem = problem or str(exc)
    raise ValueError(f"no JSON: {problem}")


def _candidates(text: str) -> Iterator[str]:
    yield text
    yield from _FENCED.findall(text)
    first, last = text.find("{"), text.rfind("}")
    if 0 <= first < last:
        yield text[first : last + 1]


def _only_strings(found: "re.Match[str]") -> str:
    return found[1] or ""


def fitting(value: Any, kind: type[T]) -> T:
    """Convert plain data to a *kind*, such as a Struct.

    Raises:
        ValueError: it does not fit. The message says where.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as exc:
        raise ValueError(str(exc)) from None
