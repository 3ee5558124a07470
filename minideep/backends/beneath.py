"""Open a path below a root one component at a time, so that no link can lead outside, whenever it is created.

Checking a path before using it is not enough: anyone who can write below the root can replace a folder with a link
between the check and the use. So every component is opened relative to the descriptor of its parent, without following
links. A link is read and resolved here, and the walk starts again at the root. An open descriptor keeps referring to
the folder that was reached, even if somebody moves that folder meanwhile.
"""

import errno
import os
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from .. import folders
from ..folders import Identity

SUPPORTED = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
"""True if this system offers the necessary calls; Windows does not."""

MAX_LINKS = 40
"""The most links followed on the way to one place, as on Linux."""

NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_TO_LIST: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | NO_LINK
_TO_PASS: int = _TO_LIST | getattr(os, "O_PATH", 0)  # Passing through a folder needs no permission to list it.


Reach = Callable[[str, "os.stat_result | None"], None]
"""Asked with the real path of a place, from the root, and its status, before the place is opened or made; raises if it
must not be.
"""


class Unreachable(Exception):
    """A place that must not be reached. Its text continues a sentence that begins with the quoted path."""


class StoreFolder(Unreachable):
    """A place that is the folder of a store, or is in one."""

    def __init__(self) -> None:
        super().__init__("is in the folder of a store, which file tools never touch; leave it alone")


class Place(Struct, frozen=True):
    """A name in an open folder. Whoever reaches the place closes the folder."""

    folder: int
    """The descriptor of the folder."""
    name: str
    """Never `..`. A link only if links were not to be followed; otherwise it was none when its status was read. `.` is
    the root.
    """
    status: os.stat_result | None
    """None if nothing exists there."""
    path: str
    """The real path from the root, in which no part is a link but the last one may be."""

    def open(self, flags: int) -> int:
        """Open the file. A link that was created since is refused, and opening a pipe does not block."""
        return os.open(self.name, flags | NO_LINK | os.O_NONBLOCK, dir_fd=self.folder)


class Beneath:
    """The folder *root*, a real path, and everything that can be reached below it.

    Raises:
        OSError: it is not a folder, or cannot be entered.
        StoreFolder: it is, or is in, the folder of a store.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self.above: list[Identity] = []
        """The folders from the root of the file system down to this one."""
        os.close(self._find_root(folders.claimed()))

    @contextmanager
    def place(
        self, path: str, *, follow: bool = True, make: bool = False, check: Reach | None = None
    ) -> Generator[Place]:
        """Reach *path*, which starts at the root: *follow* a final link, *make* missing folders.

        What *check* raises is passed on.

        Raises:
            Unreachable: it leads out of the root, into a store, or in a circle.
            OSError: a folder on the way is missing, is a file, or cannot be entered.
        """
        parts = [part for part in path.split("/") if part]
        for _ in range(MAX_LINKS):
            place = self._descend(parts, follow, make, check)
            if isinstance(place, Place):
                break
            parts = place
        else:
            raise Unreachable("is a symbolic link that leads nowhere; delete it or choose another path")
        try:
            yield place
        finally:
            os.close(place.folder)

    def _descend(self, parts: list[str], follow: bool, make: bool, check: Reach | None) -> Place | list[str]:
        """Return the place at *parts*; or, if a link is in the way, the parts to try instead."""
        stores = folders.claimed()
        folder = self._open_root(stores)
        try:
            for at, part in enumerate(parts[:-1]):
                try:
                    inner = _enter(folder, part)
                except FileNotFoundError:
                    if not make:
                        raise
                    if check is not None:  # Nothing is made on the way to a place that must not be reached.
                        check(f"/{'/'.join(parts)}", None)
                    inner = _made(folder, part)
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
            real = f"/{'/'.join(parts)}"
            if check is not None:
                check(real, status)
            place, folder = Place(folder, name, status, real), -1  # The caller closes it now.
            return place
        finally:
            if folder >= 0:
                os.close(folder)

    def _around(self, above: list[str], target: str, rest: list[str]) -> list[str]:
        """Resolve a link with the text *target*, which has the real folders *above* before it and *rest* after it."""
        names = [name for name in target.split("/") if name not in ("", ".")]
        if target.startswith("/"):
            return self._inside(target) + rest
        above = list(above)
        while names[:1] == [".."]:
            if not above:  # Leaves the root, and may come back into it.
                return self._inside("/".join([self._root, *names])) + rest
            above.pop()
            names.pop(0)
        return above + names + rest

    def _inside(self, path: str) -> list[str]:
        """Return the parts of an absolute *path* below the root. Each is then opened and checked like any other."""
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self._root):
            raise Unreachable("leads outside the root; use a path below it")
        return list(real.relative_to(self._root).parts)

    def _open_root(self, stores: set[Identity]) -> int:
        """Open the root. A new folder in its place is accepted, a link on the way to it is not."""
        root = os.open(self._root, _TO_PASS)
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
        folder = os.open("/", _TO_PASS)
        try:
            for part in ["", *Path(self._root).parts[1:]]:
                if part:
                    inner = os.open(part, _TO_PASS, dir_fd=folder)
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
def opened(place: Place, names: Sequence[str] = ()) -> Generator[int]:
    """Open the folder at *place*, or at *names* below it, for listing. Links are not followed.

    Raises:
        StoreFolder: it is the folder of a store; the folders on the way are not checked.
        OSError: it is missing, not a folder, or cannot be listed.
    """
    parts = [place.name, *names]
    folder = place.folder
    try:
        for at, name in enumerate(parts):
            inner = os.open(name, _TO_PASS if at + 1 < len(parts) else _TO_LIST, dir_fd=folder)
            if at:  # The first one belongs to *place*.
                os.close(folder)
            folder = inner
        _refuse_store(folder, folders.claimed())
        yield folder
    finally:
        if folder != place.folder:
            os.close(folder)


def _made(folder: int, name: str) -> int | str:
    """Make the folder *name* in *folder*, and enter it."""
    with suppress(FileExistsError):  # Another writer created it first.
        os.mkdir(name, dir_fd=folder)
    return _enter(folder, name)


def _enter(folder: int, name: str) -> int | str:
    """Open the folder *name* in *folder*; or return the text of the link of that name. `..` counts as a link."""
    if name == "..":
        return name
    try:
        return os.open(name, _TO_PASS, dir_fd=folder)
    except OSError as exc:
        if exc.errno not in (errno.ENOTDIR, errno.ELOOP):  # Systems differ in the error for a link.
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
