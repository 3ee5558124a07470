"""Bubblewrap: commands that see this machine read-only, without a network, and may write to one folder."""

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from ..checks import checked
from ..errors import ConfigError
from ..kinds import Pathname, Positive
from .commands import MAX_OUTPUT, CommandSeconds, Environment
from .processes import run_process
from .shell import LocalShellBackend

_HIDDEN = ("/tmp", "/var/tmp", "/run", "/root", "/home")
"""Where other programs keep their sockets, and people their keys."""
_SHOWN = ("/run/current-system", "/run/wrappers")
"""Where NixOS has its programs."""
_KERNEL = ("sys", "sysrq-trigger", "irq", "bus")
"""What root may write to in `/proc` even without capabilities: it changes the whole machine."""
_RESOLVER = "/etc/resolv.conf"


class BubblewrapBackend(LocalShellBackend):
    """Files below *root_dir*, and commands that bubblewrap confines to it. Needs Linux, with `bwrap` installed.

    A command can write to *root_dir* and to folders in memory at `/tmp` and `~`, which end with it. The rest of the
    machine is read-only, and the home folders, `/tmp` and `/run` are empty, but for the folders of *readable*, which
    are shown as they are. It has no network, unless *network*; it sees no process but its own, and has no capabilities.
    The kernel, its memory and its CPUs are shared: bound them with `ulimit` in a command, or with a cgroup.

    The other arguments are as for `LocalShellBackend`.

    Raises:
        ConfigError: bubblewrap is missing, or does not work here; or *root_dir* would show a home folder.
    """

    @checked
    def __init__(
        self,
        root_dir: Pathname,
        *,
        network: bool = False,
        readable: Iterable[Pathname] = (),
        timeout: CommandSeconds = 120.0,
        max_output: Positive = MAX_OUTPUT,
        env: Environment | None = None,
    ) -> None:
        super().__init__(root_dir, timeout=timeout, max_output=max_output, env=env)
        program = shutil.which("bwrap")
        if sys.platform != "linux" or not program:
            remedy = "install it (`apt-get install bubblewrap`), or use a SandboxBackend"
            raise ConfigError(f"BubblewrapBackend needs Linux and the program bwrap; {remedy}")
        home = os.path.realpath(self._env["HOME"])
        if self._root_dir == "/" or Path(home).is_relative_to(self._root_dir):
            problem = f"root_dir {self._root_dir!r} contains the home folder {home!r}, with all its secrets"
            raise ConfigError(f"BubblewrapBackend: {problem}; give a folder for this work alone")
        shown = [os.path.realpath(os.path.expanduser(path)) for path in readable]  # noqa: PTH111 - As in a root_dir.
        self._prefix = [program, *mounts(self._root_dir, [*_HIDDEN, home], shown, network)]
        tried = run_process(self._argv("true"), folder="/", env=self._env, timeout=20.0, max_output=2_000)
        if tried.exit_code != 0:
            problem = f"bubblewrap does not work here: {tried.output.strip() or f'exit code {tried.exit_code}'}"
            raise ConfigError(f"{problem}; allow this user to make namespaces, or use a SandboxBackend")
        net = "with" if network else "without"
        self.about: str = self.about + f" They can write nowhere else, and run {net} a network."

    def _argv(self, command: str) -> list[str]:
        return [*self._prefix, *super()._argv(command)]


def mounts(root: str, hidden: Iterable[str], shown: Iterable[str], network: bool) -> list[str]:
    """Return the options of bwrap. Later ones are mounted over earlier ones."""
    options = ["--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev"]
    options += ["--proc", "/proc"]
    for name in _KERNEL:
        options += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    for path in dict.fromkeys(map(os.path.realpath, hidden)):  # `/home` is a link where systems are images.
        if path != "/" and Path(path).is_dir():
            options += ["--tmpfs", path]
    for path in (*_SHOWN, *shown):
        options += ["--ro-bind-try", path, path]
    if network:  # It may be a link into `/run`.
        resolver = os.path.realpath(_RESOLVER)
        options += ["--share-net", "--ro-bind-try", resolver, resolver]
    return [*options, "--bind", root, root, "--chdir", root, "--"]
