"""A container: what confines it, and when it ends."""

import asyncio
import subprocess

import pytest
from harness.processes import python
from harness.sandboxes import IMAGE, docker_missing, needs

from minideep.backends import DockerSandbox, SandboxBackend
from minideep.errors import ConfigError, ToolError
from minideep.testing import tool_context


def run(backend, command):
    return asyncio.run(backend.execute(tool_context(), command, 30.0)).output


def containers():
    command = ["docker", "ps", "-a", "--filter", "name=minideep-", "--format", "{{.Names}}"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_a_program_that_is_not_installed_is_an_error_with_a_remedy():
    with pytest.raises(ConfigError, match="needs the program 'no-such-docker'; install it, or name another one"):
        DockerSandbox("busybox", program="no-such-docker")


def test_a_container_has_no_network_no_capabilities_and_few_processes():
    needs(docker_missing())
    with SandboxBackend(DockerSandbox(IMAGE)) as backend:
        assert run(backend, "ls /sys/class/net") == "lo\n"
        assert "CapEff:\t0000000000000000" in run(backend, "cat /proc/self/status")
        assert "NoNewPrivs:\t1" in run(backend, "cat /proc/self/status")


def test_what_is_lost_by_its_parents_does_not_stay_as_a_zombie():
    needs(docker_missing())
    with SandboxBackend(DockerSandbox(IMAGE)) as backend:
        run(backend, "for i in 1 2 3; do (sh -c 'sleep 0.1 & exit' &); done; sleep 0.4")
        assert " Z" not in run(backend, "cat /proc/[0-9]*/stat")


def test_options_reach_the_container(tmp_path):
    needs(docker_missing())
    (tmp_path / "data").write_text("hello")
    with SandboxBackend(DockerSandbox(IMAGE, ["-v", f"{tmp_path}:/data:ro"])) as backend:
        assert backend.read(tool_context(), "/data/data") == b"hello"
        assert "Read-only" in run(backend, "touch /data/new")


def test_an_image_that_does_not_exist_is_an_error_in_words_of_docker():
    needs(docker_missing())
    with pytest.raises(ToolError, match="docker cannot start 'minideep-no-such-image'"):
        SandboxBackend(DockerSandbox("minideep-no-such-image", ["--pull=never"])).ls(tool_context(), ".")


def test_closing_removes_the_container():
    needs(docker_missing())
    before = containers()
    with SandboxBackend(DockerSandbox(IMAGE)) as backend:
        backend.ls(tool_context(), ".")
        assert len(containers() - before) == 1
    assert containers() <= before


def test_a_container_ends_with_a_process_that_is_killed():
    needs(docker_missing())
    before = containers()
    code = """
        import os, signal, sys
        from minideep.backends import DockerSandbox, SandboxBackend
        from minideep.testing import tool_context

        if os.fork() == 0:
            backend = SandboxBackend(DockerSandbox(sys.argv[1]))
            backend.write(tool_context(), "x", b"y")
            os.kill(os.getpid(), signal.SIGKILL)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
    """
    assert python(code, IMAGE) == "-9\n"
    for _ in range(100):
        if containers() <= before:
            break
        asyncio.run(asyncio.sleep(0.1))
    assert containers() <= before
