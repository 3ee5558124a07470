"""Spare room: a file that is given up once the disk is full. To delete takes room first, and nothing else makes any."""

import contextlib
import os
from pathlib import Path

FILE, SIZE = "spare", 2**20
"""SQLite writes what changes to its log and moves that to the database later, which may grow by as much: the log has
about 640 KiB, and more while it cannot be moved.
"""


def keep(directory: Path) -> None:
    """Make the file, if there is room for it."""
    path = directory / FILE
    with contextlib.suppress(OSError), path.open("xb") as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, SIZE)
            else:
                file.write(os.urandom(SIZE))  # What can be compressed may take no room.
                file.flush()
        except OSError:
            path.unlink()
            raise


def give_up(directory: Path) -> bool:
    """Remove the file; return whether there was one."""
    try:
        (directory / FILE).unlink()
    except OSError:
        return False
    return True
