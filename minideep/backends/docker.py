"""Docker: a container as a sandbox, driven by the program `docker`, or `podman`."""

import secrets
import shutil
import subprocess
from collections.abc import Sequence

from ..checks import checked
from ..errors import ConfigError, ToolError
from .commands import Executed
from .paths import MAX_FILE
from .processes import run_process

_MAIN = "exec 3<&0; cat <&3 >/dev/null & echo ready; wait $!"
"""The first process of the container: it ends with its input, so the container ends with the process of the agent,
however that ends. As a shell it also reaps what its other processes leave behind."""
_CONFINED = ("--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--pids-limit=512")
_SECONDS = 60.0
"""The time of a transfer. An image that must be fetched first may take longer: pull it before."""


class DockerSandbox:
    """A container of *image*, for a `SandboxBackend`. Needs the program `docker`, or the one that *program* names, such
    as `podman`, and a POSIX shell in the image.

    It has no network and no capabilities, and at most 512 processes. With `close`, or with this process, it ends, and
    everything in it is lost. *options* are added to `docker run`: `["--network=bridge"]` gives it a network,
    `["--memory=2g", "--cpus=2"]` bound it, and `["-v", "/data:/data:ro"]` shows it a folder.

    Raises:
        ConfigError: the program is not installed.
    """

    @checked
    def __init__(self, image: str, options: Sequence[str] = (), program: str = "docker") -> None:
        if not shutil.which(program):
            remedy = "install it, or name another one, as in DockerSandbox(image, program='podman')"
            raise ConfigError(f"DockerSandbox needs the program {program!r}; {remedy}")
        self._image, self._options, self._program = image, list(options), program
        self._name = ""
        self._main: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"DockerSandbox({self._image!r})"

    def start(self) -> None:
        """Start the container.

        Raises:
            ToolError: it does not start.
        """
        self._name = f"minideep-{secrets.token_hex(8)}"
        options = ["--rm", "-i", "--name", self._name, "--entrypoint", "sh", *_CONFINED, *self._options]
        main = subprocess.Popen(
            [self._program, "run", *options, self._image, "-c", _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Or Ctrl-C at the terminal would end it.
        )
        assert main.stdout is not None
        said = b""
        while b"ready\n" not in said:
            line = main.stdout.readline()  # Progress of a download comes first.
            said += line
            if not line:
                with main:
                    raise ToolError(f"{self._program} cannot start {self._image!r}: {_text(said)}")
        self._main = main

    def execute(self, command: str, timeout: float) -> Executed:
        """Run a command in the container."""
        docker = [self._program, "exec", self._name, "sh", "-c", command]
        return run_process(docker, folder=None, env=None, timeout=timeout, max_output=2 * MAX_FILE)

    def read(self, path: str) -> bytes:
        """Return the content of a file.

        Raises:
            ToolError: it cannot be read.
        """
        return self._exec(f'head -c {MAX_FILE} -- "$1"', path)

    def write(self, path: str, data: bytes) -> None:
        """Create a file.

        Raises:
            ToolError: it cannot be written.
        """
        self._exec('cat >"$1"', path, data)

    def close(self) -> None:
        """Remove the container, with all that is in it."""
        if main := self._main:
            self._main = None
            with main:  # At the end of its input the container ends.
                subprocess.run([self._program, "kill", self._name], capture_output=True, timeout=_SECONDS, check=False)

    def _exec(self, script: str, path: str, data: bytes = b"") -> bytes:
        docker = [self._program, "exec", "-i", self._name, "sh", "-c", script, "sh", path]
        done = subprocess.run(docker, input=data, capture_output=True, timeout=_SECONDS, check=False)
        if done.returncode != 0:
            raise ToolError(f"{path!r}: the container failed: {_text(done.stderr)}")
        return done.stdout


def _text(said: bytes) -> str:
    return said.decode(errors="replace").strip()[-500:] or "it said nothing"
