"""Folders that stores own, and that file tools must never enter.

POSIX drops every record lock of a process on a file as soon as the process closes any descriptor of it. So a search
that only opens and closes the files of a store would let other processes write beside an open transaction.
"""

import os
import stat
from pathlib import Path

Identity = tuple[int, int]
"""Device and inode: the same for every link, mount and spelling that leads to one folder."""

MARKS = ("threads.lock", "cache.db")
"""A folder with both files is taken for that of a store, which may be open in another process."""

_claimed: dict[Path, None] = {}  # An ordered set: adding to a dict and copying it are atomic.


def claim(directory: str | os.PathLike[str]) -> None:
    """Keep file tools of this process out of *directory* for good, whether or not it exists yet."""
    path = Path(directory)
    # A relative path leads elsewhere after a `chdir`, for the store too, which may still have the first one open.
    _claimed.update(dict.fromkeys((path, path.absolute())))


def claimed() -> set[Identity]:
    """Return the claimed folders as they are now: one may have been created, replaced, or become a link."""
    found: set[Identity] = set()
    for path in tuple(_claimed):
        try:
            status = path.stat()
        except (OSError, ValueError):
            continue
        found.add((status.st_dev, status.st_ino))
    return found


def is_marked(folder: int) -> bool:
    """Return whether the open *folder* holds the files of a store."""
    return os.access(MARKS[0], os.F_OK, dir_fd=folder) and all(_is_file(folder, name) for name in MARKS)


def would_be_marked(folder: int, name: str) -> bool:
    """Return whether a new file *name* would make the open *folder* look like that of a store."""
    return name in MARKS and all(_is_file(folder, other) for other in MARKS if other != name)


def _is_file(folder: int, name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder).st_mode)
    except OSError:
        return False
