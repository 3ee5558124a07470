"""Files that outlast threads: a namespace of files in a store, and how their names become keys.

    file/NAMESPACE/PLACE        FileRow
    data/NAMESPACE/PLACE        the content, as a blob is stored

Keys sort as a walk goes: the files of a folder come first, then its folders with all below them, each by name. So a
folder, or everything below it, is one range of keys, and reading it touches no row of another.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from ..errors import CheckpointError, CorruptSegment, ThreadBusy, ThreadConflict
from ..ports import Lease, Range
from . import layout
from .format import decoded, read_blob, seal_blob
from .store import CheckedStore

KINDS = ("file", "data")
PAGE = 500
"""Rows that are read in one trip."""
WAIT_SECONDS = 30.0
"""Seconds that a change waits for those of others."""
MAX_NAMESPACE, MAX_PLACE = 400, 1500
"""The most characters of a namespace, and of a path, in a key, which may have 2,000. A character that is not printable
ASCII takes three for each of its bytes.
"""
_FILE, _FOLDER, _BEHIND_FILES, _BEHIND_FOLDER = "!", "#", '"', "$"
"""Before the name of a file, and after that of a folder; they sort before all that a name is written with. What follows
each of them ends a range.
"""


class FileRow(Struct, frozen=True, array_like=True):
    """A file, without its content."""

    sha256: bytes
    size: int
    """Bytes."""
    modified: float
    """Seconds since 1970."""


_file_decoder = msgspec.msgpack.Decoder(FileRow)


class Seen(Struct, frozen=True):
    """What stands at a path, as of one moment."""

    path: str
    file: FileRow | None
    is_folder: bool
    above: str
    """A file where a folder of the path should be; "" if there is none."""


class StoredFiles:
    """The files of *namespace*. Paths are absolute and normal; a folder exists while a file is below it."""

    def __init__(self, store: CheckedStore, namespace: Sequence[str]) -> None:
        self._store = store
        self._name = namespace_name(namespace)
        self._lock = layout.lock_name(self._name, "files")

    def see(self, path: str) -> Seen:
        """Return what stands at *path*, in one trip."""
        above = [path[:at] for at in range(1, len(path)) if path[at] == "/"]
        below, *found = self._store.read(self._below(path, limit=1), *map(self._file, [path, *above]))
        file, *folders = [read_file_row(*rows[0]) if rows else None for rows in found]
        wrong = next((name for name, row in zip(above, folders, strict=True) if row), "")
        return Seen(path, file, bool(below) or path == "/", wrong)

    def listed(self, folder: str) -> Iterator[tuple[str, FileRow | None]]:
        """Yield the direct entries of a folder, files first: their paths; None for a folder. One more trip for each
        folder: what is in it is skipped.
        """
        start, base = f"file/{self._name}/{_within(folder)}", folder.rstrip("/")
        for key, data in self._pages(Range(start + _FILE, start + _BEHIND_FILES)):
            yield f"{base}/{_read(key[len(start) + 1 :])}", read_file_row(key, data)
        at, stop = start + _BEHIND_FILES, self._below(folder).stop
        while found := self._store.read(Range(at, stop, 1, values=False))[0]:
            name = found[0][0][len(start) :].partition(_FOLDER)[0]
            yield f"{base}/{_read(name)}", None
            at = start + name + _BEHIND_FOLDER

    def below(self, folder: str) -> Iterator[tuple[str, FileRow]]:
        """Yield every file below a folder, in the order of a walk, some at a time."""
        for key, data in self._pages(self._below(folder)):
            yield path_of(key), read_file_row(key, data)

    def content(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        file, data = self._store.read(*(Range(self._key(kind, path)) for kind in KINDS))
        if not file:
            return None
        if not data:
            raise CorruptSegment(f"row {file[0][0]!r} has no content")
        return read_blob(data[0][1], read_file_row(*file[0]).sha256.hex())

    def hold(self) -> Lease:
        """Take the right to change the namespace; whatever `see` then says holds until the change.

        Raises:
            ThreadBusy: others have it for too long.
        """
        opened = self._store.wait_for(lambda: self._store.open(self._lock, wait=WAIT_SECONDS))
        if opened is None:
            raise ThreadBusy("others change these files all the time")
        return opened.lease

    def put(self, path: str, data: bytes, now: float, lease: Lease) -> None:
        """Write a file, and give up *lease*.

        Raises:
            ThreadConflict: the lease was lost; nothing was changed.
        """
        row = msgspec.msgpack.encode(FileRow(sha256(data).digest(), len(data), now))
        self._change({self._key("file", path): row, self._key("data", path): seal_blob(data)}, [], lease)

    def remove(self, paths: Iterable[str], lease: Lease) -> None:
        """Delete files that exist, all or none, and give up *lease*.

        Raises:
            ThreadConflict: the lease was lost; nothing was changed.
        """
        self._change({}, [self._key(kind, path) for path in paths for kind in KINDS], lease)

    def _change(self, rows: dict[str, bytes], deletes: list[str], lease: Lease) -> None:
        # No thread, and so no head: the lease, which is checked in the transaction, keeps other writers away.
        append = self._store.append
        try:
            self._store.wait_for(lambda: append(self._lock, None, None, rows, deletes, lease=lease, release=True))
        except ThreadConflict:  # Its text speaks of a thread.
            raise ThreadConflict("somebody else may be changing these files; nothing was changed") from None

    def _key(self, kind: str, path: str) -> str:
        return f"{kind}/{self._name}/{place(path)}"

    def _file(self, path: str) -> Range:
        return Range(self._key("file", path))

    def _below(self, folder: str, limit: int | None = None) -> Range:
        start = f"file/{self._name}/{_within(folder)}"
        return Range(start, start[:-1] + _BEHIND_FOLDER if folder != "/" else layout.after(start), limit)

    def _pages(self, rows: Range) -> Iterator[tuple[str, bytes]]:
        start = rows.start
        while True:
            (found,) = self._store.read(Range(start, rows.stop, PAGE))
            yield from found
            if len(found) < PAGE:
                return
            start = f"{found[-1][0]} "  # The next key at the earliest.


# ---- rows


def read_file_row(key: str, data: bytes) -> FileRow:
    """Decode the row of a file.

    Raises:
        CorruptSegment: it was damaged.
    """
    row = decoded(_file_decoder.decode, data, f"row {key!r}")
    if len(row.sha256) != 32 or not 0 <= row.size < layout.MAX_NUMBER:
        raise CorruptSegment(f"row {key!r} holds what no change wrote")
    return row


def faults(store: CheckedStore) -> Iterator[tuple[str, str]]:
    """Yield each row of a file that is damaged, misplaced, or without its other half: its key and the problem."""
    for kind in KINDS:
        start = f"{kind}/"
        while keys := [key for key, _ in store.read(Range(start, f"{kind}0", PAGE, values=False))[0]]:
            for key in keys:
                try:
                    _check(store, key)
                except CheckpointError as exc:
                    yield key, str(exc)
            start = f"{keys[-1]} "


def _check(store: CheckedStore, key: str) -> None:
    _, namespace, *rest = key.split("/")
    if len(rest) != 1 or place(path_of(key)) != rest[0]:
        raise CorruptSegment(f"row {key!r} is not named as a file is")
    # Both in one trip: a file may be replaced or deleted at any moment.
    file, data = store.read(*(Range(f"{kind}/{namespace}/{rest[0]}") for kind in KINDS))
    if bool(file) != bool(data):
        raise CorruptSegment(f"row {key!r} is half of a file; the other half is missing")
    if file:
        read_blob(data[0][1], read_file_row(*file[0]).sha256.hex())


# ---- keys


def namespace_name(namespace: Sequence[str]) -> str:
    """Return a namespace as it stands in keys: no two have the same name."""
    return ",".join(layout.quoted(part) for part in namespace)


def place(path: str) -> str:
    """Return where a file stands among the keys of its namespace."""
    folder, _, name = path.rpartition("/")
    return f"{_within(folder)}{_FILE}{_written(name)}"


def path_of(key: str) -> str:
    """Return the path of the file that the row under *key* belongs to."""
    folder, _, name = key.split("/", 2)[2].partition(_FILE)
    return "/" + "".join(f"{_read(part)}/" for part in folder.split(_FOLDER)[:-1]) + _read(name)


def _within(folder: str) -> str:
    return "".join(f"{_written(part)}{_FOLDER}" for part in folder.split("/") if part)


def _written(name: str) -> str:
    """Write a name in printable ASCII that sorts as the name does."""
    # The bytes of UTF-8 sort as characters do. "%" sorts before all that is left as it is, and "~" behind it.
    return "".join([chr(b) if 0x26 <= b < 0x7E else f"{'%' if b < 0x26 else '~'}{b:02x}" for b in name.encode()])


def _read(text: str) -> str:
    """Return the name that was `_written` as *text*."""
    raw = re.sub(rb"[%~]([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), text.encode())
    return raw.decode(errors="replace")
