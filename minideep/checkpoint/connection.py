"""A line to a database: one SQLite connection that any thread may use, one at a time."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from sqlite3 import SQLITE_BUSY, SQLITE_LOCKED, Connection
from threading import RLock
from typing import TypeVar

from . import atfork

T = TypeVar("T")


class SharedConnection:
    """Connects to *file* with *connect* when it is first used, and again after `close`, after a fork, and when the file
    was removed: what is written to one that is still open would be gone with it.
    """

    def __init__(self, file: Path, connect: Callable[[], Connection]) -> None:
        self.con: Connection | None = None
        self._file, self._inode = file, 0
        self._connect = connect
        self._lock = RLock()
        atfork.watch(self)

    def use(self, act: Callable[[Connection], T], timeout: float) -> T:
        """Call *act* while no other thread does, again as long as another process has the database locked; at least
        once, unless another thread has the connection for longer than *timeout*.

        Between two tries others may use the connection: who reads need not wait for who waits to write. *act* must not
        return a cursor: SQLite keeps a connection open, also when it is closed, for as long as it has one.

        Raises:
            TimeoutError: that took longer than *timeout* seconds.
        """
        deadline = time.monotonic() + timeout
        while self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            try:
                return act(self._connected())
            except sqlite3.OperationalError as exc:
                if exc.sqlite_errorcode & 0xFF not in (SQLITE_BUSY, SQLITE_LOCKED):
                    raise
            finally:
                self._lock.release()
            if time.monotonic() >= deadline:
                break
            time.sleep(0.001)
        raise TimeoutError(f"the database was locked by other writers for more than {timeout:g} s")

    def inode(self) -> int:
        """What stands under the file's name now, or 0."""
        try:
            return self._file.stat().st_ino
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def _connected(self) -> Connection:
        if self.con is not None and self._inode != self.inode():
            self._disconnect()
        if self.con is None:
            self.con, self._inode = self._connect(), self.inode()
        return self.con

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _disconnect(self) -> None:
        con, self.con = self.con, None
        if con is not None:
            con.close()

    def before_fork(self) -> None:
        """A child must inherit no connection. SQLite keeps one list of locks a process: in the child it would say that
        the parent's locks are its own, though the system gave it none. The child could then wait for ever for a
        transaction of its parent, or write to a log that its parent has removed on closing as its last user.
        """
        self._lock.acquire()
        self._disconnect()

    def after_fork(self, *, child: bool) -> None:
        self._lock.release()
