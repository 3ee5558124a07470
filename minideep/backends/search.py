"""Finding files by name and by content, over any backend, within a time."""

import time
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice

from msgspec import Struct

from ..context import ToolContext
from ..errors import ToolError
from ..ports import Backend, FileInfo
from .globs import Glob
from .paths import Missing
from .text import decode

GLOB_SECONDS = 10.0
GREP_SECONDS = 15.0
MAX_LINE = 500
"""Characters shown of a line that holds a match."""


class Hit(Struct, frozen=True):
    """A line that holds what was searched for, cut round it."""

    path: str
    line: int
    """From 1."""
    text: str


class Found(Struct, frozen=True):
    paths: list[str]
    late: bool
    """Whether the time was over before all was seen."""


class Hits(Struct, frozen=True):
    hits: list[Hit]
    full: bool
    """Whether there may be more hits than were asked for."""
    late: bool
    skipped: int
    """Files that could not be read, or are too large."""


class _InTime:
    """The files of a walk, until the time is over."""

    def __init__(self, files: Iterator[FileInfo], end: float) -> None:
        self._files = files
        self._end = end
        self.late = False

    def __iter__(self) -> Iterator[FileInfo]:
        for file in self._files:
            if time.monotonic() >= self._end:
                self.late = True
                return
            yield file


def find(ctx: ToolContext, backend: Backend, pattern: str, path: str, seconds: float = GLOB_SECONDS) -> Found:
    """The files below *path* that fit a glob *pattern*, sorted.

    Raises:
        ToolError: *path* is missing, or *pattern* is none.
    """
    glob = Glob(pattern, path)
    end = time.monotonic() + seconds
    found: set[str] = set()
    late = False
    for start in glob.starts:
        files = _InTime(backend.walk(ctx, start), end)
        try:
            found.update(file.path for file in files if glob.matches(file.path))
        except Missing:
            if start == path:
                raise
        late = late or files.late
    return Found(sorted(found), late)


def grep(
    ctx: ToolContext,
    backend: Backend,
    text: str,
    path: str,
    *,
    glob: str = "",
    most: int = 1000,
    once: bool = False,
    seconds: float = GREP_SECONDS,
) -> Hits:
    """The lines below *path*, a folder or a file, that hold *text* as it is; with *once* the first of each file.

    Raises:
        ToolError: *path* is missing, or is a file that cannot be read.
    """
    names = Glob(glob, path) if glob else None
    files = _InTime(backend.walk(ctx, path), time.monotonic() + seconds)
    hits: list[Hit] = []
    skipped = 0
    for file in files:
        if len(hits) > most:
            break
        if names and not names.matches(file.path):
            continue
        try:
            data = backend.read(ctx, file.path)
        except ToolError:
            if file.path == path:
                raise
            skipped += 1
            continue
        hits += islice(_hits(file.path, data, text), 1 if once else most + 1 - len(hits))
    return Hits(hits[:most], len(hits) > most, files.late, skipped)


def _hits(path: str, data: bytes, text: str) -> Iterator[Hit]:
    decoded = decode(data)
    if decoded is None or text not in decoded.text:
        return
    for number, line in enumerate(decoded.text.split("\n"), 1):
        if (at := line.find(text)) >= 0:
            yield Hit(path, number, _round(line.removesuffix("\r"), at))


def _round(line: str, at: int) -> str:
    """*line*, cut to what stands round *at*."""
    if len(line) <= MAX_LINE:
        return line
    start = max(0, min(at - MAX_LINE // 4, len(line) - MAX_LINE))
    end = start + MAX_LINE
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


def near(ctx: ToolContext, backend: Backend, path: str, home: str) -> list[str]:
    """Up to three files with a name like that of the missing *path*: in its folder, else below *home*."""
    folder, _, name = path.rpartition("/")
    for start in dict.fromkeys((folder or "/", home)):
        try:
            files = [file.path for file in islice(backend.walk(ctx, start), 1000)]
        except ToolError:
            continue
        names = {file.rpartition("/")[2]: file for file in files}
        if close := get_close_matches(name, names, 3, 0.75):
            return [names[found] for found in close]
    return []
