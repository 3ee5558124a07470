"""Backup: a database that is in use is copied into a directory that appears once it is complete."""

import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection

from ..errors import ConfigError


def copy_database(source: Connection, file: Path) -> None:
    """Copy what *source* reads now. The transaction keeps it reading that: else every append would restart the copy."""
    source.execute("BEGIN")
    try:
        source.execute("SELECT 1 FROM Cache LIMIT 1").fetchone()  # This moment is copied.
        with closing(sqlite3.connect(file)) as copy:
            source.backup(copy)
    finally:
        source.execute("ROLLBACK")


@contextmanager
def new_directory(target: Path) -> Generator[Path]:
    """Yield a private directory that becomes *target* if nothing is raised; otherwise it is removed.

    Raises:
        ConfigError: *target* exists and is not an empty directory.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        target.lstat()  # A name that no file can have: from Python 3.14 on `exists` says that nothing is there.
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise ConfigError(f"cannot back up to {str(target)!r}: it exists; give a new or an empty directory")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the rename stays on one file system and makes the copy appear whole or not at all.
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield folder
        if target.exists():
            target.rmdir()  # Windows renames onto no directory that exists.
        folder.rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # If it was not renamed.
