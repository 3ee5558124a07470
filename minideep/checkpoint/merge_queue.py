"""`MergeQueue`: which small segments of a run are to be merged into larger ones."""

from collections.abc import Iterable

from .layout import merged_key
from .log import SegmentRef

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
