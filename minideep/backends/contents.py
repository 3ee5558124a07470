"""Find lines in files by what they contain, on any backend and within a time limit."""

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from itertools import islice

from msgspec import Struct

from ..context import ToolContext
from ..errors import ToolError
from ..ports import Backend, FileInfo
from .globs import Glob
from .regexes import Matched, Place, TimeUp, matching
from .text import decode

GREP_SECONDS = 15.0
MAX_LINE = 500
"""Characters shown of a line."""


class Hit(Struct, frozen=True):
    """A line that matches, or one near it; cut round the match if it is long."""

    path: str
    line: int
    """Counted from 1."""
    text: str
    near: bool = False
    """True if it does not match itself."""


class Hits(Struct, frozen=True):
    """The result of `grep`."""

    hits: list[Hit]
    full: bool
    """True if more lines match than were asked for."""
    late: bool
    """True if time ran out before every file was seen."""
    skipped: int
    """Files that are too large or could not be read."""


class _Texts:
    """The text files of a search, until time runs out."""

    def __init__(self, ctx: ToolContext, backend: Backend, path: str, names: Glob | None, end: float) -> None:
        self._ctx, self._backend, self._path, self._names, self._end = ctx, backend, path, names, end
        self.late = False
        self.skipped = 0

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for file in self._backend.walk(self._ctx, self._path):
            if time.monotonic() >= self._end:
                self.late = True
                return
            if self._names and not self._names.matches(file.path):
                continue
            try:
                decoded = decode(self._backend.read(self._ctx, file.path))
            except ToolError:
                if file.path == self._path:  # The caller named this file, so skipping it would look like "no match".
                    raise
                self.skipped += 1
                continue
            if decoded:
                yield file.path, decoded.text


def grep(
    ctx: ToolContext,
    backend: Backend,
    pattern: str,
    path: str,
    *,
    glob: str = "",
    regex: bool = False,
    ignore_case: bool = False,
    context: int = 0,
    most: int = 1000,
    once: bool = False,
    seconds: float = GREP_SECONDS,
) -> Hits:
    """Find the lines that contain the text *pattern*, or that match it as a *regex*, in the folder or file *path*; with
    *once*, one line of each file. *context* lines before and after each of them are found too, and each line only once.

    With *regex* this waits for another process, whatever the backend: never call it on an event loop.

    Raises:
        ToolError: *path* does not exist, or is a file that cannot be read; or *pattern* is no valid regular expression.
    """
    end = time.monotonic() + seconds
    texts = _Texts(ctx, backend, path, Glob(glob, path) if glob else None, end)
    each = 1 if once else most + 1  # One more than asked for shows that there are more.
    found = matching(texts, pattern, ignore_case, each, end) if regex else _literal(texts, pattern, ignore_case, each)
    hits, room, full = list[Hit](), most, False
    try:
        with closing(found):
            for file in found:
                if file.places is None:
                    texts.skipped += 1
                    continue
                hits += _hits(file.path, file.text, file.places[:room], context)
                full = len(file.places) > room
                room -= len(file.places)
                if full:
                    break
    except TimeUp:
        texts.late = True
    return Hits(hits, full, texts.late, texts.skipped)


def _literal(texts: Iterable[tuple[str, str]], wanted: str, ignore_case: bool, most: int) -> Generator[Matched]:
    """Yield the texts that contain *wanted*, as `matching` does."""
    fold = str.casefold if ignore_case else str  # Folding may change the length of a line, but never breaks it.
    wanted = fold(wanted)
    for path, text in texts:
        folded = fold(text)
        if wanted in folded:
            yield Matched(path, text, list(islice(_places(folded, wanted), most)))


def _places(text: str, wanted: str) -> Iterator[Place]:
    return ((at, column) for at, line in enumerate(text.split("\n")) if (column := line.find(wanted)) >= 0)


def _hits(path: str, text: str, places: list[Place], context: int) -> Iterator[Hit]:
    lines, columns = text.removesuffix("\n").split("\n"), dict(places)
    shown = {at for line in columns for at in range(max(0, line - context), min(len(lines), line + context + 1))}
    for at in sorted(shown):
        yield Hit(path, at + 1, _excerpt(lines[at].removesuffix("\r"), columns.get(at, 0)), at not in columns)


def _excerpt(line: str, at: int) -> str:
    """Cut *line* to `MAX_LINE` characters around position *at*."""
    if len(line) <= MAX_LINE:
        return line
    start = max(0, min(at - MAX_LINE // 4, len(line) - MAX_LINE))
    end = start + MAX_LINE
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


class InMemory:
    """The files of a search as they are now, so that another thread can read them: a state may be read only on its own.

    Raises:
        ToolError: *path* does not exist.
    """

    def __init__(self, ctx: ToolContext, backend: Backend, path: str) -> None:
        self._infos = list(backend.walk(ctx, path))
        self._contents: dict[str, bytes | ToolError] = {}
        for info in self._infos:
            try:
                self._contents[info.path] = backend.read(ctx, info.path)
            except ToolError as exc:
                self._contents[info.path] = exc

    def walk(self, ctx: ToolContext, path: str) -> Iterator[FileInfo]:
        return iter(self._infos)

    def read(self, ctx: ToolContext, path: str) -> bytes:
        content = self._contents[path]
        if isinstance(content, ToolError):
            raise content
        return content
