"""The rows of a thread: what they are called, and what those say that are no segments.

A thread has a head; for each append and each run that it touched segments, `log/thread/run/number`; for each run below
the main one a row, `run/thread/run`. Names are percent-encoded, so that no thread's rows stand between another's.
"""

from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from ..codec import FORMAT
from ..errors import CorruptSegment, UnknownVersion
from ..state import Path, Status


class Head(Struct, frozen=True, array_like=True):
    """The row that every append compares and replaces."""

    number: int
    """The number of the thread's last event."""
    epoch: bytes
    """Random, made with the thread: a thread that was deleted and begun again is another one."""
    append: bytes
    """The id of the last append."""
    last: int = 0
    """The number of the main run's last event."""
    format: tuple[int, int] = FORMAT
    agent: str = ""
    status: Status = "ready"
    turn: int = 0
    title: str = ""
    """How the first message begins."""
    created: float = 0.0
    updated: float = 0.0
    """Seconds since 1970."""
    raw: int = 0
    stored: int = 0
    """Bytes of all segments, before and after compression."""


class RunRow(Struct, frozen=True, array_like=True):
    """What a run below the main one is."""

    agent: str
    status: Status
    first: int
    last: int
    """The numbers of its first and last event."""
    steps: int = 0
    """Model replies of its last turn."""
    tokens: int = 0
    created: float = 0.0
    updated: float = 0.0
    raw: int = 0
    stored: int = 0


class ThreadInfo(Struct, frozen=True):
    """A line of `Agent.threads()`."""

    thread_id: str
    agent: str
    status: Status
    turns: int
    title: str
    created: float
    updated: float
    """Seconds since 1970."""
    bytes_raw: int
    bytes_stored: int


_head_decoder = msgspec.msgpack.Decoder(Head)
_run_decoder = msgspec.msgpack.Decoder(RunRow)


def log_prefix(thread_id: str, path: Path) -> str:
    """How the keys of a run's segments begin; the event number follows, as text that sorts like a number."""
    return f"log/{quote(thread_id, safe='')}/{_path_key(path)}/"


def segment_key(thread_id: str, path: Path, first: int) -> str:
    return f"{log_prefix(thread_id, path)}{first:016d}"


def run_prefix(thread_id: str) -> str:
    """How the keys of the rows of a thread's runs begin."""
    return f"run/{quote(thread_id, safe='')}/"


def run_key(thread_id: str, path: Path) -> str:
    return run_prefix(thread_id) + _path_key(path)


def run_path(key: str) -> Path:
    """The run that the row under *key* is of."""
    return tuple(unquote(part) for part in key.rpartition("/")[2].split(","))


def after(prefix: str) -> str:
    """The first key behind all that begin with *prefix*, which ends in `/`."""
    return prefix[:-1] + "0"


def read_head(thread_id: str, data: bytes) -> Head:
    """What the head row says.

    Raises:
        CorruptSegment, UnknownVersion
    """
    try:
        head = _head_decoder.decode(data)
    except msgspec.DecodeError as exc:
        raise CorruptSegment(f"the head of thread {thread_id!r} cannot be read: {exc}") from None
    if head.format[0] != FORMAT[0] or head.format > FORMAT:
        raise UnknownVersion(f"thread {thread_id!r} has format {head.format}, this version reads {FORMAT}")
    return head


def read_run_row(key: str, data: bytes) -> RunRow:
    """What the row under *key* says of a run.

    Raises:
        CorruptSegment
    """
    try:
        return _run_decoder.decode(data)
    except msgspec.DecodeError as exc:
        raise CorruptSegment(f"row {key!r} cannot be read: {exc}") from None


def _path_key(path: Path) -> str:
    return ",".join(quote(part, safe="") for part in path)
