"""What is too large for a segment: files, results and images, each kept once by the SHA-256 of its content."""

from hashlib import sha256

from msgspec import structs

from ..events import FileWritten
from ..state import FileEntry, State, as_bytes
from . import format as codec

LARGE = 100 * 1024
"""Bytes of an encoded event, or of a file, over which it is kept apart."""
LARGE_IN_BASE = 4 * 1024
"""Bytes of a file over which a base only names it."""
_TRUE = 0xC3
"""How an event ends whose last field is true: of `FileWritten` that is `blob`, whoever recorded it wants it apart."""


class Blobs:
    """The blobs that one append names: by segment or base, and the contents that the store does not have yet."""

    def __init__(self, known: set[str]) -> None:
        self._known = known
        self.contents: dict[str, bytes] = {}
        self._named: set[str] = set()

    def named(self) -> tuple[str, ...]:
        """The names since this was last asked."""
        names = tuple(sorted(self._named))
        self._named = set()
        return names

    def size(self) -> int:
        """Bytes to write, before compression."""
        return sum(map(len, self.contents.values()))

    def stored_form(self, data: bytes) -> bytes:
        """An encoded event as it stands in its segment."""
        if len(data) <= LARGE and data[-1] != _TRUE:
            return data
        number, event = codec.decode_numbered(data)
        if isinstance(event, FileWritten) and event.content is not None and (event.blob or event.size > LARGE):
            name = self._keep(as_bytes(event.content))
            data = codec.encode(number, structs.replace(event, content=None, sha256=name, blob=True))
        if len(data) > LARGE:
            name, content, data = codec.spilled(data)
            self._keep(content, name)
        return data

    def base_form(self, state: State, *, main: bool) -> bytes:
        """A state as the body of a base. The thread's files stand in that of the main run.

        Raises:
            SegmentTooLarge: it is over 17 MiB.
        """
        files = {file: self._by_name(entry) for file, entry in state.files.items()} if main else {}
        return codec.encode_state(structs.replace(state, files=files, subagents={}))

    def _by_name(self, entry: FileEntry) -> FileEntry:
        if entry.content is None:
            if entry.blob:
                self._named.add(entry.sha256)
            return entry
        if entry.size <= LARGE_IN_BASE and not entry.blob:
            return entry
        known = entry.sha256 in self._known  # Else the name is made anew: whoever recorded the file may have erred.
        name = self._keep(b"", entry.sha256) if known else self._keep(as_bytes(entry.content))
        return structs.replace(entry, content=None, sha256=name, blob=True)

    def _keep(self, content: bytes, name: str = "") -> str:
        name = name or sha256(content).hexdigest()
        self._named.add(name)
        if name not in self._known:
            self.contents[name] = content
        return name
