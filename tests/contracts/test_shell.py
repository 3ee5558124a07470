"""The contracts of all backends that can run commands: those of this machine, bubblewrap, and sandboxes."""

import pytest
from harness.sandboxes import IMAGE, bubblewrap_missing, docker_here, docker_missing, in_folder, needs

from minideep.backends import BubblewrapBackend, DockerSandbox, LocalShellBackend, SandboxBackend
from minideep.testing import BackendContract, ShellContract


class TestLocal(ShellContract):
    def make(self, folder):
        return LocalShellBackend(folder)


class TestBubblewrap(ShellContract):
    def make(self, folder):
        needs(bubblewrap_missing())
        return BubblewrapBackend(folder)


class TestSandbox(ShellContract):
    def make(self, folder):
        return in_folder(folder)


class TestFilesOfASandbox(BackendContract):
    @pytest.fixture(autouse=True)
    def at_home(self, tmp_path):
        self.root = str(tmp_path / "home")

    def make(self, folder):
        return in_folder(folder)


class TestDockerHere(ShellContract):
    @pytest.fixture(autouse=True)
    def closed(self):
        self.made = []
        yield
        for backend in self.made:
            backend.close()

    def make(self, folder):
        self.made.append(docker_here(folder))
        return self.made[-1]


class InContainer:
    @pytest.fixture(autouse=True)
    def containers(self):
        needs(docker_missing())
        self.made = []
        yield
        for backend in self.made:
            backend.close()

    def new(self):
        self.made.append(SandboxBackend(DockerSandbox(IMAGE)))
        return self.made[-1]


class TestDocker(InContainer, ShellContract):
    def make(self, folder):
        return self.new()


class TestFilesOfDocker(InContainer, BackendContract):
    root = "/workspace"

    def make(self, folder):
        return self.new()
