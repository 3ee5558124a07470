"""Thread locks: one runner of a thread at a time, in this process and over all processes.

Within the process a registry counts. Between processes a lock of the operating system does (`system_locks.py`).
"""

import errno
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from . import system_locks
from .atfork import AtRest
from .system_locks import FILE, Locks

EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that say nothing about the directory: going on without a lock could run a thread twice."""


@cache
def best() -> type[Locks]:
    """Return the kind of lock that this system has."""
    if sys.platform == "linux" and system_locks.has_open_file_locks():
        return system_locks.OpenFileLocks
    from . import locks_elsewhere  # Not on Linux, as a rule.

    return locks_elsewhere.RegionLocks if sys.platform == "win32" else locks_elsewhere.WholeFileLocks


class _Held:
    """The threads of one directory that this process holds, and for each whether the system has locked it."""

    def __init__(self, locks: Locks | None) -> None:
        self.locks = locks
        self.threads: dict[str, bool] = {}

    def lock(self, thread: str) -> bool:
        """Take *thread*; return whether it was free. Where the system has no locks, only this process counts."""
        try:
            free = self.locks is None or self.locks.lock(thread)
            locked = self.locks is not None
        except OSError as exc:
            if exc.errno in EXHAUSTED:
                raise
            free, locked = True, False  # No locks here, as on some network file systems.
        if free:
            self.threads[thread] = locked
        return free

    def is_locked(self, thread: str) -> bool:
        """Return whether somebody else has *thread*; where the system has no locks nobody else can."""
        try:
            return self.locks is not None and self.locks.is_locked(thread)
        except OSError as exc:
            if exc.errno in EXHAUSTED:
                raise
            return False

    def unlock(self, thread: str) -> None:
        """Release *thread*. Closing the file is not enough: a child forked by C code has it open as well."""
        if self.threads.pop(thread) and self.locks is not None:
            self.locks.unlock(thread)

    def close(self) -> None:
        if self.locks is not None:
            self.locks.close()


class Registry(AtRest):
    """The threads that this process holds, in all directories, with locks of the kind that *kind* returns."""

    def __init__(self, kind: Callable[[], type[Locks]] = best) -> None:
        super().__init__()
        self._kind = kind
        self._directories: dict[str, _Held] = {}

    def hold(self, directory: str, thread: str) -> bool:
        """Take *thread* of the store in *directory*, a real path; return False if somebody has it. Never waits.

        Where nothing can be locked (a read-only directory, a file system without locks) only this process counts.

        Raises:
            OSError: the process has no file descriptors left.
        """
        with self.lock:
            held = self._directories.get(directory) or _Held(self._opened(directory))
            # The system gives a lock once more to the file that has it, so this process is asked first.
            free = thread not in held.threads and held.lock(thread)
            if held.threads:  # A file stays open only while something is held: a store may be deleted in between.
                self._directories[directory] = held
            else:
                held.close()
            return free

    def is_held(self, directory: str, thread: str) -> bool:
        """Return whether anybody has *thread* of the store in *directory*, a real path. Takes nothing.

        Raises:
            OSError: the process has no file descriptors left.
        """
        with self.lock:
            held = self._directories.get(directory)
            if held is not None and thread in held.threads:
                return True
            if held is None and not Path(directory, FILE).exists():
                return False  # No thread was ever held there, and looking must not create a directory.
            held = held or _Held(self._opened(directory))
            try:
                return held.is_locked(thread)
            finally:
                if not held.threads:
                    held.close()

    def has(self, directory: str, thread: str) -> bool:
        """Return whether this process has taken *thread*."""
        held = self._directories.get(directory)
        return held is not None and thread in held.threads

    def release(self, directory: str, thread: str) -> None:
        """Release a thread. One that is not held, as in a forked process, is ignored."""
        with self.lock:
            held = self._directories.get(directory)
            if held is None or thread not in held.threads:
                return
            try:
                held.unlock(thread)
            finally:
                if not held.threads:
                    del self._directories[directory]
                    held.close()

    def reset(self) -> None:
        # Closed, not unlocked: the open file is shared with the parent, and so are its locks.
        for held in self._directories.values():
            held.close()
        self._directories.clear()

    def _opened(self, directory: str) -> Locks | None:
        try:
            try:
                return self._kind()(directory)
            except FileNotFoundError:  # The store is used for the first time, or was deleted.
                Path(directory).mkdir(mode=0o700, parents=True, exist_ok=True)
                return self._kind()(directory)
        except OSError as exc:  # A store that cannot be written must not stop a run.
            if exc.errno in EXHAUSTED:
                raise
            return None


registry: Registry = Registry()
"""Of this process: two stores on one directory share it."""
