"""Files in a folder on this machine. The disk is the truth, and nothing outside the folder can be reached."""

import errno
import os
import secrets
import stat
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from .. import folders
from ..checks import checked
from ..context import ToolContext
from ..errors import ConfigError, ToolError
from ..kinds import Pathname
from ..ports import FileInfo
from .beneath import NO_LINK, SUPPORTED, Beneath, Place, Reach, StoreFolder, Unreachable, opened
from .guarded import Guard
from .names import quoted
from .paths import (
    MAX_FILE,
    Missing,
    changed,
    check_writable,
    is_searched,
    is_within,
    join,
    normalized,
    not_a_file,
    not_a_folder,
    undeletable,
)
from .removal import remove_folder

if TYPE_CHECKING:
    from .ignoring import Ignored

_DENIED = "permission denied; leave it, or ask for access"
_FILE_IN_PATH = "part of its path is a file, not a folder; choose another path"
_NOT_REGULAR = "it is a device, a pipe or a socket, not a regular file; leave it alone"
_REASONS = {
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EEXIST: _FILE_IN_PATH,
    errno.ENOTDIR: _FILE_IN_PATH,
    errno.ENAMETOOLONG: "its name is too long; choose a shorter one",
    errno.ELOOP: "part of its path was just replaced by a link; try again, or leave it",
    errno.ENXIO: _NOT_REGULAR,
}

_Kind = Literal["file", "folder", "other"]


