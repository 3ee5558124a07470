"""Which threads are held: in this process by a registry, over all processes by POSIX locks.

A held thread is one locked byte of the file `threads.lock` in the store's directory. Such a lock ends with its process,
however that ends; and as soon as the process closes any descriptor of the file: hence one descriptor a directory.
"""

import errno
import os
from hashlib import blake2b
from threading import Lock

try:
    import fcntl
except ImportError:  # Windows has none: there only the registry counts.
    fcntl = None


class _Held:
    """What this process holds in one directory. Without *file*, which could not be opened, only here."""

    def __init__(self, file: int | None) -> None:
        self.file = file
        self.threads: set[str] = set()


_mutex = Lock()
_directories: dict[str, _Held] = {}


def hold(directory: str, thread: str) -> bool:
    """Take *thread* of the store in *directory*, a real path; False if somebody has it. Never waits.

    Where no file can be locked (a directory that is read-only, a system without locks) only this process counts.
    """
    with _mutex:
        held = _directories.get(directory) or _Held(_opened(directory))
        if thread in held.threads:
            return False
        if _taken(held.file, thread):
            held.threads.add(thread)
            _directories[directory] = held
            return True
        if not held.threads:
            _close(held.file)
        return False


def release(directory: str, thread: str) -> None:
    """Let go of a thread; of one that is not held, as in a forked process, nothing."""
    with _mutex:
        held = _directories.get(directory)
        if held is None or thread not in held.threads:
            return
        held.threads.discard(thread)
        if not held.threads:
            _close(held.file)
            del _directories[directory]
        elif fcntl and held.file is not None:
            fcntl.lockf(held.file, fcntl.LOCK_UN, 1, _offset(thread))


def _opened(directory: str) -> int | None:
    try:
        return os.open(f"{directory}/threads.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def _taken(file: int | None, thread: str) -> bool:
    if fcntl is None or file is None:
        return True
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(thread))
    except OSError as exc:
        return exc.errno not in (errno.EAGAIN, errno.EACCES)  # Any other says that there are no locks here.
    return True


def _close(file: int | None) -> None:
    if file is not None:
        os.close(file)


def _offset(thread: str) -> int:
    """The byte that stands for *thread*: two of them share one once in 2**62 times."""
    return int.from_bytes(blake2b(thread.encode(), digest_size=8).digest()) >> 2


def _forget() -> None:
    """A forked process holds nothing. To close its copy of the descriptor takes no lock from its parent."""
    for held in _directories.values():
        _close(held.file)
    _directories.clear()
    _mutex.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_mutex.acquire, after_in_parent=_mutex.release, after_in_child=_forget)
