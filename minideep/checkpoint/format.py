"""The stored format: MessagePack of a closed union of events, compressed with zstd, behind a header.

    segment  = b"mdl" major minor crc32(4) length(4) header body
    snapshot = b"mdb" ... the same, but the body is a State
    blob     = b"mdo" major minor body, named by the SHA-256 of its content

The checksum covers all that follows it. The header is an array (`Header`); a segment's body is zstd over an array of
(number, event). No name in the bytes is ever imported. A new field goes last and has a default; any addition raises
the minor number, and a reader refuses a newer one: arrays have no field names, so it could only guess.
"""

import struct
import threading
import zlib
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
import zstandard
from msgspec import Struct

from ..errors import CorruptSegment, IllegalEvent, SegmentTooLarge, UnknownVersion
from ..events import AnyEvent, E, Noted
from ..plain_json import too_deep
from ..state import Path, State

SEGMENT, SNAPSHOT, BLOB = b"mdl", b"mdb", b"mdo"
FORMAT = (1, 7)
MAX_EVENT = 16 * 2**20
"""The most bytes of one encoded event."""
SEGMENT_SIZE = 2**20
"""The most bytes of events in a segment; only a single event may be larger."""
SMALL = 256
"""Bodies of fewer bytes are compressed quickly."""
MAX_RAW = MAX_EVENT + SEGMENT_SIZE
"""The most bytes that a segment may decompress to."""
MAX_ROW = 2 * MAX_RAW
"""The most bytes of a stored row: incompressible events, and a header that names many blobs."""
MAX_ITEMS = 2**20
"""The most values in one event, state or header: an empty list takes one byte here and 64 in memory."""


class BlobRef(Struct, frozen=True, array_like=True, tag=0):
    """Stands in a segment for an event that is so large that it is a blob of its own."""

    name: str


class Recorded(Struct, frozen=True, array_like=True, gc=False):
    """An event as it is recorded."""

    number: int
    """Its number in the thread."""
    event: AnyEvent
    ms: int = 0
    """Milliseconds since the journal began to collect events for the next append."""


class Stored(Struct, frozen=True, array_like=True, gc=False):
    """An event as it stands in a segment."""

    number: int
    event: AnyEvent | BlobRef
    ms: int = 0
    """Milliseconds since the `base` of its segment. 0 in formats before 1.4."""


class _RawEntry(Struct, frozen=True, array_like=True, gc=False):
    number: int
    event: msgspec.Raw
    ms: int = 0


T = TypeVar("T")
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of decoding: other bytes than expected, text that is not UTF-8, and too deep a nesting."""
Entry = tuple[int, AnyEvent, float]
"""An event with its number in the thread and its time, in seconds since 1970."""
_PREFIX = struct.Struct(">3sBBII")
_encoder = msgspec.msgpack.Encoder()
_event_decoder = msgspec.msgpack.Decoder(Recorded)
_blob_decoder = msgspec.msgpack.Decoder(AnyEvent)
_body_decoder = msgspec.msgpack.Decoder(list[Stored])
_state_decoder = msgspec.msgpack.Decoder(State)
_raw_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
_raw_entry_decoder = msgspec.msgpack.Decoder(_RawEntry)


class Header(Struct, frozen=True, array_like=True):
    """The header of a segment or a snapshot."""

    thread: str
    path: Path
    first: int
    """The number of its first event in the thread."""
    last: int
    prior: int
    """The number of the run's last event before it, or of the snapshot before a snapshot; 0 at the beginning."""
    append: bytes
    """The id of the append that wrote it."""
    bytes_raw: int
    """Bytes of the body before compression."""
    at: float
    """Seconds since 1970."""
    blobs: tuple[str, ...] = ()
    """The names of the blobs that it refers to."""
    turn: int = 0
    """Of a snapshot: the run's last turn."""
    age: int = 0
    """Of a segment: milliseconds between its `base` and *at*."""

    @property
    def base(self) -> int:
        """The time that the times of its events count from, in milliseconds since 1970."""
        return round(self.at * 1000) - self.age


