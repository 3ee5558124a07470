"""A store that lives as long as the program: for tests, scripts, and agents that were given none."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from threading import Lock

from ..errors import ThreadConflict


class MemoryCheckpointer:
    """Keeps threads in memory, as the same bytes that a disk would hold. Any number of agents may share one."""

    executor = None

    def __init__(self) -> None:
        self._heads: dict[str, bytes] = {}
        self._rows: dict[str, bytes] = {}
        self._keys: list[str] = []
        self._lock = Lock()

    def head(self, thread: str) -> bytes | None:
        return self._heads.get(thread)

    def append(
        self, thread: str, expected: bytes | None, head: bytes, rows: dict[str, bytes], deletes: Iterable[str] = ()
    ) -> None:
        with self._lock:
            if self._heads.get(thread) != expected:
                raise ThreadConflict(f"thread {thread!r} was appended to by another writer; run it again")
            self._heads[thread] = head
            for key in deletes:
                if self._rows.pop(key, None) is not None:
                    del self._keys[bisect_left(self._keys, key)]
            for key, value in rows.items():
                if key not in self._rows:
                    insort(self._keys, key)
                self._rows[key] = value

    def rows(self, start: str, stop: str) -> list[tuple[str, bytes]]:
        with self._lock:
            keys = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, stop)]
            return [(key, self._rows[key]) for key in keys]

    def heads(self) -> list[tuple[str, bytes]]:
        with self._lock:
            return sorted(self._heads.items())

    def close(self) -> None:
        """There is nothing to let go of."""
