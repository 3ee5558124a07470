"""`DiskCheckpointer`: a store in a directory, on the database of diskcache."""

import contextlib
import os
import socket
import sqlite3
import sys
import time
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import Executor
from functools import cached_property
from pathlib import Path
from sqlite3 import SQLITE_CANTOPEN, SQLITE_READONLY, Connection
from typing import TYPE_CHECKING, Any

from .. import folders
from ..checks import checked
from ..errors import CheckpointError, ConfigError, ThreadConflict
from ..kinds import Pathname
from ..ports import Retention
from . import database, locks, room
from .connection import SharedConnection
from .layout import head_key
from .store import WRITE_TIMEOUT, open_store
from .worker import Worker

if TYPE_CHECKING:
    from ..ports import Exchange
    from .verify import Damage

TIDY_BYTES, TIDY_SECONDS = 384 * 1024, 0.02
"""After so many bytes in the write-ahead log the store's thread moves them to the database, before SQLite lets an
append do it. If they took less than so many seconds to come, the append does it: the thread could not keep up, and the
log would grow without bound.
"""
TIDY_TIMEOUT = 1.0
"""Seconds that tidying waits for other writers: appends that were handed to the store's thread wait behind it."""
SPARE_PAGES, STEP_PAGES = 256, 64
"""Free pages that stay for later rows, and how many of those above are given back at a time."""


