"""Bubblewrap: what a command can reach, and what it cannot."""

import asyncio
import os
import socket
from pathlib import Path

import pytest
from harness.sandboxes import bubblewrap_missing, needs

from minideep.backends import BubblewrapBackend
from minideep.backends.bubblewrap import mounts
from minideep.errors import ConfigError
from minideep.testing import tool_context


@pytest.fixture(autouse=True)
def bubblewrap():
    needs(bubblewrap_missing())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").write_text("key")
    return tmp_path / "work"


def run(backend, command):
    return asyncio.run(backend.execute(tool_context(), command, 30.0))


def test_a_command_writes_to_its_folder_and_to_nothing_else_that_lasts(folder):
    backend = BubblewrapBackend(folder)
    root = Path(__file__).parents[3]
    places = [".", "/tmp", os.environ["HOME"], "/etc", "/usr", "/var", "/", str(root), "/proc/sys/kernel", "/sys"]
    found = run(backend, f"for p in {' '.join(places)}; do touch $p/minideep-was-here && echo $p; done 2>/dev/null")
    assert found.output.split() == [".", "/tmp", os.environ["HOME"]]
    assert [place for place in places if (folder / place / "minideep-was-here").exists()] == ["."]


def test_settings_of_the_kernel_stay_as_they_are(folder):
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    found = run(BubblewrapBackend(folder), f"printf %s '{before.strip()}' >/proc/sys/kernel/core_pattern")
    assert found.exit_code != 0


def test_homes_and_the_files_beside_its_folder_cannot_be_seen(folder):
    home = Path(os.environ["HOME"])
    found = run(BubblewrapBackend(folder), f"ls -A {home} /home /root /run; cat ../secret")
    names = {name.name for name in home.iterdir()} if home.is_dir() else set()
    assert not names & set(found.output.split())
    assert "key" not in found.output


def test_a_home_folder_that_is_a_link_is_hidden_where_it_leads(tmp_path):
    (tmp_path / "var").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "var")
    options = mounts(str(tmp_path / "work"), [str(tmp_path / "home")], [], network=False)
    assert options[options.index("--tmpfs") + 1] == str(tmp_path / "var")


def test_folders_that_are_named_can_be_read_and_not_changed(folder, tmp_path):
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "data").write_text("hello")
    found = run(BubblewrapBackend(folder, readable=[tmp_path / "shown"]), "cat ../shown/data; echo x >../shown/data")
    assert found.output.startswith("hello")
    assert found.exit_code != 0
    assert (tmp_path / "shown" / "data").read_text() == "hello"


def test_there_is_no_network_unless_it_is_wanted(folder):
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        assert "connected" not in run(BubblewrapBackend(folder), f"bash -c '{connect}'").output
        assert "connected" in run(BubblewrapBackend(folder, network=True), f"bash -c '{connect}'").output


def test_it_sees_no_process_but_its_own(folder):
    found = run(BubblewrapBackend(folder), "cat /proc/[0-9]*/environ | tr '\\0' '\\n'")
    assert "PYTEST_CURRENT_TEST" not in found.output
    assert run(BubblewrapBackend(folder), f"kill -0 {os.getpid()}").exit_code != 0


def test_it_has_no_capabilities(folder):
    assert "CapEff:\t0000000000000000" in run(BubblewrapBackend(folder), "cat /proc/self/status").output


@pytest.mark.parametrize("root", ["/", "~"])
def test_a_folder_that_holds_the_secrets_is_refused(root):
    with pytest.raises(ConfigError, match="contains the home folder"):
        BubblewrapBackend(root)


def test_where_it_is_not_installed_the_error_says_what_to_do(folder):
    from harness.processes import python

    code = """
        import sys
        from minideep.backends import BubblewrapBackend
        try:
            BubblewrapBackend(sys.argv[1])
        except Exception as exc:
            print(type(exc).__name__, exc)
    """
    printed = python(code, folder, env={"PATH": str(folder)})
    assert printed.startswith("ConfigError BubblewrapBackend needs Linux and the program bwrap; install it")


def test_a_model_is_told_whether_there_is_a_network(folder):
    assert "without a network" in BubblewrapBackend(folder).about
    assert "with a network" in BubblewrapBackend(folder, network=True).about
