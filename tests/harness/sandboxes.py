"""Sandboxes for tests: a folder of this machine as one, a container, and processes that must not be left."""

import io
import os
import shutil
import subprocess
import tarfile
import time
from functools import cache
from pathlib import Path

import pytest

from minideep.backends import BubblewrapBackend, DockerSandbox, Executed, SandboxBackend
from minideep.errors import ConfigError

IMAGE = "minideep-test:latest"


class FolderSandbox:
    """A sandbox that confines nothing: the smallest one that the scripts of `SandboxBackend` can run in."""

    def __init__(self):
        self.said = []

    def start(self):
        self.said.append("start")

    def execute(self, command, timeout):
        process = subprocess.Popen(
            ["sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ["PATH"]},
        )
        with process:
            try:
                output, timed_out = process.communicate(timeout=timeout)[0], False
            except subprocess.TimeoutExpired as exc:
                process.kill()  # Only the shell itself: all else is left to the backend.
                output, timed_out = exc.output or b"", True
                process.stdout.close()
        return Executed(output.decode(errors="replace"), process.returncode, timed_out)

    def read(self, path):
        return Path(path).read_bytes()

    def write(self, path, data):
        Path(path).write_bytes(data)

    def close(self):
        self.said.append("close")


DOCKER_HERE = """#!/bin/sh
# Stands for the program docker where there is none: its containers are shells of this machine.
case $1 in
  run) for last; do :; done; exec env -i PATH="$PATH" sh -c "$last" ;;
  exec) shift; [ "$1" = -i ] && shift; shift; exec env -i PATH="$PATH" "$@" ;;
esac
"""


def docker_here(folder):
    """Return a backend whose program docker runs everything on this machine: what `DockerSandbox` asks of it is seen,
    and not what the real one makes of it.
    """
    program = folder / "docker"
    program.write_text(DOCKER_HERE)
    program.chmod(0o755)
    return SandboxBackend(DockerSandbox("none", program=str(program)), home=str(folder / "home"))


def in_folder(folder):
    return SandboxBackend(FolderSandbox(), home=str(folder / "home"))


@cache
def bubblewrap_missing():
    """Return why bubblewrap cannot be used here; empty if it can."""
    try:
        BubblewrapBackend(Path(__file__).parent)
    except ConfigError as exc:
        return str(exc)
    return ""


@cache
def docker_missing():
    """Return why no container can be run here; empty if one can. Makes the image, of busybox alone."""
    busybox = shutil.which("busybox")
    if not shutil.which("docker") or subprocess.run(["docker", "info"], capture_output=True).returncode:
        return "no Docker daemon answers"
    if not busybox or b"/ld-" in Path(busybox).read_bytes()[:4096]:
        return "the image of the tests is made of a static busybox, which is not installed"
    image = io.BytesIO()
    with tarfile.open(fileobj=image, mode="w") as tar:
        folder = tarfile.TarInfo("bin")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(folder)
        tar.add(os.path.realpath(busybox), "bin/busybox")
        for name in subprocess.run([busybox, "--list"], capture_output=True, text=True).stdout.split():
            if name != "busybox":
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    done = subprocess.run(["docker", "import", "-", IMAGE], input=image.getvalue(), capture_output=True)
    return done.stderr.decode()


def needs(missing):
    """Skip a test if a tool is missing."""
    if missing:
        pytest.skip(missing)


def running(mark):
    """Return the command lines of this machine's processes that contain *mark*."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if mark in line:
                found.append(line)
    return found


def ends(mark):
    """Wait for the processes that nobody waits for: those of an agent that is gone itself. Return whether they ended."""
    for _ in range(100):
        if not running(mark):
            return True
        time.sleep(0.1)
    return False