class FilesystemBackend:
    """Files below *root_dir*, which must exist. Needs a POSIX system.

    With *virtual_mode* `/x` is `root_dir/x`, and nothing outside the folder can be reached: not with `..`, not through
    a link, not even through a link that another process creates at that very moment. Without it, paths are the
    machine's own, relative ones start at *root_dir*, and **nothing is confined**: the model can read, change and
    delete whatever this process can.

    In both modes the folder of a store is listed, but it cannot be entered or deleted, and searches skip it. That is
    the folder of any `DiskCheckpointer` of this process, and any folder with a `threads.lock` and a `cache.db`.

    With *gitignore*, searches leave out what a `.gitignore` at or below the root names, as git does; paths that are
    named can still be listed, read and written.

    A change is compared and made under a lock of this object, so use one object for all agents that share a folder.

    Raises:
        ConfigError: *root_dir* is not a folder, or is in the folder of a store; or the system cannot confine paths.
    """

    blocking = True

    @checked
    def __init__(self, root_dir: Pathname, virtual_mode: bool = True, gitignore: bool = False) -> None:
        if not SUPPORTED:
            raise ConfigError("FilesystemBackend needs a POSIX system; on Windows use WSL, or StateBackend()")
        root = os.path.realpath(os.path.expanduser(root_dir))  # noqa: PTH111 - As a `DiskCheckpointer` reads `~`.
        try:
            self._root = Beneath(root)
        except StoreFolder:
            problem = f"FilesystemBackend: root_dir {os.fspath(root_dir)!r} is in the folder of a store"
            raise ConfigError(f"{problem}; keep threads and files in separate folders") from None
        except OSError:
            problem = f"FilesystemBackend: root_dir must be an existing folder, not {os.fspath(root_dir)!r}"
            meant = "give the folder that it is in" if os.path.lexists(root) else "create it first"
            raise ConfigError(f"{problem}; {meant}") from None
        self._root_dir = root
        self._base = self._root if virtual_mode else Beneath("/")
        self._gitignore = gitignore
        self._lock = threading.Lock()
        self._guards: tuple[Guard, ...] = ()
        self.home: str = "/" if virtual_mode else root
        """Relative paths start here."""
        reach = "nothing confines you to that folder"
        if virtual_mode:  # `/` alone would be read as the root of the machine.
            reach = "`/` is one folder of this machine, and nothing outside it can be reached"
        left_out = " Searches leave out what `.gitignore` names." if gitignore else ""
        self.about: str = f"Files are real, and changes last; {reach}.{left_out}"
        """Tells the model what these files are."""

    def __repr__(self) -> str:
        return f"FilesystemBackend({self._root_dir!r})"

    def guarded(self, guard: Guard) -> "FilesystemBackend":
        """Return the same files, with the same lock, as *guard* lets a call reach them. It is asked about the place
        that a path has led to, with the folder already open: replacing a folder by a link gains nothing.
        """
        view = copy(self)
        view._guards = (*self._guards, guard)
        return view

    def ls(self, ctx: ToolContext, path: str) -> list[FileInfo]:
        """List the direct entries of a folder, sorted. A link that leads nowhere or outside is listed as a file."""
        return [info for info, _ in self._entries(normalized(path, self.home))]

    def walk(self, ctx: ToolContext, path: str) -> Iterator[FileInfo]:
        """Yield every regular file below a folder, or the file itself. Links to folders are not followed.

        What a `.gitignore` above *path* names is left out below it, not *path* itself.
        """
        path = normalized(path, self.home)
        with _explained(path):
            status = self._status(path)
        if stat.S_ISREG(status.st_mode):
            yield _info(path, status)
            return
        inner: list[tuple[str, Ignored | None]] = [(path, self._ignored_above(ctx, path) if self._gitignore else None)]
        while inner:
            folder, ignored = inner.pop()
            try:
                entries = self._entries(folder)
            except ToolError:
                if folder == path:
                    raise
                continue  # Not readable, a store's, or deleted since its parent was listed.
            if self._gitignore:
                ignored = self._ignored(ctx, folder, ignored)
            if ignored:
                entries = [entry for entry in entries if not ignored.has(entry[0].path, entry[1] == "folder")]
            yield from (info for info, kind in entries if kind == "file")
            below = [info.path for info, kind in entries if kind == "folder"]
            # The next folder is popped from the end, so the first one must come last.
            inner += reversed([(found, ignored) for found in below if is_searched(found.rpartition("/")[2])])

    def read(self, ctx: ToolContext, path: str) -> bytes:
        """Return a file's bytes. Only a regular file of at most `MAX_FILE` bytes is read."""
        path = normalized(path, self.home)
        with _explained(path), self._base.place(path, check=self._reach(path, "read")) as place:
            return _content(path, place)

    def write(self, ctx: ToolContext, path: str, data: bytes, expect: str | None = None) -> bool:
        """Create or replace a file, through a temporary file beside it. A replaced file keeps its mode."""
        path = normalized(path, self.home)
        check_writable(path)
        reach = self._reach(path, "write")
        with self._lock, _explained(path), self._base.place(path, make=expect is None, check=reach) as place:
            # Under the lock: another write between the comparison and the rename would be lost.
            mode = _mode(path, place)
            if expect is not None and sha256(_content(path, place)).hexdigest() != expect:
                raise changed(path)
            _replace(place, data, mode)
        return False

    def delete(self, ctx: ToolContext, path: str) -> list[str]:
        """Delete a file, a folder and its contents, or a link, which is not followed.

        A folder with the folder of a store anywhere below it is left untouched.
        """
        path = normalized(path, self.home)
        check_writable(path)
        reach = self._reach(path, "write")
        with self._lock, _explained(path), self._base.place(path, follow=False, check=reach) as place:
            if place.status is None:
                raise Missing(path)
            if (place.status.st_dev, place.status.st_ino) in self._root.above:
                raise undeletable(path)
            if stat.S_ISDIR(place.status.st_mode):
                return sorted(join(path, name) for name in remove_folder(place, self._below(path, place.path)))
            _keep_store_link(place)
            os.unlink(place.name, dir_fd=place.folder)
            return [path]

    def _ignored_above(self, ctx: ToolContext, path: str) -> "Ignored | None":
        """Return what the folders above *path* ignore, from `home` down."""
        ignored = None
        for folder in reversed(PurePosixPath(path).parents):
            if is_within(str(folder), self.home):
                ignored = self._ignored(ctx, str(folder), ignored)
        return ignored

    def _ignored(self, ctx: ToolContext, folder: str, above: "Ignored | None") -> "Ignored | None":
        """Return what *folder* ignores, and those above it."""
        from .ignoring import NAME, Ignored, rules_of

        try:
            text = self.read(ctx, join(folder, NAME)).decode(errors="surrogateescape")
        except ToolError:  # There is none, mostly.
            return above
        return Ignored(folder, rules_of(text), above)

    def _status(self, path: str) -> os.stat_result:
        """Return the status of *path*, following all links."""
        with self._base.place(path, check=self._reach(path, "list")) as place:
            if place.status is None:
                raise Missing(path)
            return place.status

    def _entries(self, path: str) -> list[tuple[FileInfo, _Kind]]:
        with _explained(path), self._base.place(path, check=self._reach(path, "list")) as place:
            if place.status and stat.S_ISREG(place.status.st_mode):
                raise not_a_folder(path)
            with opened(place) as folder, os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
                if self._guards:
                    found = [entry for entry in found if self._shows(path, place.path, entry)]
                return [self._entry(join(path, entry.name), entry) for entry in found]

    def _reach(self, path: str, operation: Literal["read", "write", "list"]) -> Reach | None:
        """Return what asks the guards about the place to which *path* leads."""
        if not self._guards:
            return None

        def ask(real: str, status: os.stat_result | None) -> None:
            for guard in self._guards:
                if operation == "list" and status and stat.S_ISDIR(status.st_mode):
                    guard.check_folder(path, real)
                else:
                    guard.check(path, real, "read" if operation == "list" else operation)

        return ask

    def _below(self, path: str, real: str) -> Callable[[str], None] | None:
        """Return what asks the guards about each entry of a folder that is about to be deleted."""
        if not self._guards:
            return None

        def ask(name: str) -> None:
            for guard in self._guards:
                guard.check(join(path, name), join(real, name), "write")

        return ask

    def _shows(self, path: str, real: str, entry: os.DirEntry[str]) -> bool:
        is_dir = entry.is_dir(follow_symlinks=False)
        places = {join(path, entry.name), join(real, entry.name)}
        return all(guard.shows(place, is_dir) for guard in self._guards for place in places)

    def _entry(self, path: str, entry: os.DirEntry[str]) -> tuple[FileInfo, _Kind]:
        try:
            linked = entry.is_symlink()
            status = self._status(path) if linked else entry.stat(follow_symlinks=False)
        except (OSError, ToolError, Unreachable):
            # Deleted meanwhile, or a link that cannot be followed. One such entry must not hide the others.
            return FileInfo(path), "other"
        info = _info(path, status)
        if info.is_dir:
            return info, "other" if linked else "folder"
        return info, "file" if stat.S_ISREG(status.st_mode) else "other"


