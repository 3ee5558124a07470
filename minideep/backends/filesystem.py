"""Files in a folder of this machine: the disk is the truth, and nothing outside the folder is reached."""

import errno
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Literal

from ..checks import checked
from ..context import ToolContext
from ..errors import ConfigError, ToolError
from ..kinds import Pathname
from ..ports import FileInfo
from .paths import Missing, a_file, a_folder, below, changed, entered, normal, the_root

MAX_FILE = 10_000_000
"""Bytes of the largest file that is read."""

_REASONS = {
    errno.EACCES: "permission denied; leave it, or ask for access",
    errno.EPERM: "permission denied; leave it, or ask for access",
    errno.EEXIST: "a part of its path is a file, not a folder; choose another path",
    errno.ENOTDIR: "a part of its path is a file, not a folder; choose another path",
    errno.ENAMETOOLONG: "its name is too long; choose a shorter one",
    errno.ENXIO: "it is no regular file but a device, a pipe or a socket; leave it alone",
}

_Kind = Literal["file", "folder", "other"]


class FilesystemBackend:
    """Files below *root_dir*, a folder that exists.

    With *virtual_mode* `/x` is `root_dir/x`, and nothing outside the folder can be reached: neither by `..` nor by a
    link. Without it paths are the machine's own, relative ones start at *root_dir*, and **nothing is confined**: the
    model can read, change and delete whatever this process can.

    Changes are compared and made under a lock of this object: use one for all agents that share a folder.

    Raises:
        ConfigError: *root_dir* is no folder.
    """

    blocking = True

    @checked
    def __init__(self, root_dir: Pathname, virtual_mode: bool = True) -> None:
        self._root = Path(os.path.realpath(root_dir))
        if not os.path.isdir(self._root):  # noqa: PTH112 - `Path.is_dir` raises where a name is too long.
            raise ConfigError(f"root_dir must be a folder that exists, not {os.fspath(root_dir)!r}; create it first")
        self._virtual = virtual_mode
        self._lock = threading.Lock()
        self.home = "/" if virtual_mode else str(self._root)
        """Where relative paths start."""

    def ls(self, ctx: ToolContext, path: str) -> list[FileInfo]:
        """What stands directly in a folder, sorted; a link that leads nowhere, or outside, is listed as a file."""
        return [info for info, _ in self._entries(normal(path, self.home))]

    def walk(self, ctx: ToolContext, path: str) -> Iterator[FileInfo]:
        """Every regular file below a folder, or the file itself; links to folders are not followed."""
        path = normal(path, self.home)
        with _telling(path):
            status = self._real(path).stat()
        if stat.S_ISREG(status.st_mode):
            yield _info(path, status)
            return
        folders = [path]
        while folders:
            folder = folders.pop()
            try:
                entries = self._entries(folder)
            except ToolError:
                if folder == path:
                    raise
                continue  # Locked, or gone since its own folder was listed.
            yield from (info for info, kind in entries if kind == "file")
            inner = [info.path for info, kind in entries if kind == "folder" and entered(info.path.rpartition("/")[2])]
            folders += reversed(inner)

    def read(self, ctx: ToolContext, path: str) -> bytes:
        """A file's bytes; only a regular file of at most `MAX_FILE` bytes is read."""
        path = normal(path, self.home)
        with _telling(path), open(self._real(path), "rb", opener=_opener) as file:
            _check_readable(path, os.fstat(file.fileno()))
            return file.read(MAX_FILE)

    def write(self, ctx: ToolContext, path: str, data: bytes, expect: str | None = None) -> bool:
        """Create or replace a file by way of a temporary one beside it; it keeps its mode."""
        path = normal(path, self.home)
        with self._lock, _telling(path):
            real = self._real(path)
            mode = _mode(path, real)
            if expect is not None and sha256(self.read(ctx, path)).hexdigest() != expect:
                raise changed(path)
            real.parent.mkdir(parents=True, exist_ok=True)
            _replace(real, data, mode)
        return False

    def delete(self, ctx: ToolContext, path: str) -> list[str]:
        """Remove a file, a folder with all that is in it, or a link, which is not followed."""
        path = normal(path, self.home)
        folder, _, name = path.rpartition("/")
        with self._lock, _telling(path):
            place = self._real(folder or "/") / name
            if place == self._root or place in self._root.parents:
                raise the_root(path)
            if place.is_symlink() or not place.is_dir():
                place.unlink()
                return [path]
            gone = sorted(below(path, file.relative_to(place).as_posix()) for file in _files(place))
            shutil.rmtree(place)
            return gone

    def _real(self, path: str) -> Path:
        """Where *path* leads, all links followed.

        Raises:
            ToolError: out of the root, or in a circle.
        """
        real = Path(os.path.realpath(self._root / path[1:] if self._virtual else path))
        if self._virtual and not real.is_relative_to(self._root):
            raise ToolError(f"{path!r} leads outside the root; use what is below it")
        if real.is_symlink():
            raise ToolError(f"{path!r} is a symbolic link that leads nowhere; delete it or choose another path")
        return real

    def _entries(self, path: str) -> list[tuple[FileInfo, _Kind]]:
        with _telling(path):
            real = self._real(path)
            if real.is_file():
                raise a_file(path)
            with os.scandir(real) as entries:
                return [self._entry(below(path, entry.name), entry) for entry in sorted(entries, key=lambda e: e.name)]

    def _entry(self, path: str, entry: os.DirEntry[str]) -> tuple[FileInfo, _Kind]:
        try:
            linked = entry.is_symlink()
            status = self._real(path).stat() if linked else entry.stat(follow_symlinks=False)
        except (OSError, ToolError):  # Gone meanwhile, or a link that cannot be followed: no reason to hide the rest.
            return FileInfo(path), "other"
        info = _info(path, status)
        if info.is_dir:
            return info, "other" if linked else "folder"
        return info, "file" if stat.S_ISREG(status.st_mode) else "other"