class DiskCheckpointer:
    """Keeps threads in a directory, private to its owner (0700), which is created when it is first needed.

    It survives any kill of the process. Power loss may cost the last boundaries unless *fsync* is set, which makes
    every append wait for the disk. *retention* says what is removed automatically; by default nothing. Several agents
    and processes may share it. `close`, or `with`, finishes the maintenance after turns and closes all files; the store
    opens again when it is next used.

    Raises:
        ConfigError: *directory* is a file.
    """

    inline = 64 * 1024

    @checked
    def __init__(self, directory: Pathname, *, retention: Retention | None = None, fsync: bool = False) -> None:
        self.directory = Path(directory).expanduser()
        with contextlib.suppress(OSError):  # Where it may not be looked at, the first read says so.
            if self.directory.is_file():  # It would read as a store without threads.
                raise ConfigError(f"{str(self.directory)!r} is a file, not a directory; give the store another path")
        # A file tool that opens and closes the database would drop this process's locks on it.
        folders.claim(self.directory)
        self.retention = retention or Retention()
        self._fsync = fsync
        self._worker = Worker()
        self._file = file = self.directory / "cache.db"
        # Four, so that an event loop that reads one row, or writes, does not wait for a thread that reads many, writes
        # or tidies.
        self._reader = SharedConnection(file, self._connect_to_read)
        self._scanner = SharedConnection(file, self._connect_to_read)
        self._writer = SharedConnection(file, self._connect_to_write)
        self._tidier = SharedConnection(file, lambda: database.connect(file))
        self._untidy, self._tidied = 0, 0.0

    def __enter__(self) -> "DiskCheckpointer":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def executor(self) -> Executor:
        return self._worker.executor

    @cached_property
    def exchange(self) -> "Exchange | None":
        """The means to ask the process that runs a turn, from any process: Unix sockets. None where there are none."""
        if sys.platform == "win32" or not hasattr(socket, "AF_UNIX"):
            return None
        from .exchange import SocketExchange  # Only when turns are announced or asked for.

        return SocketExchange(self._real_path)

    def head(self, thread: str) -> bytes | None:
        return self.get(head_key(thread))

    def get(self, key: str) -> bytes | None:
        found = self._read(self._reader, database.GET, key)
        return database.checked_value(*found[0]) if found else None

    def rows(self, start: str, stop: str) -> list[tuple[str, bytes]]:
        # A refused value does not begin like any that we write: its reader fails, and the other rows can be read.
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
                # Inside the transaction: between a look and a write another process could append.
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
                room.check_room(self.directory, size)
            try:
                self._writer.run(write, timeout)
            except sqlite3.OperationalError as exc:
                if head is not None or not room.is_full(exc):
                    raise
                self._make_room()  # Only for a deletion, which frees more.
                self._writer.run(write, timeout)
        self._tidy_later(size, bool(gone))

    def hold(self, thread: str) -> bool:
        with contextlib.suppress(OSError):  # A store that cannot be written must not stop a run.
            if not self._writer.inode():
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return locks.registry.hold(self._real_path, thread)

    def held(self, thread: str) -> bool:
        return locks.registry.is_held(self._real_path, thread)

    def release(self, thread: str) -> None:
        locks.registry.release(self._real_path, thread)

    def size(self) -> int:
        files = [self._file, self.directory / "cache.db-wal"]
        with self._errors("read"):
            return sum(file.stat().st_size for file in files if file.exists())

    def verify(self) -> "list[Damage]":
        """Read every row, fold every run, and have SQLite check its file; return the damage, or an empty list.

        Others may use the store meanwhile. It takes about as long as loading each thread twice.

        Raises:
            CheckpointError: the store cannot be read at all.
        """
        from .verify import Damage, database_problems, verify  # Seldom needed.

        if not self._reader.inode():
            return []  # Nothing was ever written.
        with self._errors("read"), self._connection() as connection:
            found = [Damage("", "cache.db", problem) for problem in database_problems(connection)]
        try:
            return [*found, *verify(open_store(self))]
        except CheckpointError:
            if not found:
                raise
            return found  # They are the cause.

    def close(self) -> None:
        if (exchange := vars(self).get("exchange")) is not None:
            exchange.close()
        self._worker.finish()
        for connection in (self._reader, self._scanner, self._writer, self._tidier):
            connection.close()

    @checked
    def backup(self, path: Pathname) -> None:
        """Copy all that is stored now into a new directory, private to its owner, which a `DiskCheckpointer` opens.

        Turns may run meanwhile, in any process: they do not wait, and what they append is not in the copy. It takes as
        long as reading and writing everything; in a coroutine use `await asyncio.to_thread(store.backup, path)`. This
        is the one way to copy a store that is in use.

        Raises:
            ConfigError: *path* exists and is not an empty directory.
            CheckpointError: the store cannot be read or the copy not be written; nothing is left of the copy.
        """
        from .backup import copy_database, new_directory  # Seldom needed.

        with (
            self._errors("back up"),
            new_directory(Path(path).expanduser()) as folder,
            self._connection() as connection,
        ):
            if self._reader.inode():
                connection.run(lambda con: copy_database(con, folder / "cache.db"), WRITE_TIMEOUT)

    def _connection(self) -> contextlib.closing[SharedConnection]:
        """A connection of its own for work that takes long."""
        return contextlib.closing(SharedConnection(self._file, self._connect_to_read))

    @cached_property
    def _real_path(self) -> str:
        return os.path.realpath(self.directory)

    def _read(self, connection: SharedConnection, query: str, *args: str) -> list[Any]:
        with self._errors("read"):
            if not connection.inode():
                return []  # Nothing was ever written, and reading must not create a directory.
            return connection.run(lambda con: con.execute(query, args).fetchall(), WRITE_TIMEOUT)

    @contextlib.contextmanager
    def _errors(self, verb: str) -> Generator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as exc:
            text = f"cannot {verb} the state in {str(self.directory)!r}: {exc}"
            if isinstance(exc, TimeoutError) and verb == "write":
                raise TimeoutError(text) from None  # The caller may wait and try again.
            raise CheckpointError(text) from exc

    def _connect_to_write(self) -> Connection:
        try:
            con = self._set_up()
        except sqlite3.OperationalError as exc:
            if not (room.is_full(exc) and room.give_up_spare(self.directory)):
                raise
            return self._set_up()  # SQLite creates files to open its log, for which there was no room.
        room.keep_spare(self.directory)
        return con

    def _connect_to_read(self) -> Connection:
        try:
            return self._connect_to_write()
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF not in (SQLITE_READONLY, SQLITE_CANTOPEN):
                raise
        return database.connect_to_read(self._file)

    def _set_up(self) -> Connection:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        con = database.connect(self._file)
        try:
            database.set_up(con, self.directory)
            con.execute(f"PRAGMA synchronous = {'FULL' if self._fsync else 'NORMAL'}")
        except BaseException:
            con.close()
            raise
        return con

    def _make_room(self) -> None:
        """Give up the spare file, and empty the write-ahead log into the database, so that it can be used again."""
        room.give_up_spare(self.directory)
        self._writer.run(lambda con: con.execute("PRAGMA wal_checkpoint(RESTART)").fetchall(), WRITE_TIMEOUT)

    def _tidy_later(self, size: int, deleted: bool) -> None:
        """Have the store's thread tidy up, after deletions or when the write-ahead log has grown."""
        self._untidy += size + 6 * 4096  # An append also changes pages of the table and of its index.
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
        room.keep_spare(self.directory)  # Once there is room again.


def _vacuum(con: Connection) -> None:
    con.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")  # `execute` would stop after one page.
