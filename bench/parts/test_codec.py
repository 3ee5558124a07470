"""The stored format: events and states become bytes and are read again, and bytes are compressed."""

import pytest
import zstandard
from work import counted, text

from minideep import AssistantMessage, ToolCall, UserMessage
from minideep.checkpoint import decode, encode, encode_state, format as codec
from minideep.core import apply
from minideep.events import AnyEvent, ModelReplied, ToolReturned, UserSaid
from minideep.state import State

SIZE = 500
"""Characters of each tool result."""
COUNTS = pytest.mark.parametrize("count", [1, 10, 100, 1_000, 2_000], ids=counted("message"))


def events_of(count: int) -> list[AnyEvent]:
    """Return the events that make a context of *count* messages."""
    events: list[AnyEvent] = [UserSaid(UserMessage("go"), 1.0)]
    for number in range(count // 2):
        call = ToolCall("look", {"page": number}, f"c{number}")
        events += [ModelReplied(AssistantMessage((call,))), ToolReturned(call.id, text(SIZE))]
    return events[:count]


def state_of(count: int) -> State:
    state = State()
    for event in events_of(count):
        apply(state, event)
    return state


def header_of(bodies: list[bytes]) -> codec.Header:
    return codec.Header("t", (), 1, len(bodies), 0, b"id", codec.raw_size(bodies), 1.0)


def bodies_of(count: int) -> list[bytes]:
    return [encode(number, event) for number, event in enumerate(events_of(count), 1)]


def rounds(count: int) -> int:
    return max(10, min(200, 20_000 // count))


@COUNTS
def test_events_are_encoded(measure, count):
    """Encoding one event."""
    events = events_of(count)
    measure(lambda: [encode(number, event) for number, event in enumerate(events, 1)], rounds=rounds(count), each=count)


@COUNTS
def test_events_are_decoded(measure, count):
    """Decoding one event."""
    bodies = bodies_of(count)
    measure(lambda: [decode(body) for body in bodies], rounds=rounds(count), each=count)


@COUNTS
def test_a_segment_is_sealed(measure, count):
    """Making a segment of encoded events: joined, compressed, with header and checksum."""
    bodies = bodies_of(count)
    header = header_of(bodies)
    data = codec.seal(header, bodies)
    sizes = {"B raw": header.bytes_raw, "B stored": len(data)}
    measure(lambda: codec.seal(header, bodies), rounds=rounds(count), **sizes)


@COUNTS
def test_a_segment_is_read(measure, count):
    """Reading a segment: checked, decompressed, decoded."""
    bodies = bodies_of(count)
    data = codec.seal(header_of(bodies), bodies)
    measure(lambda: codec.read_segment(data, "a segment"), rounds=rounds(count))


@COUNTS
def test_a_snapshot_is_made(measure, count):
    """Making a snapshot of a state: encoded and compressed."""
    state = state_of(count)
    header = codec.Header("t", (), 0, state.number, 0, b"id", len(encode_state(state)), 1.0, turn=state.turn)
    data = codec.seal_snapshot(header, encode_state(state))
    measure(lambda: codec.seal_snapshot(header, encode_state(state)), rounds=rounds(count), **{"B stored": len(data)})


@COUNTS
def test_a_snapshot_is_read(measure, count):
    """Reading a snapshot of a state."""
    state = state_of(count)
    raw = encode_state(state)
    header = codec.Header("t", (), 0, state.number, 0, b"id", len(raw), 1.0, turn=state.turn)
    data = codec.seal_snapshot(header, raw)
    measure(lambda: codec.read_snapshot(data, "a snapshot"), rounds=rounds(count))


LEVELS = pytest.mark.parametrize("level", [-1, 1, 3, 6, 9], ids=lambda level: f"level {level}".replace("-", "minus "))


@LEVELS
@pytest.mark.parametrize("kilobytes", [1, 64], ids="{} KB".format)
def test_compression_levels(measure, kilobytes, level):
    """Compressing events with zstd (minideep: level 3, and -1 below 256 bytes)."""
    raw = b"".join(bodies_of(2_000))[: kilobytes * 1024]
    compressor = zstandard.ZstdCompressor(level=level)
    sizes = {"B raw": len(raw), "B stored": len(compressor.compress(raw))}
    measure(lambda: compressor.compress(raw), rounds=50, calls=False, **sizes)


@LEVELS
def test_decompression_by_level(measure, level):
    """Decompressing 64 KB of events, by the level that they were compressed with."""
    data = zstandard.ZstdCompressor(level=level).compress(b"".join(bodies_of(2_000))[: 64 * 1024])
    decompressor = zstandard.ZstdDecompressor()
    measure(lambda: decompressor.decompress(data), rounds=50, calls=False)
