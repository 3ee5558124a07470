"""The contract of what runs commands fails on backends that break it, each in the tests that ask for what they break."""

import asyncio
import os
import subprocess

import pytest

from minideep.backends import Executed, LocalShellBackend
from minideep.backends.processes import run_process
from minideep.testing import ShellContract
from minideep.workers import in_thread


class Naive(LocalShellBackend):
    """Does what comes to mind first."""

    async def execute(self, ctx, command, timeout=None):
        run = subprocess.Popen(
            command,
            shell=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=self._root_dir,
        )
        with run:
            try:
                output, errors = run.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                run.kill()
                return Executed("before\n", 124, timed_out=True)
        return Executed(output + errors, run.returncode)


class Succeeds(LocalShellBackend):
    """Takes every command for a success."""

    async def execute(self, ctx, command, timeout=None):
        found = await super().execute(ctx, command, timeout)
        return Executed(found.output, 0, found.timed_out, found.dropped)


class Remembers(LocalShellBackend):
    """Goes on in the folder in which the last command was."""

    folder = "."

    async def execute(self, ctx, command, timeout=None):
        found = await super().execute(ctx, f"cd {self.folder}; {command}", timeout)
        self.folder = "sub" if "cd sub" in command else self.folder
        return found


class HandsOnItsKeys(LocalShellBackend):
    """Gives commands the environment of this process."""

    def __init__(self, folder):
        super().__init__(folder, env=dict(os.environ))


class KeepsAll(LocalShellBackend):
    """Has room for all that is printed."""

    def __init__(self, folder):
        super().__init__(folder, max_output=10**9)


class StartsElsewhere(LocalShellBackend):
    """Has another folder for commands than for files."""

    def _argv(self, command):
        return super()._argv(f"cd /; {command}")


class GoesOn(LocalShellBackend):
    """Does not hear of a cancel."""

    async def execute(self, ctx, command, timeout=None):
        return await asyncio.shield(
            in_thread(run_process, self._argv(command), folder=self._root_dir, env=None, timeout=4.0, max_output=9)
        )


class Guesses(LocalShellBackend):
    """Runs what it makes of a command."""

    async def execute(self, ctx, command, timeout=None):
        return await super().execute(ctx, command.replace("\0", "")[:1000] or ":", timeout)


@pytest.mark.parametrize(
    ("broken", "tests"),
    [
        (Naive, "output_and_errors_come_in_order_with_the_exit_code"),
        (Naive, "the_environment_of_this_process_is_not_passed_on"),
        (Naive, "long_output_keeps_its_first_and_last_part"),
        (Naive, "when_time_is_over_everything_is_stopped"),
        (Succeeds, "output_and_errors_come_in_order_with_the_exit_code"),
        (Succeeds, "a_program_that_does_not_exist_gives_127"),
        (Remembers, "each_command_has_a_shell_of_its_own"),
        (HandsOnItsKeys, "the_environment_of_this_process_is_not_passed_on"),
        (KeepsAll, "long_output_keeps_its_first_and_last_part"),
        (StartsElsewhere, "a_command_starts_where_relative_paths_do"),
        (GoesOn, "a_cancelled_command_is_stopped"),
        (Guesses, "a_command_that_no_shell_can_take_is_refused"),
    ],
)
def test_a_backend_that_breaks_a_promise_fails_where_it_is_asked_for(broken, tests, tmp_path):
    class Contract(ShellContract):
        def make(self, folder):
            return broken(folder)

    with pytest.raises(AssertionError):
        getattr(Contract(), f"test_{tests}")(tmp_path)
