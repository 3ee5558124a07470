"""A store in a directory: diskcache's database, without everything that a cache does and a store may not."""

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import Executor
from errno import ENOSPC
from functools import cached_property
from pathlib import Path
from sqlite3 import SQLITE_CANTOPEN, SQLITE_FULL, SQLITE_IOERR, SQLITE_READONLY, Connection
from typing import TYPE_CHECKING, Any

from .. import folders
from ..checks import checked
from ..errors import CheckpointError, ConfigError, ThreadConflict
from ..kinds import Pathname
from ..ports import Retention
from . import database, locks, spare
from .connection import SharedConnection
from .layout import head_key
from .store import WRITE_TIMEOUT, open_store
from .worker import Worker

if TYPE_CHECKING:
    from .verify import Damage

TIDY_BYTES, TIDY_SECONDS = 384 * 1024, 0.02
"""After so much in that log the store's thread does it first. If it took less than so many seconds to fill, an append
does it after all: the thread could not keep up, and the log would have no bound.
"""
TIDY_TIMEOUT = 1.0
"""Seconds that tidying up waits for other writers: appends that were handed to the store's thread stand behind it."""
SPARE_PAGES, STEP_PAGES = 256, 64
"""Free pages that stay for later rows, and how many of those above are given back at a time."""


