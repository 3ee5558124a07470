"""Text that others wrote, made fit for a terminal."""

import logging
import re
import sys

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
    """Print one line beside the output."""
    print(f"minideep: {safe(text)}", file=sys.stderr, flush=True)  # noqa: T201 - A terminal is what this is for.


class LogLines(logging.Handler):
    """Prints warnings of the library as one line each."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        problem = f": {type(cause).__name__}: {cause}" if cause else ""
        aside(one_line(f"{record.getMessage()}{problem}", 300))