_header_decoder = msgspec.msgpack.Decoder(Header)


class _Zstd(threading.local):
    """The compressor of each thread: two threads must not share one, and creating it costs more than using it."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=3)
        self.quick = zstandard.ZstdCompressor(level=-1)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _Zstd()


def stored_form(number: int, event: E, ms: int = 0) -> tuple[bytes, E]:
    """Return the bytes of one event, with its number in the thread and its time, and the event as the bytes say it:
    its types are checked, and it shares no mutable value with the original.

    Raises:
        IllegalEvent: it holds a value that cannot be stored, or that does not have the type that its class declares.
        SegmentTooLarge: it is over 16 MiB, or holds more than a million values.
    """
    try:
        if isinstance(event, Noted) and too_deep(event.value):
            raise ValueError("its value nests deeper than 100")
        data = _encoder.encode((number, event, ms))
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise IllegalEvent(f"{type(event).__name__} cannot be saved: {exc}") from None
    # Refused here it is one call's error; in an append it would block all other events.
    if len(data) > MAX_EVENT:
        raise SegmentTooLarge(f"{type(event).__name__} has {len(data):,} bytes; an event may have {MAX_EVENT:,}")
    if len(data) > MAX_ITEMS:  # A value takes at least a byte, and most events are far smaller.
        _check_items(data, type(event).__name__)
    try:
        return data, _event_decoder.decode(data).event  # pyright: ignore[reportReturnType]
    except UNREADABLE as exc:
        raise _unreadable(exc) from None


def encode(number: int, event: AnyEvent, ms: int = 0) -> bytes:
    """Return the bytes of `stored_form`."""
    return stored_form(number, event, ms)[0]


def decode(data: bytes) -> AnyEvent:
    """Decode an event that `encode` wrote."""
    return decode_recorded(data).event


def decode_recorded(data: bytes) -> Recorded:
    """`decode`, returning the event's number and time as well."""
    try:
        return _event_decoder.decode(data)
    except UNREADABLE as exc:
        raise _unreadable(exc) from None


def _unreadable(exc: Exception) -> IllegalEvent:
    return IllegalEvent(f"an event that cannot be read back: {exc}")


def number_of(data: bytes) -> int:
    """Return the number of an event that `encode` wrote.

    Raises:
        CorruptSegment: the bytes are something else.
    """
    try:  # Not `decoded`: the event itself is skipped, so nothing large is allocated.
        return _raw_entry_decoder.decode(data).number
    except UNREADABLE as exc:
        raise CorruptSegment(f"a stored event cannot be read: {exc}") from None


def as_blob(data: bytes) -> tuple[str, bytes, bytes]:
    """Turn an encoded event into a blob: return its name, its content, and the `BlobRef` that replaces the event."""
    entry = _raw_entry_decoder.decode(data)
    content = bytes(entry.event)
    # Without its number, so that the same event in two threads is one blob.
    name = sha256(content).hexdigest()
    return name, content, _encoder.encode((entry.number, BlobRef(name), entry.ms))


def event_in_blob(content: bytes, name: str) -> AnyEvent:
    """Decode the event in a blob.

    Raises:
        CorruptSegment: it holds no event.
    """
    return decoded(_blob_decoder.decode, content, f"blob {name!r}")


def seal(header: Header, events: list[bytes], *, briefly: bool = False) -> bytes:
    """Make the segment of *events*, each as `encode` wrote it. One that is kept only *briefly* is compressed less."""
    # Joined, not encoded again: each event was encoded when it happened.
    return _sealed(SEGMENT, header, _array(len(events)) + b"".join(events), briefly)


def raw_size(events: list[bytes]) -> int:
    """Return the bytes that a segment of *events* decompresses to."""
    return len(_array(len(events))) + sum(map(len, events))


def read_header(data: bytes, key: str) -> Header:
    """Read the header of the segment or snapshot under *key*.

    Raises:
        UnknownVersion: it has a format that this version does not know.
        CorruptSegment: it was damaged.
    """
    return open_row(data, key)[0]