class DiskCheckpointer:
    """Keeps threads in a directory, private to its owner (0700), which is made when it is first needed.

    Survives any kill of the process. Power loss may cost the last boundaries unless *fsync* is set, which makes every
    append wait for the disk. *retention* says what is let go of by itself; by default nothing is. Safe to share between
    agents, threads and processes. `close`, or `with`, finishes what is done after turns and lets go of it, as of a
    file; it opens again when it is used.
    """

    inline = 64 * 1024

    @checked
    def __init__(
        self,
        directory: Pathname,
        *,
        retention: Retention | None = None,
        fsync: bool = False,
    ) -> None:
        self.directory = Path(directory).expanduser()
        if os.path.isfile(self.directory):  # Else it would read as a store without threads.
            raise ConfigError(
                f"DiskCheckpointer: {str(self.directory)!r} is a file, not a directory; give another path"
            )
        folders.claim(self.directory)
        self.retention = retention or Retention()
        self._fsync = fsync
        self._worker = Worker()
        # An event loop that reads one row, or writes, waits for no thread that reads many, writes or tidies up.
        file = self.directory / "cache.db"
        self._reader, self._scanner = (
            SharedConnection(file, self._opened_to_read),
            SharedConnection(file, self._opened_to_read),
        )
        self._writer, self._tidier = (
            SharedConnection(file, self._opened_to_write),
            SharedConnection(file, self._connect),
        )
        self._untidy, self._tidied = 0, 0.0

    def __enter__(self) -> "DiskCheckpointer":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def executor(self) -> Executor:
        return self._worker.executor

    def head(self, thread: str) -> bytes | None:
        return self.get(head_key(thread))

    def get(self, key: str) -> bytes | None:
        found = self._read(self._reader, database.GET, key)
        return database.checked_value(*found[0]) if found else None

    def rows(self, start: str, stop: str) -> list[tuple[str, bytes]]:
        # What is refused has no right beginning: who wants that row is told, and the others can still be read.
        found = self._read(self._scanner, database.ROWS, start, stop)
        return [(key, row[2] if database.is_raw(*row) else database.REFUSED) for key, *row in found]

    def keys(self, start: str, stop: str) -> list[str]:
        return [key for (key,) in self._read(self._scanner, database.KEYS, start, stop)]

    def append(
        self,
        thread: str,
        expected: bytes | None,
        head: bytes | None,
        rows: Mapping[str, bytes],
        deletes: Iterable[str] = (),
        *,
        timeout: float = 0.0,
    ) -> None:
        at, gone = head_key(thread), set(deletes)

        def write(con: Connection) -> None:
            with con:  # Commits, or rolls back.
                con.execute("BEGIN IMMEDIATE")
                found = con.execute(database.GET, (at,)).fetchone()
                if (found and database.checked_value(*found)) != expected:
                    raise ThreadConflict(f"thread {thread!r} was changed by another writer; run it again")
                database.delete(con, thread, gone)
                database.put(con, rows if head is None else {**rows, at: head})
                if head is None:
                    con.execute(database.DELETE, (at,))
                database.delete_blobs(con, gone)

        size = sum(map(len, rows.values()))
        with self._errors("write"):
            if size > self.inline:
                _check_room(self.directory, size)
            try:
                self._writer.run(write, timeout)
            except sqlite3.OperationalError as exc:
                if head is not None or not _is_full(exc):
                    raise
                self._make_room()
                self._writer.run(write, timeout)
        self._tidy_later(size, bool(gone))

    def hold(self, thread: str) -> bool:
        with contextlib.suppress(OSError):  # A store that cannot be written must not stop a run.
            if not self._writer.inode():
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return locks.registry.hold(self._real_path, thread)

    def release(self, thread: str) -> None:
        locks.registry.release(self._real_path, thread)

    def size(self) -> int:
        files = [self.directory / "cache.db", self.directory / "cache.db-wal"]
        with self._errors("read"):
            return sum(file.stat().st_size for file in files if file.exists())

    def verify(self) -> "list[Damage]":
        """Read every row, fold every run, and have SQLite check its file: what is damaged; empty if all is well.

        Others may use the store meanwhile. It takes about as long as loading each thread twice.

        Raises:
            CheckpointError: the store cannot be read at all.
        """
        from .verify import Damage, verify  # Here, as what is asked for seldom.

        if not self._reader.inode():
            return []  # Nothing was ever written.
        with self._errors("read"):
            found = [Damage("", "cache.db", problem) for problem in self._database_problems()]
        try:
            return [*found, *verify(open_store(self))]
        except CheckpointError:
            if not found:
                raise
            return found  # Which says why.

    def _database_problems(self) -> list[str]:
        try:
            # Of its own, for this takes long.
            with contextlib.closing(SharedConnection(self.directory / "cache.db", self._opened_to_read)) as line:
                said, (others,) = line.run(database.checked_database, WRITE_TIMEOUT)
        except sqlite3.DatabaseError as exc:
            if isinstance(exc, sqlite3.OperationalError):
                raise
            return [str(exc)]
        foreign = [f"{others} rows are not ours: their keys are no text"] if others else []
        return [line for line in said if line != "ok"] + foreign

    def close(self) -> None:
        self._worker.finish()
        for line in (self._reader, self._scanner, self._writer, self._tidier):
            line.close()

    @checked
    def backup(self, path: Pathname) -> None:
        """Copy all that is stored now into a new directory, private to its owner, which a `DiskCheckpointer` opens.

        Turns may run meanwhile, in whatever process: they do not wait, and what they append is not in the copy. That
        takes as long as it takes to read and write everything; a coroutine says
        `await asyncio.to_thread(store.backup, path)`. This is the one way to copy a store that is in use.

        Raises:
            ConfigError: there is something at *path* that is not an empty directory.
            CheckpointError: the store cannot be read or the copy not be written; nothing is left of it.
        """
        from .backup import atomic_directory, copy_database  # Here, as what is asked for seldom.

        target = Path(path).expanduser()
        with self._errors("back up"):
            if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
                raise ConfigError(f"cannot back up to {str(target)!r}: it is there; give a new or an empty directory")
            with atomic_directory(target) as folder:
                if self._reader.inode():
                    line = SharedConnection(self.directory / "cache.db", self._opened_to_read)
                    with contextlib.closing(line):
                        line.run(lambda con: copy_database(con, folder / "cache.db"), WRITE_TIMEOUT)

    @cached_property
    def _real_path(self) -> str:
        return os.path.realpath(self.directory)

    def _read(self, line: SharedConnection, query: str, *args: str) -> list[Any]:
        with self._errors("read"):
            if not line.inode():
                return []  # Nothing was ever written, and reading must not make a directory.
            return line.run(lambda con: con.execute(query, args).fetchall(), WRITE_TIMEOUT)

    @contextlib.contextmanager
    def _errors(self, verb: str) -> Generator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as exc:
            text = f"cannot {verb} the state in {str(self.directory)!r}: {exc}"
            if isinstance(exc, TimeoutError) and verb == "write":
                raise TimeoutError(text) from None  # Which may be tried again.
            raise CheckpointError(text) from exc

    def _opened_to_write(self) -> Connection:
        try:
            con = self._opened()
        except sqlite3.OperationalError as exc:
            if not (_is_full(exc) and spare.give_up(self.directory)):
                raise
            return self._opened()  # Which makes files as well.
        spare.keep(self.directory)
        return con

    def _make_room(self) -> None:
        """Give up the spare room, and empty the write-ahead log into the database, so that it can be used again."""
        spare.give_up(self.directory)
        self._writer.run(lambda con: con.execute("PRAGMA wal_checkpoint(RESTART)").fetchall(), WRITE_TIMEOUT)

    def _opened(self) -> Connection:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        con = self._connect()
        try:
            database.set_up(con, self.directory)
            con.execute(f"PRAGMA synchronous = {'FULL' if self._fsync else 'NORMAL'}")
        except BaseException:
            con.close()
            raise
        return con

    def _opened_to_read(self) -> Connection:
        """Also where nothing may be written."""
        try:
            return self._opened_to_write()
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF not in (SQLITE_READONLY, SQLITE_CANTOPEN):
                raise
        return database.connect_to_read(self.directory / "cache.db")

    def _connect(self) -> Connection:
        return database.connect(self.directory / "cache.db")

    def _tidy_later(self, size: int, deleted: bool) -> None:
        """Let the store's thread tidy up, after deletions or when the write-ahead log has grown."""
        self._untidy += size + 6 * 4096  # The pages of the table and of its index that an append changes besides.
        if not deleted and self._untidy < TIDY_BYTES:
            return
        now = time.monotonic()
        calm, self._untidy, self._tidied = now - self._tidied > TIDY_SECONDS, 0, now
        if deleted or calm:
            with contextlib.suppress(RuntimeError):  # The program is ending; the next one does it.
                self.executor.submit(self._tidy)

    def _tidy(self) -> None:
        """Give back free pages, and move the write-ahead log into the database, while appends go on."""
        (free,) = self._tidier.run(lambda con: con.execute("PRAGMA freelist_count").fetchone(), TIDY_TIMEOUT)
        for _ in range((free - SPARE_PAGES) // STEP_PAGES):
            self._tidier.run(_vacuum, TIDY_TIMEOUT)
            time.sleep(0.002)  # For appends, which need the lock that this takes.
        self._tidier.run(lambda con: con.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone(), TIDY_TIMEOUT)
        spare.keep(self.directory)  # Once there is room again.


def _vacuum(con: Connection) -> None:
    con.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")  # `execute` would stop after one page.


def _is_full(exc: sqlite3.OperationalError) -> bool:
    return exc.sqlite_errorcode & 0xFF in (SQLITE_FULL, SQLITE_IOERR)


def _check_room(directory: Path, size: int) -> None:
    """Make sure that there is room for *size* bytes twice: a write-ahead log that could not be moved into the database
    would leave none to delete with.
    """
    with contextlib.suppress(FileNotFoundError):  # It is made now.
        free = shutil.disk_usage(directory).free
        if free < 2 * size:
            raise OSError(ENOSPC, f"the disk is full: {2 * size:,} bytes are needed and {free:,} free")
