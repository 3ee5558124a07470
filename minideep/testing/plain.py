"""`PlainStore`: the methods of a store without `await`, for tests."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from ..checkpoint import finish_work, head_key, wait_for
from ..errors import ThreadBusy
from ..ports import Lease, Opened, Purpose, Range, Store

T = TypeVar("T")


class PlainStore:
    """A store as plain code sees it. Its methods may be called on any OS thread, also at the same time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._leases: dict[str, Lease] = {}

    def __enter__(self) -> "PlainStore":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def wait_for(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the coroutine that *act* makes, which awaits the store."""
        return wait_for(self.store, act)

    def read(self, *ranges: Range) -> list[list[tuple[str, bytes]]]:
        return self.wait_for(lambda: self.store.read(*ranges))

    def get(self, key: str) -> bytes | None:
        """Return the row under *key*, or None."""
        found = self.read(Range(key))[0]
        return found[0][1] if found else None

    def head(self, thread: str) -> bytes | None:
        return self.get(head_key(thread))

    def rows(self, start: str = "", stop: str = "~") -> list[tuple[str, bytes]]:
        return self.read(Range(start, stop))[0]

    def keys(self, start: str = "", stop: str = "~") -> list[str]:
        return [key for key, _ in self.read(Range(start, stop, values=False))[0]]

    def heads(self, after: str = "", limit: int = 100) -> list[tuple[str, bytes]]:
        return self.wait_for(lambda: self.store.heads(after, limit))

    def append(
        self,
        thread: str,
        expected: bytes | None,
        head: bytes | None,
        rows: Mapping[str, bytes],
        deletes: Iterable[str] = (),
        *,
        lease: Lease | None = None,
        release: bool = False,
    ) -> None:
        how: Any = {"lease": lease, "release": release} if lease is not None or release else {}
        self.wait_for(lambda: self.store.append(thread, expected, head, rows, deletes, **how))

    def open(self, thread: str, *, wait: float = 0.0, purpose: Purpose = "turn") -> Opened | None:
        return self.wait_for(lambda: self.store.open(thread, wait=wait, purpose=purpose))

    def opened(self, thread: str) -> Opened:
        """`open` a thread that nobody has.

        Raises:
            ThreadBusy: somebody has it.
        """
        opened = self.open(thread)
        if opened is None:
            raise ThreadBusy(f"thread {thread!r} cannot be opened: somebody has it")
        return opened

    def hold(self, thread: str) -> bool:
        """`open` a thread until `release` is called; return whether nobody had it."""
        opened = self.open(thread)
        if opened is not None:
            self._leases[thread] = opened.lease
        return opened is not None

    def release(self, thread: str) -> None:
        self._leases.pop(thread).release()

    def held(self, thread: str) -> bool:
        return self.wait_for(lambda: self.store.held(thread))

    def close(self) -> None:
        finish_work(self.store)
        self.wait_for(self.store.aclose)
