"""The database of a store: the tables of diskcache, without what a cache does and a store must not."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any, cast

import diskcache

from ..errors import CorruptSegment, ThreadConflict
from ..ports import Range
from .format import MAX_ROW

MODE_RAW = 1
"""The mark of diskcache for a value that is bytes in its row."""
REFUSED = b"(not raw bytes)"
"""Stands for a value that diskcache would unpickle, or read from a file, and for one that is too large."""

SETTINGS: dict[str, int | str] = {
    "disk_min_file_size": 2**40,  # A value in a file of its own would outlive a rollback.
    "eviction_policy": "none",  # A cache may drop what it holds; a store may not.
    "cull_limit": 0,
    "size_limit": 2**60,
    "sqlite_mmap_size": 0,
    "sqlite_auto_vacuum": 2,  # Free pages are given back after the append, not in it.
}
LAYOUT = 1
"""Marks a database that is set up: without the counters and the expiry of diskcache, which each row would pay for."""
LEAN = f"""
BEGIN IMMEDIATE;
DROP TRIGGER IF EXISTS Settings_count_insert;
DROP TRIGGER IF EXISTS Settings_count_delete;
DROP TRIGGER IF EXISTS Settings_size_insert;
DROP TRIGGER IF EXISTS Settings_size_update;
DROP TRIGGER IF EXISTS Settings_size_delete;
DROP INDEX IF EXISTS Cache_expire_time;
PRAGMA user_version = {LAYOUT};
COMMIT;
"""

PRAGMAS: dict[str, int | str] = {
    "wal_autocheckpoint": 160,  # Pages: an append that finds 640 KiB in the write-ahead log moves them to the database.
    "journal_size_limit": 640 * 1024,
    "secure_delete": "OFF",  # Some builds overwrite what is deleted: 0.5 s for 100 MB, 0.03 without.
}
# A value that is not bytes, or larger than a row may be, is refused before it is read into memory.
VALUE = f"CASE WHEN typeof(value) = 'blob' AND length(value) <= {MAX_ROW} THEN value END"
GET = f"SELECT mode, filename, {VALUE} FROM Cache WHERE key = ? AND raw = 1"
BETWEEN = "FROM Cache WHERE key >= ? AND key < ? AND raw = 1 ORDER BY key"
KEYS = f"SELECT key {BETWEEN}"
ROWS = f"SELECT key, mode, filename, {VALUE} {BETWEEN}"
OTHERS = "SELECT count(*) FROM Cache WHERE raw != 1 OR typeof(key) != 'text'"
ADD = f"INSERT INTO Cache(key, raw, mode, value) VALUES (?, 1, {MODE_RAW}, ?)"
ADD_ONCE = f"{ADD} ON CONFLICT(key, raw) DO NOTHING"
PUT = f"{ADD} ON CONFLICT(key, raw) DO UPDATE SET mode = excluded.mode, filename = NULL, value = excluded.value"
DELETE = "DELETE FROM Cache WHERE key = ? AND raw = 1"
REPLACE_SAME = "UPDATE Cache SET value = ? WHERE key = ? AND raw = 1 AND value = ?"
DELETE_SAME = f"{DELETE} AND value = ?"
DELETE_UNREFERRED = "DELETE FROM Cache WHERE key = ? AND NOT EXISTS (SELECT 1 FROM Cache WHERE key >= ? AND key < ?)"


def connect(file: Path) -> Connection:
    """Open a connection that does not wait for others: `SharedConnection` does, outside of SQLite."""
    # Without `isolation_level=None` Python would begin transactions of its own accord.
    con = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
    con.text_factory = text
    for name, value in PRAGMAS.items():
        con.execute(f"PRAGMA {name} = {value}")
    return con


def connect_to_read(file: Path) -> Connection:
    """Open a connection to a file that cannot be written. SQLite writes even to read, unless it is told not to."""
    # `immutable` skips the log, and with it the newest appends, so it is only for a file that has none.
    log = file.with_name(f"{file.name}-wal")
    how = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    where = f"{file.resolve().as_uri()}?{how}"
    con = sqlite3.connect(where, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
    con.text_factory = text
    return con


def set_up(con: Connection, directory: Path) -> None:
    """Create the tables, if they do not exist."""
    if con.execute("PRAGMA user_version").fetchone() != (LAYOUT,):
        _lay_out(str(directory))
        con.executescript(LEAN)


def checked_database(con: Connection) -> tuple[list[str], tuple[int]]:
    """Return what SQLite says about its file, and the number of rows whose keys are not text."""
    lines = [line for (line,) in con.execute("PRAGMA quick_check")]
    return lines, con.execute(OTHERS).fetchone()


def text(stored: bytes) -> str:
    """Decode a stored key. A damaged one may not be UTF-8, and must not hide the rows beside it."""
    return stored.decode(errors="replace")


def _lay_out(directory: str) -> None:
    """Have diskcache create its tables and store its settings."""
    kind: Any = cast(Any, diskcache).Cache
    cache = kind.__new__(kind)
    try:
        cache.__init__(directory, timeout=0, **SETTINGS)  # `SharedConnection` waits, and only off the event loop.
    finally:
        cache.close()  # Even if it could not be opened, it has a connection.


def read(con: Connection, ranges: Sequence[Range]) -> list[list[tuple[str, bytes]]]:
    """Return the rows of each range, all as of one moment."""
    if len(ranges) == 1:
        return [_range(con, ranges[0])]
    con.execute("BEGIN")  # The first read fixes the moment.
    try:
        return [_range(con, one) for one in ranges]
    finally:
        con.execute("COMMIT")


def _range(con: Connection, one: Range) -> list[tuple[str, bytes]]:
    if one.stop is None:
        found = con.execute(GET, (one.start,)).fetchone()
        return [(one.start, checked_value(*found))] if found else []
    how = f"{' DESC' * one.reverse} LIMIT {-1 if one.limit is None else one.limit:d}"
    if not one.values:
        return [(key, b"") for (key,) in con.execute(KEYS + how, (one.start, one.stop))]
    # A refused value does not begin like any that we write: its reader fails, and the other rows can be read.
    found = con.execute(ROWS + how, (one.start, one.stop))
    return [(key, row[2] if is_raw(*row) else REFUSED) for key, *row in found]


def replace_head(con: Connection, thread: str, key: str, expected: bytes | None, head: bytes | None) -> None:
    """Replace the head row *expected* by *head*; None stands for no row.

    Raises:
        ThreadConflict: the store has another one.
        CorruptSegment: the one that it has is damaged.
    """
    # One statement that compares and writes: a look before it would take as long again.
    if expected is None:
        made = con.execute(ADD_ONCE, (key, head)) if head is not None else None
        done = made.rowcount == 1 if made else con.execute(GET, (key,)).fetchone() is None
    elif head is None:
        done = con.execute(DELETE_SAME, (key, expected)).rowcount == 1
    else:
        done = con.execute(REPLACE_SAME, (head, key, expected)).rowcount == 1
    if not done:
        if found := con.execute(GET, (key,)).fetchone():
            checked_value(*found)
        raise ThreadConflict(f"thread {thread!r} was changed by another writer; run it again")


def delete(con: Connection, thread: str, keys: set[str]) -> None:
    for key in keys:
        # To go on without it would bring events back that somebody else has merged or removed.
        if con.execute(DELETE, (key,)).rowcount != 1:
            raise ThreadConflict(f"thread {thread!r} was changed by another writer: row {key!r} is gone; run it again")


def put(con: Connection, rows: Mapping[str, bytes]) -> None:
    for key, value in rows.items():
        # A blob is named by its content, so one that is there already need not be written again.
        con.execute(ADD_ONCE if key.startswith("blob/") else PUT, (key, value))


def delete_blobs(con: Connection, gone: set[str]) -> None:
    for name in {key.split("/")[1] for key in gone if key.startswith("ref/")}:
        # Asked in the same transaction: another thread may begin to refer to it at this moment.
        con.execute(DELETE_UNREFERRED, (f"blob/{name}", f"ref/{name}/", f"ref/{name}0"))


def checked_value(mode: Any, filename: Any, value: Any) -> bytes:
    if not is_raw(mode, filename, value):
        raise CorruptSegment(f"a stored value is not raw bytes (mode {mode!r}), or too large; refusing to read it")
    return value


def is_raw(mode: Any, filename: Any, value: Any) -> bool:
    return mode == MODE_RAW and filename is None and isinstance(value, bytes)
