"""Copying a database that is in use into a directory that appears once it is whole."""

import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Connection


def copy_database(source: Connection, file: Path) -> None:
    """Copy what *source* reads now. It goes on reading that: else every append would make the copy begin anew."""
    source.execute("BEGIN")
    try:
        source.execute("SELECT 1 FROM Cache LIMIT 1").fetchone()  # The moment that is copied.
        with closing(sqlite3.connect(file)) as copy:
            source.backup(copy)
    finally:
        source.execute("ROLLBACK")


@contextmanager
def atomic_directory(target: Path) -> Generator[Path]:
    """A private directory that becomes *target*, which is not there or empty, if nothing is raised; else it goes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield folder
        if target.exists():
            target.rmdir()
        folder.rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # Where it was not renamed.
