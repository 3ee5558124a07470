"""Replace exact texts in a file that keeps its own line endings: all of them, or none."""

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from ...backends import quoted
from ...errors import ToolError

MAX_STEPS = 10_000_000
"""The most characters of all texts that `steps` returns."""


class Replacement(Struct, frozen=True):
    """The old and the new text, with the line endings of the file, and how often the old one occurs."""

    old: str
    new: str
    count: int


class Edited(Struct, frozen=True):
    """A text, and the replacements that made it."""

    text: str
    parts: list[Replacement]


def edited(path: str, text: str, pairs: Sequence[Sequence[str]], replace_all: bool) -> Edited:
    """Replace the first text of each of *pairs* by the second in *text*, the content of *path*. Both get the line
    endings of *text*.

    All are looked for in *text* as it is, so their order does not matter, and no two may overlap.

    Raises:
        ToolError: an old text does not occur, or occurs more than once without *replace_all*; or one would change
            nothing; or two of them overlap.
    """
    for number, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ToolError(_of(number, f"it has {len(pair)} texts; give two, the old and the new one"))
    endings = _endings(text)
    parts: list[Replacement] = []
    for number, (old, new) in enumerate(pairs):
        try:
            parts.append(
                _replacement(path, text, _with_endings(old, endings), _with_endings(new, endings), replace_all)
            )
        except ToolError as exc:
            others = [pair[1] for other, pair in enumerate(pairs) if other != number]
            raise ToolError(_of(number, f"{exc}{_later(old, others)}")) from None
    return Edited(_joined(path, text, parts), parts)


def steps(text: str, done: Edited) -> list[str] | None:
    """Return *text* after each of the replacements, made one after the other; or None if each does not then find what
    it found in *text*, because another has written it, or if these texts together are large.
    """
    if len(done.parts) * len(text) > MAX_STEPS:
        return None
    after = [text]
    for part in done.parts:
        if after[-1].count(part.old) != part.count:
            return None
        after.append(after[-1].replace(part.old, part.new))
    return after[1:] if after[-1] == done.text else None


def _replacement(path: str, text: str, old: str, new: str, replace_all: bool) -> Replacement:
    if not old:
        raise ToolError("old_string is empty; give the text to replace, or write the whole file with write_file")
    if old == new:
        raise ToolError("old_string and new_string are the same, so nothing would change; give another new_string")
    count = text.count(old)
    if not count:
        raise ToolError(f"{quoted(path)} was not changed: {_why_missing(path, text, old, new)}")
    if count > 1 and not replace_all:
        remedy = "add the lines around the one you mean, or set replace_all"
        raise ToolError(f"{quoted(path)} was not changed: old_string is there {count} times; {remedy}")
    return Replacement(old, new, count)


def _of(number: int, problem: str) -> str:
    """Say which edit a problem is about; the first one is `old_string` and `new_string` themselves."""
    return f"edits[{number - 1}]: {problem}" if number else problem


def _later(old: str, others: Sequence[str]) -> str:
    """Return a remark if the old text is in what another edit of the same call writes."""
    found = any(old and old in new for new in others)
    return "; all edits of a call are looked for in the file as it was before it" if found else ""


def _joined(path: str, text: str, parts: Sequence[Replacement]) -> str:
    """Return *text* with all replacements made in one pass, so that none finds what another has written."""
    if len(parts) == 1:
        return text.replace(parts[0].old, parts[0].new)
    new, made = {part.old: part.new for part in parts}, Counter[str]()

    def make(found: re.Match[str]) -> str:
        made[found[0]] += 1
        return new[found[0]]

    joined = re.sub("|".join(map(re.escape, new)), make, text)
    for number, part in enumerate(parts):
        if made.pop(part.old, 0) != part.count:
            problem = f"{quoted(path)} was not changed: old_string overlaps another edit of this call"
            raise ToolError(_of(number, f"{problem}; make one of the two"))
    return joined


def _endings(text: str) -> str:
    """Return how the lines of *text* end; "" if it mixes both kinds."""
    pairs = text.count("\r\n")
    if pairs == 0:
        return "\n"
    return "\r\n" if pairs == text.count("\n") else ""


def _with_endings(text: str, endings: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", endings) if endings else text


def _why_missing(path: str, text: str, old: str, new: str) -> str:
    bare = old.rstrip("\r\n")
    if bare and text.endswith(bare):
        return "only the final newline differs, the file ends without one; leave it out of old_string"
    if _with_endings(old, "\n") in _with_endings(text, "\n"):
        return "only the line endings differ, the file mixes both kinds; change one line at a time"
    if new and new in text:
        return "old_string is not there, but the new text is already there; read it to see whether the edit was made"
    if path.lower().endswith(".ipynb"):
        return "old_string is not there; read_file shows the cells, so copy the line of JSON that grep shows"
    return "old_string is not there; read the file and copy it exactly, spaces included, without the @@ header"
