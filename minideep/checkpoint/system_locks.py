"""Locks of the operating system on a store's directory, which end with their process, however that ends.

Every kind used here belongs to one open file. POSIX record locks belong to the process: they are lost as soon as
anything in it, a file tool or a backup, closes a descriptor of the same file.
"""

import errno
import os
import struct
import sys
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

if sys.platform != "win32":
    import fcntl

FILE = "threads.lock"
"""In every directory where a thread was ever held."""
TAKEN = (errno.EAGAIN, errno.EACCES)
"""Errors that mean that somebody else has the lock."""
FLOCK = struct.Struct("hhqqi0q")
"""`struct flock` of Linux: type, whence, start, length, process; padded at its end like an array of them."""


class Locks(Protocol):
    """Locks on names in one directory, each held by one object at a time.

    Raises:
        OSError: the lock file cannot be opened, or the file system has no such locks.
    """

    def __init__(self, directory: str) -> None: ...

    def lock(self, name: str) -> bool:
        """Take the lock on *name* without waiting; return whether it was free. This object must not have it already."""
        ...

    def unlock(self, name: str) -> None:
        """Release a lock that this object has taken."""
        ...

    def is_locked(self, name: str) -> bool:
        """Return whether another object, in this process or another, has the lock on *name*."""
        ...

    def close(self) -> None:
        """Close all files. In a forked process the parent keeps its locks; elsewhere unlock first."""
        ...


class OneFile:
    """Opens one file in which each name is a byte."""

    bits = 62

    def __init__(self, directory: str) -> None:
        # Private: whoever can open it can keep every thread from running.
        self._file = os.open(f"{directory}/{FILE}", os.O_RDWR | os.O_CREAT, 0o600)

    def close(self) -> None:
        os.close(self._file)

    def _byte(self, name: str) -> int:
        """Return the offset of the byte for *name*: two names share one with a chance of 2**-62 (Windows: 2**-31)."""
        return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) >> (64 - self.bits)


if sys.platform == "linux":

    class OpenFileLocks(OneFile):
        """Open-file-description locks: each name is a byte of one file."""

        def lock(self, name: str) -> bool:
            return is_free(fcntl.fcntl, self._file, fcntl.F_OFD_SETLK, self._range(fcntl.F_WRLCK, name))

        def unlock(self, name: str) -> None:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, self._range(fcntl.F_UNLCK, name))

        def is_locked(self, name: str) -> bool:
            # The kernel writes who has the lock, or that nobody does; it takes none.
            found = fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, self._range(fcntl.F_WRLCK, name))
            return FLOCK.unpack(found)[0] != fcntl.F_UNLCK

        def _range(self, kind: int, name: str) -> bytes:
            # `fcntl.lockf` would set the other kind, which the process loses when it closes the file anywhere.
            return FLOCK.pack(kind, os.SEEK_SET, self._byte(name), 1, 0)

    def has_open_file_locks() -> bool:
        """Ask the kernel: some sandboxes that look like Linux do not have them."""
        with Path(os.devnull).open("rb") as file:
            try:
                fcntl.fcntl(file, fcntl.F_OFD_GETLK, FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0))
            except OSError:
                return False
        return True


def is_free(lock: Callable[..., object], *args: object) -> bool:
    """Call *lock*; return False if that says that somebody else has the lock."""
    try:
        lock(*args)
    except OSError as exc:
        if exc.errno in TAKEN:
            return False
        raise
    return True
