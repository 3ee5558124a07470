"""Sandboxes: files and commands on another machine, or in a container, behind five methods."""

import asyncio
import secrets
import shlex
import threading
from collections.abc import Iterator
from typing import Protocol

from ..checks import checked
from ..context import ToolContext
from ..errors import ConfigError, ToolError
from ..kinds import Positive, remedy
from ..ports import Backend, FileInfo
from ..workers import in_thread, start_thread
from . import scripts
from .commands import MAX_OUTPUT, CommandSeconds, Executed, Window, check_command
from .guarded import Guard, GuardedFiles
from .names import quoted
from .paths import (
    MAX_FILE,
    Missing,
    changed,
    check_writable,
    configured,
    is_within,
    join,
    normalized,
    not_a_file,
    not_a_folder,
    undeletable,
)

FILE_SECONDS = 60.0
"""The time of a command that looks at files, or deletes them."""
STOP_SECONDS = 10.0
"""The time of a command that ends another one."""
STOPS = 10
"""How often a cancelled command is stopped, a second apart, until it has ended."""


@remedy("write DockerSandbox('image')")
class Sandbox(Protocol):
    """A machine, or a container, in which commands run. All methods are plain functions, called on worker threads, also
    several at once.

    It needs a POSIX shell and the usual small programs, such as those of busybox. Whatever a method raises becomes an
    error result of the call that needed it.
    """

    def start(self) -> None:
        """Make it ready. Called once, before everything else."""
        ...

    def execute(self, command: str, timeout: float) -> Executed:
        """Run *command* by `/bin/sh`, without input, and return what it wrote to stdout and stderr, and its exit code.

        After *timeout* seconds return what there is, with `timed_out`. What still runs then need not be ended: the
        backend does that, by another command.
        """
        ...

    def read(self, path: str) -> bytes:
        """Return the content of a file, which exists."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Create a file, in a folder that exists."""
        ...

    def close(self) -> None:
        """Give it up, with all that is in it."""
        ...