@contextmanager
def _telling(path: str) -> Generator[None]:
    """Turn what the system says about *path* into what a model can act on."""
    try:
        yield
    except FileNotFoundError:
        raise Missing(path) from None
    except IsADirectoryError:
        raise a_folder(path) from None
    except OSError as exc:
        reason = _REASONS.get(exc.errno or 0) or f"{(exc.strerror or str(exc)).lower()}; choose another path"
        raise ToolError(f"{path!r}: {reason}") from None


def _info(path: str, status: os.stat_result) -> FileInfo:
    return FileInfo(path, stat.S_ISDIR(status.st_mode), status.st_size, status.st_mtime)


def _check_readable(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise a_folder(path)
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{path!r}: {_REASONS[errno.ENXIO]}")
    if status.st_size > MAX_FILE:
        found = f"{path!r} is {status.st_size:,} bytes, more than the {MAX_FILE:,} that read_file and grep take"
        raise ToolError(f"{found}; work with a smaller part of it")


def _mode(path: str, real: Path) -> int | None:
    """The permissions of the file that is replaced; None if there is none."""
    try:
        status = real.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise a_folder(path)
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{path!r}: {_REASONS[errno.ENXIO]}")
    return stat.S_IMODE(status.st_mode)


def _replace(real: Path, data: bytes, mode: int | None) -> None:
    """Write beside *real*, then rename: no reader ever sees half a file, and no other user what was private."""
    temporary = real.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb", opener=_opener if mode is None else _private) as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
        temporary.replace(real)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _opener(name: str, flags: int) -> int:
    # A link put there since the path was resolved is not followed; a pipe is not waited for.
    return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NOFOLLOW, 0o600)


def _files(folder: Path) -> Iterator[Path]:
    for inner, _, names in os.walk(folder):
        for name in names:
            yield Path(inner, name)
