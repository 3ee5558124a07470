"""Match regular expressions in time: in another process, which is killed when time is up.

`re` holds its whole process while it tries. The other ways fall short: with a limit on the length of lines, nested
repeats still run for ever; a check for such patterns refuses good ones and misses bad ones; a linear engine is a
dependency with a dialect of its own, and so is the `rg` that some machines have. A process costs 20 ms and cannot hang.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..errors import ToolError
from .names import quoted

MAX_PATTERN = 1000
"""The longest regular expression, in characters."""
BATCH, BATCH_FILES = 250_000, 200
"""The characters and the files after which a batch is sent."""

Place = tuple[int, int]
"""A line and a column, counted from 0."""


class Matched(Struct, frozen=True):
    """A text, with the places of its matches: one on each line that matches."""

    path: str
    text: str
    places: list[Place] | None
    """None if it needs too much memory."""


class TimeUp(Exception):
    """The time was over before all texts were searched."""


def matching(
    texts: Iterable[tuple[str, str]], pattern: str, ignore_case: bool, most: int, end: float
) -> Generator[Matched]:
    """Yield those of *texts*, pairs of a path and a text, that have lines that match, each with at most *most* of them.

    Raises:
        ToolError: *pattern* is invalid, or the process fails.
        TimeUp: it is *end*, a time of `time.monotonic`.
    """
    if len(pattern) > MAX_PATTERN:
        raise _invalid(pattern, f"it has {len(pattern):,} characters, more than {MAX_PATTERN:,}")
    with _Process(end) as process:
        if problem := process.ask([pattern, ignore_case, end - time.monotonic()]):
            raise _invalid(pattern, problem)
        for batch in _batches(texts):
            contents = [text.encode(errors="surrogatepass") for _, text in batch]
            process.send([most, *map(len, contents)], *contents)
            for path, text in batch:
                places = process.receive()
                if places != []:
                    yield Matched(path, text, places)


def _invalid(pattern: str, problem: str) -> ToolError:
    return ToolError(
        f"pattern {quoted(pattern[:200])} is no valid regular expression: {problem}; correct it, or leave out regex"
    )


def _batches(texts: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch, size = list[tuple[str, str]](), 0
    for path, text in texts:
        batch.append((path, text))
        size += len(text)
        if size >= BATCH or len(batch) >= BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Process:
    """The process that matches, until it is *end* or the block is left."""

    def __init__(self, end: float) -> None:
        self._end = end

    def __enter__(self) -> "_Process":
        program = [sys.executable, "-ISWignore", Path(__file__).with_name("regex_process.py")]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        try:
            if not sys.executable or hasattr(sys, "frozen"):  # It would be the whole program that starts again.
                raise OSError(0, "this program has no Python interpreter")
            self._process: subprocess.Popen[bytes] = subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=nothing)
        except OSError as exc:
            problem = f"a regular expression needs a process of its own, which cannot be started: {exc.strerror}"
            raise ToolError(f"{problem}; search for literal text") from None
        # Whoever waits for its answer then sees the end of its output. Not every system has a timeout for a pipe.
        self._timer = threading.Timer(max(0.0, self._end - time.monotonic()), self._process.kill)
        self._timer.daemon = True
        try:
            self._timer.start()
        except RuntimeError:  # The system allows no more threads.
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._process.kill()
        with suppress(BrokenPipeError):  # What was written for it is still in the buffer.
            self._process.__exit__(None, None, None)

    def ask(self, question: object) -> Any:
        self.send(question)
        return self.receive()

    def send(self, header: object, *contents: bytes) -> None:
        assert self._process.stdin
        with suppress(BrokenPipeError):  # It has ended, which the next `receive` finds out.
            self._process.stdin.writelines(chain([json.dumps(header).encode(), b"\n"], contents))
            self._process.stdin.flush()

    def receive(self) -> Any:
        assert self._process.stdout
        if line := self._process.stdout.readline():
            return json.loads(line)
        if time.monotonic() >= self._end:
            raise TimeUp
        raise ToolError("the search with a regular expression broke off; simplify it, or search for literal text")
