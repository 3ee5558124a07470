"""Files in a folder of this machine: the disk is the truth, and nothing outside the folder is reached."""

import errno
import os
import secrets
import stat
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Literal

from .. import folders
from ..checks import checked
from ..context import ToolContext
from ..errors import ConfigError, ToolError
from ..kinds import Pathname
from ..ports import FileInfo
from .beneath import NO_LINK, SUPPORTED, Beneath, Place, StoreFolder, Unreachable, listed
from .names import quoted
from .paths import MAX_FILE, Missing, a_file, a_folder, below, changed, entered, normal, the_root
from .removal import remove_folder

_REASONS = {
    errno.EACCES: "permission denied; leave it, or ask for access",
    errno.EPERM: "permission denied; leave it, or ask for access",
    errno.EEXIST: "a part of its path is a file, not a folder; choose another path",
    errno.ENOTDIR: "a part of its path is a file, not a folder; choose another path",
    errno.ENAMETOOLONG: "its name is too long; choose a shorter one",
    errno.ELOOP: "a part of its path was just replaced by a link; try again, or leave it",
    errno.ENXIO: "it is no regular file but a device, a pipe or a socket; leave it alone",
}

_Kind = Literal["file", "folder", "other"]


class FilesystemBackend:
    """Files below *root_dir*, a folder that exists. Needs a POSIX system.

    With *virtual_mode* `/x` is `root_dir/x`, and nothing outside the folder can be reached: neither by `..` nor by a
    link, also one that another process puts there at any moment. Without it paths are the machine's own, relative ones
    start at *root_dir*, and **nothing is confined**: the model can read, change and delete whatever this process can.

    In both modes the folder of a store (that of any `DiskCheckpointer` of this process, or one that holds
    `threads.lock` and `cache.db`) is listed as a folder, but never entered, and not deleted; searches pass it over.

    Changes are compared and made under a lock of this object: use one for all agents that share a folder.

    Raises:
        ConfigError: *root_dir* is no folder, or is or lies in that of a store; or the system cannot confine paths.
    """

    blocking = True

    @checked
    def __init__(self, root_dir: Pathname, virtual_mode: bool = True) -> None:
        if not SUPPORTED:
            raise ConfigError("FilesystemBackend needs a POSIX system; on Windows use WSL, or StateBackend()")
        root = os.path.realpath(root_dir)
        try:
            self._root = Beneath(root)
        except StoreFolder:
            problem = f"root_dir {os.fspath(root_dir)!r} is or lies in the folder of a store"
            raise ConfigError(f"{problem}; keep threads and files apart") from None
        except OSError:
            problem = f"root_dir must be a folder that exists, not {os.fspath(root_dir)!r}"
            raise ConfigError(f"{problem}; create it first") from None
        self._base = self._root if virtual_mode else Beneath("/")
        self._lock = threading.Lock()
        self.home = "/" if virtual_mode else root
        """Where relative paths start."""

    def ls(self, ctx: ToolContext, path: str) -> list[FileInfo]:
        """What stands directly in a folder, sorted; a link that leads nowhere, or outside, is listed as a file."""
        return [info for info, _ in self._entries(normal(path, self.home))]

    def walk(self, ctx: ToolContext, path: str) -> Iterator[FileInfo]:
        """Every regular file below a folder, or the file itself; links to folders are not followed."""
        path = normal(path, self.home)
        with _explained(path):
            status = self._status(path)
        if stat.S_ISREG(status.st_mode):
            yield _info(path, status)
            return
        inner = [path]
        while inner:
            folder = inner.pop()
            try:
                entries = self._entries(folder)
            except ToolError:
                if folder == path:
                    raise
                continue  # Locked, a store's, or gone since its own folder was listed.
            yield from (info for info, kind in entries if kind == "file")
            further = [
                info.path for info, kind in entries if kind == "folder" and entered(info.path.rpartition("/")[2])
            ]
            inner += reversed(further)

    def read(self, ctx: ToolContext, path: str) -> bytes:
        """A file's bytes; only a regular file of at most `MAX_FILE` bytes is read."""
        path = normal(path, self.home)
        with _explained(path), self._base.place(path) as place:
            return _content(path, place)

    def write(self, ctx: ToolContext, path: str, data: bytes, expect: str | None = None) -> bool:
        """Create or replace a file by way of a temporary one beside it; it keeps its mode."""
        path = normal(path, self.home)
        with self._lock, _explained(path), self._base.place(path, make=expect is None) as place:
            mode = _mode(path, place)
            if expect is not None and sha256(_content(path, place)).hexdigest() != expect:
                raise changed(path)
            _replace(place, data, mode)
        return False

    def delete(self, ctx: ToolContext, path: str) -> list[str]:
        """Remove a file, a folder with all that is in it, or a link, which is not followed.

        A folder that holds that of a store, at any depth, is left as it is.
        """
        path = normal(path, self.home)
        with self._lock, _explained(path), self._base.place(path, follow=False) as place:
            if place.status is None:
                raise Missing(path)
            if (place.status.st_dev, place.status.st_ino) in self._root.above:
                raise the_root(path)
            if stat.S_ISDIR(place.status.st_mode):
                return sorted(below(path, name) for name in remove_folder(place))
            _keep_store_link(place)
            os.unlink(place.name, dir_fd=place.folder)
            return [path]

    def _status(self, path: str) -> os.stat_result:
        """What *path* leads to, all links followed."""
        with self._base.place(path) as place:
            if place.status is None:
                raise Missing(path)
            return place.status

    def _entries(self, path: str) -> list[tuple[FileInfo, _Kind]]:
        with _explained(path), self._base.place(path) as place:
            if place.status and stat.S_ISREG(place.status.st_mode):
                raise a_file(path)
            with listed(place) as folder, os.scandir(folder) as entries:
                return [self._entry(below(path, entry.name), entry) for entry in sorted(entries, key=lambda e: e.name)]

    def _entry(self, path: str, entry: os.DirEntry[str]) -> tuple[FileInfo, _Kind]:
        try:
            linked = entry.is_symlink()
            status = self._status(path) if linked else entry.stat(follow_symlinks=False)
        except (
            OSError,
            ToolError,
            Unreachable,
        ):  # Gone meanwhile, or a link that cannot be followed: no reason to hide the rest.
            return FileInfo(path), "other"
        info = _info(path, status)
        if info.is_dir:
            return info, "other" if linked else "folder"
        return info, "file" if stat.S_ISREG(status.st_mode) else "other"


