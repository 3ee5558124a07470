"""`MemoryCheckpointer`: a store that lives as long as its object, for tests, scripts, and agents without another."""

import sys
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ..checks import checked
from ..errors import ThreadConflict
from ..ports import Retention
from .atfork import AtRest
from .layout import head_key
from .store import open_store
from .worker import Worker

if TYPE_CHECKING:
    from .verify import Damage


class _Held(AtRest):
    """The names that are held, none of them in a forked process, and the lock on all that a store has."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def reset(self) -> None:
        self.names.clear()


class MemoryCheckpointer:
    """Keeps threads in memory, as the same bytes that would be on a disk. Any number of agents may share one."""

    inline = sys.maxsize  # Nothing here waits for a disk.

    @checked
    def __init__(self, *, retention: Retention | None = None) -> None:
        self.retention = retention or Retention()
        self._rows: dict[str, bytes] = {}
        # Sorted: a range costs what it holds, not what the store holds.
        self._keys: list[str] = []
        self._held = _Held()
        self._lock = self._held.lock
        self._worker = Worker()

    def __enter__(self) -> "MemoryCheckpointer":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def executor(self) -> Executor:
        return self._worker.executor

    def head(self, thread: str) -> bytes | None:
        return self.get(head_key(thread))

    def get(self, key: str) -> bytes | None:
        return self._rows.get(key)

    def rows(self, start: str, stop: str) -> list[tuple[str, bytes]]:
        # Rows of one moment: an append on another thread must not be seen half.
        with self._lock:
            return [(key, self._rows[key]) for key in self._between(start, stop)]

    def keys(self, start: str, stop: str) -> list[str]:
        with self._lock:
            return self._between(start, stop)

    def append(
        self,
        thread: str,
        expected: bytes | None,
        head: bytes | None,
        rows: Mapping[str, bytes],
        deletes: Iterable[str] = (),
        *,
        timeout: float = 0.0,
    ) -> None:
        at, gone = head_key(thread), set(deletes)
        with self._lock:
            # Everything is checked before anything is changed: there is no rollback here.
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

    def hold(self, thread: str) -> bool:
        with self._lock:
            free = thread not in self._held.names
            self._held.names.add(thread)
            return free

    def held(self, thread: str) -> bool:
        return thread in self._held.names

    def release(self, thread: str) -> None:
        with self._lock:
            self._held.names.discard(thread)

    def size(self) -> int:
        with self._lock:
            return sum(len(key) + len(value) for key, value in self._rows.items())

    def verify(self) -> "list[Damage]":
        """Read every row and fold every run; return the damage, or an empty list."""
        from .verify import verify  # Seldom needed.

        return verify(open_store(self))

    def close(self) -> None:
        self._worker.finish()

    def _between(self, start: str, stop: str) -> list[str]:
        return self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, stop)]

    def _put(self, key: str, value: bytes) -> None:
        if key not in self._rows:
            insort(self._keys, key)
        self._rows[key] = value

    def _remove(self, key: str) -> None:
        if self._rows.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]
