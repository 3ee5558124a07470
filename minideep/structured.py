"""Structured output: the JSON in a model's text, read as a type."""

import json
import re
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar, cast

from .plain_json import too_deep

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
MAX_LOOKED = 2_000_000
"""Characters that are decoded, in all attempts on one text: values inside of values are decoded again."""
# From a line's beginning: anywhere else it may be a part of a JSON text, which has no line breaks.
_THOUGHT = re.compile(
    r"^[^\S\n]*<(think|thinking|reasoning|thought)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE | re.MULTILINE
)
# From one line's beginning to another's, or to a line's end: other such marks may be a part of a JSON text.
_FENCED = re.compile(
    r"^[^\S\n]*```[\w+-]*[^\S\n]*\n(.*?)(?:^[^\S\n]*```|(?<=[}\]])[^\S\n]*```[^\S\n]*$|\Z)", re.DOTALL | re.MULTILINE
)
_ONE_FENCE = re.compile(r"\s*```[\w+-]*[^\S\n]*\n(.*)```\s*", re.DOTALL)
_OPENS = re.compile(r"[{\[]")
# An unterminated string extends to the end; otherwise each quote in the text would be tried as the start of another.
_STRING = r'("(?:\\.|[^"\\])*+"?)'
_COMMENT = re.compile(_STRING + r"|(?:#|//)[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_loose = json.JSONDecoder(strict=False)  # Takes line breaks in a text that were not escaped.


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
        if full := [(value, read) for value, read in found if value not in ({}, [])]:
            value, last = full[-1]
            # One value is a list of one. Of several, each on its line perhaps, the last one alone is not the list.
            if isinstance(last, list) and isinstance(value, dict) and len(full) > 1:
                raise ValueError(f"the reply holds several values, but no list of them; {kind.wanted}")
            return cast(T, last)
        empty += [read for _, read in found]
    if empty and not problems:  # If all fields have defaults, an empty pair of braces in prose is a value, too.
        return empty[-1]
    raise ValueError(problems[0] if problems else f"the reply holds no JSON; {kind.wanted}")


def whole_value(text: str) -> Any:
    """Return the one JSON value that *text* is as a whole, as models write it: also inside a fence or inside a JSON
    text, with comments, trailing commas or line breaks in texts, as a literal of Python, or after empty braces.

    Raises:
        ValueError: it is none, or it is cut off.
    """
    if fenced := _ONE_FENCE.fullmatch(text):
        text = fenced[1]
    for read in (_loose.decode, _one_of_several, _without_extras_decoded, _python_literal):
        try:
            value = read(text.strip())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
            return whole_value(value)  # Shorter each time.
        if too_deep(value):
            break
        return value
    raise ValueError("it is not JSON")


def is_cut_off(text: str) -> bool:
    """Return whether *text* is the beginning of a JSON value, whose end is missing."""
    text = text.strip()
    try:
        _loose.decode(text)
    except json.JSONDecodeError as exc:
        rest = text[exc.pos :]
        ends = not rest or exc.msg.startswith("Unterminated string")
        return ends or any(word.startswith(rest) for word in ("true", "false", "null", "-"))
    except RecursionError:
        pass
    return False


def _without_extras_decoded(text: str) -> Any:
    return _loose.decode(_without_extras(text))


def _one_of_several(text: str) -> Any:
    """Return the object in a row of objects that are all the same or empty: some servers write `{}` before it."""
    at, found = 0, list[Any]()
    while at < len(text) and len(found) < 10:
        value, at = _loose.raw_decode(text, at)
        at += len(text[at:]) - len(text[at:].lstrip())
        found.append(value)
    full = [value for value in found if value != {}]
    if at < len(text) or any(value != full[0] for value in full):
        raise ValueError("several values")
    return full[0] if full else {}


def _python_literal(text: str) -> Any:
    """Return a dict or a list that is written as in Python: `{'all': True}`."""
    # A backslash means one thing in Python and another in JSON. The bounds keep Python's parser off its limits.
    if text[:1] not in ("{", "[") or "\\" in text or len(text) > 100_000 or sum(map(text.count, "([{-~+")) > 1_000:
        raise ValueError("not a literal")
    import ast

    try:
        return json.loads(json.dumps(ast.literal_eval(text)))
    except (SyntaxError, TypeError, MemoryError) as exc:
        raise ValueError("not a literal") from exc


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
        whole = _loose.decode(text)
    except (ValueError, RecursionError):
        pass
    else:
        if read := _read(whole, kind, problems):
            yield whole, read[0]
            return
        if isinstance(whole, list) and _holds_several(cast(list[Any], whole), kind):
            raise ValueError(f"the reply is a list of several values; {kind.wanted}")
    at, looked = 0, 0
    while (opens := _OPENS.search(text, at)) and looked < MAX_LOOKED:
        at = opens.end()
        try:
            value, end = _loose.raw_decode(text, opens.start())
        except (ValueError, RecursionError) as exc:
            looked += getattr(exc, "pos", at + 100_000) - opens.start() + 1_000
            continue
        looked += end - opens.start() + 1_000
        if read := _read(value, kind, problems):
            at = end
            yield value, read[0]


def _holds_several(values: list[Any], kind: Wanted[Any]) -> bool:
    """Return whether more than one of *values* is of *kind*: then one of them is no answer in place of all."""
    return sum(isinstance(value, dict) and _read(value, kind, []) is not None for value in values[:100]) > 1


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