class SandboxBackend:
    """Files and commands in *sandbox*: both see the same paths, and relative ones start at *home*.

    It starts the sandbox when it is first used. `close` ends it, and so does a `with` block. What a command has started
    ends with it, unless it has cleared its environment; and with the sandbox in any case. The other arguments are as
    for `LocalShellBackend`.

    Raises:
        ConfigError: *home* is not an absolute path.
    """

    blocking = True

    @checked
    def __init__(
        self,
        sandbox: Sandbox,
        *,
        home: str = "/workspace",
        timeout: CommandSeconds = 120.0,
        max_output: Positive = MAX_OUTPUT,
    ) -> None:
        if configured([home], "/", "SandboxBackend: home") != [home] or home == "/":
            raise ConfigError(f"SandboxBackend: home must be the absolute path of a folder, not {home!r}")
        self._sandbox, self._timeout, self._max_output = sandbox, timeout, max_output
        self._starting, self._writing, self._is_started = threading.Lock(), threading.Lock(), False
        self.home: str = home
        self.about: str = "Files are in a sandbox, apart from the user's machine; commands see them at the same paths."

    def __enter__(self) -> "SandboxBackend":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up the sandbox, if it was started. It starts again, empty, when it is used."""
        with self._starting:
            if self._is_started:
                self._is_started = False
                self._sandbox.close()

    # ---- commands

    async def execute(self, ctx: ToolContext, command: str, timeout: float | None = None) -> Executed:
        """Run *command* in `home`, at most *timeout* seconds, and end all that it has started.

        Raises:
            ToolError: it cannot be started.
        """
        check_command(command)
        key, seconds = secrets.token_hex(8), timeout or self._timeout
        work = start_thread(self._shell, scripts.RUN, self.home, command, key, timeout=seconds)
        try:
            found: Executed = await asyncio.shield(work)
        except asyncio.CancelledError:
            tries = STOPS if work.begun else 0
            while tries and not work.done():  # Again, for the command may only be about to begin.
                # What goes wrong there must not take the place of the cancellation.
                await asyncio.gather(self._stop(key), return_exceptions=True)
                await asyncio.wait([work], timeout=1.0)
                tries -= 1
            work.cancel()
            raise
        if found.timed_out:
            await self._stop(key)
        window = Window(self._max_output)
        window.add(found.output.encode(errors="replace"))
        executed = window.executed(found.exit_code, found.timed_out)
        return executed if executed.dropped else found

    async def _stop(self, key: str) -> None:
        await in_thread(self._shell, scripts.STOP, key, timeout=STOP_SECONDS)

    # ---- files

    def ls(self, ctx: ToolContext, path: str) -> list[FileInfo]:
        """List the direct entries of a folder, sorted. A link that leads nowhere is listed as a file."""
        path = normalized(path, self.home)
        return sorted(scripts.entries(path, self._files(scripts.LIST, path)), key=lambda info: info.path)

    def walk(self, ctx: ToolContext, path: str) -> Iterator[FileInfo]:
        """Yield every regular file below a folder, or the file itself. Links to folders are not followed."""
        path = normalized(path, self.home)
        found = scripts.entries(path, self._files(scripts.WALK, path))
        yield from sorted(found, key=_nearest_first)

    def read(self, ctx: ToolContext, path: str) -> bytes:
        """Return a file's bytes. Only a regular file of at most `MAX_FILE` bytes is read."""
        path = normalized(path, self.home)
        self._files(scripts.READABLE, path, str(MAX_FILE))
        return self._sandbox.read(path)

    def write(self, ctx: ToolContext, path: str, data: bytes, expect: str | None = None) -> bool:
        """Create or replace a file, through a temporary file. A replaced file keeps its mode."""
        path = normalized(path, self.home)
        check_writable(path)
        self._start()  # It makes the folder of the temporary file.
        temporary = join(self.home, f".{secrets.token_hex(8)}.tmp")
        with self._writing:  # Another write between the comparison and the rename would be lost.
            self._sandbox.write(temporary, data)
            self._files(scripts.REPLACE, path, temporary, expect or "")
        return False

    def delete(self, ctx: ToolContext, path: str) -> list[str]:
        """Delete a file, a folder and its contents, or a link, which is not followed."""
        path = normalized(path, self.home)
        check_writable(path)
        if is_within(self.home, path):
            raise undeletable(path)
        return sorted(info.path for info in scripts.entries(path, self._files(scripts.DELETE, path)))

    def guarded(self, guard: Guard) -> Backend:
        """Return the same files as *guard* lets a call reach them. It is asked about the place to which links lead just
        before that is reached; a command that replaces a folder by a link at that very moment is not noticed.
        """
        return GuardedFiles(self, guard, place=self._resolved)

    def _resolved(self, path: str) -> str:
        """Return the place to which *path* leads, or would lead if it existed."""
        return self._files(scripts.RESOLVE, path).decode(errors="surrogateescape") or path

    def _files(self, script: str, path: str, *args: str) -> bytes:
        """Run a script about *path*, and return what it says.

        Raises:
            ToolError: *path* is not what it should be.
        """
        found = self._shell(script, path, *args, timeout=FILE_SECONDS)
        match found.exit_code:
            case 0 if not found.timed_out and not found.dropped:
                return scripts.decoded(found.output)
            case scripts.MISSING:
                raise Missing(path)
            case scripts.IS_FOLDER:
                raise not_a_file(path)
            case scripts.IS_FILE:
                raise not_a_folder(path)
            case scripts.CHANGED:
                raise changed(path)
            case scripts.NOT_REGULAR:
                raise ToolError(f"{quoted(path)} is a device, a pipe or a socket, not a regular file; leave it alone")
            case scripts.TOO_LARGE:
                raise ToolError(f"{quoted(path)} is over {MAX_FILE:,} bytes; work with a smaller file")
            case code:
                late = f"not done within {FILE_SECONDS:.0f} s" if found.timed_out else f"exit code {code}"
                said = "too many files" if found.dropped else found.output.strip()[-500:] or late
                raise ToolError(f"{quoted(path)}: the sandbox failed: {said}; try another path")

    def _shell(self, script: str, *args: str, timeout: float) -> Executed:
        self._start()
        return self._sandbox.execute(f"sh -c {shlex.join([script, 'minideep', *args])}", timeout)

    def _start(self) -> None:
        with self._starting:
            if self._is_started:
                return
            self._sandbox.start()
            self._is_started = True
            made = self._sandbox.execute(f"mkdir -p -- {shlex.quote(self.home)}", FILE_SECONDS)
            if made.exit_code != 0:
                raise ToolError(f"the sandbox has no folder {self.home!r}: {made.output.strip()[-500:]}")


def _nearest_first(info: FileInfo) -> list[tuple[bool, str]]:
    """Return what sorts the files of a folder before those in its folders."""
    *folders, name = info.path.split("/")
    return [*((True, folder) for folder in folders), (False, name)]