@contextmanager
def _explained(path: str) -> Generator[None]:
    """Translate what went wrong with *path* into an error that a model can act on."""
    try:
        yield
    except Unreachable as exc:
        raise ToolError(f"{quoted(path)} {exc}") from None
    except FileNotFoundError:
        raise Missing(path) from None
    except IsADirectoryError:
        raise not_a_file(path) from None
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
            problem = f"{quoted(path)} is {status.st_size:,} bytes, more than the {MAX_FILE:,} that can be read"
            raise ToolError(f"{problem}; work with a smaller file")
        # Bounded again: it may grow meanwhile. What a read may return is set aside first, so its size is asked for;
        # files that the system makes up have none.
        return file.read(status.st_size or MAX_FILE)


def _check_regular(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise not_a_file(path)
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{quoted(path)}: {_NOT_REGULAR}")


def _mode(path: str, place: Place) -> int | None:
    """Return the permissions of the file to replace, or None for a new file."""
    if place.status is None:
        if folders.would_be_marked(place.folder, place.name):
            marks = " and ".join(folders.MARKS)
            # The model could otherwise lock itself out of its own folder by writing both files.
            raise ToolError(f"{quoted(path)} is refused: a folder with {marks} belongs to a store; choose another name")
        return None
    _check_regular(path, place.status)
    return stat.S_IMODE(place.status.st_mode)


def _replace(place: Place, data: bytes, mode: int | None) -> None:
    """Write a temporary file, then rename it: no reader sees half a file, and no other user a private one."""
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
    """Refuse to delete a link to a store: the store would start again, empty, where the link was.

    Raises:
        StoreFolder: *place* is such a link.
    """
    try:
        target = os.stat(place.name, dir_fd=place.folder)
    except OSError:  # The link leads nowhere.
        return
    if (target.st_dev, target.st_ino) in folders.claimed():
        raise StoreFolder
