"""Glob patterns for paths, matched in time that no pattern can blow up."""

import fnmatch
import re

from msgspec import Struct

from ..errors import ToolError
from .names import quoted
from .paths import below

MAX_CHOICES = 100
"""Patterns that the braces of one may stand for."""
MAX_LENGTH = 1000
"""Characters of a pattern."""

_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MAGIC = re.compile(r"[*?\[]")


class Glob:
    """A pattern for files below *base*.

    Without a `/` it matches a name at any depth; with one it is relative to *base*; with a leading one to the root.
    `*`, `?` and `[abc]` stay within a name, `**` stands for any number of folders, `{a,b}` for either. What begins
    with a dot must be written with it. Case counts.

    Raises:
        ToolError: it is empty, has a `..`, is too long, or braces that stand for more than `MAX_CHOICES` patterns.
    """

    def __init__(self, pattern: str, base: str) -> None:
        if not pattern or ".." in pattern.split("/"):
            raise ToolError(
                f"pattern {quoted(pattern[:200])} is refused: it is empty or has '..'; write one like 'src/**/*.py'"
            )
        self._base = "/" if pattern.startswith("/") else base
        self._ways = [_parts(way, anywhere="/" not in way) for way in _choices(pattern)]
        self.starts = sorted({below(self._base, "/".join(_literal(way))).rstrip("/") or "/" for way in self._ways})
        """The folders, or the files themselves, in which all that matches is found."""

    def matches(self, path: str) -> bool:
        """Whether *path*, a file below the base or the base itself, fits."""
        names = (path[len(below(self._base)) :] or path.rpartition("/")[2]).split("/")
        return any(_fits(way, names) for way in self._ways)


class _Part(Struct, frozen=True):
    text: str
    fits: re.Pattern[str]

    def takes(self, name: str) -> bool:
        if name.startswith(".") and not self.text.startswith("."):
            return False
        return self.text == "**" or self.fits.match(name) is not None


def _choices(pattern: str) -> list[str]:
    """The patterns that the braces stand for, the innermost braces first."""
    done: list[str] = []
    rest = [pattern]
    while rest:
        if len(done) + len(rest) > MAX_CHOICES or len(pattern) > MAX_LENGTH:
            limits = f"at most {MAX_LENGTH:,} characters, and braces for at most {MAX_CHOICES} patterns"
            raise ToolError(f"pattern {quoted(pattern[:200])} is too large: {limits}; use several calls")
        text = rest.pop()
        if found := _CHOICE.search(text):
            rest += [text[: found.start()] + choice + text[found.end() :] for choice in found[1].split(",")]
        else:
            done.append(text)
    return done


def _parts(pattern: str, anywhere: bool) -> list[_Part]:
    texts = [text for text in pattern.split("/") if text not in ("", ".")]
    texts = ["**", *texts] if anywhere else texts
    texts += ["*"] if texts[-1:] == ["**"] else []  # A folder itself is no match for what is in it.
    return [_Part(text, re.compile(fnmatch.translate(text))) for text in texts]


def _literal(way: list[_Part]) -> list[str]:
    """What a pattern begins with, up to the first part that must be looked for."""
    texts = [part.text for part in way]
    magic = (at for at, text in enumerate(texts) if _MAGIC.search(text))
    return texts[: next(magic, len(texts))]


def _fits(way: list[_Part], names: list[str]) -> bool:
    """Follow all the ways to read the pattern at once: each name costs at most one look at each part."""
    places = _reached(way, {0})
    for name in names:
        taking = (at for at in places if at < len(way) and way[at].takes(name))
        places = _reached(way, {at if way[at].text == "**" else at + 1 for at in taking})
    return len(way) in places


def _reached(way: list[_Part], places: set[int]) -> set[int]:
    """*places*, and where `**` leads when it stands for no folder."""
    for at, part in enumerate(way):
        if part.text == "**" and at in places:
            places.add(at + 1)
    return places
