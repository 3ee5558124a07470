"""Glob patterns for paths, matched in a time that is bounded for every pattern."""

import fnmatch
import re

from msgspec import Struct

from ..errors import ToolError
from .names import quoted
from .paths import join

MAX_CHOICES = 100
"""The most patterns that the braces of one pattern may expand to."""
MAX_LENGTH = 1000
"""The longest pattern, in characters."""

_CHOICE = r"\{([^{}]*,[^{}]*)\}"
_MAGIC = r"[*?\[]"


class Glob:
    """A pattern for files below *base*.

    Without a `/` it matches a name at any depth; with one it is relative to *base*; with a leading one, to the root.
    `*`, `?` and `[abc]` match within one name, `**` matches any number of folders, `{a,b}` either choice. A name that
    begins with a dot matches only if the pattern writes the dot, or if *dots*. Case matters.

    Raises:
        ToolError: the pattern is empty, has a `..`, is too long, or its braces expand to more than `MAX_CHOICES`.
    """

    def __init__(self, pattern: str, base: str, *, dots: bool = False) -> None:
        if not pattern or ".." in pattern.split("/"):
            raise ToolError(
                f"pattern {quoted(pattern[:200])} is refused: it is empty or has '..'; write one like 'src/**/*.py'"
            )
        self._base = "/" if pattern.startswith("/") else base
        self._choices = [_parts(choice, "/" not in choice, dots) for choice in _expanded(pattern)]
        self.starts: list[str] = sorted(
            {join(self._base, "/".join(_literal(parts))).rstrip("/") or "/" for parts in self._choices}
        )
        """The folders, or files, below which all matches lie."""
        self._insides = tuple(map(join, self.starts))

    def matches(self, path: str) -> bool:
        """Return whether *path* is below the base, or the base itself, and matches."""
        if path not in self.starts and not path.startswith(self._insides):
            return False
        names = (path[len(join(self._base)) :] or path.rpartition("/")[2]).split("/")
        return any(fits(parts, names) for parts in self._choices)


class Part(Struct, frozen=True):
    """A pattern for one name of a path."""

    text: str
    """`**` stands for any number of names."""
    regex: re.Pattern[str]
    dots: bool = False
    """True if it matches a name that begins with a dot though it does not write the dot."""

    def matches(self, name: str) -> bool:
        if name.startswith(".") and not (self.dots or self.text.startswith(".")):
            return False
        return self.text == "**" or self.regex.match(name) is not None


def _expanded(pattern: str) -> list[str]:
    """Expand braces, the innermost first."""
    done: list[str] = []
    rest = [pattern]
    while rest:
        # Checked on every round: nested braces multiply, so a short pattern could expand to millions.
        if len(done) + len(rest) > MAX_CHOICES or len(pattern) > MAX_LENGTH:
            limits = f"at most {MAX_LENGTH:,} characters, and braces for at most {MAX_CHOICES} patterns"
            raise ToolError(f"pattern {quoted(pattern[:200])} is too large: {limits}; use several calls")
        text = rest.pop()
        if found := re.search(_CHOICE, text):
            rest += [text[: found.start()] + choice + text[found.end() :] for choice in found[1].split(",")]
        else:
            done.append(text)
    return done


def _parts(pattern: str, anywhere: bool, dots: bool) -> list[Part]:
    texts = [text for text in pattern.split("/") if text not in ("", ".")]
    texts = ["**", *texts] if anywhere else texts
    texts += ["*"] if texts[-1:] == ["**"] else []  # `src/**` matches the files in `src`, not `src` itself.
    return [Part(text, re.compile(fnmatch.translate(text)), dots) for text in texts]


def _literal(parts: list[Part]) -> list[str]:
    """Return the names before the first part that needs a search."""
    texts = [part.text for part in parts]
    magic = (at for at, text in enumerate(texts) if re.search(_MAGIC, text))
    return texts[: next(magic, len(texts))]


def fits(parts: list[Part], names: list[str]) -> bool:
    """Match *names* by following all positions in the pattern at once.

    Backtracking over `**` takes exponential time for some patterns. This way each name is compared with each part at
    most once.
    """
    positions = _with_skips(parts, {0})
    for name in names:
        matching = (at for at in positions if at < len(parts) and parts[at].matches(name))
        positions = _with_skips(parts, {at if parts[at].text == "**" else at + 1 for at in matching})
    return len(parts) in positions


def _with_skips(parts: list[Part], positions: set[int]) -> set[int]:
    """Add the positions after each `**`, which may match no folder at all."""
    for at, part in enumerate(parts):
        if part.text == "**" and at in positions:
            positions.add(at + 1)
    return positions
