"""A program of this machine runs within its limits, and nothing of it stays behind, however it behaves."""

import asyncio
import secrets
import signal
import sys
import threading
from pathlib import Path

import pytest
from harness.processes import python
from harness.sandboxes import ends, running

from minideep.backends import LocalShellBackend
from minideep.backends.commands import Window
from minideep.backends.processes import run_process
from minideep.errors import ToolError
from minideep.testing import tool_context

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a parent adopt what leaves its group")
BASH = pytest.mark.skipif(not Path("/bin/bash").exists(), reason="needs bash")


@pytest.fixture
def shell(tmp_path):
    return LocalShellBackend(tmp_path)


@pytest.fixture
def mark():
    """A number of seconds that no other process of this machine sleeps."""
    return f"1000.{secrets.randbelow(10**9):09}"


def run(shell, command, timeout=30.0):
    return asyncio.run(execute(shell, command, timeout))


async def execute(shell, command, timeout=30.0):
    return await shell.execute(tool_context(), command, timeout)


# ---- nothing stays


@linux
@pytest.mark.parametrize(
    "command",
    [
        "setsid sleep {0} & sleep {0}",
        "(setsid sh -c 'sleep {0} & sleep {0}' &) ; sleep {0}",
        "env -i setsid sleep {0} & env -i sleep {0}",
        "trap '' TERM HUP INT; sleep {0} & setsid sh -c \"trap '' TERM; sleep {0}; sleep {0}\"",
        "setsid sleep {0} & exec >&- 2>&-; sleep {0}",
        "sleep {0} & kill -STOP $!; sleep {0}",
    ],
    ids=["session", "grandchildren", "no environment", "deaf to SIGTERM", "closed output", "stopped"],
)
def test_whatever_a_command_has_started_is_gone_when_its_time_is_over(shell, mark, command):
    found = run(shell, command.format(mark), 0.5)
    assert found.timed_out
    assert running(mark) == []


@linux
def test_a_command_that_forks_ignores_sigterm_and_prints_without_end_is_stopped(shell, mark):
    """`bench/shell.py` has more of it, with a clock."""
    child = f"trap '' TERM; sleep {mark} & setsid sleep {mark} & env -i setsid sleep {mark} &"
    found = run(
        shell,
        f'trap "" TERM; (sh -c "{child} sleep {mark}" &); {child} yes "$(head -c 9000 /dev/zero | tr "\\0" x)"',
        1.0,
    )
    assert found.timed_out
    assert found.dropped > 1_000_000
    assert len(found.output) < 110_000
    assert running(mark) == []


@linux
def test_whatever_a_command_leaves_behind_is_gone_when_it_ends(shell, mark):
    found = run(shell, f"setsid sleep {mark} & nohup sleep {mark} & echo done")
    assert (found.output, found.exit_code, found.timed_out) == ("done\n", 0, False)
    assert running(mark) == []


@linux
def test_a_process_that_replaces_itself_all_the_time_is_caught(shell, tmp_path, mark):
    (tmp_path / "run.sh").write_text('[ -e stop ] || sh run.sh "$1" &\n')
    try:
        found = run(shell, f"sh run.sh {mark}; sleep {mark}", 0.5)
        assert found.timed_out
        assert running(mark) == []
    finally:
        (tmp_path / "stop").touch()


@BASH
def test_what_still_writes_when_the_shell_ends_has_a_moment_to_do_so(shell):
    assert run(shell, "echo hello > >(sleep 0.05; cat)").output == "hello\n"


@linux
def test_a_command_that_kills_its_parent_does_not_end_the_agent_and_ends_itself(shell, mark):
    found = run(shell, f"sleep {mark} & kill -9 $PPID; sleep {mark}")
    assert (found.exit_code, found.timed_out) == (137, False)
    assert ends(mark)
    assert run(shell, "kill -TERM $PPID; kill -INT $PPID; sleep 0.3; echo on").output == "on\n"


@linux
def test_a_command_that_signals_its_group_reaches_only_itself(shell, mark):
    assert run(shell, "kill -TERM 0; echo never").exit_code == 128 + signal.SIGTERM
    assert run(shell, f"setsid sleep {mark} & sleep 0.1; kill -KILL 0").exit_code == 128 + signal.SIGKILL
    assert running(mark) == []


