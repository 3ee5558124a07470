"""Reach a place below a root one component at a time, so that no link can lead elsewhere, whenever it is put there.

A path that was checked may be another one a moment later: whoever may write below the root can swap a folder for a
link between the check and its use. So every component is opened from the descriptor of the one before it, without
following links. A link is read and resolved here, and the way begins anew at the root. What is open stays the folder
that was reached, also if somebody moves it elsewhere meanwhile.
"""

import errno
import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from .. import folders
from ..folders import Identity

SUPPORTED = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
"""Whether the system can do this at all; Windows cannot."""

MAX_LINKS = 40
"""Links on the way to one place, as in Linux."""

NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_LISTED: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | NO_LINK
_PASSED: int = _LISTED | getattr(os, "O_PATH", 0)  # Passing through a folder takes no permission to list it.


class Unreachable(Exception):
    """A place that must not be reached. The text goes on where a quoted path ends."""


class StoreFolder(Unreachable):
    """The folder of a store, or a place in it."""

    def __init__(self) -> None:
        super().__init__("is or lies in the folder of a store, which file tools never touch; leave it alone")


class Place(Struct, frozen=True):
    """A name in an open folder."""

    folder: int
    """Its descriptor."""
    name: str
    """Neither a link nor `..` when it was looked at; `.` stands for the root."""
    status: os.stat_result | None
    """None if nothing is there."""

    def open(self, flags: int) -> int:
        """Open the file for reading; a link put there since is refused, and a pipe is not waited for."""
        return os.open(self.name, flags | NO_LINK | os.O_NONBLOCK, dir_fd=self.folder)


class Beneath:
    """The folder *root*, a real path, and all that can be reached below it.

    Raises:
        OSError: it is no folder, or cannot be entered.
        StoreFolder: it is, or lies in, the folder of a store.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self.above: list[Identity] = []
        """The folders from the file system's root down to this one."""
        os.close(self._find_root(folders.claimed()))

    @contextmanager
    def place(self, path: str, *, follow: bool = True, make: bool = False) -> Generator[Place]:
        """Reach *path*, which starts at the root; *follow* a link that it ends in, *make* folders that are missing.

        Raises:
            Unreachable: it leads out of the root, into a store, or in a circle.
            OSError: a folder on the way is missing, is a file, or may not be entered.
        """
        place = self._place([part for part in path.split("/") if part], follow, make)
        try:
            yield place
        finally:
            os.close(place.folder)

    def _place(self, parts: list[str], follow: bool, make: bool) -> Place:
        for _ in range(MAX_LINKS):
            reached = self._descend(parts, follow, make)
            if isinstance(reached, Place):
                return reached
            parts = reached
        raise Unreachable("is a symbolic link that leads nowhere; delete it or choose another path")

    def _descend(self, parts: list[str], follow: bool, make: bool) -> Place | list[str]:
        """The place at *parts*; or, if a link is in the way, the parts to try instead."""
        stores = folders.claimed()
        folder = self._open_root(stores)
        try:
            for at, part in enumerate(parts[:-1]):
                inner = _enter(folder, part, make)
                if isinstance(inner, str):
                    return self._around(parts[:at], inner, parts[at + 1 :])
                os.close(folder)
                folder = inner
                _refuse_store(folder, stores)
            name = parts[-1] if parts else "."
            status = _status(folder, name)
            if name == "..":
                return self._around(parts[:-1], name, [])
            if follow and status and stat.S_ISLNK(status.st_mode):
                return self._around(parts[:-1], os.readlink(name, dir_fd=folder), [])
            place, folder = Place(folder, name, status), -1
            return place
        finally:
            if folder >= 0:
                os.close(folder)

    def _around(self, above: list[str], target: str, rest: list[str]) -> list[str]:
        """The parts that a link stands for: *above* are real folders, *target* is what it holds, *rest* comes after."""
        names = [name for name in target.split("/") if name not in ("", ".")]
        if target.startswith("/"):
            return self._inside(target) + rest
        above = list(above)
        while names[:1] == [".."]:
            if not above:
                return self._inside("/".join([self._root, *names])) + rest
            above.pop()
            names.pop(0)
        return above + names + rest

    def _inside(self, path: str) -> list[str]:
        """The parts of an absolute *path* below the root. Whatever it says, they are then taken one by one."""
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self._root):
            raise Unreachable("leads outside the root; use what is below it")
        return list(real.relative_to(self._root).parts)

    def _open_root(self, stores: set[Identity]) -> int:
        """Open the root where it was; a folder made anew in its place is taken, a link on the way to it is not."""
        root = os.open(self._root, _PASSED)
        if _identity(root) != self.above[-1]:
            os.close(root)
            return self._find_root(stores)
        try:
            if not stores.isdisjoint(self.above):
                raise StoreFolder
            _refuse_store(root, stores)
        except StoreFolder:
            os.close(root)
            raise
        return root

    def _find_root(self, stores: set[Identity]) -> int:
        found: list[Identity] = []
        folder = os.open("/", _PASSED)
        try:
            for part in ["", *Path(self._root).parts[1:]]:
                if part:
                    inner = os.open(part, _PASSED, dir_fd=folder)
                    os.close(folder)
                    folder = inner
                _refuse_store(folder, stores)
                found.append(_identity(folder))
            self.above = found
            root, folder = folder, -1
            return root
        finally:
            if folder >= 0:
                os.close(folder)


@contextmanager
def listed(place: Place, names: Sequence[str] = ()) -> Generator[int]:
    """A descriptor by which the folder at *place*, or that at *names* below it, can be listed. No link is followed.

    Raises:
        StoreFolder: it is the folder of a store; those on the way are not looked at.
        OSError: it is missing, no folder, or may not be listed.
    """
    way = [place.name, *names]
    folder = place.folder
    try:
        for at, name in enumerate(way):
            inner = os.open(name, _PASSED if at + 1 < len(way) else _LISTED, dir_fd=folder)
            if at:
                os.close(folder)
            folder = inner
        _refuse_store(folder, folders.claimed())
        yield folder
    finally:
        if folder != place.folder:
            os.close(folder)


def _enter(folder: int, name: str, make: bool) -> int | str:
    """A descriptor of the folder *name* in *folder*, or what the link of this name holds; `..` counts as one."""
    if name == "..":
        return name
    try:
        return os.open(name, _PASSED, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
        with suppress(FileExistsError):  # Another writer was faster.
            os.mkdir(name, dir_fd=folder)
        return os.open(name, _PASSED, dir_fd=folder)
    except OSError as exc:
        if exc.errno not in (errno.ENOTDIR, errno.ELOOP):  # Systems differ in what they say of a link.
            raise
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name) from None


def _refuse_store(folder: int, stores: set[Identity]) -> None:
    if _identity(folder) in stores or folders.is_marked(folder):
        raise StoreFolder


def _identity(folder: int) -> Identity:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
