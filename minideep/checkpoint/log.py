"""`Log`: a thread as the store has it."""

from msgspec import Struct

from ..state import Path
from .format import Header
from .layout import Head, RunRow
from .store import CheckedStore

TAIL_SIZE = 2 * 1024
"""Bytes of events below which the next append goes on with a segment: every small one costs a row, an entry of the
index, a header, and most of what compression gains.
"""


class Log(Struct, frozen=True):
    """A thread as the store has it: the rows that lead to all others."""

    store: CheckedStore
    thread_id: str
    head_row: bytes | None
    """The head as it is stored, byte for byte, as an append compares it; None of a thread that was never saved."""
    head: Head
    runs: dict[Path, RunRow]
    """Every run below the main one."""

    def last(self, path: Path) -> int:
        """Return the number of the run's last event, or 0."""
        if not path:
            return self.head.last
        return self.runs[path].last if path in self.runs else 0

    def newest_snapshot(self, path: Path) -> int:
        """Return the number of the run's newest snapshot, or 0."""
        if not path:
            return self.head.snapshot
        return self.runs[path].snapshot if path in self.runs else 0


class SegmentRef(Struct, frozen=True):
    """A stored segment, as the merging of small ones sees it."""

    key: str
    bytes_raw: int
    last: int = 0
    """The number of its last event."""


class Tail(Struct, frozen=True):
    """The last segment of the main run, while it is small: the next append replaces it by one that goes on with it."""

    key: str
    header: Header
    events: list[bytes]
    stored: int
    """The bytes of its row."""

    @property
    def ref(self) -> SegmentRef:
        return SegmentRef(self.key, self.header.bytes_raw, self.header.last)


def is_open(header: Header) -> bool:
    """Return whether the next append may go on with a segment. A blob goes with the last segment that names it, so one
    that names any is left alone: retention would keep its blob for the events of later turns.
    """
    return header.bytes_raw < TAIL_SIZE and not header.blobs
