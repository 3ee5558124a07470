"""Room: how many items of a list fit into the space that a model is shown."""

from collections.abc import Iterable
from itertools import accumulate, takewhile


def fitting(sizes: Iterable[float], room: float) -> int:
    """Return how many items of these *sizes* fit into *room*, taken from the first on.

    >>> fitting([4, 3, 2], room=8)
    2
    """
    return sum(1 for _ in takewhile(lambda used: used <= room, accumulate(sizes)))
