"""Find files by name and by content, on any backend and within a time limit."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import islice, pairwise

from msgspec import Struct

from ..context import ToolContext
from ..errors import ToolError
from ..ports import Backend, FileInfo
from .globs import Glob
from .paths import Missing, not_a_file
from .text import decode

GLOB_SECONDS = 10.0
GREP_SECONDS = 15.0
MAX_LINE = 500
"""Characters shown of a matching line."""
MAX_CANDIDATES, MAX_PROMISING, MAX_COMPARED = 1000, 20, 100
"""For a missing name: the files looked at, those compared in full, and the longest name that is compared."""
MIN_SIMILARITY = 0.75
"""From 0 to 1, as `difflib` measures it."""


class Hit(Struct, frozen=True):
    """A line that contains the text searched for, cut around it if it is long."""

    path: str
    line: int
    """Counted from 1."""
    text: str


class Found(Struct, frozen=True):
    """The result of `find`."""

    paths: list[str]
    late: bool
    """True if time ran out before every file was seen."""


class Hits(Struct, frozen=True):
    """The result of `grep`."""

    hits: list[Hit]
    full: bool
    """True if there are more hits than were asked for."""
    late: bool
    """True if time ran out before every file was seen."""
    skipped: int
    """Files that are too large or could not be read."""


class _InTime:
    """The files of a walk, until time runs out."""

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
    """Find the files below *path* that match the glob *pattern*; paths are sorted.

    Raises:
        ToolError: *path* does not exist, or *pattern* is invalid.
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
    """Find the lines that contain *text* literally, in the folder or file *path*; with *once*, one line of each file.

    Raises:
        ToolError: *path* does not exist, or is a file that cannot be read.
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
            if file.path == path:  # The caller named this file, so skipping it would look like "no match".
                raise
            skipped += 1
            continue
        # One more than asked for shows that there are more.
        hits += islice(_hits(file.path, data, text), 1 if once else most + 1 - len(hits))
    return Hits(hits[:most], len(hits) > most, files.late, skipped)


def _hits(path: str, data: bytes, text: str) -> Iterator[Hit]:
    decoded = decode(data)
    if decoded is None or text not in decoded.text:
        return
    for number, line in enumerate(decoded.text.split("\n"), 1):
        if (at := line.find(text)) >= 0:
            yield Hit(path, number, _excerpt(line.removesuffix("\r"), at))


def _excerpt(line: str, at: int) -> str:
    """Cut *line* to `MAX_LINE` characters around position *at*."""
    if len(line) <= MAX_LINE:
        return line
    start = max(0, min(at - MAX_LINE // 4, len(line) - MAX_LINE))
    end = start + MAX_LINE
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


def status(ctx: ToolContext, backend: Backend, path: str) -> FileInfo:
    """Return the size and time of a file without reading it.

    Raises:
        ToolError: it is missing, or a folder.
    """
    info = next(iter(backend.walk(ctx, path)), None)
    if info is None or info.path != path:
        raise not_a_file(path)
    return info


def similar(ctx: ToolContext, backend: Backend, path: str, home: str) -> list[str]:
    """Return up to three files with a name like that of the missing *path*: in its folder, else below *home*."""
    folder, _, name = path.rpartition("/")
    for start in dict.fromkeys((folder or "/", home)):
        try:
            files = [file.path for file in islice(backend.walk(ctx, start), MAX_CANDIDATES)]
        except ToolError:
            continue
        names = {file.rpartition("/")[2]: file for file in files}
        if close := _closest(name, names):
            return [names[found] for found in close]
    return []


def _closest(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three of *names* that are most like *name*.

    This may run on the event loop, and one `difflib` comparison can take time cubic in the length. So only short names
    are compared, and of those only the few that share enough letters and the most pairs of letters.
    """
    from difflib import get_close_matches  # Only a missing path needs it.

    if len(name) > MAX_COMPARED:
        return []
    letters, pairs = Counter(name), Counter(pairwise(name))
    promising: list[tuple[int, str]] = []
    for other in names:
        total = len(name) + len(other)
        if len(other) > MAX_COMPARED or min(len(name), len(other)) * 2 < MIN_SIMILARITY * total:
            continue
        if (letters & Counter(other)).total() * 2 >= MIN_SIMILARITY * total:
            promising.append(((pairs & Counter(pairwise(other))).total(), other))
    return get_close_matches(name, [other for _, other in nlargest(MAX_PROMISING, promising)], 3, MIN_SIMILARITY)
