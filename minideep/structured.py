"""Structured output: the JSON in a model's text, read as a type."""

import json
import re
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

from .plain_json import too_deep

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
MAX_LOOKED = 2_000_000
"""Characters that are decoded, in all attempts on one text: values inside of values are decoded again."""
_THOUGHT = re.compile(r"<(think|thinking|reasoning|thought)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCED = re.compile(r"```[\w+-]*[^\S\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_OPENS = re.compile(r"[{\[]")
# An unterminated string extends to the end; otherwise each quote in the text would be tried as the start of another.
_STRING = r'("(?:\\.|[^"\\])*+"?)'
_COMMENT = re.compile(_STRING + r"|(?:#|//)[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_decoder = json.JSONDecoder()


class Wanted(Protocol[T_co]):
    """What is looked for in a text; a `DataType` is one."""

    @property
    def wanted(self) -> str: ...
    def read(self, value: Any, /) -> T_co: ...


def value_in(text: str, kind: Wanted[T]) -> T:
    """Return the value of *kind* in *text*: the whole of it, or an object or list that stands in a fence or in prose.

    Text between `<think>` tags, comments and trailing commas are left out. Of several values the last one counts, for
    drafts and examples come first. No part is looked at of a value that is one of *kind*.

    Raises:
        ValueError: there is none. The message says what is wrong with what was found, and which shape is wanted; it
            quotes none of the text.
    """
    problems: list[str] = []
    empty: list[T] = []
    for form in _forms(text):
        found = list(_values(form, kind, problems))
        if full := [read for value, read in found if value not in ({}, [])]:
            return full[-1]
        empty += [read for _, read in found]
    if empty and not problems:  # If all fields have defaults, an empty pair of braces in prose is a value, too.
        return empty[-1]
    raise ValueError(problems[0] if problems else f"the reply holds no JSON; {kind.wanted}")


def _forms(text: str) -> Iterator[str]:
    """Yield *text* without what models write around JSON, then with less, then as it is."""
    answer = _FENCED.sub(lambda fence: _without_extras(fence[1]), _THOUGHT.sub("", text)).strip()
    yield answer
    yield _without_extras(answer[max(0, answer.find("{")) :])
    if "<" in text:
        yield text


def _values(text: str, kind: Wanted[T], problems: list[str]) -> Iterator[tuple[Any, T]]:
    """Yield the values in *text* that are of *kind*, and as what they were read. A part of one is none."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        pass
    else:
        if read := _read(whole, kind, problems):
            yield whole, read[0]
            return
    at, looked = 0, 0
    while (opens := _OPENS.search(text, at)) and looked < MAX_LOOKED:
        at = opens.end()
        try:
            value, end = _decoder.raw_decode(text, opens.start())
        except (ValueError, RecursionError) as exc:
            looked += getattr(exc, "pos", at + 100_000) - opens.start() + 1_000
            continue
        looked += end - opens.start() + 1_000
        if read := _read(value, kind, problems):
            at = end
            yield value, read[0]


def _read(value: Any, kind: Wanted[T], problems: list[str]) -> tuple[T] | None:
    try:
        return None if too_deep(value) else (kind.read(value),)
    except ValueError as exc:
        problems.append(str(exc))
        return None


def _without_extras(text: str) -> str:
    """Return *text* without the comments and trailing commas that models write into JSON."""
    return _COMMA.sub(_only_strings, _COMMENT.sub(_only_strings, text))


def _only_strings(found: "re.Match[str]") -> str:
    return found[1] or ""
