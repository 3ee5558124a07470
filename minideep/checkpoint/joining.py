"""Small segments joined into blocks, behind the answer's back: every byte is written about twice, and no turn waits."""

from collections.abc import Iterable, Sequence

from .. import codec
from ..errors import ThreadConflict
from ..ports import Store
from . import rows as names
from .reading import PATIENCE, Piece

BLOCK = 256 * 1024
"""Bytes of events, before compression, at which a block is full."""
MANY = 8
"""Segments of a run that is over that are worth a block, however small they are."""
TRIES = 100


class Tail:
    """The newest segments of a run, as they come: those that are full together, and those that wait for more.

    A segment that would fill a block is one. No block reaches over a base, so that whoever begins with the base finds
    a segment that begins behind it.
    """

    def __init__(self, pieces: Iterable[Piece] = ()) -> None:
        self._full: list[list[Piece]] = []
        self._open: list[Piece] = []
        self._size = 0
        for piece in pieces:
            self.add(piece)

    def add(self, piece: Piece) -> None:
        large = piece.raw >= BLOCK
        if not large:
            self._open.append(piece)
            self._size += piece.raw
        if large or piece.closes or self._size >= BLOCK:
            self._close()

    def take(self, *, over: bool) -> list[list[Piece]]:
        """The groups that are to be joined now; of a run that is *over* also what waits, if it is many."""
        if over and len(self._open) >= MANY:
            self._close()
        full, self._full = self._full, []
        return full

    def _close(self) -> None:
        if len(self._open) > 1:
            self._full.append(self._open)
        self._open, self._size = [], 0


def join(store: Store, thread_id: str, keys: Sequence[str]) -> int:
    """Put one block in the place of the segments under *keys*, which follow each other; returns the bytes gained.

    Appends may happen meanwhile: the head is left as it is, and what is read stays what it was. If another process
    has joined some of them, or the thread is gone, nothing is done.
    """
    stored = store.head(thread_id)
    found = store.rows(keys[0], keys[-1] + "\0")
    if stored is None or [key for key, _ in found] != list(keys):
        return 0
    block = codec.join(found)
    epoch = names.read_head(thread_id, stored).epoch
    for _ in range(TRIES):
        stored = store.head(thread_id)
        if stored is None or names.read_head(thread_id, stored).epoch != epoch:
            return 0
        try:
            store.append(thread_id, stored, stored, {keys[0]: block}, keys, patience=PATIENCE)
        except ThreadConflict:
            continue
        return sum(len(data) for _, data in found) - len(block)
    return 0
