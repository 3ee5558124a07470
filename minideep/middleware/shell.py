"""Shell: the tool `execute`, for a backend that can run commands."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta

from ..access import Access
from ..backends import Executed, ShellBackend
from ..checks import checked
from ..context import ToolContext
from ..messages import ToolResult
from ..parameters import Alias
from ..ports import Middleware
from ..tools import Tool

MAX_TIMEOUT = 3600
"""The most seconds that a model may give a command."""

_Command = Annotated[str, Alias("cmd", "script", "bash_command")]
_Timeout = Annotated[float, Meta(gt=0, le=MAX_TIMEOUT), Alias("timeout_seconds", "timeout_s")]
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
"""What a program writes to a terminal to colour text, to move the cursor, or to set a title."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class ShellMiddleware(Middleware):
    """Gives the agent the tool `execute`, which runs a shell command where *backend* runs them.

    A command that fails, or is out of time, gives an error result. `create_deep_agent` adds this middleware if its
    backend can run commands.
    """

    @checked
    def __init__(self, backend: ShellBackend) -> None:
        self._backend = backend
        self.tools: Sequence[Tool] = (Tool(self.execute, access=_access),)

    async def execute(self, ctx: ToolContext, command: _Command, timeout: _Timeout | None = None) -> ToolResult:
        """Run a shell command: tests, builds, git, programs. To read, find or change files use the file tools.

        Each call is a new shell in the working folder: `cd` and variables do not last. There is no input and no
        terminal, so pass flags such as `-y`. You get stdout and stderr in order, then the exit code; of long output the
        middle is missing, so filter it, or write it into a file. What still runs when the command ends is stopped, so
        start a server and use it in one command. `timeout`: seconds, at most 3600. Error if the exit code is not 0, or
        its time is over.
        """
        return result_of(await self._backend.execute(ctx, command, timeout))


def result_of(executed: Executed) -> ToolResult:
    """Return what a model reads of a command."""
    output = readable(executed.output).rstrip("\n")
    signal = f", ended by signal {executed.exit_code - 128}" if 128 < executed.exit_code < 160 else ""
    end = f"exit code {executed.exit_code}{signal}{'' if output else ', no output'}"
    if executed.timed_out:
        end = "its time was over, so it was stopped with all that it had started; ask it for less, or give it more"
    return ToolResult(f"{output}\n[{end}]".lstrip("\n"), executed.timed_out or executed.exit_code != 0)


def readable(output: str) -> str:
    r"""Return *output* as a terminal would show it in the end: without colours, and without overwritten text.

    >>> readable("10%\r100%\n\x1b[1mdone\x1b[0m\r\n")
    '100%\ndone\n'
    """
    if "\x1b" in output:
        output = _SEQUENCES.sub("", output)
    if "\r" in output:
        output = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in output.split("\n"))
    return _CONTROLS.sub("\ufffd", output)


def _access(args: dict[str, Any]) -> tuple[Access, ...]:
    return (Access("execute", args["command"]),)
