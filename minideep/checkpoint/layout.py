"""The rows of a thread: their keys, and the structs in those that are not segments or snapshots.

    head/THREAD                 Head
    log/THREAD/RUN/FIRST-LAST   a segment, by the numbers of its first and last event: no two share a key
    base/THREAD/RUN/NUMBER      a snapshot, by the number of the last event in it
    run/THREAD/RUN              RunRow, one for each run below the main one
    use/THREAD/NAME             empty: the thread refers to the blob
    key/THREAD/KEY              KeyRow: the input that was accepted under the key
    mark/THREAD/                Mark: the thread was idle for longer than the store keeps it
    ref/NAME/THREAD             empty: the same reference, by blob
    blob/NAME                   a large file or event

Names are percent-encoded, so that no thread's rows stand between another's. Fields are stored by position: a new one
goes last and has a default.
"""

import os
import re
from functools import lru_cache
from string import ascii_letters, digits

import msgspec
from msgspec import Struct, structs

from ..errors import CorruptSegment, UnknownVersion
from ..state import Path, Status
from .format import FORMAT, decoded


class Truncation(Struct, frozen=True, array_like=True):
    """The beginning of a thread whose older boundaries retention has removed."""

    number: int
    """The number of the snapshot that stands for all events before it."""
    turn: int
    """The first boundary that is left."""
    time: float = 0.0
    """When that boundary was reached, in seconds since 1970."""


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
    """The beginning of the first message."""
    created: float = 0.0
    updated: float = 0.0
    """Seconds since 1970."""
    bytes_raw: int = 0
    bytes_stored: int = 0
    """Bytes of all that was appended, before and after compression; the latter less what was merged or removed."""
    snapshot: int = 0
    """The number of the main run's newest snapshot, or 0."""
    truncation: Truncation | None = None
    tags: dict[str, str] = {}
    """Those of the last turn that had any."""


class RunRow(Struct, frozen=True, array_like=True):
    """A run below the main one."""

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
    bytes_raw: int = 0
    bytes_stored: int = 0
    snapshot: int = 0
    """The number of its newest snapshot, or 0."""
    cost: float | None = None
    unknown: int = 0
    unpriced: int = 0


class KeyRow(Struct, frozen=True, array_like=True):
    """An input that was accepted under a key."""

    number: int
    """The number of its event."""
    digest: bytes
    """Of the message as it is saved: another one under the same key is refused."""
    epoch: bytes = b""
    """Of the thread's head: an earlier version deletes a thread without its keys, and another may begin under its
    id.
    """


MAX_NUMBER = 2**53
"""No count or time of a head or a run row comes near it; a larger one is forged, and adding to it could overflow."""
JUMP = 2**20
"""A thread that was cut short goes on at the next multiple: an idempotency key must never stand for two calls."""
ENCRYPTED = b"\xc1e1"
"""The beginning of every row of an `EncryptedCheckpointer`. MessagePack never uses its first byte."""
_head_decoder = msgspec.msgpack.Decoder(Head)
_run_decoder = msgspec.msgpack.Decoder(RunRow)
_key_decoder = msgspec.msgpack.Decoder(KeyRow)
SEALED = ("base", "log")
KINDS = (*SEALED, "run", "use", "key", "mark")
"""The kinds of rows whose keys continue with the thread."""


_PLAIN = frozenset(f"{ascii_letters}{digits}_.-~")


def quoted(name: str) -> str:
    """Return *name* percent-encoded, as `urllib.parse.quote` does, whose import takes longer than this module's.

    Slashes and commas too: in an id, they would put its rows among those of another thread or run.
    """
    if _PLAIN.issuperset(name):
        return name
    return "".join([char if (char := chr(byte)) in _PLAIN else f"%{byte:02X}" for byte in name.encode()])


def unquoted(text: str) -> str:
    """Return the name that `quoted` made *text* of."""
    if "%" not in text:
        return text
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), text.encode())
    return raw.decode(errors="replace")


