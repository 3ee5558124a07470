"""Small segments joined into blocks, behind the answer's back."""

from collections.abc import Iterable, Sequence

from ..errors import ThreadConflict
from ..ports import Store
from . import format as codec, layout as names
from .log import SegmentRef
from .store import UPKEEP_PATIENCE

BLOCK = 256 * 1024
"""Bytes of events, before compression, at which a block is full."""
MANY = 32
"""Segments of a kind that are joined though they fill no block: crumbs take more room than what is in them."""
CRUMBS = 8
"""The same, of a run that is over."""
TRIES = 100


class MergeQueue:
    """The newest segments of a run, as they come: those that are to be joined, and those that wait for more.

    They are joined when they fill a block together, or when there are many: these wait on as one, of a larger kind,
    for many of the same kind or for a full block. A segment that would fill a block is one. No block reaches over a
    base, so that whoever begins with the base finds a segment that begins behind it.
    """

    def __init__(self, pieces: Iterable[SegmentRef] = ()) -> None:
        self._groups: list[list[SegmentRef]] = []
        self._open: list[tuple[SegmentRef, int]] = []
        self._size = 0
        for piece in pieces:
            self.add(piece)

    def add(self, piece: SegmentRef, kind: int = 0) -> None:
        large = piece.raw >= BLOCK
        if not large:
            self._open.append((piece, kind))
            self._size += piece.raw
        if large or piece.closes or self._size >= BLOCK:
            self._close()
        elif len(self._open) >= MANY and self._open[-MANY][1] == kind:
            self._join_last(MANY, kind)

    def take(self, *, over: bool) -> list[list[SegmentRef]]:
        """The groups that are to be joined now, one after the other; of a run that is *over* also crumbs that wait."""
        if over and len(self._open) >= CRUMBS:
            self._close()
        groups, self._groups = self._groups, []
        return groups

    def _join_last(self, count: int, kind: int) -> None:
        group = [piece for piece, _ in self._open[-count:]]
        del self._open[-count:]
        raw = sum(piece.raw for piece in group)
        self._groups.append(group)
        self._size -= raw
        last = group[-1].last
        self.add(SegmentRef(names.joined_key(group[0].key, last), raw, last), kind + 1)

    def _close(self) -> None:
        if len(self._open) > 1:
            self._groups.append([piece for piece, _ in self._open])
        self._open, self._size = [], 0


def join(store: Store, thread_id: str, keys: Sequence[str]) -> int:
    """Put one block in the place of the segments under *keys*, which follow each other; returns the bytes gained.

    Appends may happen meanwhile: the head is left as it is, and what is read stays what it was. A key says which events
    a segment holds: if another process has joined or cut some of them, it is not there, and nothing is done.
    """
    stored = store.head(thread_id)
    found = store.rows(keys[0], keys[-1] + "\0")
    if stored is None or [key for key, _ in found] != list(keys):
        return 0
    block = codec.join(found)
    epoch = names.read_head(thread_id, stored).epoch
    key = names.joined_key(keys[0], codec.read_header(block, keys[0]).last)
    for _ in range(TRIES):
        stored = store.head(thread_id)
        if stored is None or names.read_head(thread_id, stored).epoch != epoch:
            return 0
        try:
            store.append(thread_id, stored, stored, {key: block}, keys, timeout=UPKEEP_PATIENCE)
        except ThreadConflict:
            continue
        return sum(len(data) for _, data in found) - len(block)
    return 0
