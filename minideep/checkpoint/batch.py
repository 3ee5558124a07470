"""`Batch`: one transaction on a thread, and the only place where its rows are made."""

import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from typing import Any, cast

import msgspec
from msgspec import Struct, structs

from ..errors import CheckpointError
from ..events import FileWritten
from ..ports import Lease
from ..spec import ABOUT
from ..state import FileEntry, Path, State, as_bytes
from . import format, layout, pace
from .format import Header
from .layout import Head, RunRow
from .log import Log, SegmentRef, Tail, is_open
from .waiting import may_block
from .written import LARGE

SEALED_HERE = 64 * 1024
"""Bytes up to which a batch is compressed on the event loop, which is cheaper than to hand it to another thread."""
LARGE_IN_SNAPSHOT = 4 * 1024
"""Bytes of a file over which a snapshot only refers to it."""


Pending = tuple[Path, bytes, bool]
"""An event that is not saved yet: its run, its bytes, and whether the content of its file is stored apart."""
Named = dict[str, bytes | None]
"""Blobs by name, each with its content, or None if the store has it."""


class Saved(Struct, frozen=True):
    """The size of an append."""

    bytes_raw: int = 0
    bytes_stored: int = 0

    def __add__(self, other: "Saved") -> "Saved":
        return Saved(self.bytes_raw + other.bytes_raw, self.bytes_stored + other.bytes_stored)


class _Part(Struct):
    """A segment or a snapshot: its key, its header, and the function that compresses it."""

    key: str
    header: Header
    seal: Callable[[], bytes]
    row: bytes = b""


