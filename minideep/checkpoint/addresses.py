"""The files by which the process that runs a turn is found: its socket, and a link to that for each running turn.

They lie in a folder of their own, private to its owner. A killed process leaves its files; whoever finds them dead
removes them. The name of a socket is never used again, so a dead one can be removed at any time. A link is removed
under a lock, since another process may be replacing it.
"""

import contextlib
import errno
import fcntl
import os
import socket
import stat
import sys
import time
from hashlib import blake2b
from itertools import islice
from pathlib import Path

DIGEST = 16
"""Bytes of the digest of a thread's name, which names its link and begins each question."""
MAX_PATH = 107 if sys.platform == "linux" else 103
"""Bytes of the longest path that a Unix socket can have."""
BACKLOG = 4096
LOCK_TRIES, LOCK_SECONDS = 20, 0.001
LOOKED_AT, OLD_SECONDS = 100, 60.0
"""Files that are checked for dead owners when a socket is opened. A younger one may be just about to listen."""


def link_name(thread: str) -> str:
    return blake2b(thread.encode(), digest_size=DIGEST).hexdigest()


def fits(address: str) -> bool:
    return len(os.fsencode(address)) <= MAX_PATH


def is_private(folder: str) -> bool:
    """Return whether only this user may enter *folder*, so that nobody else can listen or connect there."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def open_folder(folder: str) -> int:
    """Open a private folder, which is created if it is missing.

    Raises:
        PermissionError: it belongs to somebody else.
    """
    with contextlib.suppress(FileExistsError):
        Path(folder).mkdir(mode=0o700)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(opened)
        if found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "this folder belongs to another user", folder)
        if found.st_mode & 0o077:  # A copied store, perhaps.
            os.fchmod(opened, 0o700)
    except OSError:
        os.close(opened)
        raise
    return opened


def listen(folder: str) -> tuple[socket.socket, str]:
    """Return a new socket, and its name in *folder*; its path in a folder for temporary files if that is too long."""
    name = target = os.urandom(6).hex()
    if not fits(f"{folder}/{name}"):
        import tempfile  # Seldom needed.

        home = f"{tempfile.gettempdir()}/minideep-{os.geteuid()}"
        os.close(open_folder(home))
        target = f"{home}/{name}"
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.setblocking(False)
        sock.bind(target if target.startswith("/") else f"{folder}/{name}")
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock, target


def close_socket(sock: socket.socket, folder: int, target: str) -> None:
    sock.close()
    with contextlib.suppress(OSError):
        os.unlink(target, dir_fd=folder)
    os.close(folder)


def replace_link(name: str, folder: int, target: str) -> None:
    """Make the link *name* in the open *folder* lead to *target*, whatever it led to."""
    locked = _lock(folder, LOCK_TRIES)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        os.symlink(target, name, dir_fd=folder)
    finally:
        if locked:
            fcntl.flock(folder, fcntl.LOCK_UN)


def remove_link(name: str, folder: int, target: str, tries: int = LOCK_TRIES) -> None:
    """Remove the link *name* from the open *folder*, unless it has been replaced: it no longer leads to *target*."""
    locked = _lock(folder, tries)
    try:
        # A runner must remove its link; the link of a dead one can also be removed by the next who finds it.
        if (locked or tries > 1) and os.readlink(name, dir_fd=folder) == target:
            os.unlink(name, dir_fd=folder)
    except OSError:  # It is gone.
        pass
    finally:
        if locked:
            fcntl.flock(folder, fcntl.LOCK_UN)


def _lock(folder: int, tries: int) -> bool:
    """Keep others from changing a link between a look at it and its removal; return False if somebody else does.

    It is held for microseconds, but never waited for without end: the process that holds it may be stopped.
    """
    for further in reversed(range(tries)):
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if further:
                time.sleep(LOCK_SECONDS)
        else:
            return True
    return False


def remove_dead(folder: str, name: str, target: str, problem: OSError) -> None:
    """Remove the link that *problem* shows to be a dead process's, and its socket."""
    refused = isinstance(problem, ConnectionRefusedError)
    # A socket elsewhere that is missing may be in the temporary files of another container.
    if not refused and not (isinstance(problem, FileNotFoundError) and "/" not in target):
        return
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if refused:  # No other socket ever gets its name.
                with contextlib.suppress(OSError):
                    os.unlink(target, dir_fd=opened)
            remove_link(name, opened, target, tries=1)
        finally:
            os.close(opened)


def sweep(folder: str) -> None:
    """Remove sockets and links of dead processes, among a bounded number of files."""
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        entries = sorted(islice(found, LOOKED_AT), key=lambda entry: entry.is_symlink())  # Links go with their sockets.
        for entry in entries:
            if entry.is_symlink():
                target = str(Path(entry.path).readlink())
                if not Path(folder, target).exists():
                    remove_dead(folder, entry.name, target, FileNotFoundError())
            else:
                _sweep_socket(entry)


def _sweep_socket(entry: "os.DirEntry[str]") -> None:
    found = entry.stat(follow_symlinks=False)
    if not stat.S_ISSOCK(found.st_mode) or abs(time.time() - found.st_mtime) < OLD_SECONDS:
        return
    with socket.socket(socket.AF_UNIX) as sock:
        sock.setblocking(False)
        try:
            sock.connect(entry.path)
        except ConnectionRefusedError:
            os.unlink(entry.path)  # noqa: PTH108
        except BlockingIOError:
            pass  # It is alive, and busy.
