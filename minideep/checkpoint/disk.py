"""A store in a directory: diskcache, with everything switched off that a cache does and a store may not."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, cast
from urllib.parse import quote, unquote

import diskcache

from ..errors import CheckpointError, CorruptSegment, ThreadConflict

MODE_RAW = 1
"""How diskcache marks a value that is bytes in its row."""


SETTINGS = {
    "disk_min_file_size": 2**40,  # A value in a file of its own would outlive a rollback.
    "eviction_policy": "none",  # A cache may drop what it holds; a store may not.
    "cull_limit": 0,
    "size_limit": 2**60,
    "sqlite_mmap_size": 0,
}


class _BytesDisk(cast(Any, diskcache).Disk):
    """Reads and writes text keys and raw bytes, inside SQLite, and nothing else.

    diskcache's own unpickles whatever a row says is a pickle (CVE-2025-69872): who can write the file could run code.
    """

    def put(self, key: Any) -> tuple[str, bool]:
        if type(key) is not str:
            raise CheckpointError(f"a key must be text, not {key!r}")
        return key, True

    def get(self, key: Any, raw: Any) -> str:
        return _checked_key(key, raw)

    def store(self, value: Any, read: bool, key: Any = None) -> tuple[int, int, None, memoryview]:
        if type(value) is not bytes:
            raise CheckpointError(f"a value must be bytes, not {type(value).__name__}")
        return len(value), MODE_RAW, None, memoryview(value)

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> bytes:
        return _checked_value(mode, filename, value)


class _Open:
    """A cache, and the one thread that uses it: diskcache has a connection a thread, which only that can close."""

    def __init__(self, directory: str, fsync: bool) -> None:
        self.pid = os.getpid()
        self._threads: list[int] = []
        known = self._threads.append  # Not this object, which could never end if its own thread held it.
        self.executor = ThreadPoolExecutor(1, "minideep-store", lambda: known(threading.get_ident()))
        self._directory = directory
        self._settings = SETTINGS | {"sqlite_synchronous": 2 if fsync else 1}
        self._cache: Any = None

    def do(self, act: Callable[[Any], Any]) -> Any:
        """Call *act* with the cache, on the thread that it belongs to, and wait for what it returns."""
        if threading.get_ident() in self._threads:
            return act(self._cached())
        return self.executor.submit(lambda: act(self._cached())).result()

    def close(self) -> None:
        """Close the cache and end the thread; in a forked process there is neither."""
        if self.pid == os.getpid():
            self.executor.submit(lambda: self._cache and self._cache.close())
            self.executor.shutdown()

    def _cached(self) -> Any:
        if self._cache is None:
            kind: Any = cast(Any, diskcache).Cache
            cache = kind.__new__(kind)
            try:
                cache.__init__(self._directory, disk=_BytesDisk, **self._settings)
            except BaseException:
                cache.close()  # What could not be opened whole still has a connection.
                raise
            self._cache = cache
        return self._cache


class DiskCheckpointer:
    """Keeps threads in a directory, private to its owner (0700), which is made when it is first written to.

    Survives any kill of the process. Power loss may cost the last boundaries unless *fsync* is set, which makes every
    append wait for the disk. Safe to share between agents, threads and processes. `close`, or `with`, lets go of it,
    as of a file; it opens again when it is used.
    """

    def __init__(self, directory: str | os.PathLike[str], *, fsync: bool = False) -> None:
        self.directory = Path(directory).expanduser()
        self._fsync = fsync
        self._open: _Open | None = None
        self._lock = Lock()

    def __enter__(self) -> "DiskCheckpointer":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def executor(self) -> Executor:
        return self._opened().executor

    def head(self, thread: str) -> bytes | None:
        if not self._exists():
            return None
        with self._errors("read"):
            return self._opened().do(lambda cache: cache.get(_head_key(thread)))

    def append(
        self, thread: str, expected: bytes | None, head: bytes, rows: dict[str, bytes], deletes: Iterable[str] = ()
    ) -> None:
        def write(cache: Any) -> None:
            with cache.transact():
                if cache.get(_head_key(thread)) != expected:
                    raise ThreadConflict(f"thread {thread!r} was appended to by another writer; run it again")
                for key in deletes:
                    cache.delete(key)
                for key, value in rows.items():
                    cache.set(key, value)
                cache.set(_head_key(thread), head)

        with self._errors("write"):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._opened().do(write)

    def rows(self, start: str, stop: str) -> list[tuple[str, bytes]]:
        if not self._exists():
            return []
        query = "SELECT key, raw, mode, filename, value FROM Cache WHERE key >= ? AND key < ? ORDER BY key"
        with self._errors("read"):
            found = self._opened().do(lambda cache: cache._sql(query, (start, stop)).fetchall())
            return [(_checked_key(key, raw), _checked_value(*row)) for key, raw, *row in found]

    def heads(self) -> list[tuple[str, bytes]]:
        return [(unquote(key[len("head/") :]), value) for key, value in self.rows("head/", "head0")]

    def close(self) -> None:
        with self._lock:
            if self._open is not None:
                self._open.close()
            self._open = None

    def _exists(self) -> bool:
        """Whether anything was ever written: reading must not make a directory."""
        return (self.directory / "cache.db").exists()

    def _opened(self) -> "_Open":
        """The open store; opened again after a fork, which neither threads nor SQLite's connections survive."""
        with self._lock:
            if self._open is None or self._open.pid != os.getpid():
                self._open = _Open(str(self.directory), self._fsync)
            return self._open

    @contextlib.contextmanager
    def _errors(self, act: str) -> Generator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, cast(Any, diskcache).Timeout) as exc:
            problem = str(exc) or "it was locked by another process for too long"
            raise CheckpointError(f"cannot {act} the state in {str(self.directory)!r}: {problem}") from exc


def _head_key(thread: str) -> str:
    return f"head/{quote(thread, safe='')}"


def _checked_key(key: Any, raw: Any) -> str:
    if not raw or type(key) is not str:
        raise CorruptSegment("a stored key is not text; refusing to read it")
    return key


def _checked_value(mode: Any, filename: Any, value: Any) -> bytes:
    if mode != MODE_RAW or filename is not None or not isinstance(value, bytes):
        raise CorruptSegment(f"a stored value is not raw bytes (mode {mode!r}); refusing to read it")
    return value
