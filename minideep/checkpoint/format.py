"""Events to bytes and back: MessagePack of a closed union, zstd, and a header that says what it is.

    segment = b"mdl" major minor crc32(4) length(4) header body
    base    = b"mdb" ... the same, but the body is a State
    blob    = b"mdo" major minor body, named by the SHA-256 of what it holds

The checksum covers all that follows it. The header is an array (`Header`); a segment's body is zstd over an array of
(number, event). No name in the bytes is ever imported. A new field goes last and has a default; any addition raises
the minor number, and a reader refuses a newer one: arrays have no names, so it could only guess.
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
from ..events import AnyEvent, Noted
from ..messages import too_deep
from ..state import Path, State
from .messagepack import holds_more

SEGMENT, BASE, BLOB = b"mdl", b"mdb", b"mdo"
FORMAT = (1, 3)
MAX_EVENT = 16 * 2**20
"""Bytes of one encoded event."""
CUT = 2**20
"""Bytes of events after which a segment is cut; only a single event may be larger."""
MAX_RAW = MAX_EVENT + CUT
"""Bytes that a segment may decompress to."""
MAX_ROW = 2 * MAX_RAW
"""Bytes that a stored row may have: what does not compress, and a header that names many blobs."""
MAX_ITEMS = 2**20
"""Values that one event, state or header may hold: an empty list has one byte here and 64 in memory."""


class BlobRef(Struct, frozen=True, array_like=True, tag=0):
    """Stands in a segment for an event so large that it is a blob of its own."""

    name: str


T = TypeVar("T")
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises: for other bytes than expected, for text that is no UTF-8, for what nests too deep."""
Entry = tuple[int, AnyEvent]
Stored = tuple[int, AnyEvent | BlobRef]
_PREFIX = struct.Struct(">3sBBII")
_encoder = msgspec.msgpack.Encoder()
_event_decoder = msgspec.msgpack.Decoder(Entry)
_spilled_decoder = msgspec.msgpack.Decoder(AnyEvent)
_body_decoder = msgspec.msgpack.Decoder(list[Stored])
_state_decoder = msgspec.msgpack.Decoder(State)
_raw_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
_number_decoder = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])


class Header(Struct, frozen=True, array_like=True):
    """What a segment, or a base, says about itself."""

    thread: str
    path: Path
    first: int
    """The number of its first event in the thread."""
    last: int
    prior: int
    """The number of the run's last event before it, of a base that of the base before it; 0 at the beginning."""
    append: bytes
    """The id of the append that wrote it."""
    raw: int
    """Bytes of the body before compression."""
    at: float
    """Seconds since 1970."""
    blobs: tuple[str, ...] = ()
    """The blobs that it names."""
    turn: int = 0
    """Of a base: the run's last turn."""


_header_decoder = msgspec.msgpack.Decoder(Header)


class _Zstd(threading.local):
    """Made once a thread: one compressor may not serve two threads at a time, and making it costs more than its use."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=3)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _Zstd()


def encode(number: int, event: AnyEvent) -> bytes:
    """One event, with its number in the thread, as bytes.

    Raises:
        IllegalEvent: it holds something that cannot be written.
        SegmentTooLarge: it is over 16 MiB, or holds more than a million values.
    """
    try:
        if isinstance(event, Noted) and too_deep(event.value):
            raise ValueError("its value nests deeper than 100")
        data = _encoder.encode((number, event))
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise IllegalEvent(f"{type(event).__name__} cannot be saved: {exc}") from None
    if len(data) > MAX_EVENT:
        raise SegmentTooLarge(f"{type(event).__name__} has {len(data):,} bytes; an event may have {MAX_EVENT:,}")
    if len(data) > MAX_ITEMS:  # Else it holds fewer, and most are far smaller.
        _check_items(data, type(event).__name__)
    return data


def decode(data: bytes) -> AnyEvent:
    """The event that `encode` wrote, sharing nothing with the one it was given.

    Raises:
        IllegalEvent: the event was not made as its class says.
    """
    return decode_numbered(data)[1]


def decode_numbered(data: bytes) -> Entry:
    """`decode`, with the event's number in its thread before it."""
    try:
        return _event_decoder.decode(data)
    except UNREADABLE as exc:
        raise IllegalEvent(f"an event that could not be read back: {exc}") from None


def number_of(data: bytes) -> int:
    """The number of an event that `encode` wrote.

    Raises:
        CorruptSegment: it wrote something else.
    """
    return decoded(_number_decoder.decode, data, "a stored event")[0]


def spilled(data: bytes) -> tuple[str, bytes, bytes]:
    """An event that `encode` wrote as a blob: its name, its content, and what stands for it in the segment."""
    number, event = _number_decoder.decode(data)
    content = bytes(event)
    name = sha256(content).hexdigest()
    return name, content, _encoder.encode((number, BlobRef(name)))


