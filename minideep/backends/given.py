"""Files that a person gives: written all, or not at all."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..context import ToolContext
from ..errors import ToolError
from ..ports import Backend
from ..workers import in_thread
from .names import quoted
from .paths import MAX_FILE, Missing, normalized
from .text import encode

MAX_FILES = 50_000_000
"""The most bytes of all files that are given at once."""


async def write_given(
    ctx: ToolContext, backend: Backend, files: Mapping[str, str | bytes], record: Callable[[str, bytes, bool], None]
) -> None:
    """Write *files* to *backend*, and call *record* for each: its path, its content, and whether the state keeps it.

    If one is refused, or the caller is cancelled, files that were written are put back as they were. Those that the
    state keeps are taken back with the events that *record* recorded.

    Raises:
        ToolError: a name or a content is refused.
    """
    contents = _checked(files, backend.home)
    writing, complete = Writing(ctx, backend), False
    try:
        for path, data in contents.items():
            record(path, data, await _call(backend, writing.write, path, data))
        complete = True
    finally:
        if not complete:
            await _call(backend, writing.undo)


class Writing:
    """Writes files one after the other, and remembers what was there before."""

    def __init__(self, ctx: ToolContext, backend: Backend) -> None:
        self._ctx, self._backend = ctx, backend
        self._before: list[tuple[str, bytes | None]] = []
        # A caller who is cancelled leaves a write behind on its thread: undoing waits for that.
        self._lock, self._undone = threading.Lock(), False

    def write(self, path: str, data: bytes) -> bool:
        """Write one file, unless all were undone meanwhile. Return whether the state keeps it."""
        with self._lock:
            if self._undone:
                return False
            try:
                before = self._backend.read(self._ctx, path)
            except Missing:
                before = None
            kept = self._backend.write(self._ctx, path, data)
            if not kept:
                self._before.append((path, before))
            return kept

    def undo(self) -> None:
        """Put back what was there before, the last file first."""
        with self._lock:
            self._undone = True
            for path, before in reversed(self._before):
                if before is None:
                    self._backend.delete(self._ctx, path)
                else:
                    self._backend.write(self._ctx, path, before)


async def _call(backend: Backend, work: Callable[..., Any], *args: object) -> Any:
    return await in_thread(work, *args) if backend.blocking else work(*args)


def _checked(files: Mapping[str, str | bytes], home: str) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for name, content in files.items():
        path = normalized(name, home)
        if not name.strip() or path == home:
            raise ToolError(f"{name!r} is not the name of a file; write it from the root, as in '/notes.md'")
        if path in contents:
            raise ToolError(f"{quoted(path)} is given twice, the second time as {name!r}; leave one out")
        data = content if isinstance(content, bytes) else encode(path, content)
        if len(data) > MAX_FILE:
            found = f"{quoted(path)} has {len(data):,} bytes"
            raise ToolError(f"{found}, more than the {MAX_FILE:,} that can be read; split it")
        contents[path] = data
    if (total := sum(map(len, contents.values()))) > MAX_FILES:
        raise ToolError(f"they have {total:,} bytes, more than the {MAX_FILES:,} that are taken at once; give fewer")
    return contents
