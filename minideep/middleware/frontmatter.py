"""Read the head of a `SKILL.md`: two texts from untrusted YAML. No other value is ever constructed from it."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from msgspec import Struct

from ..backends import decode
from ..kinds import shown

MAX_HEAD = 16_384
"""The head of a skill must end within this many bytes."""
MAX_NAME = 64
MAX_DESCRIPTION = 1024
"""Characters, as in https://agentskills.io/specification."""

_MAX_DEPTH = 10
_HEAD = rb"(?ms)\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$"
_NAME = r"[a-z0-9]+(?:-[a-z0-9]+)*"
_UNQUOTED = r"(?m)^([A-Za-z][\w-]*):[ \t]+(?![\"'|>])(.*\S)[ \t]*\r?$"
"""A field whose text stands on its line, without quotation marks."""


class Skill(Struct, frozen=True):
    """A skill, as its head describes it."""

    name: str
    description: str
    """One line."""
    remark: str = ""
    """What is wrong with its head, though it can be used; empty if nothing is."""


def parse_skill(folder: str, data: bytes) -> Skill | str:
    r"""Return the skill in a folder of this name whose file begins with *data*; or its problem, in one line.

    >>> parse_skill("notes", b"---\nname: notes\ndescription: Take notes.\n---\nFirst, ...")
    Skill(name='notes', description='Take notes.', remark='')
    """
    head = re.match(_HEAD, data[:MAX_HEAD])
    if head is None:
        return f"it does not begin with a head between two '---' lines, within {MAX_HEAD:,} bytes"
    return _parsed(folder, head[1])


def body_of(data: bytes) -> str:
    """Return the text of a skill's file without its head."""
    head = re.match(_HEAD, data[:MAX_HEAD])
    decoded = decode(data[head.end() if head else 0 :])
    return decoded.text.strip() if decoded else ""


@lru_cache(maxsize=512)
def _parsed(folder: str, head: bytes) -> Skill | str:
    decoded = decode(head)
    fields = _fields(decoded.text) if decoded else "its head is binary"
    return fields if isinstance(fields, str) else _checked(folder, *fields)


def one_line(text: str) -> str:
    """Return *text* without line breaks and unprintable characters."""
    return " ".join("".join(char for char in text if char.isprintable() or char.isspace()).split())


def _checked(folder: str, fields: dict[str | None, str | None], remark: str) -> Skill | str:
    """Return the skill that a head describes. What can be mended is, with a remark: these folders come from elsewhere,
    where less is asked of them.
    """
    name, description = fields.get("name"), one_line(fields.get("description") or "")
    remarks = [remark] if remark else []
    if problem := _problem_of(name):
        if _problem_of(folder):
            return problem
        remarks.append(f"{problem}, so it is named as its folder")
        name = folder
    elif name != folder:
        remarks.append(f"its name {name!r} differs from that of its folder, {shown(folder)}")
    if not description:
        return "its head has no description (text)"
    if len(description) > MAX_DESCRIPTION:
        remarks.append(f"its description has {len(description):,} characters, of which {MAX_DESCRIPTION:,} are shown")
        description = f"{description[: MAX_DESCRIPTION - 1]}…"
    return Skill(name or folder, description, "; ".join(remarks))


def _problem_of(name: str | None) -> str:
    if not name:
        return "its head has no name (text)"
    if len(name) > MAX_NAME or not re.fullmatch(_NAME, name):
        rule = f"at most {MAX_NAME} lowercase letters, digits and single hyphens between them"
        return f"its name {shown(name)} is not {rule}"
    return ""


def _fields(text: str) -> tuple[dict[str | None, str | None], str] | str:
    """Return the top level of a YAML mapping, with None for anything but text, and a remark; or its problem.

    Only the parser reads it: it gives events, not values. So nothing is converted to a type, an alias cannot multiply
    its target, and deep nesting cannot exhaust the stack.
    """
    import yaml  # Takes 40 ms, which only agents with skills should pay.

    try:
        return _mapping(text), ""
    except _Refused as exc:
        return f"its head {exc}"
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 2 if exc.problem_mark else 1
        problem = f"its head is not YAML: line {line}: {one_line(exc.problem or '')}"
    except (yaml.YAMLError, ValueError, OverflowError):  # An impossible character or number.
        return "its head is not YAML"
    try:  # `description: Use it for this: ...` is what people write.
        return _mapping(re.sub(_UNQUOTED, _quoted, text)), f"{problem}; put the text in quotation marks"
    except (yaml.YAMLError, ValueError, OverflowError, _Refused):
        return problem


def _quoted(field: re.Match[str]) -> str:
    return f"{field[1]}: {json.dumps(field[2], ensure_ascii=False)}"


def _mapping(text: str) -> dict[str | None, str | None]:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    nodes = list(_top(yaml.parse(text, Loader=loader)))
    return dict(zip(nodes[::2], nodes[1::2], strict=False))


class _Refused(Exception):
    """YAML that no honest skill needs. Its text continues "its head"."""


def _top(events: Any) -> Iterator[str | None]:
    """Yield the keys and values of a mapping in turn; None for each that is a list or a mapping itself."""
    import yaml

    depth = 0
    for event in events:
        match event:
            case yaml.AliasEvent():
                raise _Refused("uses an alias (*); write the value out")
            case yaml.ScalarEvent() | yaml.SequenceStartEvent() if depth == 0:
                raise _Refused("is not a mapping of names to values")
            case yaml.ScalarEvent(value=str(value)) if depth == 1:
                yield value
            case yaml.CollectionStartEvent():
                if depth == _MAX_DEPTH:
                    raise _Refused(f"is nested deeper than {_MAX_DEPTH}")
                if depth == 1:
                    yield None
                depth += 1
            case yaml.CollectionEndEvent():
                depth -= 1
            case yaml.DocumentEndEvent():
                return
            case _:
                pass
