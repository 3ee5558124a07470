"""Structured replies: the JSON in what a model says, as the type that was asked for."""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_FENCED = re.compile(r"```[\w-]*[^\S\n]*\n(.*?)```", re.DOTALL)
_STRING = r'("(?:\\.|[^"\\])*+"?)'  # One that does not end goes on to the end, lest each of its quotes begin one.
_COMMENT = re.compile(_STRING + r"|(?:#|//)[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)


def json_in(text: str) -> Any:
    """The JSON value that *text* holds: the whole of it, or what stands in a fence, or between the outermost braces.
    Comments and commas at the end of a list, which models write, are passed over.

    Raises:
        ValueError: there is none; says what is wrong with what comes closest, and quotes nothing of it.
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
    """Plain data as a *kind*, such as a Struct.

    Raises:
        ValueError: it does not fit; says where.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as exc:
        raise ValueError(str(exc)) from None