@contextmanager
def _explained(path: str) -> Generator[None]:
    """Turn what goes wrong with *path* into an error that a model can act on."""
    try:
        yield
    except Unreachable as exc:
        raise ToolError(f"{quoted(path)} {exc}") from None
    except FileNotFoundError:
        raise Missing(path) from None
    except IsADirectoryError:
        raise a_folder(path) from None
    except OSError as exc:
        reason = _REASONS.get(exc.errno or 0) or f"{(exc.strerror or str(exc)).lower()}; choose another path"
        raise ToolError(f"{quoted(path)}: {reason}") from None


def _info(path: str, status: os.stat_result) -> FileInfo:
    return FileInfo(path, stat.S_ISDIR(status.st_mode), status.st_size, status.st_mtime)


def _content(path: str, place: Place) -> bytes:
    with open(place.name, "rb", opener=lambda _, flags: place.open(flags)) as file:
        status = os.fstat(file.fileno())
        _check_regular(path, status)
        if status.st_size > MAX_FILE:
            found = (
                f"{quoted(path)} is {status.st_size:,} bytes, more than the {MAX_FILE:,} that read_file and grep take"
            )
            raise ToolError(f"{found}; work with a smaller part of it")
        return file.read(MAX_FILE)


def _check_regular(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise a_folder(path)
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{quoted(path)}: {_REASONS[errno.ENXIO]}")


def _mode(path: str, place: Place) -> int | None:
    """The permissions of the file that is replaced; None if there is none."""
    if place.status is None:
        if folders.would_be_marked(place.folder, place.name):
            marks = " and ".join(folders.MARKS)
            raise ToolError(f"{quoted(path)} is refused: a folder with {marks} is that of a store; choose another name")
        return None
    _check_regular(path, place.status)
    return stat.S_IMODE(place.status.st_mode)


def _replace(place: Place, data: bytes, mode: int | None) -> None:
    """Write beside the file, then rename: no reader ever sees half a file, and no other user what was private."""
    folder, temporary = place.folder, f".{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK
    try:
        with os.fdopen(os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=folder), "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
        os.rename(temporary, place.name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _keep_store_link(place: Place) -> None:
    """A store that is reached by a link would be begun anew, empty, in its place.

    Raises:
        StoreFolder: *place* is such a link.
    """
    try:
        target = os.stat(place.name, dir_fd=place.folder)
    except OSError:  # It leads nowhere.
        return
    if (target.st_dev, target.st_ino) in folders.claimed():
        raise StoreFolder