def read_segment(data: bytes, key: str) -> tuple[Header, list[Stored]]:
    """Read the segment under *key*. Sizes are checked before memory is allocated.

    Raises:
        UnknownVersion, CorruptSegment: as `read_header`.
        SegmentTooLarge: it claims more than 17 MiB of events, or holds more than a million values.
    """
    header, body = unseal(data, key, SEGMENT)
    entries = decoded(_body_decoder.decode, body, f"segment {key!r}")
    numbers = (entries[0].number, entries[-1].number) if entries else None
    if numbers != (header.first, header.last):  # A copied or cut row with a valid checksum.
        raise CorruptSegment(f"segment {key!r} says events {header.first} to {header.last} and holds {numbers}")
    return header, entries


def encode_state(state: State) -> bytes:
    """Encode a state as the body of a snapshot.

    Raises:
        SegmentTooLarge: it is over 17 MiB, or holds more than a million values or a number over 64 bits.
    """
    try:
        data = _encoder.encode(state)
    except OverflowError as exc:  # A sum of tokens: each of them fits, but their sum may not.
        raise SegmentTooLarge(f"a state cannot be written: {exc}") from None
    if len(data) > MAX_RAW:
        raise SegmentTooLarge(f"a state has {len(data):,} bytes; a snapshot may have {MAX_RAW:,}")
    _check_items(data, "a state")
    return data


def seal_snapshot(header: Header, state: bytes) -> bytes:
    """Make the snapshot of a state, as `encode_state` wrote it."""
    return _sealed(SNAPSHOT, header, state)


def read_snapshot(data: bytes, key: str) -> tuple[Header, State]:
    """Read the snapshot under *key*.

    Raises:
        UnknownVersion, CorruptSegment, SegmentTooLarge: as `read_segment`.
    """
    header, body = unseal(data, key, SNAPSHOT)
    state = decoded(_state_decoder.decode, body, f"snapshot {key!r}")
    # A copied row with a valid checksum.
    if (state.number, state.turn) != (header.last, header.turn):
        raise CorruptSegment(f"snapshot {key!r} says event {header.last}, turn {header.turn} and holds another state")
    return header, state


def seal_blob(content: bytes) -> bytes:
    """Make the blob of *content*."""
    return BLOB + bytes(FORMAT) + _zstd.compressor.compress(content)


def read_blob(data: bytes, name: str) -> bytes:
    """Return the content of the blob *name*, which is also its checksum.

    Raises:
        UnknownVersion, CorruptSegment, SegmentTooLarge: as `read_segment`.
    """
    what = f"blob {name!r}"
    if len(data) < 5:
        raise CorruptSegment(f"{what} has {len(data)} bytes, which is less than its prefix")
    _check_format(data[:3], data[3:5], BLOB, what)
    content = _decompressed(memoryview(data)[5:], what)
    # The name is the only checksum of a blob: a swapped content would be read as another file.
    if sha256(content).hexdigest() != name:
        raise CorruptSegment(f"{what} does not match its name; it was damaged or changed")
    return content


def _sealed(magic: bytes, header: Header, raw: bytes, briefly: bool = False) -> bytes:
    # A few bytes hardly shrink, and cost most of an append; what replaces them compresses them better.
    compressor = _zstd.quick if briefly or len(raw) < SMALL else _zstd.compressor
    return frame(magic, _encoder.encode(header), compressor.compress(raw))


def frame(magic: bytes, header: bytes, body: bytes) -> bytes:
    prefix = _PREFIX.pack(magic, *FORMAT, 0, len(header))
    # The header's length is covered too: a changed one would split the row elsewhere.
    checksum = zlib.crc32(body, zlib.crc32(header, zlib.crc32(prefix[-4:])))
    return _PREFIX.pack(magic, *FORMAT, checksum, len(header)) + header + body


