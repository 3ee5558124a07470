"""Replace exact text in a file that keeps its own line endings."""

from msgspec import Struct

from ...backends import quoted
from ...errors import ToolError


class Replacement(Struct, frozen=True):
    """The old and the new text, with the line endings of the file, and how often the old one occurs."""

    old: str
    new: str
    count: int


def replacement(path: str, text: str, old: str, new: str, replace_all: bool) -> Replacement:
    """Find *old* in *text*, the content of *path*, and give both *old* and *new* the line endings of *text*.

    Raises:
        ToolError: *old* does not occur, or occurs more than once without *replace_all*; or nothing would change.
    """
    if not old:
        raise ToolError("old_string is empty; give the text to replace, or write the whole file with write_file")
    endings = _endings(text)
    old, new = _with_endings(old, endings), _with_endings(new, endings)
    if old == new:
        raise ToolError("old_string and new_string are the same, so nothing would change; give another new_string")
    count = text.count(old)
    if not count:
        raise ToolError(f"{quoted(path)} was not changed: {_why_missing(text, old, new)}")
    if count > 1 and not replace_all:
        remedy = "add the lines around the one you mean, or set replace_all"
        raise ToolError(f"{quoted(path)} was not changed: old_string is there {count} times; {remedy}")
    return Replacement(old, new, count)


def _endings(text: str) -> str:
    """Return how the lines of *text* end; "" if it mixes both kinds."""
    pairs = text.count("\r\n")
    if pairs == 0:
        return "\n"
    return "\r\n" if pairs == text.count("\n") else ""


def _with_endings(text: str, endings: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", endings) if endings else text


def _why_missing(text: str, old: str, new: str) -> str:
    bare = old.rstrip("\r\n")
    if bare and text.endswith(bare):
        return "only the final newline differs, the file ends without one; leave it out of old_string"
    if _with_endings(old, "\n") in _with_endings(text, "\n"):
        return "only the line endings differ, the file mixes both kinds; change one line at a time"
    if new and new in text:
        return "old_string is not there, but the new text is already there; read it to see whether the edit was made"
    return "old_string is not there; read the file and copy it exactly, spaces included, without the @@ header"
