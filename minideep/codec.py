"""Events to bytes and back: MessagePack of a closed union, zstd, and a header that says what it is.

    segment = b"mdl" major minor crc32(4) length(4) header body

The checksum covers all that follows it. The header is an array (`Header`); the body is zstd over an array of
(number, event). No name in the bytes is ever imported. A new field goes last and has a default; any addition raises
the minor number, and a reader refuses a newer one: arrays have no names, so it could only guess.
"""

import struct
import threading
import zlib

import msgspec
import zstandard
from msgspec import Struct

from .errors import CorruptSegment, IllegalEvent, SegmentTooLarge, UnknownVersion
from .events import AnyEvent, Noted
from .messages import too_deep
from .state import Path

MAGIC = b"mdl"
FORMAT = (1, 0)
MAX_EVENT = 16 * 2**20
"""Bytes of one encoded event."""
CUT = 2**20
"""Bytes of events after which a segment is cut; only a single event may be larger."""
MAX_RAW = MAX_EVENT + CUT
"""Bytes that a segment may decompress to."""

Entry = tuple[int, AnyEvent]
_PREFIX = struct.Struct(">3sBBII")
_encoder = msgspec.msgpack.Encoder()
_event_decoder = msgspec.msgpack.Decoder(Entry)
_body_decoder = msgspec.msgpack.Decoder(list[Entry])


class Header(Struct, frozen=True, array_like=True):
    """What a segment says about itself."""

    thread: str
    path: Path
    first: int
    """The number of its first event in the thread."""
    last: int
    prior: int
    """The number of the run's last event before it; 0 at the beginning."""
    append: bytes
    """The id of the append that wrote it."""
    raw: int
    """Bytes of the body before compression."""
    at: float
    """Seconds since 1970."""


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
        SegmentTooLarge: it is over 16 MiB.
    """
    try:
        if isinstance(event, Noted) and too_deep(event.value):
            raise ValueError("its value nests deeper than 100")
        data = _encoder.encode((number, event))
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise IllegalEvent(f"{type(event).__name__} cannot be saved: {exc}") from None
    if len(data) > MAX_EVENT:
        raise SegmentTooLarge(f"{type(event).__name__} has {len(data):,} bytes; an event may have {MAX_EVENT:,}")
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
    except (msgspec.DecodeError, RecursionError) as exc:
        raise IllegalEvent(f"an event that could not be read back: {exc}") from None


def seal(header: Header, events: list[bytes]) -> bytes:
    """The segment that holds *events*, each as `encode` wrote it."""
    body = _zstd.compressor.compress(_array(len(events)) + b"".join(events))
    rest = _encoder.encode(header)
    prefix = _PREFIX.pack(MAGIC, *FORMAT, 0, len(rest))
    checksum = zlib.crc32(body, zlib.crc32(rest, zlib.crc32(prefix[-4:])))
    return _PREFIX.pack(MAGIC, *FORMAT, checksum, len(rest)) + rest + body


def raw_size(events: list[bytes]) -> int:
    """What a segment of *events* decompresses to, in bytes."""
    return len(_array(len(events))) + sum(map(len, events))


def read_header(data: bytes, key: str) -> tuple[Header, memoryview]:
    """The header and the compressed body of the segment stored under *key*.

    Raises:
        UnknownVersion: a format that this version does not know.
        CorruptSegment: anything that `seal` did not write.
    """
    if len(data) < _PREFIX.size:
        raise CorruptSegment(f"segment {key!r} has {len(data)} bytes, which is less than its prefix")
    magic, major, minor, checksum, length = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise CorruptSegment(f"segment {key!r} begins with {magic!r}, expected {MAGIC!r}")
    if major != FORMAT[0] or minor > FORMAT[1]:
        raise UnknownVersion(f"segment {key!r} has format {major}.{minor}, this version reads {FORMAT[0]}.{FORMAT[1]}")
    if zlib.crc32(memoryview(data)[_PREFIX.size - 4 :]) != checksum:
        raise CorruptSegment(f"segment {key!r} does not match its checksum; it was damaged or changed")
    view = memoryview(data)[_PREFIX.size :]
    try:
        return _header_decoder.decode(view[:length]), view[length:]
    except msgspec.DecodeError as exc:
        raise CorruptSegment(f"segment {key!r} has no readable header: {exc}") from None


def read_segment(data: bytes, key: str) -> tuple[Header, list[Entry]]:
    """What the segment stored under *key* holds; sizes are checked before memory is spent.

    Raises:
        UnknownVersion, CorruptSegment: as `read_header`.
        SegmentTooLarge: it claims more than 17 MiB of events.
    """
    header, body = read_header(data, key)
    try:
        claimed = zstandard.frame_content_size(body)
        if max(claimed, header.raw) > MAX_RAW:
            raise SegmentTooLarge(f"segment {key!r} claims {max(claimed, header.raw):,} bytes of at most {MAX_RAW:,}")
        if claimed != header.raw:
            raise CorruptSegment(f"segment {key!r} says {header.raw} bytes and holds {claimed}")
        return header, _body_decoder.decode(_zstd.decompressor.decompress(body))
    except (zstandard.ZstdError, msgspec.DecodeError, RecursionError) as exc:
        raise CorruptSegment(f"segment {key!r} cannot be read: {exc}") from None


def _array(length: int) -> bytes:
    """The MessagePack head of an array."""
    if length < 16:
        return bytes([0x90 | length])
    return b"\xdc" + length.to_bytes(2, "big") if length < 2**16 else b"\xdd" + length.to_bytes(4, "big")
