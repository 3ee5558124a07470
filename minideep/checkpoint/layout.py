"""The rows of a thread: what they are called, and what those say that are no segments.

    head/THREAD                 Head
    log/THREAD/RUN/FIRST-LAST   a segment, by the numbers of its first and last event: no two have one key
    base/THREAD/RUN/NUMBER      a base, by the number of the last event in it
    run/THREAD/RUN              RunRow, of each run below the main one
    use/THREAD/NAME             empty: the thread names the blob
    mark/THREAD/                Mark: the thread lay unused for longer than the store keeps it
    ref/NAME/THREAD             empty: the same, the other way round
    blob/NAME                   a large file or event

Names are percent-encoded, so that no thread's rows stand between another's.
"""

from typing import Literal
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct, structs

from ..errors import CorruptSegment, UnknownVersion
from ..state import Path, Status
from .format import FORMAT, decoded


class Truncation(Struct, frozen=True, array_like=True):
    """Where a thread begins, once retention has cut off what was before."""

    number: int
    """The number of the base that stands for all before it."""
    turn: int
    """The first boundary that is left."""
    time: float = 0.0
    """When that was."""


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
    """Bytes of all that was appended, before and after compression, less what was saved or cut off since."""
    base: int = 0
    """The number of the main run's newest base, or 0."""
    cut: Truncation | None = None


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
    base: int = 0
    """The number of its newest base, or 0."""
    cost: float | None = None
    unknown: int = 0
    unpriced: int = 0


class Mark(Struct, frozen=True, array_like=True):
    """Says that a thread is to be deleted, should it still be as it was."""

    append: bytes
    """The id of its last append."""
    time: float
    """When it was marked."""


class RunInfo(Struct, frozen=True):
    """A run below the main one: a line of `Agent.runs()`."""

    path: Path
    """The keys of the calls that lead to it."""
    agent: str
    status: Status
    steps: int
    """Model replies of its last turn."""
    tokens: int
    """At least, if those of any reply are `unknown`."""
    created: float
    updated: float
    """Seconds since 1970."""
    bytes_raw: int
    bytes_stored: int
    cost: float | None = None
    """US dollars: at least, if any reply is `unpriced`; None where no cost is known."""
    unknown: int = 0
    """Replies whose tokens are not known, or not all of them."""
    unpriced: int = 0
    """Replies whose cost is not known."""

    @property
    def call_id(self) -> str:
        """The call that it answers."""
        return self.path[-1].partition("/")[0]


class ThreadInfo(Struct, frozen=True):
    """A line of `Agent.threads()`."""

    thread_id: str
    agent: str
    status: Status | Literal["damaged"]
    """`damaged` where the thread's head row cannot be read: then *problem* says why, and the rest is empty."""
    turns: int
    title: str
    created: float
    updated: float
    """Seconds since 1970."""
    bytes_raw: int
    bytes_stored: int
    problem: str = ""


MOST = 2**53
"""No count or time of a head or a run row comes near it; one that does could not be added to, nor shown."""
_head_decoder = msgspec.msgpack.Decoder(Head)
_run_decoder = msgspec.msgpack.Decoder(RunRow)
_mark_decoder = msgspec.msgpack.Decoder(Mark)


def head_key(thread_id: str) -> str:
    return f"head/{quote(thread_id, safe='')}"


SEALED = ("base", "log")
KINDS = (*SEALED, "run", "use", "mark")
"""The kinds of rows whose keys go on with the thread."""


def thread_prefix(kind: str, thread_id: str) -> str:
    """How the keys of a thread's rows of one kind begin."""
    return f"{kind}/{quote(thread_id, safe='')}/"


def log_prefix(thread_id: str, path: Path) -> str:
    """How the keys of a run's segments begin; the event number follows, as text that sorts like a number."""
    return f"{thread_prefix('log', thread_id)}{_path_key(path)}/"


def segments_from(thread_id: str, path: Path, first: int) -> str:
    """Where the keys begin of the segments that begin with the event *first* or later."""
    return f"{log_prefix(thread_id, path)}{first:016d}"


def segment_key(thread_id: str, path: Path, first: int, last: int) -> str:
    return f"{segments_from(thread_id, path, first)}-{last:016d}"


def joined_key(key: str, last: int) -> str:
    """The key of the segment that begins like that under *key* and ends with the event *last*."""
    prefix, _, numbers = key.rpartition("/")
    return f"{prefix}/{numbers.partition('-')[0]}-{last:016d}"


def base_prefix(thread_id: str, path: Path) -> str:
    return f"{thread_prefix('base', thread_id)}{_path_key(path)}/"


def base_key(thread_id: str, path: Path, number: int) -> str:
    return f"{base_prefix(thread_id, path)}{number:016d}"


def run_key(thread_id: str, path: Path) -> str:
    return thread_prefix("run", thread_id) + _path_key(path)


def mark_key(thread_id: str) -> str:
    return thread_prefix("mark", thread_id)


def blob_key(name: str) -> str:
    return f"blob/{name}"


def use_rows(thread_id: str, name: str) -> dict[str, bytes]:
    """The two rows that say that a thread names a blob."""
    return {f"{thread_prefix('use', thread_id)}{name}": b"", f"ref/{name}/{quote(thread_id, safe='')}": b""}


def number_in(key: str) -> int:
    """The first event number in the key of a segment or a base.

    Raises:
        CorruptSegment: there is none, so no append made the row.
    """
    number = key.rpartition("/")[2].partition("-")[0]
    if not (number.isascii() and number.isdigit() and len(number) < 20):
        raise CorruptSegment(f"row {key!r} is not named as a segment or a base is")
    return int(number)


def thread_of(key: str) -> str:
    """The thread that the row under *key*, of whatever kind but `ref` and `blob`, is of."""
    return unquote(key.split("/")[1])


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
    head = decoded(_head_decoder.decode, data, f"the head of thread {thread_id!r}")
    if head.format[0] != FORMAT[0] or head.format > FORMAT:
        raise UnknownVersion(f"thread {thread_id!r} has format {head.format}, this version reads {FORMAT}")
    if not (_in_range(head) and 0 <= head.last <= head.number and head.turn >= 0):
        raise CorruptSegment(f"the head of thread {thread_id!r} holds numbers that no append wrote")
    return head


def read_run_row(key: str, data: bytes) -> RunRow:
    """What the row under *key* says of a run.

    Raises:
        CorruptSegment
    """
    row = decoded(_run_decoder.decode, data, f"row {key!r}")
    if not (_in_range(row) and 0 <= row.first <= row.last):
        raise CorruptSegment(f"row {key!r} holds numbers that no append wrote")
    return row


def read_mark(key: str, data: bytes) -> Mark:
    """What the row under *key* says of a thread that is to be deleted.

    Raises:
        CorruptSegment
    """
    return decoded(_mark_decoder.decode, data, f"row {key!r}")


def _in_range(row: Head | RunRow) -> bool:
    counts = [value for name, value in structs.asdict(row).items() if isinstance(value, int) and name != "tokens"]
    return all(-MOST < number < MOST for number in (*counts, row.created, row.updated))


def _path_key(path: Path) -> str:
    return ",".join(quote(part, safe="") for part in path)
