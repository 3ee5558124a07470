"""`MemoryCheckpointer`: a store that lives as long as its object, for tests, scripts, and agents without another."""

import sys
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ..checks import checked
from ..errors import ThreadConflict
from ..ports import Range, Retention
from .adapter import Threaded
from .atfork import AtRest
from .layout import head_key
from .store import open_store
from .sync_store import Space

if TYPE_CHECKING:
    from .verify import Damage


class _Held(AtRest):
    """The locks that are held, none of them in a forked process, and the lock on all that a store has."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[tuple[Space, str]] = set()

    def reset(self) -> None:
        self.names.clear()


class MemoryRows:
    """The rows and locks of a `MemoryCheckpointer`: its `SyncStore`."""

    inline: int = sys.maxsize  # Nothing here waits for a disk.

    def __init__(self, retention: Retention) -> None:
        self.retention = retention
        self._rows: dict[str, bytes] = {}
        # Sorted: a range costs what it holds, not what the store holds.
        self._keys: list[str] = []
        self._held = _Held()
        self._lock = self._held.lock

    def read(self, *ranges: Range) -> list[list[tuple[str, bytes]]]:
        # Rows of one moment: an append on another thread must not be seen half.
        with self._lock:
            return [self._range(one) for one in ranges]

    def append(
        self,
        thread: str,
        expected: bytes | None,
        head: bytes | None,
        rows: Mapping[str, bytes],
        deletes: Iterable[str] = (),
        *,
        check: Callable[[], None] | None = None,
        timeout: float = 0.0,
    ) -> None:
        at, gone = head_key(thread), set(deletes)
        with self._lock:
            # Everything is checked before anything is changed: there is no rollback here.
            if check is not None:
                check()
            if self._rows.get(at) != expected or not gone <= self._rows.keys():
                raise ThreadConflict(f"thread {thread!r} was changed by another writer; run it again")
            for key in gone:
                self._remove(key)
            for key, value in rows.items():
                if not (key.startswith("blob/") and key in self._rows):
                    self._put(key, value)
            if head is not None:
                self._put(at, head)
            else:
                self._remove(at)
            for name in {key.split("/")[1] for key in gone if key.startswith("ref/")}:
                if not self._between(f"ref/{name}/", f"ref/{name}0"):  # Nobody refers to it any more.
                    self._remove(f"blob/{name}")

    def hold(self, space: Space, thread: str) -> bool:
        with self._lock:
            free = (space, thread) not in self._held.names
            self._held.names.add((space, thread))
            return free

    def release(self, space: Space, thread: str) -> None:
        with self._lock:
            self._held.names.discard((space, thread))

    def is_held(self, space: Space, thread: str) -> bool:
        return (space, thread) in self._held.names

    def size(self) -> int:
        """Return the bytes of all keys and values."""
        with self._lock:
            return sum(len(key) + len(value) for key, value in self._rows.items())

    def close(self) -> None:
        """Do nothing: the rows live as long as their object."""

    def _range(self, one: Range) -> list[tuple[str, bytes]]:
        if one.stop is None:
            value = self._rows.get(one.start)
            return [] if value is None else [(one.start, value)]
        keys = self._between(one.start, one.stop)
        if one.reverse:
            keys.reverse()
        return [(key, self._rows[key]) for key in keys[: one.limit]]

    def _between(self, start: str, stop: str) -> list[str]:
        return self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, stop)]

    def _put(self, key: str, value: bytes) -> None:
        if key not in self._rows:
            insort(self._keys, key)
        self._rows[key] = value

    def _remove(self, key: str) -> None:
        if self._rows.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]


class MemoryCheckpointer(Threaded):
    """Keeps threads in memory, as the same bytes that would be on a disk. Any number of agents may share one."""

    @checked
    def __init__(self, *, retention: Retention | None = None) -> None:
        self.plain: MemoryRows
        super().__init__(MemoryRows(retention or Retention()))

    def __enter__(self) -> "MemoryCheckpointer":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def size(self) -> int:
        """Return the bytes of all keys and values."""
        return self.plain.size()

    def verify(self) -> "list[Damage]":
        """Read every row and fold every run; return the damage, or an empty list."""
        from .verify import verify  # Seldom needed.

        return verify(open_store(self))
