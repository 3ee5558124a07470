"""`Log`: a thread as the store has it."""

from msgspec import Struct

from ..state import Path
from .layout import Head, RunRow
from .store import CheckedStore


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
