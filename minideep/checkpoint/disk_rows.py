"""`DiskRows`: the rows and locks of a `DiskCheckpointer`, in the database of diskcache."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from sqlite3 import SQLITE_CANTOPEN, SQLITE_READONLY, Connection
from typing import TYPE_CHECKING

from ..errors import CheckpointError
from ..ports import Range, Retention
from . import database, locks, room
from .adapter import TIMEOUT
from .connection import SharedConnection
from .layout import head_key, lock_name
from .sync_store import Space
from .worker import Worker

TIDY_BYTES, TIDY_SECONDS = 384 * 1024, 0.02
"""After so many bytes in the write-ahead log a thread moves them to the database, before SQLite lets an append do it.
If they took less than so many seconds to come, the append does it: the thread could not keep up, and the log would grow
without bound.
"""
TIDY_TIMEOUT = 1.0
"""Seconds that tidying waits for other writers; the next append comes to it again."""
VERBS = ("read", "write", "back up")
SPARE_PAGES, STEP_PAGES = 256, 64
"""Free pages that stay for later rows, and how many of those above are given back at a time."""


if TYPE_CHECKING:
    from .leases import Leases


class DiskErrors:
    """Raises what the system or SQLite reports as a `CheckpointError`, which says what could not be done."""

    def __init__(self, verb: str, directory: Path) -> None:
        self._verb, self._directory = verb, directory

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, exc: BaseException | None, trace: object) -> None:
        if isinstance(exc, OSError | sqlite3.Error):
            text = f"cannot {self._verb} the state in {str(self._directory)!r}: {exc}"
            if isinstance(exc, TimeoutError) and self._verb == "write":
                raise TimeoutError(text) from None  # The caller may wait and try again.
            raise CheckpointError(text) from exc


class DiskRows:
    """The `SyncStore` of a directory. It is created when it is first needed; reading never creates it."""

    inline = 64 * 1024

    def __init__(
        self,
        directory: Path,
        retention: Retention,
        *,
        fsync: bool = False,
        lease: float | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self.directory: Path = directory
        self.retention: Retention = retention
        self.timeout: float = timeout
        self.file: Path = directory / "cache.db"
        file = self.file
        self.errors: dict[str, DiskErrors] = {verb: DiskErrors(verb, directory) for verb in VERBS}
        """`with errors["read"]:` says of an error that something could not be read."""
        self._fsync = fsync
        self._worker = Worker()
        # Four, so that an event loop that reads one row, or writes, does not wait for a thread that reads many, writes
        # or tidies.
        self._reader = SharedConnection(file, self._connect_to_read)
        self._scanner = SharedConnection(file, self._connect_to_read)
        self._writer = SharedConnection(file, self._connect_to_write)
        self._tidier = SharedConnection(file, lambda: database.connect(file))
        self._untidy, self._tidied = 0, 0.0
        self.leases: Leases | None = self._leases(lease) if lease is not None else None

    def read(self, *ranges: Range) -> list[list[tuple[str, bytes]]]:
        def look(con: Connection) -> list[list[tuple[str, bytes]]]:
            return database.read(con, ranges)

        # A single row has a connection of its own, as an event loop may wait for it.
        alone = len(ranges) == 1 and ranges[0].stop is None
        with self.errors["read"]:
            # The connection that wrote last still has the page: any other one takes three times as long.
            if alone and (found := self._writer.run_now(look)) is not None:
                return found
            connection = self._reader if alone else self._scanner
            if not connection.inode():
                return [[] for _ in ranges]  # Nothing was ever written, and reading must not create a directory.
            return connection.run(look, self.timeout)

    def append(
        self,
        thread: str,
        expected: bytes | None,
        head: bytes | None,
        rows: Mapping[str, bytes],
        deletes: Iterable[str] = (),
        *,
        check: Callable[[], None] | None = None,
        timeout: float = 0.0,
    ) -> None:
        at, gone = head_key(thread), set(deletes)

        def write(con: Connection) -> None:
            with con:  # Commits, or rolls back.
                con.execute("BEGIN IMMEDIATE")
                # Inside the transaction: between a look and a write another process could append.
                if check is not None:
                    check()
                    if self.leases is not None:
                        self.leases.check(con, thread)
                database.replace_head(con, thread, at, expected, head)
                database.delete(con, thread, gone)
                database.put(con, rows)
                if gone:
                    database.delete_blobs(con, gone)

        size = sum(map(len, rows.values()))
        with self.errors["write"]:
            if size > self.inline:
                room.check_room(self.directory, size)
            try:
                self._writer.run(write, timeout)
            except sqlite3.OperationalError as exc:
                if head is not None or not room.is_full(exc):
                    raise
                self._make_room()  # Only for a deletion, which frees more.
                self._writer.run(write, timeout)
        self._tidy_later(size, len(gone) > len(rows))  # Most appends replace a row, which frees no page.

    def hold(self, space: Space, thread: str) -> bool:
        name = _lock(space, thread)
        if self.leases is None:
            return locks.registry.hold(self._real_path, name)
        with self.errors["write"]:
            return self.leases.take(name)

    def release(self, space: Space, thread: str) -> None:
        name = _lock(space, thread)
        if self.leases is not None:
            self.leases.release(name)
        else:
            locks.registry.release(self._real_path, name)

    def is_held(self, space: Space, thread: str) -> bool:
        held = locks.registry.is_held(self._real_path, name := _lock(space, thread))
        if self.leases is None or not self._reader.inode():
            return held
        with self.errors["read"]:
            return self.leases.is_held(self._reader, name, held)

    def size(self) -> int:
        """Return the bytes of the database and its log."""
        files = [self.file, self.directory / "cache.db-wal"]
        with self.errors["read"]:
            return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        self._worker.finish()
        for connection in (self._reader, self._scanner, self._writer, self._tidier):
            connection.close()

    def exists(self) -> bool:
        """Return whether anything was ever written."""
        return bool(self._reader.inode())

    def problems(self) -> list[str]:
        """Have SQLite check its file, and count the rows whose keys are not text."""
        with self.errors["read"], self.connection() as connection:
            try:
                lines, (others,) = connection.run(database.checked_database, TIMEOUT)
            except sqlite3.OperationalError:  # Locked or out of reach is not damaged.
                raise
            except sqlite3.DatabaseError as exc:
                return [str(exc)]
        foreign = [f"{others} rows are not ours: their keys are not text"] if others else []
        return [line for line in lines if line != "ok"] + foreign

    def connection(self) -> contextlib.closing[SharedConnection]:
        """Return a connection of its own for work that takes long."""
        return contextlib.closing(SharedConnection(self.file, self._connect_to_read))

    # ---- locks

    def _leases(self, seconds: float) -> "Leases":
        from .leases import Leases  # Loaded for those who set one.

        take, release = locks.registry.hold, locks.registry.release
        return Leases(
            self._writer, lambda name: take(self._real_path, name), lambda name: release(self._real_path, name), seconds
        )

    @cached_property
    def _real_path(self) -> str:
        return os.path.realpath(self.directory)

    # ---- connections

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
        return database.connect_to_read(self.file)

    def _set_up(self) -> Connection:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        con = database.connect(self.file)
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
        self._writer.run(lambda con: con.execute("PRAGMA wal_checkpoint(RESTART)").fetchall(), self.timeout)

    def _tidy_later(self, size: int, deleted: bool) -> None:
        """Have another thread tidy up, after deletions or when the write-ahead log has grown."""
        self._untidy += size + 6 * 4096  # An append also changes pages of the table and of its index.
        if not deleted and self._untidy < TIDY_BYTES:
            return
        now = time.monotonic()
        calm, self._untidy, self._tidied = now - self._tidied > TIDY_SECONDS, 0, now
        if deleted or calm:
            with contextlib.suppress(RuntimeError):  # The program is ending; the next one does it.
                self._worker.executor.submit(self._tidy)

    def _tidy(self) -> None:
        """Give back free pages, and move the write-ahead log into the database, while appends go on."""
        (free,) = self._tidier.run(lambda con: con.execute("PRAGMA freelist_count").fetchone(), TIDY_TIMEOUT)
        for _ in range((free - SPARE_PAGES) // STEP_PAGES):
            self._tidier.run(_vacuum, TIDY_TIMEOUT)
            time.sleep(0.002)  # For appends, which need the lock that this takes.
        self._tidier.run(lambda con: con.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone(), TIDY_TIMEOUT)
        room.keep_spare(self.directory)  # Once there is room again.


def _lock(space: Space, thread: str) -> str:
    return thread if space == "turns" else lock_name(thread, space)


def _vacuum(con: Connection) -> None:
    con.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")  # `execute` would stop after one page.