class Batch:
    """Collects changes of a thread and commits them at once.

    The run rows, the references to blobs, all sizes and the head row are derived from what was added. Adding is cheap
    and belongs on the event loop, where nothing changes meanwhile; compression waits for `seal`, which may run on
    another thread.
    """

    def __init__(self, log: Log, known: Iterable[str] = (), base: int = 0) -> None:
        self.log = log
        """The thread as it is before."""
        self.size: int = 0
        """Bytes before compression."""
        self.reclaimed: int = 0
        """Stored bytes that were freed since the head was written."""
        self.blobs: dict[str, bytes] = {}
        """Contents of blobs that the store may not have yet."""
        self.in_doubt: bool = False
        """Set while it is unknown whether a failed commit landed."""
        self.saved: Saved = Saved()
        self.head: Head = log.head
        self.head_row: bytes = b""
        self._known = known
        self._parts: list[_Part] = []
        self._rows: dict[str, bytes] = {}
        self._deletes: list[str] = []
        self._runs: dict[Path, RunRow] = {}
        self._root: dict[str, object] = {}
        """The fields of the head that tell of the main run."""
        self._tail: tuple[_Part, list[bytes]] | None = None
        self._replaced: Tail | None = None
        self._last = log.head.number
        self._truncation = log.head.truncation
        # By the id a writer that is in doubt about its append finds out whether it landed.
        self._id, self._now = os.urandom(8), time.time()
        self._age = max(0, round(self._now * 1000) - base) if base else 0

    def state(self, path: Path, state: State) -> None:
        """Set the state of a run after this batch: its row, or the head, is derived from it. It is read here, for it
        may change while the batch is committed on another thread.
        """
        if path:
            self._runs[path] = self._run_row(path, state)
            return
        old = self.log.head
        self._root = {
            "last": state.number,
            "agent": state.agent,
            "status": state.status,
            "turn": state.turn,
            "title": old.title or (state.said.text[:80] if state.said else ""),
            "created": old.created or self._now,
            "updated": self._now,
            "tags": _tags(state),
        }

    def events(self, path: Path, entries: Iterable[tuple[bytes, bool]], tail: Tail | None = None) -> list[SegmentRef]:
        """Append encoded events to a run, each with whether the content of its file is stored apart. Return the
        segments that they make: one, or more if they are over 1 MiB. The first takes the place of *tail*, unless None,
        and begins with its events; the times of both count from the same base.
        """
        # Names are kept by piece: a segment that is cut off later must not take another one's reference along.
        pieces: list[tuple[list[bytes], Named]] = []
        size, events, named, prior = 0, list[bytes](), Named(), self.log.last(path)
        if tail is not None:
            self._replaced, prior, size = tail, tail.header.prior, tail.header.bytes_raw
            pieces.append((events := [*tail.events], named))
        for data, apart in entries:
            found: Named | None = None
            if apart or len(data) > LARGE:
                data = self._with_blobs(data, found := {})
            size += len(data)
            if not pieces or size > format.SEGMENT_SIZE:
                size, events, named = len(data), list[bytes](), Named()
                pieces.append((events, named))
            events.append(data)
            if found:
                named.update(found)
        refs: list[SegmentRef] = []
        for events, named in pieces:
            first, prior_last, size = format.number_of(events[0]), prior, format.raw_size(events)
            prior = format.number_of(events[-1])
            key = layout.segment_key(self.log.thread_id, path, first, prior)
            header = self._header(path, first, prior, prior_last, size, named)
            grows = not path and is_open(header)
            # The turn that runs will replace it.
            briefly = grows and self._root.get("status") == "running"
            self._add(key, header, partial(format.seal, header, events, briefly=briefly))
            refs.append(SegmentRef(key, size, prior))
            if not path:
                self._tail = (self._parts[-1], events) if grows else None
        return refs

    def snapshot(self, path: Path, state: State, prior: int | None = None) -> None:
        """Add a snapshot of a run, following the one at *prior*, by default its newest one.

        Raises:
            SegmentTooLarge: it is over 17 MiB; nothing was added.
        """
        named: Named = {}
        # The thread's files stand in the snapshot of the main run.
        files = {file: self._referred(entry, named) for file, entry in state.files.items()} if not path else {}
        body, number = format.encode_state(structs.replace(state, files=files, subagents={})), state.number
        prior = self.log.newest_snapshot(path) if prior is None else prior
        key = layout.snapshot_key(self.log.thread_id, path, number)
        header = self._header(path, number, number, prior, len(body), named, state.turn)
        self._add(key, header, lambda: format.seal_snapshot(header, body))

    def put(self, key: str, data: bytes) -> None:
        """Add a row as it is stored, such as a blob that another thread has as well."""
        self._rows[key] = data  # Not counted: the bytes are shared.

    async def commit(self, lease: Lease | None = None, *, release: bool = False) -> None:
        """Write everything in one transaction, or find that it was written though the store reported a failure.

        Nothing is written if *lease*, unless None, no longer holds the thread; with *release* it is given up.

        Raises:
            ThreadConflict: another writer was first, or the thread is no longer held.
            CheckpointError: the store failed, or others had it for too long.
        """
        if not self.head_row:
            await self._sealed()
        store, thread_id = self.log.store, self.log.thread_id
        deletes = [self._replaced.key, *self._deletes] if self._replaced else self._deletes
        change = (self.log.head_row, self.head_row, self._rows, deletes)
        self.in_doubt = True
        try:
            await store.append(thread_id, *change, lease=lease, release=release)
        except CheckpointError:
            self._rows, self._parts = {}, []  # While in doubt it is kept; its bytes are not needed any more.
            # A store may fail after its commit: another append would then conflict with this one, for ever.
            landed = await store.is_head(thread_id, self.head_row)
            self.in_doubt = False
            if not landed:
                raise
        self.in_doubt = False

    async def _sealed(self) -> None:
        if self.size <= SEALED_HERE or may_block():
            self.seal()
        else:
            sealing = self.log.store.off_loop(self.seal)
            await pace.through(sealing)
            sealing.result()

    def log_after(self) -> Log:
        """Return the thread as it is after the commit."""
        # In place: a thread with very many runs does not copy their rows with every append.
        self.log.runs.update(self._runs)
        return Log(self.log.store, self.log.thread_id, self.head_row, self.head, self.log.runs)

    def tail(self) -> Tail | None:
        """Return the segment that the next append may go on with. A reader that begins with a snapshot needs a segment
        that begins behind it, so none reaches over one.
        """
        if self._tail is None or self.head.snapshot == self._tail[0].header.last:
            return None
        part, events = self._tail
        return Tail(part.key, part.header, events, len(part.row))

    def _add(self, key: str, header: Header, compress: Callable[[], bytes]) -> None:
        self._parts.append(_Part(key, header, compress))
        self.size += header.bytes_raw
        # A truncation and a fork add rows that are older than the head.
        self._last = max(self._last, header.last)

    def _header(self, path: Path, first: int, last: int, prior: int, size: int, named: Named, turn: int = 0) -> Header:
        """Make a header that refers to the blobs *named*; those with a content are added."""
        for name, content in named.items():
            # Two files with one content are stored, and counted, once.
            if content is not None and name not in self.blobs:
                self.blobs[name] = content
                self.size += len(content)
        names = tuple(sorted(named))
        return Header(self.log.thread_id, path, first, last, prior, self._id, size, self._now, names, turn, self._age)

    # ---- blobs

    def _with_blobs(self, data: bytes, named: Named) -> bytes:
        """Return an encoded event as its segment holds it: without a large file, or as a reference if it is large."""
        recorded = format.decode_recorded(data)
        event = recorded.event
        if isinstance(event, FileWritten) and event.content is not None and (event.blob or event.size > LARGE):
            name = self._name(as_bytes(event.content), named)
            data = format.encode(
                recorded.number, structs.replace(event, content=None, sha256=name, blob=True), recorded.ms
            )
        if len(data) > LARGE:
            name, content, data = format.as_blob(data)
            named[name] = None if name in self._known else content
        return data

    def _referred(self, entry: FileEntry, named: Named) -> FileEntry:
        """Return a file as a snapshot holds it: by reference, if it is large or already a blob."""
        if entry.content is None:
            if entry.blob:
                named[entry.sha256] = None
            return entry
        if entry.size <= LARGE_IN_SNAPSHOT and not entry.blob:
            return entry
        if entry.sha256 in self._known:
            named[name := entry.sha256] = None
        else:  # Hashed anew: a blob under a wrong name, which a backend may have recorded, could never be read.
            name = self._name(as_bytes(entry.content), named)
        return structs.replace(entry, content=None, sha256=name, blob=True)

    def _name(self, content: bytes, named: Named) -> str:
        name = sha256(content).hexdigest()
        named[name] = None if name in self._known else content
        return name

    # ---- what is derived

    def seal(self) -> None:
        """Compress what was added, and derive all other rows. A large batch is sealed on another thread first."""
        rows, thread_id = self._rows, self.log.thread_id
        blobs = {layout.blob_key(name): format.seal_blob(content) for name, content in self.blobs.items()}
        rows |= blobs
        raw, stored = sum(map(len, self.blobs.values())), sum(map(len, blobs.values()))
        by_path: dict[Path, list[_Part]] = {}
        for part in self._parts:
            rows[part.key] = part.row = part.seal()
            by_path.setdefault(part.header.path, []).append(part)
            raw += part.header.bytes_raw
            stored += len(part.row)
            for name in part.header.blobs:
                rows |= layout.reference_rows(thread_id, name)
        for path, row in self._runs.items():
            self._runs[path] = row = _with_parts(row, by_path[path])
            rows[layout.run_key(thread_id, path)] = msgspec.msgpack.encode(row)
        if self._replaced:
            raw, stored = raw - self._replaced.header.bytes_raw, stored - self._replaced.stored
        self.saved = Saved(raw, stored)
        self.head = self._next_head(by_path.get((), []))
        self.head_row = msgspec.msgpack.encode(self.head)

    def _run_row(self, path: Path, state: State) -> RunRow:
        before = self.log.runs.get(path) or RunRow("", "ready", 0, 0, created=self._now)
        return structs.replace(
            before,
            agent=state.agent,
            status=state.status,
            last=state.number,
            steps=state.step,
            tokens=min(state.usage.total, 2**63),  # The most that MessagePack holds; a sum may be larger.
            cost=state.cost,
            unknown=state.usage.unknown,
            unpriced=state.unpriced,
        )

    def _next_head(self, parts: list[_Part]) -> Head:
        old, saved = self.log.head, self.saved
        truncated = self._truncation is not old.truncation
        return structs.replace(
            old,
            number=self._last,
            append=self._id,
            format=format.FORMAT,
            bytes_raw=old.bytes_raw + (0 if truncated else saved.bytes_raw),  # Its copies were counted before.
            bytes_stored=max(0, old.bytes_stored + saved.bytes_stored - self.reclaimed),
            snapshot=_newest_snapshot(old.snapshot, parts),
            truncation=self._truncation,
            **self._root,
        )


def _tags(state: State) -> dict[str, str]:
    tags: Any = state.notes.get(ABOUT, {}).get("tags")
    # A tool may have noted anything there, and `redact` may have left anything: no head could be read that holds it.
    given = cast(dict[Any, Any], tags) if type(tags) is dict else {}
    return {name: tag for name, tag in given.items() if type(name) is type(tag) is str}


def _with_parts(row: RunRow, parts: list[_Part]) -> RunRow:
    headers = [part.header for part in parts]
    return structs.replace(
        row,
        first=row.first or headers[0].first,
        updated=max(header.at for header in headers),
        bytes_raw=row.bytes_raw + sum(header.bytes_raw for header in headers),
        bytes_stored=row.bytes_stored + sum(len(part.row) for part in parts),
        snapshot=_newest_snapshot(row.snapshot, parts),
    )


def _newest_snapshot(before: int, parts: list[_Part]) -> int:
    for part in parts:
        if part.key.startswith("base/"):
            before = max(before, part.header.last)
    return before
