"""Commands: the member that a backend has if it can run them, and what comes of one."""

import os
from collections.abc import Awaitable, Mapping
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from ..context import ToolContext
from ..errors import ToolError
from ..kinds import Check, remedy
from ..ports import Backend

MAX_COMMAND = 100_000
"""The largest command, in bytes. Linux refuses a single argument of more than 128 KiB."""
MAX_OUTPUT = 100_000
"""The default number of bytes that are kept of a command's output."""
CommandSeconds = Annotated[float, Meta(gt=0, le=86_400)]
"""The time of a command: at most a day."""


def _is_environment(env: Mapping[str, str]) -> bool:
    try:
        return all(
            name and b"=" not in os.fsencode(name) and b"\0" not in os.fsencode(f"{name}{env[name]}") for name in env
        )
    except (TypeError, UnicodeEncodeError):  # Whether all of it is text is checked besides.
        return False


Environment = Annotated[Mapping[str, str], Check(_is_environment, "a mapping of names to texts without NUL")]


class Executed(Struct, frozen=True):
    """What came of a command."""

    output: str
    """What it wrote to stdout and stderr, in order. If that was too long, a line in the middle says what is missing."""
    exit_code: int
    """128 and more: it was ended by a signal, such as 137 by SIGKILL."""
    timed_out: bool = False
    """True if it was stopped because its time was over."""
    dropped: int = 0
    """Bytes of output that were not kept."""


@remedy("write LocalShellBackend('folder')")
class ShellBackend(Backend, Protocol):
    """A `Backend` that can also run commands."""

    def execute(self, ctx: ToolContext, command: str, timeout: float | None = None) -> Awaitable[Executed]:
        """Run *command* by a shell in the folder `home`, at most *timeout* seconds; None: the backend's own limit.

        When it ends, is out of time or is cancelled, everything that it started is stopped, too.

        Raises:
            ToolError: it cannot be started.
        """
        ...


class Window:
    """Keeps the first and the last part of a stream of bytes, in bounded memory."""

    def __init__(self, limit: int) -> None:
        self._head, self._tail = limit // 2, limit - limit // 2
        self._first, self._last = bytearray(), bytearray()
        self._size = 0

    def add(self, data: bytes) -> None:
        self._size += len(data)
        if room := self._head - len(self._first):
            self._first += data[:room]
            data = data[room:]
        self._last += data
        if len(self._last) > 2 * self._tail:  # Not with each piece: that would move the bytes again and again.
            del self._last[: -self._tail]

    def executed(self, exit_code: int, timed_out: bool = False) -> Executed:
        """Return what came of the command that wrote this."""
        last = self._last[-self._tail :]
        dropped = self._size - len(self._first) - len(last)
        if not dropped:
            return Executed((self._first + last).decode(errors="replace"), exit_code, timed_out)
        # A character may be cut in two at either edge; its bytes would be shown as if the command had written them.
        first = self._first.decode(errors="replace").rstrip("\ufffd")
        end = last.decode(errors="replace").lstrip("\ufffd")
        return Executed(f"{first}\n[... {dropped:,} bytes are missing here ...]\n{end}", exit_code, timed_out, dropped)


def check_command(command: str) -> None:
    """Check that a command can be passed to a shell.

    Raises:
        ToolError: it is empty, too large, or contains a NUL or what UTF-8 cannot encode.
    """
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise ToolError("the command contains a character that UTF-8 cannot encode; write it without") from None
    if size > MAX_COMMAND:
        long = f"the command has {size:,} bytes, more than {MAX_COMMAND:,}"
        raise ToolError(f"{long}; write a script with write_file, and run that")
    if not command.strip() or "\0" in command:
        problem = "contains a NUL" if command.strip() else "is empty"
        raise ToolError(f"the command {problem}; write what a shell can run, such as `ls -l`")
