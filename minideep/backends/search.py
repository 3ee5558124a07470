"""Finding files by name and by content, over any backend, within a time."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from heapq import nlargest
from itertools import islice, pairwise

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
MAX_CANDIDATES, MAX_PROMISING, MAX_COMPARED = 1000, 20, 100
"""Files looked at for a name like a missing one, those that are compared in full, and characters of a name."""
LIKENESS = 0.75
"""From 0 to 1, as of `difflib`."""


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
            files = [file.path for file in islice(backend.walk(ctx, start), MAX_CANDIDATES)]
        except ToolError:
            continue
        names = {file.rpartition("/")[2]: file for file in files}
        if close := _alike(name, names):
            return [names[found] for found in close]
    return []


def _alike(name: str, names: Iterable[str]) -> list[str]:
    """Up to three of *names* that are most like *name*, in time that no names can blow up: it may be an event loop's.

    A comparison costs up to the cube of the length: it is made of short names only, and of those few that have enough
    letters and most pairs of letters in common.
    """
    if len(name) > MAX_COMPARED:
        return []
    letters, pairs = Counter(name), Counter(pairwise(name))
    promising: list[tuple[int, str]] = []
    for other in names:
        total = len(name) + len(other)
        if len(other) > MAX_COMPARED or min(len(name), len(other)) * 2 < LIKENESS * total:
            continue
        if (letters & Counter(other)).total() * 2 >= LIKENESS * total:
            promising.append(((pairs & Counter(pairwise(other))).total(), other))
    return get_close_matches(name, [other for _, other in nlargest(MAX_PROMISING, promising)], 3, LIKENESS)