def unspilled(content: bytes, name: str) -> AnyEvent:
    """The event that a blob holds.

    Raises:
        CorruptSegment: it holds none.
    """
    return decoded(_spilled_decoder.decode, content, f"blob {name!r}")


def seal(header: Header, events: list[bytes]) -> bytes:
    """The segment that holds *events*, each as `encode` wrote it."""
    return _sealed(SEGMENT, header, _array(len(events)) + b"".join(events))


def raw_size(events: list[bytes]) -> int:
    """What a segment of *events* decompresses to, in bytes."""
    return len(_array(len(events))) + sum(map(len, events))


def read_header(data: bytes, key: str) -> Header:
    """What the segment or base under *key* says about itself.

    Raises:
        UnknownVersion: a format that this version does not know.
        CorruptSegment: anything that was not written here.
    """
    return _opened(data, key)[0]


def read_segment(data: bytes, key: str) -> tuple[Header, list[Stored]]:
    """What the segment stored under *key* holds; sizes are checked before memory is spent.

    Raises:
        UnknownVersion, CorruptSegment: as `read_header`.
        SegmentTooLarge: it claims more than 17 MiB of events, or holds more than a million values.
    """
    header, body = _body(data, key, SEGMENT)
    entries = decoded(_body_decoder.decode, body, f"segment {key!r}")
    numbers = (entries[0][0], entries[-1][0]) if entries else None
    if numbers != (header.first, header.last):
        raise CorruptSegment(f"segment {key!r} says events {header.first} to {header.last} and holds {numbers}")
    return header, entries


def join(segments: list[tuple[str, bytes]]) -> bytes:
    """One segment of the events of several of one run that follow each other. No event is decoded."""
    opened = [_body(data, key, SEGMENT) for key, data in segments]
    headers = [header for header, _ in opened]
    first, last = headers[0], headers[-1]
    events = [event for (key, _), (_, body) in zip(segments, opened, strict=True) for event in _split(body, key)]
    blobs = tuple(sorted({name for header in headers for name in header.blobs}))
    changed = msgspec.structs.replace(last, first=first.first, prior=first.prior, raw=raw_size(events), blobs=blobs)
    return seal(changed, events)


def cut(data: bytes, key: str, number: int, *, after: bool) -> bytes | None:
    """The segment with only its events up to *number*, or only those *after* it; None if there are none."""
    header, body = _body(data, key, SEGMENT)
    events = _split(body, key)
    kept = [event for event in events if (number_of(event) > number) == after]
    if len(kept) == len(events):
        return data
    if not kept:
        return None
    prior = number_of(events[len(events) - len(kept) - 1]) if after else header.prior
    first, last = number_of(kept[0]), number_of(kept[-1])
    return seal(msgspec.structs.replace(header, first=first, last=last, prior=prior, raw=raw_size(kept)), kept)


def moved(data: bytes, key: str, thread: str) -> bytes:
    """The same segment or base, for another thread; what is compressed stays so."""
    header, body = _opened(data, key)
    return _framed(data[:3], _encoder.encode(msgspec.structs.replace(header, thread=thread)), bytes(body))


def relinked(data: bytes, key: str, prior: int) -> bytes:
    """The same base, following the one at *prior*."""
    header, body = _opened(data, key, BASE)
    return _framed(BASE, _encoder.encode(msgspec.structs.replace(header, prior=prior)), bytes(body))


def encode_state(state: State) -> bytes:
    """A state as the body of a base.

    Raises:
        SegmentTooLarge: it is over 17 MiB, or holds more than a million values or a number over 64 bits.
    """
    try:
        data = _encoder.encode(state)
    except OverflowError as exc:  # A count of tokens that was added up.
        raise SegmentTooLarge(f"a state cannot be written: {exc}") from None
    if len(data) > MAX_RAW:
        raise SegmentTooLarge(f"a state has {len(data):,} bytes; a base may have {MAX_RAW:,}")
    _check_items(data, "a state")
    return data


def seal_base(header: Header, state: bytes) -> bytes:
    """The base that holds a state, as `encode_state` wrote it."""
    return _sealed(BASE, header, state)


def read_base(data: bytes, key: str) -> tuple[Header, State]:
    """What the base stored under *key* holds.

    Raises:
        UnknownVersion, CorruptSegment, SegmentTooLarge: as `read_segment`.
    """
    header, body = _body(data, key, BASE)
    state = decoded(_state_decoder.decode, body, f"base {key!r}")
    if (state.number, state.turn) != (header.last, header.turn):
        raise CorruptSegment(f"base {key!r} says event {header.last}, turn {header.turn} and holds another state")
    return header, state


