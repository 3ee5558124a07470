"""`SharedConnection`: one SQLite connection that any thread may use, one at a time."""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from sqlite3 import SQLITE_BUSY, SQLITE_LOCKED, Connection
from typing import TypeVar

from .atfork import AtRest

T = TypeVar("T")


class SharedConnection(AtRest):
    """Connects to *file* with *connect* when it is first used; again after `close`, after a fork, and when the file was
    removed: what is written to a removed file that is still open would be lost with it.
    """

    def __init__(self, file: Path, connect: Callable[[], Connection]) -> None:
        super().__init__()
        self.con: Connection | None = None
        self._path, self._inode = str(file), 0
        self._connect = connect

    def run(self, act: Callable[[Connection], T], timeout: float) -> T:
        """Call *act* while no other thread uses the connection, again while another process has the database locked. It
        is called at least once, unless another thread has the connection for longer than *timeout*.

        Between two attempts others may use the connection, so that readers do not wait for a writer that waits. *act*
        must not return a cursor: SQLite keeps a closed connection open for as long as one exists.

        Raises:
            TimeoutError: it took longer than *timeout* seconds.
        """
        deadline = time.monotonic() + timeout
        # The wait is ours: SQLite would sleep while it holds the connection, and with it all readers.
        while self.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            try:
                return act(self._connected())
            except sqlite3.OperationalError as exc:
                # The lowest byte is the kind of error; the others have its detail, as in SQLITE_BUSY_SNAPSHOT.
                if exc.sqlite_errorcode & 0xFF not in (SQLITE_BUSY, SQLITE_LOCKED):
                    raise
            finally:
                self.lock.release()
            if time.monotonic() >= deadline:
                break
            time.sleep(0.001)
        raise TimeoutError(f"the database was locked by other writers for more than {timeout:g} s")

    def run_now(self, act: Callable[[Connection], T]) -> T | None:
        """Return what *act*, which only reads, returns; None if that would need a connection first, or any waiting."""
        if not self.lock.acquire(blocking=False):
            return None
        try:
            if self.con is None or self.con.in_transaction or self._inode != self.inode():
                return None
            return act(self.con)
        except sqlite3.OperationalError:  # Who tries again says what it is.
            return None
        finally:
            self.lock.release()

    def inode(self) -> int:
        """Return the inode of the file, or 0 if there is none."""
        try:
            return os.stat(self._path).st_ino  # noqa: PTH116 - A turn asks five times, and a `Path` takes as long again.
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def _connected(self) -> Connection:
        if self.con is not None and self._inode != self.inode():  # Removed, or replaced by a restored backup.
            self._disconnect()
        if self.con is None:
            self.con, self._inode = self._connect(), self.inode()
        return self.con

    def close(self) -> None:
        with self.lock:
            self._disconnect()

    def _disconnect(self) -> None:
        con, self.con = self.con, None
        if con is not None:
            con.close()

    def __del__(self) -> None:
        self._disconnect()  # From Python 3.13 on SQLite would warn of a store that was dropped and not closed.

    def before_fork(self) -> None:
        """Close the connection, for a child must not inherit one. SQLite keeps one list of locks a process: in the
        child it would claim the parent's locks, though the system gave it none. The child could then wait for ever
        for a transaction of its parent, or write to a log that its parent removed when it closed as its last user.
        """
        super().before_fork()
        self._disconnect()