def after_a_gap(number: int) -> int:
    """Return the number to go on from in a thread of which the store does not know all events: another process that
    continues it from there must not use the same ones.
    """
    return (number // JUMP + 1 + int.from_bytes(os.urandom(8), "big") % JUMP) * JUMP


@lru_cache(maxsize=1024)  # Each turn asks for them several times.
def head_key(thread_id: str) -> str:
    return f"head/{quoted(thread_id)}"


@lru_cache(maxsize=1024)
def thread_prefix(kind: str, thread_id: str) -> str:
    """Return the beginning of the keys of a thread's rows of one kind."""
    return f"{kind}/{quoted(thread_id)}/"


@lru_cache(maxsize=1024)
def log_prefix(thread_id: str, path: Path) -> str:
    """Return the beginning of the keys of a run's segments; an event number follows, as text that sorts like one."""
    return f"{thread_prefix('log', thread_id)}{_path_key(path)}/"


def segments_from(thread_id: str, path: Path, first: int) -> str:
    """Return where the keys start of the segments that begin with the event *first* or later."""
    return f"{log_prefix(thread_id, path)}{first:016d}"  # Padded: keys sort as text.


def segment_key(thread_id: str, path: Path, first: int, last: int) -> str:
    return f"{segments_from(thread_id, path, first)}-{last:016d}"


def merged_key(key: str, last: int) -> str:
    """Return the key of the segment that begins like the one under *key* and ends with the event *last*."""
    prefix, _, numbers = key.rpartition("/")
    return f"{prefix}/{numbers.partition('-')[0]}-{last:016d}"


def snapshot_prefix(thread_id: str, path: Path) -> str:
    return f"{thread_prefix('base', thread_id)}{_path_key(path)}/"


def snapshot_key(thread_id: str, path: Path, number: int) -> str:
    return f"{snapshot_prefix(thread_id, path)}{number:016d}"


def run_key(thread_id: str, path: Path) -> str:
    return thread_prefix("run", thread_id) + _path_key(path)


def input_key(thread_id: str, key: str) -> str:
    return thread_prefix("key", thread_id) + quoted(key)


def blob_key(name: str) -> str:
    return f"blob/{name}"


def reference_rows(thread_id: str, name: str) -> dict[str, bytes]:
    """Return the two rows that say that a thread refers to a blob: one to find it by thread, one by blob."""
    return {f"{thread_prefix('use', thread_id)}{name}": b"", f"ref/{name}/{quoted(thread_id)}": b""}


def lock_name(thread_id: str, purpose: str) -> str:
    """Return the name of a lock beside the thread's own: longer than the 500 characters that a thread id may have, so
    that it is never the name of a thread.
    """
    return f"{thread_id}/{purpose}".ljust(501, "~")


def thread_of(key: str) -> str:
    """Return the thread of the row under *key*, which is of any kind but `ref` and `blob`."""
    return unquoted(key.split("/")[1])


def run_path(key: str) -> Path:
    """Return the path of the run that the row under *key* belongs to."""
    return tuple(unquoted(part) for part in key.rpartition("/")[2].split(","))


def after(prefix: str) -> str:
    """Return the first key behind all that begin with *prefix*, which ends in `/`."""
    return prefix[:-1] + "0"  # Which follows "/" in ASCII.


def read_head(thread_id: str, data: bytes) -> Head:
    """Decode a head row.

    Raises:
        CorruptSegment: it was damaged, or is encrypted.
        UnknownVersion: a newer version wrote it.
    """
    if data.startswith(ENCRYPTED):
        raise CorruptSegment(f"thread {thread_id!r} is encrypted; open its store with EncryptedCheckpointer")
    head = decoded(_head_decoder.decode, data, f"the head of thread {thread_id!r}")
    if head.format[0] != FORMAT[0] or head.format > FORMAT:
        raise UnknownVersion(f"thread {thread_id!r} has format {head.format}, this version reads {FORMAT}")
    if not (_in_range(head) and 0 <= head.last <= head.number and head.turn >= 0):
        raise CorruptSegment(f"the head of thread {thread_id!r} holds numbers that no append wrote")
    return head


def read_run_row(key: str, data: bytes) -> RunRow:
    """Decode the row of a run.

    Raises:
        CorruptSegment: it was damaged.
    """
    row = decoded(_run_decoder.decode, data, f"row {key!r}")
    if not (_in_range(row) and 0 <= row.first <= row.last):
        raise CorruptSegment(f"row {key!r} holds numbers that no append wrote")
    return row


def read_key_row(key: str, data: bytes) -> KeyRow:
    """Decode the row of an input's key.

    Raises:
        CorruptSegment: it was damaged.
    """
    row = decoded(_key_decoder.decode, data, f"row {key!r}")
    if not 0 < row.number < MAX_NUMBER:
        raise CorruptSegment(f"row {key!r} holds numbers that no append wrote")
    return row


def _in_range(row: Head | RunRow) -> bool:
    # The sum of tokens may honestly be larger: it is cut off where it is written, and never added to.
    counts = [value for name, value in structs.asdict(row).items() if isinstance(value, int) and name != "tokens"]
    return all(-MAX_NUMBER < number < MAX_NUMBER for number in (*counts, row.created, row.updated))


def _path_key(path: Path) -> str:
    return ",".join(quoted(part) for part in path)
