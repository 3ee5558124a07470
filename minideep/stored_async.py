"""The readers of `StoredThreads` for coroutines: the same, without blocking the event loop."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from msgspec import Meta

from .checks import checked
from .messages import Message
from .state import BoundaryNumber, Path, State, Status, ThreadId, ThreadPrefix
from .stored import StoredThreads

if TYPE_CHECKING:
    from .checkpoint import Boundary, Difference, RunInfo, ThreadInfo

T = TypeVar("T")


@checked
class AsyncStoredThreads(StoredThreads):
    """The part of `Agent` that reads threads without blocking the event loop."""

    async def aget_state(
        self, thread_id: ThreadId, *, subagents: bool = False, at: BoundaryNumber | None = None,
        after: Annotated[int, Meta(ge=1)] | None = None,
    ) -> State:  # fmt: skip
        """Return what `get_state` returns."""
        return await self._read(lambda: self.get_state(thread_id, subagents=subagents, at=at, after=after))

    async def ahistory(self, thread_id: ThreadId, call_id: str | Path | None = None) -> "list[Boundary]":
        """Return what `history` returns."""
        return await self._read(lambda: self.history(thread_id, call_id))

    async def atranscript(self, thread_id: ThreadId, call_id: str | Path | None = None) -> list[Message]:
        """Return what `transcript` returns."""
        return await self._read(lambda: self.transcript(thread_id, call_id))

    async def aruns(self, thread_id: ThreadId) -> "list[RunInfo]":
        """Return what `runs` returns."""
        return await self._read(lambda: self.runs(thread_id))

    async def adiff(self, thread_id: ThreadId, a: BoundaryNumber, b: BoundaryNumber) -> "Difference":
        """Return what `diff` returns."""
        return await self._read(lambda: self.diff(thread_id, a, b))

    async def aread_file(
        self, thread_id: ThreadId, file: str, *, at: BoundaryNumber | None = None
    ) -> str | bytes | None:
        """Return what `read_file` returns."""
        return await self._read(lambda: self.read_file(thread_id, file, at=at))

    async def aexport(self, thread_id: ThreadId) -> list[str]:
        """Return what `export` returns."""
        return await self._read(lambda: self.export(thread_id))

    async def athreads(
        self, *, prefix: ThreadPrefix = "", limit: Annotated[int, Meta(ge=0)] | None = None,
        status: Status | Literal["damaged"] | None = None, tags: Mapping[str, str] | None = None,
    ) -> "list[ThreadInfo]":  # fmt: skip
        """Return what `threads` returns."""
        return await self._read(lambda: self.threads(prefix=prefix, limit=limit, status=status, tags=tags))

    async def _read(self, read: Callable[[], T]) -> T:
        store: Any = self._store
        return await store.off_loop(read)