def open_row(data: bytes, key: str, expected: bytes = b"") -> tuple[Header, memoryview]:
    """Return the header and the compressed body of the row under *key*."""
    what = f"segment {key!r}"
    # `struct` would raise an error that no caller expects.
    if len(data) < _PREFIX.size:
        raise CorruptSegment(f"{what} has {len(data)} bytes, which is less than its prefix")
    magic, major, minor, checksum, length = _PREFIX.unpack_from(data)
    # The version first: what follows it may be another layout, checksum included.
    _check_format(magic, (major, minor), expected or magic, what)
    if zlib.crc32(memoryview(data)[_PREFIX.size - 4 :]) != checksum:
        raise CorruptSegment(f"{what} does not match its checksum; it was damaged or changed")
    view = memoryview(data)[_PREFIX.size :]  # The body is not copied before it is decompressed.
    return decoded(_header_decoder.decode, view[:length], f"the header of {what}"), view[length:]


def _check_format(magic: bytes, version: bytes | tuple[int, int], expected: bytes, what: str) -> None:
    if magic != expected or magic not in (SEGMENT, SNAPSHOT, BLOB):
        raise CorruptSegment(f"{what} begins with {magic!r}, expected {expected!r}")
    major, minor = version
    if major != FORMAT[0] or minor > FORMAT[1]:
        raise UnknownVersion(f"{what} has format {major}.{minor}, this version reads {FORMAT[0]}.{FORMAT[1]}")


def unseal(data: bytes, key: str, magic: bytes) -> tuple[Header, bytes]:
    """Return the header and the decompressed body of the row under *key*."""
    header, body = open_row(data, key, magic)
    what = f"segment {key!r}"
    if header.bytes_raw > MAX_RAW:  # Before anything is decompressed: a few bytes may claim gigabytes.
        raise SegmentTooLarge(f"{what} claims {header.bytes_raw:,} bytes of at most {MAX_RAW:,}")
    raw = _decompressed(body, what)
    if len(raw) != header.bytes_raw:
        raise CorruptSegment(f"{what} says {header.bytes_raw} bytes and holds {len(raw)}")
    return header, raw


def _decompressed(body: memoryview, what: str) -> bytes:
    try:
        claimed = zstandard.frame_content_size(body)
        if claimed > MAX_RAW:
            raise SegmentTooLarge(f"{what} claims {claimed:,} bytes of at most {MAX_RAW:,}")
        if claimed < 0:  # zstd would go on for as long as the bytes say.
            raise CorruptSegment(f"{what} does not say how large it is")
        return _zstd.decompressor.decompress(body)
    except zstandard.ZstdError as exc:
        raise CorruptSegment(f"{what} cannot be read: {exc}") from None


def split_events(body: bytes, key: str, later: int = 0) -> list[bytes]:
    """Split a segment's body into its events, without decoding them. *later* milliseconds are added to their times."""
    events = decoded(_raw_decoder.decode, body, f"segment {key!r}")
    if not later:
        return [bytes(event) for event in events]
    entries = [decoded(_raw_entry_decoder.decode, event, f"segment {key!r}") for event in events]
    return [_encoder.encode((entry.number, entry.event, max(0, entry.ms + later))) for entry in entries]


def decoded(decode: Callable[[Any], T], data: Any, what: str) -> T:
    """Decode stored bytes with *decode*.

    Raises:
        CorruptSegment: they cannot be decoded.
        SegmentTooLarge: they hold more than a million values.
    """
    _check_items(data, what)
    try:
        return decode(data)
    except UNREADABLE as exc:
        raise CorruptSegment(f"{what} cannot be read: {exc}") from None


def _check_items(data: bytes | memoryview, what: str) -> None:
    if len(data) <= MAX_ITEMS:  # A value takes at least a byte.
        return
    from .messagepack import holds_more  # Seldom needed.

    if holds_more(data, MAX_ITEMS):
        raise SegmentTooLarge(f"{what} holds more than {MAX_ITEMS:,} values, the most that is stored")


def _array(length: int) -> bytes:
    """Return the MessagePack head of an array."""
    if length < 16:
        return bytes([0x90 | length])
    return b"\xdc" + length.to_bytes(2, "big") if length < 2**16 else b"\xdd" + length.to_bytes(4, "big")
