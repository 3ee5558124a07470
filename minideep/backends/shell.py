"""A folder of this machine in which commands run, with all that this process may do."""

import os
from functools import cache
from pathlib import Path

from ..checks import checked
from ..context import ToolContext
from ..kinds import Pathname, Positive
from .commands import MAX_OUTPUT, CommandSeconds, Environment, Executed, check_command
from .filesystem import FilesystemBackend
from .processes import run_stoppable

ABOUT = (
    " Commands start in that folder and see the whole machine, where the folder has another name: write relative paths "
    "in commands (`src/a.py` is the file tools' `/src/a.py`)."
)


class LocalShellBackend(FilesystemBackend):
    """Files below *root_dir*, as `FilesystemBackend` has them, and commands that start there.

    **A command may do whatever this process may do**: nothing confines it to *root_dir*. Have a person approve each one
    (`interrupt_on={"execute": True}`), or use `BubblewrapBackend` or a `SandboxBackend`.

    A command runs by bash, or `/bin/sh` where there is none, without input and without a terminal. It is stopped after
    *timeout* seconds, unless the call says how many. *max_output* is how many bytes of its output are kept: the first
    and the last half. Its environment has PATH, HOME and LANG of this process, TERM=dumb and PAGER=cat, and what *env*
    adds: nothing else, so no key of yours is handed on.

    Everything that a command has started ends with it: on Linux also what has left its process group, and also if this
    process is killed; elsewhere its process group.

    Raises:
        ConfigError: as for `FilesystemBackend`.
    """

    @checked
    def __init__(
        self,
        root_dir: Pathname,
        *,
        timeout: CommandSeconds = 120.0,
        max_output: Positive = MAX_OUTPUT,
        env: Environment | None = None,
    ) -> None:
        super().__init__(root_dir)
        self._timeout, self._max_output = timeout, max_output
        self._env = minimal_environment() | dict(env or {})
        self.about: str = self.about + ABOUT

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._root_dir!r})"

    async def execute(self, ctx: ToolContext, command: str, timeout: float | None = None) -> Executed:
        """Run *command* in the folder, at most *timeout* seconds, and end all that it has started.

        Raises:
            ToolError: it cannot be started.
        """
        check_command(command)
        return await run_stoppable(
            self._argv(command),
            folder=self._root_dir,
            env=self._env,
            timeout=timeout or self._timeout,
            max_output=self._max_output,
        )

    def _argv(self, command: str) -> list[str]:
        return [shell(), "-c", command]


def minimal_environment() -> dict[str, str]:
    """Return the environment of a command: enough for common programs, and no secrets."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {"PATH": os.defpath, "HOME": "/", "LANG": "C.UTF-8"} | kept | {"TERM": "dumb", "PAGER": "cat"}


@cache
def shell() -> str:
    """Return the shell that runs commands: models write for bash."""
    return next((path for path in ("/bin/bash", "/usr/bin/bash") if Path(path).exists()), "/bin/sh")