def seal_blob(content: bytes) -> bytes:
    """*content*, compressed."""
    return BLOB + bytes(FORMAT) + _zstd.compressor.compress(content)


def read_blob(data: bytes, name: str) -> bytes:
    """The content of the blob *name*.

    Raises:
        UnknownVersion, CorruptSegment, SegmentTooLarge: as `read_segment`; its name is its checksum.
    """
    what = f"blob {name!r}"
    if len(data) < 5:
        raise CorruptSegment(f"{what} has {len(data)} bytes, which is less than its prefix")
    _check_format(data[:3], data[3:5], BLOB, what)
    content = _decompressed(memoryview(data)[5:], what)
    if sha256(content).hexdigest() != name:
        raise CorruptSegment(f"{what} does not hold what its name says; it was damaged or changed")
    return content


def _sealed(magic: bytes, header: Header, raw: bytes) -> bytes:
    return _framed(magic, _encoder.encode(header), _zstd.compressor.compress(raw))


def _framed(magic: bytes, header: bytes, body: bytes) -> bytes:
    prefix = _PREFIX.pack(magic, *FORMAT, 0, len(header))
    checksum = zlib.crc32(body, zlib.crc32(header, zlib.crc32(prefix[-4:])))
    return _PREFIX.pack(magic, *FORMAT, checksum, len(header)) + header + body


def _opened(data: bytes, key: str, expected: bytes = b"") -> tuple[Header, memoryview]:
    """The header and the compressed body of what is stored under *key*."""
    what = f"segment {key!r}"
    if len(data) < _PREFIX.size:
        raise CorruptSegment(f"{what} has {len(data)} bytes, which is less than its prefix")
    magic, major, minor, checksum, length = _PREFIX.unpack_from(data)
    _check_format(magic, (major, minor), expected or magic, what)
    if zlib.crc32(memoryview(data)[_PREFIX.size - 4 :]) != checksum:
        raise CorruptSegment(f"{what} does not match its checksum; it was damaged or changed")
    view = memoryview(data)[_PREFIX.size :]
    return decoded(_header_decoder.decode, view[:length], f"the header of {what}"), view[length:]


def _check_format(magic: bytes, version: bytes | tuple[int, int], expected: bytes, what: str) -> None:
    if magic != expected or magic not in (SEGMENT, BASE, BLOB):
        raise CorruptSegment(f"{what} begins with {magic!r}, expected {expected!r}")
    major, minor = version
    if major != FORMAT[0] or minor > FORMAT[1]:
        raise UnknownVersion(f"{what} has format {major}.{minor}, this version reads {FORMAT[0]}.{FORMAT[1]}")


def _body(data: bytes, key: str, magic: bytes) -> tuple[Header, bytes]:
    """The header and the decompressed body of what is stored under *key*."""
    header, body = _opened(data, key, magic)
    what = f"segment {key!r}"
    if header.raw > MAX_RAW:
        raise SegmentTooLarge(f"{what} claims {header.raw:,} bytes of at most {MAX_RAW:,}")
    raw = _decompressed(body, what)
    if len(raw) != header.raw:
        raise CorruptSegment(f"{what} says {header.raw} bytes and holds {len(raw)}")
    return header, raw


def _decompressed(body: memoryview, what: str) -> bytes:
    try:
        claimed = zstandard.frame_content_size(body)
        if claimed > MAX_RAW:
            raise SegmentTooLarge(f"{what} claims {claimed:,} bytes of at most {MAX_RAW:,}")
        if claimed < 0:
            raise CorruptSegment(f"{what} does not say how large it is")
        return _zstd.decompressor.decompress(body)
    except zstandard.ZstdError as exc:
        raise CorruptSegment(f"{what} cannot be read: {exc}") from None


def _split(body: bytes, key: str) -> list[bytes]:
    """The events of a segment's body, none of them decoded."""
    return [bytes(event) for event in decoded(_raw_decoder.decode, body, f"segment {key!r}")]


def decoded(decode: Callable[[Any], T], data: Any, what: str) -> T:
    """What *decode* makes of stored bytes.

    Raises:
        CorruptSegment: nothing, for whatever reason.
        SegmentTooLarge: it would make more than a million values.
    """
    _check_items(data, what)
    try:
        return decode(data)
    except UNREADABLE as exc:
        raise CorruptSegment(f"{what} cannot be read: {exc}") from None


def _check_items(data: bytes | memoryview, what: str) -> None:
    if holds_more(data, MAX_ITEMS):
        raise SegmentTooLarge(f"{what} holds more than {MAX_ITEMS:,} values, the most that is kept")


def _array(length: int) -> bytes:
    """The MessagePack head of an array."""
    if length < 16:
        return bytes([0x90 | length])
    return b"\xdc" + length.to_bytes(2, "big") if length < 2**16 else b"\xdd" + length.to_bytes(4, "big")
