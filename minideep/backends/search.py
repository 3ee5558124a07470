"""Find files by name, on any backend and within a time limit."""

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

GLOB_SECONDS = 10.0
MAX_CANDIDATES, MAX_PROMISING, MAX_COMPARED = 1000, 20, 100
"""For a missing name: the files looked at, those compared in full, and the longest name that is compared."""
MIN_SIMILARITY = 0.75
"""From 0 to 1, as `difflib` measures it."""


class Found(Struct, frozen=True):
    """The result of `find`."""

    paths: list[str]
    late: bool
    """True if time ran out before every file was seen."""


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
