"""Processes: run a program of this machine with a limit of time and of output, and leave nothing of it behind.

A thread waits for it, not the event loop: so it works the same on every loop, on every thread, and whatever else the
program does about SIGCHLD.
"""

import asyncio
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from ..errors import ToolError
from ..workers import start_thread
from .commands import Executed, Window

GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""
_PYTHON = sys.executable if sys.executable and not getattr(sys, "frozen", False) else "python3"
"""A frozen program is its own `sys.executable`, and would be started again."""
_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
_CHUNK = 65_536
_POLL = 0.5
"""Seconds between two looks at a supervisor that reports nothing: somebody may have killed it."""
_PIPE = 1_048_576
"""The most bytes that a pipe holds on Linux."""
_LAST_WAIT = 10.0
"""Seconds to wait for the end of a cancelled process. The supervisor takes a third of that at most."""


class StopSignal:
    """Tells a running process, from any thread, to end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe: IO[bytes] | None = None
        self._is_set = False

    def set(self) -> None:
        with self._lock:
            self._is_set = True
            self._send()

    def attach(self, pipe: IO[bytes] | None) -> None:
        """Send the signal through *pipe*, at once if it was set before; None: nobody reads it any more."""
        with self._lock:
            self._pipe = pipe
            if self._is_set:
                self._send()

    def _send(self) -> None:
        if self._pipe:
            # Not by closing it: another process that was forked meanwhile may hold a copy.
            with suppress(BrokenPipeError):
                os.write(self._pipe.fileno(), b".")


async def run_stoppable(
    command: Sequence[str], *, folder: str, env: Mapping[str, str], timeout: float, max_output: int
) -> Executed:
    """Run a program as `run_process` does, on another thread, and end it if this is cancelled."""
    stop = StopSignal()
    work = start_thread(run_process, command, folder=folder, env=env, timeout=timeout, max_output=max_output, stop=stop)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        if not work.begun:  # It still waits for a thread.
            work.cancel()
        await asyncio.wait([work], timeout=_LAST_WAIT)
        raise


def run_process(
    command: Sequence[str],
    *,
    folder: str | None,
    env: Mapping[str, str] | None,
    timeout: float,
    max_output: int,
    stop: StopSignal | None = None,
) -> Executed:
    """Run a program in *folder*, without input, and return what it wrote to stdout and stderr, and its exit code.

    After *timeout* seconds, or once *stop* is set, it and all that it started get SIGTERM, and soon SIGKILL. The same
    happens to what still runs in the background when it ends. *env* is all of its environment; None: that of this
    process.

    Raises:
        ToolError: it cannot be started.
    """
    stop = stop or StopSignal()
    report, reported = os.pipe()
    with os.fdopen(report, "rb", buffering=0) as reports:
        try:
            process = _started([str(timeout), str(GRACE), str(reported), *command], folder, env, reported)
        finally:
            os.close(reported)
        window, heard = Window(max_output), bytearray()
        with process:
            assert process.stdout is not None
            stop.attach(process.stdin)
            _read(process, {process.stdout: window.add, reports: heard.extend}, lambda: b"ended" in heard)
            stop.attach(None)
    return _outcome(window, heard.decode().split())


def _started(
    args: Sequence[str], folder: str | None, env: Mapping[str, str] | None, reported: int
) -> "subprocess.Popen[bytes]":
    """Start a supervisor that reports to the descriptor *reported*."""
    try:
        return subprocess.Popen(
            [_PYTHON, "-I", "-S", _SUPERVISOR, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=env,
            pass_fds=(reported,),
            start_new_session=True,  # Or Ctrl-C at the terminal would end it before the turn decides about that.
        )
    except OSError as exc:
        missing = "the working folder is gone; create it again" if folder and not Path(folder).is_dir() else ""
        raise ToolError(f"the command was not started: {missing or (exc.strerror or str(exc)).lower()}") from None


def _read(
    process: "subprocess.Popen[bytes]", sinks: Mapping[IO[bytes], Callable[[bytes], None]], done: Callable[[], bool]
) -> None:
    """Pass on what can be read, until *done*; then the rest, which the pipes still hold."""
    with selectors.DefaultSelector() as ready:
        for pipe, sink in sinks.items():
            ready.register(pipe, selectors.EVENT_READ, sink)
        while not done():
            events = ready.select(_POLL)
            if not events and process.poll() is not None:
                break
            for key, _ in events:
                if data := os.read(key.fd, _CHUNK):
                    key.data(data)
                else:
                    ready.unregister(key.fileobj)
    for pipe, sink in sinks.items():
        os.set_blocking(pipe.fileno(), False)
        with suppress(BlockingIOError):
            for _ in range(_PIPE // _CHUNK):  # Bounded: where nobody adopts, a process may have escaped and go on.
                sink(os.read(pipe.fileno(), _CHUNK))


def _outcome(window: Window, heard: list[str]) -> Executed:
    """Return what a supervisor has reported as `started PID`, `ended CODE TIMED_OUT`."""
    match heard:
        case ["started", _, "ended", code, timed_out]:
            return window.executed(int(code), timed_out == "1")
        case ["started", pid]:  # It was killed, and with it the command.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(pid), signal.SIGKILL)
            return window.executed(137)
        case _:
            raise ToolError(f"the command was not started: {window.executed(1).output[-500:].strip()}")
