"""`Segments`: those of a thread that something will replace, the last one by the next append, small ones by merges."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..state import Path
from .log import SegmentRef, Tail

if TYPE_CHECKING:
    from .merge_queue import MergeQueue


class Segments:
    """The segments of a thread in memory that something will replace."""

    def __init__(self) -> None:
        self.tail: Tail | None = None
        """The main run's last segment while it grows. It is not merged then: an append would find its row gone."""
        self.merges: list[list[str]] = []
        """The merges that are due, each as the keys of its segments."""
        self.reclaimed: list[int] = []
        """Bytes that each merge since the last append has saved."""
        self._queues: dict[Path, MergeQueue] = {}

    def tail_from(self, base: int) -> Tail | None:
        """Return the tail, if the times of its events count from *base*: not after a clock that went back."""
        return self.tail if self.tail is not None and self.tail.header.base == base else None

    def add(
        self,
        path: Path,
        refs: list[SegmentRef],
        tail: Tail | None = None,
        replaced: Tail | None = None,
        *,
        closes: bool = False,
    ) -> None:
        """Take the next segments of a run. Of the main run the last one is the new *tail*, unless None, and the first
        one *replaced* the old one, unless None. *closes* says that a snapshot stands behind them.
        """
        if not path:
            refs = [self.tail.ref, *refs] if self.tail is not None and replaced is None else refs
            self.tail = tail
        for ref in refs[:-1] if tail else refs:
            if path not in self._queues:
                from .merge_queue import MergeQueue  # The one segment of a short thread still grows.

                self._queues[path] = MergeQueue()
            self._queues[path].add(ref, closes=closes and ref is refs[-1])

    def plan(self, over: Callable[[Path], bool]) -> None:
        """Note the merges that are due now; of the runs that are *over* also those of a few small segments."""
        for path, queue in self._queues.items():
            self.merges += ([ref.key for ref in group] for group in queue.take(over=over(path)))

    def keep(self, paths: Iterable[Path]) -> None:
        """Forget the segments of all runs but those at *paths*."""
        self._queues = {path: self._queues[path] for path in paths if path in self._queues}
