"""`Written`: the files that a turn wrote, and the contents that need not stay in memory after it."""

from collections.abc import Iterable, Set

from msgspec import structs

from ..core import keep_content
from ..state import FileEntry, Path, State

LARGE = 100 * 1024
"""Bytes of an encoded event, or of a file, over which it is stored as a blob."""


class Written:
    """Notes each file that is written or fetched, so that a turn need not look at all files of its thread.

    *held* are those whose content may already be in memory.
    """

    def __init__(self, held: Iterable[str] = ()) -> None:
        self._by: dict[str, Path] = {}
        """The run that wrote each file last in this turn."""
        self._held = set(held)
        """The files whose content may be in memory though the store keeps it apart."""

    def write(self, file: str, by: Path) -> None:
        self._by[file] = by

    def hold(self, file: str) -> None:
        self._held.add(file)

    def artifacts(self, files: dict[str, FileEntry], path: Path) -> dict[str, FileEntry]:
        """Return the files, by path, that the run at *path* or one below it wrote in this turn and that still exist."""
        depth = len(path)
        return {file: files[file] for file, by in self._by.items() if by[:depth] == path and file in files}

    def close_turn(self, root: State, stored: Set[str]) -> None:
        """Forget what the turn wrote, and drop the contents of large files that are among the blobs *stored*."""
        self._by = {}
        for file in list(self._held):
            entry = root.files.get(file)
            if entry is not None and entry.content is not None and (entry.blob or entry.size > LARGE):
                if entry.sha256 not in stored:  # The next append may still need it.
                    continue
                keep_content(root, file, structs.replace(entry, content=None, blob=True))
            self._held.remove(file)
