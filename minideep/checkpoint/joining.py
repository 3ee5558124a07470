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


def groups(pieces: Iterable[Piece], *, over: bool) -> tuple[list[list[Piece]], list[Piece]]:
    """What is to be joined of a run's newest segments, and what is left to wait for more; not much if it is *over*.

    A segment that would fill a block is one. No block reaches over a base, so that whoever begins with the base finds
    a segment that begins behind it.
    """
    done: list[list[Piece]] = []
    group: list[Piece] = []
    for piece in pieces:
        if piece.raw >= BLOCK:
            done.append(group)
            group = []
            continue
        group.append(piece)
        if piece.closes or sum(one.raw for one in group) >= BLOCK:
            done.append(group)
            group = []
    if over and len(group) >= MANY:
        done.append(group)
        group = []
    return [whole for whole in done if len(whole) > 1], group


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
