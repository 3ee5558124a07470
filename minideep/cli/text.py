"""Text that others wrote, made fit for a terminal."""

import logging
import os
import re
import shlex
import sys
from argparse import Namespace

_NOT_SHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def safe(text: str) -> str:
    """*text* with control characters, and what turns the direction of writing, made visible."""
    return _NOT_SHOWN.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def one_line(text: str, most: int) -> str:
    """*text* on one line of at most *most* characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def aside(text: str) -> None:
    """Print one line beside the output, if that can be written: a guard that refuses a call says so here."""
    try:
        print(f"minideep: {safe(text)}", file=sys.stderr, flush=True)  # noqa: T201 - A terminal is what this is for.
    except OSError:  # What is left in its buffer would fail again, and change the exit code, when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def resuming(options: Namespace) -> str:
    """The command that goes on with a thread, with the flags by which this one found it."""
    given = ((name, getattr(options, name, None)) for name in ("agent", "root", "state"))
    flags = [part for name, value in given if value is not None for part in (f"--{name}", str(value))]
    return shlex.join(["minideep", "resume", options.thread, *flags])


class LogLines(logging.Handler):
    """Prints warnings of the library as one line each."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        problem = f": {type(cause).__name__}: {cause}" if cause else ""
        aside(one_line(f"{record.getMessage()}{problem}", 300))
