"""Which segments are replaced: the last one by the next append, and small ones by merges."""

from collections.abc import Callable, Iterable

from ..state import Path
from .layout import merged_key
from .log import SegmentRef, Tail

BLOCK = 256 * 1024
"""Bytes of events, before compression, at which a segment is large enough."""
MANY = 32
"""Segments of a kind that are merged though they do not fill a block: small ones take more room than their events."""
CRUMBS = 8
"""The same, for a run that is over."""


class MergeQueue:
    """The newest segments of a run, in order: those that are to be merged, and those that wait for more.

    Segments are merged when together they fill a block, or when there are many: the result waits as one of a larger
    kind, for many of that kind or for a full block. So every byte is rewritten about once. No block reaches over a
    snapshot: a reader that starts from the snapshot finds a segment that begins behind it.
    """

    def __init__(self, refs: Iterable[SegmentRef] = ()) -> None:
        self._groups: list[list[SegmentRef]] = []
        self._open: list[tuple[SegmentRef, int]] = []
        self._size = 0
        for ref in refs:
            self.add(ref)

    def add(self, ref: SegmentRef, kind: int = 0, *, closes: bool = False) -> None:
        """Add the next segment of the run; *closes* says that a snapshot stands behind it."""
        large = ref.bytes_raw >= BLOCK  # It is a block already: merging would rewrite it for nothing.
        if not large:
            self._open.append((ref, kind))
            self._size += ref.bytes_raw
        if large or closes or self._size >= BLOCK:
            self._close()
        elif len(self._open) >= MANY and self._open[-MANY][1] == kind:
            # Only those of one kind: a large one merged with small ones would be rewritten again and again.
            self._merge_last(MANY, kind)

    def take(self, *, over: bool) -> list[list[SegmentRef]]:
        """Remove and return the groups to merge now, one after the other; of a run that is *over* also a few crumbs."""
        if over and len(self._open) >= CRUMBS:
            self._close()
        groups, self._groups = self._groups, []
        return groups

    def _merge_last(self, count: int, kind: int) -> None:
        group = [ref for ref, _ in self._open[-count:]]
        del self._open[-count:]
        size, last = sum(ref.bytes_raw for ref in group), group[-1].last
        self._groups.append(group)
        self._size -= size
        self.add(SegmentRef(merged_key(group[0].key, last), size, last), kind + 1)

    def _close(self) -> None:
        if len(self._open) > 1:  # One alone is merged already.
            self._groups.append([ref for ref, _ in self._open])
        self._open, self._size = [], 0


class Segments:
    """The segments of a thread in memory that something will replace."""

    def __init__(self) -> None:
        self.tail: Tail | None = None
        """The main run's last segment, while it is small. It is not merged before it has grown: an append that goes on
        with it would find its row gone.
        """
        self.reclaimed: list[int] = []
        """Bytes that each merge since the last append has saved."""
        self._queues: dict[Path, MergeQueue] = {}
        self._merges: list[list[str]] = []

    def opened(self, path: Path, refs: list[SegmentRef], tail: Tail | None = None) -> None:
        """Take the segments of a run as the store has them; the last of those of the main run may be a *tail*."""
        if not path:
            self.tail = tail
        self._queues[path] = MergeQueue(refs[:-1] if tail else refs)

    def tail_from(self, base: int) -> Tail | None:
        """Return the tail, if the times of its events count from *base*: not after a clock that went back."""
        return self.tail if self.tail is not None and self.tail.header.base == base else None

    def landed(
        self, path: Path, refs: list[SegmentRef], tail: Tail | None, replaced: Tail | None, *, closes: bool
    ) -> None:
        """Take the segments that an append has added to a run: the first of them *replaced* the tail, unless None, and
        the last one is the next *tail*, unless None. *closes* says that a snapshot stands behind them.
        """
        if not path:
            if self.tail is not None and replaced is None:
                refs = [self.tail.ref, *refs]
            self.tail = tail
        queue = self._queues.get(path) or self._queues.setdefault(path, MergeQueue())
        for ref in refs[:-1] if tail else refs:
            queue.add(ref, closes=closes and ref is refs[-1])

    def keep(self, paths: Iterable[Path]) -> None:
        """Forget the segments of all runs but those at *paths*."""
        self._queues = {path: self._queues[path] for path in paths if path in self._queues}

    def plan(self, over: Callable[[Path], bool]) -> None:
        """Note the merges that are due now; of the runs that are *over* also those of a few small segments."""
        for path, queue in self._queues.items():
            self._merges += ([ref.key for ref in group] for group in queue.take(over=over(path)))

    def take_merges(self) -> list[list[str]]:
        """Remove and return the merges that are due, each as the keys of its segments."""
        merges, self._merges = self._merges, []
        return merges
