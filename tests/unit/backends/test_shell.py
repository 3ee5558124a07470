"""A local shell: where commands start, what they see of this process, and what a model is told."""

import asyncio
import os

import pytest

from minideep.backends import FilesystemBackend, LocalShellBackend
from minideep.errors import ConfigError, ToolError
from minideep.testing import tool_context


def run(shell, command, timeout=None):
    return asyncio.run(shell.execute(tool_context(), command, timeout))


def test_a_command_sees_five_variables_and_what_is_added(tmp_path):
    shell = LocalShellBackend(tmp_path, env={"GREETING": "hello", "PAGER": "less"})
    lines = dict(line.split("=", 1) for line in run(shell, "env").output.splitlines())
    own = {name: lines[name] for name in lines.keys() - {"PWD", "SHLVL", "_", "OLDPWD"}}
    assert own == {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "TERM": "dumb",
        "PAGER": "less",
        "GREETING": "hello",
    }


def test_a_command_starts_in_the_root_and_has_no_terminal(tmp_path):
    found = run(LocalShellBackend(tmp_path), "pwd; tty; (read x </dev/tty) 2>/dev/null || echo nobody")
    assert found.output == f"{os.path.realpath(tmp_path)}\nnot a tty\nnobody\n"


def test_the_own_limit_of_time_counts_unless_a_call_has_another(tmp_path):
    shell = LocalShellBackend(tmp_path, timeout=0.3)
    assert run(shell, "sleep 20").timed_out
    assert not run(shell, "sleep 0.5", 20.0).timed_out


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("echo \0", "contains a NUL"),
        ("echo \ud800", "UTF-8 cannot encode"),
        ("x" * 100_001, "has 100,001 bytes, more than 100,000; write a script with write_file"),
    ],
)
def test_a_command_that_no_shell_can_take_says_what_to_do(tmp_path, command, problem):
    with pytest.raises(ToolError, match=problem):
        run(LocalShellBackend(tmp_path), command)


def test_the_largest_command_runs(tmp_path):
    assert run(LocalShellBackend(tmp_path), f"echo {'x' * 99_995}").dropped == 0


def test_files_stay_confined_as_those_of_a_folder_are(tmp_path):
    shell = LocalShellBackend(tmp_path)
    assert isinstance(shell, FilesystemBackend)
    run(shell, "ln -s /etc/passwd out")
    with pytest.raises(ToolError, match="outside"):
        shell.read(tool_context(), "/out")


def test_a_model_is_told_how_paths_in_commands_differ(tmp_path):
    assert "write relative paths in commands" in LocalShellBackend(tmp_path).about


@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}, {"max_output": 0}])
def test_limits_are_above_nothing(tmp_path, wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        LocalShellBackend(tmp_path, **wrong)
