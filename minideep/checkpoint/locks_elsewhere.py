"""The locks of systems that have no open-file-description locks: other Unix, and Windows."""

import os
import sys
from hashlib import blake2b
from pathlib import Path

from .system_locks import FILE, OneFile, is_free

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


if sys.platform != "win32":

    class WholeFileLocks:
        """`flock`: a file for each locked name, which is removed with the lock."""

        def __init__(self, directory: str) -> None:
            self._path = Path(directory, FILE)
            # File tools know the folder of a store by this file, and keep out.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            self._files: dict[str, int] = {}

        def lock(self, name: str) -> bool:
            while True:
                file = os.open(self._path_of(name), os.O_RDWR | os.O_CREAT, 0o600)
                try:
                    if not is_free(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB):
                        os.close(file)
                        return False
                    if self._is_there(name, file):
                        self._files[name] = file  # Open for as long as it is held.
                        return True
                except OSError:
                    os.close(file)
                    raise
                os.close(file)  # Its last holder removed it since it was opened.

        def unlock(self, name: str) -> None:
            file = self._files.pop(name)
            try:
                if self._is_there(name, file):
                    self._path_of(name).unlink()  # While locked: those who opened it before see that it is gone.
                fcntl.flock(file, fcntl.LOCK_UN)  # Closing is not enough: a child forked by C code has it open too.
            finally:
                os.close(file)

        def is_locked(self, name: str) -> bool:
            try:
                file = os.open(self._path_of(name), os.O_RDONLY)
            except FileNotFoundError:  # It is removed with the lock.
                return False
            try:
                # A moment's shared lock: `flock` cannot be asked. Who wants the lock meanwhile tries again.
                return not is_free(fcntl.flock, file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            finally:
                os.close(file)

        def close(self) -> None:
            while self._files:
                os.close(self._files.popitem()[1])

        def _path_of(self, name: str) -> Path:
            return self._path.with_suffix(f".{blake2b(name.encode(), digest_size=16).hexdigest()}")

        def _is_there(self, name: str, file: int) -> bool:
            try:
                return os.path.samestat(self._path_of(name).stat(), os.fstat(file))
            except FileNotFoundError:
                return False


if sys.platform == "win32":

    class RegionLocks(OneFile):
        """`msvcrt.locking`: each name is a byte of one file. Offsets are signed and have 32 bits."""

        bits = 31

        def lock(self, name: str) -> bool:
            return is_free(self._set, msvcrt.LK_NBLCK, name)

        def unlock(self, name: str) -> None:
            self._set(msvcrt.LK_UNLCK, name)

        def is_locked(self, name: str) -> bool:
            if not self.lock(name):  # Windows cannot be asked: this takes the lock for a moment.
                return True
            self.unlock(name)
            return False

        def _set(self, mode: int, name: str) -> None:
            os.lseek(self._file, self._byte(name), os.SEEK_SET)  # `locking` begins at the file's position.
            msvcrt.locking(self._file, mode, 1)
