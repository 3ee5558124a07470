"""Room on the disk: a check before a large append, and a spare file that is given up once the disk is full.

To delete takes room first, and nothing else makes any.
"""

import contextlib
import os
import shutil
import sqlite3
from errno import ENOSPC
from pathlib import Path

FILE, SIZE = "spare", 2**20
"""SQLite writes changes to its write-ahead log and moves them to the database later, which may grow by as much. The log
has about 640 KiB, and more while it cannot be moved.
"""


def keep_spare(directory: Path) -> None:
    """Create the spare file, if there is room for it."""
    path = directory / FILE
    with contextlib.suppress(OSError), path.open("xb") as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, SIZE)
            else:
                file.write(os.urandom(SIZE))  # Some file systems compress, so that zeros would take no room.
                file.flush()
        except OSError:
            path.unlink()
            raise


def give_up_spare(directory: Path) -> bool:
    """Remove the spare file; return whether it existed."""
    try:
        (directory / FILE).unlink()
    except OSError:
        return False
    return True


def is_full(exc: sqlite3.OperationalError) -> bool:
    """Return whether SQLite failed because the disk is full, which some file systems report as an I/O error."""
    return exc.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def check_room(directory: Path, size: int) -> None:
    """Check that there is room for *size* bytes twice: a write-ahead log that could not be moved into the database
    would leave none to delete with.

    Raises:
        OSError: there is not.
    """
    with contextlib.suppress(FileNotFoundError):  # The append creates it.
        free = shutil.disk_usage(directory).free
        if free < 2 * size:
            raise OSError(ENOSPC, f"the disk is full: {2 * size:,} bytes are needed and {free:,} free")
