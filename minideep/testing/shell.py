"""The contract of every backend that can run commands, as tests."""

import asyncio
import time
from pathlib import Path

from ..backends import Executed, ShellBackend
from ..errors import ToolError
from .checks import raises, same
from .context import tool_context

HEARTBEAT = "n=0; while [ $n -lt 400 ]; do n=$((n + 1)); echo >>beats; sleep 0.05; done"
STUBBORN = f"sh -c 'trap \"\" TERM HUP INT; {HEARTBEAT}'"
"""Shows in a file that it runs, until it is killed. It ends by itself at last: a broken backend may leave it behind."""


class ShellContract:
    """The promises of `execute`, which a `Sandbox` in a `SandboxBackend` and every other `ShellBackend` must keep.

    Commands need a POSIX shell, and small programs such as those of busybox.
    """

    def make(self, folder: Path) -> ShellBackend:
        """Return a backend without files, which may use the empty *folder*."""
        raise NotImplementedError(f"{type(self).__name__}.make must return a backend")

    def _run(self, backend: ShellBackend, command: str, timeout: float | None = 30.0) -> Executed:
        async def run() -> Executed:
            return await backend.execute(tool_context(), command, timeout)

        return asyncio.run(run())

    def _check_silent(self, backend: ShellBackend, what: str) -> None:
        """Fail if something still writes the heartbeat."""
        ctx = tool_context()
        path = f"{backend.home.rstrip('/')}/beats"
        before = backend.read(ctx, path)
        if not before:
            raise AssertionError(f"{what}: it has never run")
        time.sleep(0.5)
        same(f"the file that {what} wrote to", len(backend.read(ctx, path)), len(before))

    def test_output_and_errors_come_in_order_with_the_exit_code(self, tmp_path: Path) -> None:
        found = self._run(self.make(tmp_path), "echo one; echo two >&2; echo three; exit 3")
        same("a command that fails", found, Executed("one\ntwo\nthree\n", 3))
        found = self._run(self.make(tmp_path), "true")
        same("a command that says nothing", found, Executed("", 0))

    def test_a_program_that_does_not_exist_gives_127(self, tmp_path: Path) -> None:
        same("the exit code", self._run(self.make(tmp_path), "no-such-program").exit_code, 127)

    def test_a_command_starts_where_relative_paths_do(self, tmp_path: Path) -> None:
        backend, ctx = self.make(tmp_path), tool_context()
        backend.write(ctx, "from tools.txt", b"from tools\n")
        found = self._run(backend, "cat 'from tools.txt'; mkdir sub; cd sub; printf 'from a command' >made.txt")
        same("what a command reads", found, Executed("from tools\n", 0))
        same("what a command wrote", backend.read(ctx, "sub/made.txt"), b"from a command")

    def test_each_command_has_a_shell_of_its_own(self, tmp_path: Path) -> None:
        backend = self.make(tmp_path)
        where = self._run(backend, "pwd").output
        self._run(backend, "mkdir sub; cd sub; export LEFT=behind")
        same("the folder and a variable", self._run(backend, 'pwd; echo "[$LEFT]"').output, f"{where}[]\n")

    def test_there_is_no_input_to_wait_for(self, tmp_path: Path) -> None:
        found = self._run(self.make(tmp_path), "cat; read line || echo nobody")
        same("a command that reads", found, Executed("nobody\n", 0))

    def test_the_environment_of_this_process_is_not_passed_on(self, tmp_path: Path) -> None:
        names = {line.partition("=")[0] for line in self._run(self.make(tmp_path), "env").output.split("\n")}
        same("a variable that pytest sets", "PYTEST_CURRENT_TEST" in names, False)
        same("PATH, TERM and PAGER", names >= {"PATH", "TERM", "PAGER"}, True)

    def test_bytes_that_are_no_text_are_replaced(self, tmp_path: Path) -> None:
        found = self._run(self.make(tmp_path), r"printf 'n\303\251e \377 end'")
        same("the output", found.output, "née \ufffd end")

    def test_long_output_keeps_its_first_and_last_part(self, tmp_path: Path) -> None:
        found = self._run(self.make(tmp_path), "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last")
        same("the first and the last line", (found.output[:6], found.output[-5:]), ("first\n", "last\n"))
        if not (found.dropped > 0 and len(found.output) < 2_000_000):
            raise AssertionError(f"3 MB of output: expected that some is dropped, found {len(found.output)} characters")

    def test_when_time_is_over_everything_is_stopped(self, tmp_path: Path) -> None:
        backend = self.make(tmp_path)
        found = self._run(backend, f"echo before; setsid {STUBBORN} & {STUBBORN}", 1.0)
        same("timed_out, and the output until then", (found.timed_out, found.output), (True, "before\n"))
        self._check_silent(backend, "a command whose time is over")

    def test_what_runs_in_the_background_ends_with_the_command(self, tmp_path: Path) -> None:
        backend = self.make(tmp_path)
        found = self._run(backend, f"({STUBBORN} &) & sleep 0.3; echo done")
        same("the command", found, Executed("done\n", 0))
        self._check_silent(backend, "a process in the background")

    def test_a_cancelled_command_is_stopped(self, tmp_path: Path) -> None:
        backend, ctx = self.make(tmp_path), tool_context()

        async def cancel() -> None:
            work = asyncio.ensure_future(backend.execute(ctx, STUBBORN, 60.0))
            for _ in range(100):
                await asyncio.sleep(0.1)
                if "beats" in (info.path.rpartition("/")[2] for info in backend.ls(ctx, ".")):
                    break
            work.cancel()
            await asyncio.wait([work])
            same("whether the command was cancelled", work.cancelled(), True)

        asyncio.run(cancel())
        self._check_silent(backend, "a cancelled command")

    def test_commands_at_the_same_time_do_not_disturb_each_other(self, tmp_path: Path) -> None:
        backend = self.make(tmp_path)

        async def both() -> list[Executed]:
            commands = [backend.execute(tool_context(), f"sleep 0.{n}; echo {n}", 30.0) for n in (3, 1, 2)]
            return list(await asyncio.gather(*commands))

        same("three commands", asyncio.run(both()), [Executed(f"{n}\n", 0) for n in (3, 1, 2)])

    def test_a_command_that_no_shell_can_take_is_refused(self, tmp_path: Path) -> None:
        backend = self.make(tmp_path)
        for what, command in (("nothing", " "), ("a NUL", "echo \0"), ("1 MB", f"echo {'x' * 1_000_000}")):
            with raises(ToolError, f"a command of {what}"):
                self._run(backend, command)
