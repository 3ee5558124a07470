"""The head of a `SKILL.md`: two texts out of YAML that may be anybody's, of which nothing else is ever built."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from msgspec import Struct

from ..backends.text import decode

MAX_HEAD = 16_384
"""Bytes in which the head of a skill must end."""
MAX_NAME = 64
MAX_DESCRIPTION = 1024
"""Characters, as in https://agentskills.io/specification."""

_DEPTH = 10
_HEAD = re.compile(rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class Skill(Struct, frozen=True):
    name: str
    description: str
    """One line."""


def skill(folder: str, data: bytes) -> Skill | str:
    r"""The skill in a folder of this name, whose file begins with *data*; or what is wrong with it, in one line.

    >>> skill("notes", b"---\nname: notes\ndescription: Take notes.\n---\nFirst, ...")
    Skill(name='notes', description='Take notes.')
    """
    head = _HEAD.match(data[:MAX_HEAD])
    if head is None:
        return f"it does not begin with a head between two lines '---', within {MAX_HEAD:,} bytes"
    return _skill(folder, head[1])


@lru_cache(maxsize=512)
def _skill(folder: str, head: bytes) -> Skill | str:
    decoded = decode(head)
    fields = _fields(decoded.text) if decoded else "its head is binary"
    return fields if isinstance(fields, str) else _checked(folder, fields)


def one_line(text: str) -> str:
    """*text* without line breaks and what cannot be printed."""
    return " ".join("".join(char for char in text if char.isprintable() or char.isspace()).split())


def _checked(folder: str, fields: dict[str | None, str | None]) -> Skill | str:
    name, description = fields.get("name"), fields.get("description")
    if not name:
        return "its head has no name (text)"
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        kind = f"of lowercase letters, digits and single hyphens between them, {MAX_NAME} at most"
        return f"its name {_quoted(name)} is not {kind}"
    if name != folder:
        return f"its name {name!r} is not that of its folder, {_quoted(folder)}"
    description = one_line(description or "")
    if not description:
        return "its head has no description (text)"
    if len(description) > MAX_DESCRIPTION:
        return f"its description has {len(description):,} characters, more than {MAX_DESCRIPTION:,}"
    return Skill(name, description)


def _fields(text: str) -> dict[str | None, str | None] | str:
    """What a YAML mapping says at its top, None for what is no text; or what is wrong with it.

    Events are read, not values: so there are no types to convert to, no alias to multiply, no depth to fall into.
    """
    import yaml  # 40 ms, for those who have skills.

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        nodes = list(_top(yaml.parse(text, Loader=loader)))
    except _Refused as exc:
        return f"its head {exc}"
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 2 if exc.problem_mark else 1
        return f"its head is not YAML: line {line}: {one_line(exc.problem or '')}"
    except (yaml.YAMLError, ValueError, OverflowError):  # A character, or a number, that cannot be.
        return "its head is not YAML"
    return dict(zip(nodes[::2], nodes[1::2], strict=False))


class _Refused(Exception):
    """YAML that no honest skill needs."""


def _top(events: Any) -> Iterator[str | None]:
    """The keys and values of a mapping in turn; None for each that is a list or a mapping itself."""
    import yaml

    depth = 0
    for event in events:
        match event:
            case yaml.AliasEvent():
                raise _Refused("uses an alias (*): write it out")
            case yaml.ScalarEvent() | yaml.SequenceStartEvent() if depth == 0:
                raise _Refused("is no mapping of names to values")
            case yaml.ScalarEvent(value=str(value)) if depth == 1:
                yield value
            case yaml.CollectionStartEvent():
                if depth == _DEPTH:
                    raise _Refused(f"is nested deeper than {_DEPTH}")
                if depth == 1:
                    yield None
                depth += 1
            case yaml.CollectionEndEvent():
                depth -= 1
            case yaml.DocumentEndEvent():
                return
            case _:
                pass


def _quoted(text: str) -> str:
    return repr(text if len(text) <= MAX_NAME else text[:MAX_NAME] + "…")
