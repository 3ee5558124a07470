"""Makes text of models, tools and files safe to print on a terminal."""

import logging
import os
import re
import shlex
import sys
from argparse import Namespace

_NOT_SHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def safe(text: str) -> str:
    """Return *text* with control characters, and those that change the direction of writing, made visible."""
    return _NOT_SHOWN.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def one_line(text: str, most: int) -> str:
    """Return *text* on one line of at most *most* characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def aside(text: str) -> None:
    """Print one line to stderr, if that can be written: a guard that refuses a call must not fail in doing so."""
    try:
        print(f"minideep: {safe(text)}", file=sys.stderr, flush=True)  # noqa: T201 - The terminal prints.
    except OSError:  # The rest of its buffer would fail again when Python ends, and change the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def resume_command(options: Namespace) -> str:
    """Return the command that resumes a thread, with the flags by which this one found it."""
    given = ((name, getattr(options, name, None)) for name in ("agent", "root", "state"))
    flags = [part for name, value in given if value is not None for part in (f"--{name}", str(value))]
    return shlex.join(["minideep", "resume", options.thread, *flags])


class LogLines(logging.Handler):
    """Prints each warning of the library as one line."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        problem = f": {type(cause).__name__}: {cause}" if cause else ""
        aside(one_line(f"{record.getMessage()}{problem}", 300))
