"""Runs one command and leaves nothing of it behind: a small program of its own, which `processes` starts.

    python supervisor.py TIMEOUT GRACE REPORT COMMAND [ARGUMENT ...]

It stands between a command and the process of the agent. On Linux it adopts what the command leaves behind, so it finds
even what was started in a session of its own, and it ends everything when the agent's process dies, however that dies:
it watches its stdin, and stops at the first byte or at the end of it. It writes two lines to the descriptor REPORT:
`started PID`, and `ended CODE TIMED_OUT`.

It imports nothing of minideep, so that it starts in a few milliseconds.
"""

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
ADOPTS = sys.platform == "linux"
LINGER = 0.2
"""Seconds that processes in the background have to end by themselves, such as the `tee` of a `> >(tee log)`."""
KILL_SECONDS = 2.0
"""Seconds after which it gives up on processes that not even SIGKILL ends: they hang in the kernel."""


class Family:
    """A command, and all processes that it has started."""

    def __init__(self, command: list[str]) -> None:
        self.code: int | None = None
        """The exit code of the command itself, once it has ended."""
        self.is_alive: bool = True
        """False once all have ended."""
        self._woken, waker = os.pipe()
        os.set_blocking(waker, False)
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake)
        if ADOPTS:
            _prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.leader: int = os.fork() or _become(command)

    def wait(self, seconds: float, *, for_all: bool = False, stop: int | None = None) -> bool:
        """Wait for the command, or *for_all*. Return False if *seconds* are over before, or *stop* can be read."""
        until = time.monotonic() + seconds
        while True:
            self._reap()
            if not self.is_alive or (self.code is not None and not for_all):
                return True
            watched = [self._woken] if stop is None else [self._woken, stop]
            ready, _, _ = select.select(watched, [], [], max(until - time.monotonic(), 0))
            if not ready or stop in ready:
                return False
            with suppress(BlockingIOError):
                os.read(self._woken, 4096)

    def end(self, grace: float) -> None:
        """End all: with SIGTERM, and those that are left after *grace* seconds with SIGKILL."""
        self._signal(signal.SIGTERM)
        self.wait(grace, for_all=True)
        until = time.monotonic() + KILL_SECONDS
        # Again and again, as they may go on to start others.
        while self.is_alive and time.monotonic() < until:
            self._signal(signal.SIGKILL)
            self.wait(0.005, for_all=True)

    def _reap(self) -> None:
        while self.is_alive:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.is_alive = False
                return
            if pid == self.leader:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else 128 - code
            if pid == 0:
                return

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.leader, number)
        for pid in descendants(os.getpid()) if ADOPTS else ():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def descendants(pid: int) -> list[int]:
    """Return the processes that *pid* has started, and those that these have started, and so on."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - Faster, and a process may start others meanwhile.
        if entry.isdecimal():
            with suppress(OSError):  # It has just ended.
                # The name, in parentheses, may contain anything; behind it stand the state and the parent.
                stat = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()
                children.setdefault(int(stat[1]), []).append(int(entry))
    found = children.get(pid, [])
    for child in found:  # The list grows while it is read.
        found += children.get(child, [])
    return found


def _become(command: list[str]) -> int:
    """Turn this new process into the command, in a session of its own: it has no terminal to ask at."""
    try:
        os.setsid()
        if ADOPTS:
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with suppress(OSError, ValueError):  # Those of the C library's own.
                signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execvp(command[0], command)
    except OSError as exc:
        os.write(2, f"{command[0]}: {exc.strerror}\n".encode())
    finally:
        os._exit(127)


def _wake(number: int, frame: object) -> None:
    """Do nothing. A signal that is ignored would not be written to the pipe."""


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main(timeout: float, grace: float, report: int, command: list[str]) -> None:
    """Run *command*, and report how it ended."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # A command that signals its parent must not lose its warden.
    os.set_inheritable(report, False)
    family = Family(command)
    os.write(report, b"started %d\n" % family.leader)
    began = time.monotonic()
    ended = family.wait(timeout, stop=0)
    timed_out = not ended and time.monotonic() - began >= timeout
    if ended:
        family.wait(LINGER, for_all=True, stop=0)
    if family.is_alive:
        family.end(grace)
    code = 137 if family.code is None else family.code
    os.write(report, b"ended %d %d\n" % (code, timed_out))


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
