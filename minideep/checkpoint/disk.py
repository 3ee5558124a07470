"""`DiskCheckpointer`: a store in a directory, on the database of diskcache."""

import contextlib
import os
import socket
import sys
from functools import cached_property
from typing import TYPE_CHECKING

from ..checks import checked
from ..errors import CheckpointError, ConfigError
from ..kinds import Pathname, Seconds
from ..ports import Retention
from .adapter import TIMEOUT, Threaded
from .store import open_store

if TYPE_CHECKING:
    from ..exchange import Exchange
    from .verify import Damage


class DiskCheckpointer(Threaded):
    """Keeps threads in a directory, private to its owner (0700), which is created when it is first needed.

    It survives any kill of the process. Power loss may cost the last boundaries unless *fsync* is set, which makes
    every append wait for the disk. *retention* says what is removed automatically; by default nothing. Several agents
    and processes may share it. `close`, or `with`, finishes the maintenance after turns and closes all files; the store
    opens again when it is next used.

    An append or a read waits up to *timeout* seconds for others who write, on an OS thread of the store.

    A process that dies frees its threads at once. One that is stopped and lives on (SIGSTOP, a frozen container) keeps
    them, unless *lease* says after how many seconds another process may take them over; its turn then fails when it
    goes on. All processes that share the directory must give the same *lease*, and beginning a turn costs one small
    write more.

    Raises:
        ConfigError: *directory* is a file.
    """

    @checked
    def __init__(
        self,
        directory: Pathname,
        *,
        retention: Retention | None = None,
        fsync: bool = False,
        lease: Seconds | None = None,
        timeout: Seconds = TIMEOUT,
    ) -> None:
        from pathlib import Path  # Loaded by those who make one, and so is the database.

        from .. import folders
        from .disk_rows import DiskRows

        self.directory: Path = Path(directory).expanduser()
        with contextlib.suppress(OSError):  # Where it may not be looked at, the first read says so.
            if self.directory.is_file():  # It would read as a store without threads.
                raise ConfigError(f"{str(self.directory)!r} is a file, not a directory; give the store another path")
        # A file tool that opens and closes the database would drop this process's locks on it.
        folders.claim(self.directory)
        self.plain: DiskRows
        rows = DiskRows(self.directory, retention or Retention(), fsync=fsync, lease=lease, timeout=timeout)
        super().__init__(rows, timeout)
        if self.plain.leases is not None:
            self._calls.holds_here = False  # To take a lease is a write, for which an event loop must not wait.
            self._calls.watch = self.plain.leases.watch

    def __enter__(self) -> "DiskCheckpointer":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @cached_property
    def exchange(self) -> "Exchange | None":
        """The means to ask the process that runs a turn, from any process: Unix sockets. None where there are none."""
        if sys.platform == "win32" or not hasattr(socket, "AF_UNIX"):
            return None
        from .exchange import SocketExchange  # Only when turns are announced or asked for.

        return SocketExchange(os.path.realpath(self.directory))

    def close(self) -> None:
        if (exchange := vars(self).get("exchange")) is not None:
            exchange.close()
        super().close()

    def size(self) -> int:
        """Return the bytes that the store takes up on the disk."""
        return self.plain.size()

    def verify(self) -> "list[Damage]":
        """Read every row, fold every run, and have SQLite check its file; return the damage, or an empty list.

        Others may use the store meanwhile. It takes about as long as loading each thread twice.

        Raises:
            CheckpointError: the store cannot be read at all.
        """
        from .verify import Damage, verify  # Seldom needed.

        if not self.plain.exists():
            return []  # Nothing was ever written.
        found = [Damage("", "cache.db", problem) for problem in self.plain.problems()]
        try:
            return [*found, *verify(open_store(self))]
        except CheckpointError:
            if not found:
                raise
            return found  # They are the cause.

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
        from pathlib import Path

        from .backup import copy_database, new_directory  # Seldom needed.

        with (
            self.plain.errors["back up"],
            new_directory(Path(path).expanduser()) as folder,
            self.plain.connection() as connection,
        ):
            if self.plain.exists():
                connection.run(lambda con: copy_database(con, folder / "cache.db"), self.plain.timeout)
