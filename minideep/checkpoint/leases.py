"""`Leases`: threads whose holders must say from time to time that they go on, or another process may take them over.

A lock of the system ends with its process, however that ends, but not while the process is stopped. So each holder of
a thread has a row, with a token that no other hold has and the time until which it is valid, and renews it. Who finds a
thread locked and its row out of date replaces the row; from then on the old holder's appends are refused, because they
look for their token in the same transaction. The table is not one of diskcache's.
"""

import contextlib
import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable
from sqlite3 import Connection

from msgspec import Struct

from ..errors import ThreadConflict
from .atfork import AtRest
from .connection import SharedConnection

CREATE = """CREATE TABLE IF NOT EXISTS Leases(
    thread TEXT PRIMARY KEY, token TEXT NOT NULL, until REAL NOT NULL, locked INTEGER NOT NULL) WITHOUT ROWID"""
FIND = "SELECT token, until, locked FROM Leases WHERE thread = ?"
PUT = "INSERT OR REPLACE INTO Leases(thread, token, until, locked) VALUES (?, ?, ?, ?)"
RENEW = "UPDATE Leases SET until = ? WHERE thread = ? AND token = ?"
REMOVE = "DELETE FROM Leases WHERE thread = ? AND token = ?"
END = "UPDATE Leases SET until = 0 WHERE thread = ? AND token = ?"
TIMEOUT = 5.0
"""Seconds that the taking or renewing of a lease waits for other writers."""
PAUSE = 5.0
"""The most seconds between two renewals, and until the thread that renews ends when nothing is held any more."""
logger: logging.Logger = logging.getLogger("minideep")


class _Hold(Struct):
    """A thread that this object has taken."""

    token: str
    locked: bool
    """False if the system's lock is still with the process that it was taken from."""
    lose: Callable[[], object] | None = None


class Leases(AtRest):
    """The leases that one store object has. *hold* and *release* take and release the system's lock on a thread; a
    lease that was not renewed for *seconds* may be taken over.
    """

    def __init__(
        self,
        connection: SharedConnection,
        hold: Callable[[str], bool],
        release: Callable[[str], None],
        seconds: float,
    ) -> None:
        super().__init__()
        self._connection, self._hold, self._release, self._seconds = connection, hold, release, seconds
        self._held: dict[str, _Hold] = {}
        self._renewing: threading.Thread | None = None

    def take(self, thread: str) -> bool:
        """Take a thread that nobody has, or whose holder has not renewed its lease; return whether it was so."""
        if thread in self._held:
            return False
        locked = self._hold(thread)
        taken: _Hold | None = None
        try:
            taken = self._connection.run(lambda con: self._taken(con, thread, locked), TIMEOUT)
        finally:
            if locked and taken is None:
                self._release(thread)
        if taken is None:
            return False
        self._held[thread] = taken
        self._renew_from_now_on()
        return True

    def _taken(self, con: Connection, thread: str, locked: bool) -> _Hold | None:
        if not locked and not _is_free(_found(con, thread), locked):
            return None  # Nothing is written while somebody else has the thread, however often it is asked for.
        con.execute(CREATE)
        with con:
            con.execute("BEGIN IMMEDIATE")
            if not _is_free(_found(con, thread), locked):
                return None
            hold = _Hold(secrets.token_hex(8), locked)
            con.execute(PUT, (thread, hold.token, time.time() + self._seconds, locked))
            return hold

    def watch(self, thread: str, lose: Callable[[], object]) -> None:
        """Call *lose* when the lease is found to be somebody else's."""
        if (hold := self._held.get(thread)) is not None:
            hold.lose = lose

    def check(self, con: Connection, thread: str) -> None:
        """Refuse an append, from inside its transaction.

        Raises:
            ThreadConflict: the thread is no longer held by this object.
        """
        hold, found = self._held.get(thread), _found(con, thread)
        if hold is None or found is None or found[0] != hold.token:
            if hold is not None and hold.lose is not None:
                hold.lose()
            raise ThreadConflict(f"thread {thread!r} was taken over by another process; run it again")

    def release(self, thread: str) -> None:
        """Release a thread. Its row goes too, unless others write: it is then out of date by itself."""
        hold = self._held.pop(thread, None)
        if hold is None:
            return
        try:
            with contextlib.suppress(TimeoutError, sqlite3.Error):
                # Without a row a thread whose lock a stopped process has would seem to be held by it.
                end = REMOVE if hold.locked else END
                self._connection.run(lambda con: con.execute(end, (thread, hold.token)).rowcount, 0.0)
        finally:
            if hold.locked:
                self._release(thread)

    def is_held(self, connection: SharedConnection, thread: str, locked: bool) -> bool:
        """Return whether somebody has the thread, of which the system says whether it is *locked*."""
        if thread in self._held:
            return True
        found = connection.run(lambda con: _found(con, thread), TIMEOUT)
        return not _is_free(found, not locked)

    def reset(self) -> None:
        self._held, self._renewing = {}, None  # They are the parent's.

    def _renew_from_now_on(self) -> None:
        with self.lock:
            if self._renewing is None:
                self._renewing = threading.Thread(target=self._renew, daemon=True, name="minideep-leases")
                self._renewing.start()

    def _renew(self) -> None:
        while True:
            time.sleep(min(self._seconds / 4, PAUSE))
            with self.lock:
                if not self._held:  # The next thread that is taken starts another one.
                    self._renewing = None
                    return
            try:
                self._connection.run(self._renewed, TIMEOUT)
            except (TimeoutError, sqlite3.Error, OSError) as exc:  # Tried again; until then it may be taken over.
                logger.warning("cannot renew the leases of this process", exc_info=exc)

    def _renewed(self, con: Connection) -> None:
        for thread, hold in list(self._held.items()):
            renewed = con.execute(RENEW, (time.time() + self._seconds, thread, hold.token)).rowcount
            if not renewed and self._held.get(thread) is hold and hold.lose is not None:
                hold.lose()


def _found(con: Connection, thread: str) -> tuple[str, float, int] | None:
    try:
        return con.execute(FIND, (thread,)).fetchone()
    except sqlite3.OperationalError as exc:
        if "no such table" in str(exc):  # Nobody ever took a lease here.
            return None
        raise


def _is_free(found: tuple[str, float, int] | None, locked: bool) -> bool:
    """Return whether a thread may be taken, of which this process has the system's lock or not."""
    if found is None:
        return locked  # Without a row it is held by somebody who has taken it at this moment, or who has no lease.
    _, until, was_locked = found
    # Who had the system's lock and has it no more is dead, or has released it.
    return until < time.time() or (locked and bool(was_locked))