@linux
def test_a_command_ends_with_the_process_of_its_agent(tmp_path, mark):
    python(
        f"""
        import asyncio, os, signal, sys
        from minideep.backends import LocalShellBackend
        from minideep.testing import tool_context

        async def main():
            shell = LocalShellBackend(sys.argv[1])
            asyncio.ensure_future(shell.execute(tool_context(), "touch began; setsid sleep {mark} & sleep {mark}"))
            while not os.path.exists(sys.argv[1] + "/began"):
                await asyncio.sleep(0.01)
            os.execvp("true", ["true"])  # Its process goes on as another program, which knows nothing of the command.

        asyncio.run(main())
        """,
        tmp_path,
    )
    assert ends(mark)


@linux
async def test_a_command_that_is_cancelled_twice_is_still_stopped(shell, mark, tmp_path):
    work = asyncio.ensure_future(execute(shell, f"touch began; trap '' TERM; sleep {mark}; sleep {mark}"))
    while not (tmp_path / "began").exists():
        await asyncio.sleep(0.01)
    work.cancel()
    await asyncio.sleep(0)
    work.cancel()
    await asyncio.wait([work])
    assert work.cancelled()
    assert ends(mark)


# ---- output


def test_memory_does_not_grow_with_the_output():
    window, held = Window(1000), 0
    for _ in range(10_000):
        window.add(b"x" * 700)
        held = max(held, len(window._first) + len(window._last))
    assert held <= 1000 * 1.5 + 700
    assert window.executed(0).dropped == 7_000_000 - 1000


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_character_that_arrives_in_pieces_is_whole(size):
    data, window = "née 😀 ok".encode() * 3, Window(1000)
    for start in range(0, len(data), size):
        window.add(data[start : start + size])
    assert window.executed(0).output == data.decode()


def test_a_character_at_the_edge_of_what_is_kept_is_left_out():
    window = Window(10)
    window.add("ab😀😀😀😀yz".encode())
    found = window.executed(0)
    assert (found.output, found.dropped) == ("ab\n[... 10 bytes are missing here ...]\nyz", 10)


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 100])
def test_output_of_exactly_the_limit_is_kept_whole(limit):
    window = Window(limit)
    window.add(b"x" * limit)
    assert window.executed(0).output == "x" * limit


def test_output_of_any_bytes_becomes_text(tmp_path):
    shell = LocalShellBackend(tmp_path, max_output=500)
    found = run(shell, "head -c 20000 /dev/urandom")
    assert found.output.encode().decode() == found.output
    assert found.dropped > 19_000


# ---- what it runs in


def test_a_folder_that_is_gone_is_an_error(shell, tmp_path):
    tmp_path.rmdir()
    with pytest.raises(ToolError, match="the working folder is gone"):
        run(shell, "true")


def test_a_program_that_is_missing_says_so(tmp_path):
    found = run_process(["/no/such/program"], folder=str(tmp_path), env={}, timeout=9, max_output=100)
    assert found.exit_code == 127
    assert "No such file or directory" in found.output


@pytest.mark.parametrize("what", ["reaped by a handler", "ignored"])
def test_a_host_that_reaps_all_its_children_still_learns_the_exit_code(tmp_path, what):
    printed = python(
        """
        import asyncio, os, signal, sys
        from minideep.backends import LocalShellBackend
        from minideep.testing import tool_context

        def reap(*_):
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass

        signal.signal(signal.SIGCHLD, signal.SIG_IGN if sys.argv[2] == "ignored" else reap)
        found = asyncio.run(LocalShellBackend(sys.argv[1]).execute(tool_context(), "sh -c 'exit 3'; echo $?; exit 7"))
        print(found.exit_code, found.output.strip())
        """,
        tmp_path,
        what,
    )
    assert printed == "7 3\n"


def test_a_loop_on_another_thread_runs_commands(shell):
    found = []
    thread = threading.Thread(target=lambda: found.append(run(shell, "echo here; exit 2")))
    thread.start()
    thread.join()
    assert (found[0].output, found[0].exit_code) == ("here\n", 2)


def test_commands_leave_no_descriptor_and_no_child_open(shell):
    def descriptors():
        return len(list(Path("/dev/fd").iterdir()))

    def children():  # The tests before this one may have left some that still end.
        return {
            child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()
        }

    run(shell, "true")
    before, were_there = descriptors(), children()
    for number in range(20):
        run(shell, "sleep 30 & exit 3" if number % 10 == 0 else "echo x", 5.0)
    run(shell, "sleep 30", 0.2)
    assert descriptors() <= before
    assert children() <= were_there
