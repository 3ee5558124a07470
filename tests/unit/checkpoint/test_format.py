"""Events to bytes and back: nothing is lost, nothing else is accepted."""

import struct
import zlib
from typing import get_args

import msgspec
import pytest
import zstandard
from hypothesis import given, strategies as st

from minideep.checkpoint import format as codec
from minideep.checkpoint.format import FORMAT, Header, decode, encode, read_segment, seal
from minideep.errors import CorruptSegment, IllegalEvent, SegmentTooLarge, UnknownVersion
from minideep.events import AnyEvent, FileWritten, ModelReplied, Noted, TodosWritten, ToolReturned, TurnEnded
from minideep.messages import AssistantMessage, Image, ProviderBlock, Text, Thinking, ToolCall, clean
from minideep.plain_json import from_json, parse_arguments, to_json
from minideep.state import Edit, Todo

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)
ARGS = st.dictionaries(st.text(st.characters(), max_size=5), JSON, max_size=3)


def segment(*events: AnyEvent, thread="t", path=(), **changes) -> bytes:
    bodies = [encode(number, event) for number, event in enumerate(events, 1)]
    header = Header(thread, path, 1, len(events), 0, b"id", codec.raw_size(bodies), 1.0)
    return seal(msgspec.structs.replace(header, **changes), bodies)


CONTENT = st.none() | st.text(max_size=9) | st.binary(max_size=9)
PLAIN = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4), st.lists, max_leaves=4)
GIVEN = {FileWritten: {"content": CONTENT}, Noted: {"value": PLAIN}}
st.register_type_strategy(ToolCall, st.builds(ToolCall, st.text(max_size=4), ARGS, st.text(max_size=4)))
st.register_type_strategy(Edit, st.builds(Edit, ARGS))


@given(st.one_of(*(st.builds(kind, **GIVEN.get(kind, {})) for kind in get_args(AnyEvent))))
def test_decode_undoes_encode(event):
    try:
        data = encode(1, event)
    except IllegalEvent:  # Text with lone surrogates is escaped before it becomes an event.
        return
    assert encode(1, decode(data)) == data


@given(st.lists(st.builds(ToolReturned, st.text(max_size=5), st.text(max_size=50)), min_size=1, max_size=40))
def test_a_segment_holds_what_was_put_in(events):
    header, entries = read_segment(segment(*events), "key")
    assert (header.first, header.last) == (1, len(events))
    assert [(entry.number, entry.event) for entry in entries] == list(enumerate(events, 1))


@pytest.mark.parametrize("count", [1, 15, 16, 65_535, 65_536])
def test_a_segment_of_any_length_can_be_read(count):
    _, entries = read_segment(segment(*[TurnEnded(1.0)] * count), "key")
    assert len(entries) == count


@given(ARGS)
def test_whatever_json_can_say_survives_as_arguments(args):
    call = ToolCall("x", args, "c")
    event = ModelReplied(AssistantMessage((call,)))
    again = decode(encode(1, event)).message.calls[0]
    assert again == call
    assert again.args == args


def test_arguments_keep_what_messagepack_cannot_say():
    odd = {"big": 2**70, "small": -(2**70), "lone": "\ud800", "inf": float("inf"), "none": None, "": ""}
    again = decode(encode(1, ModelReplied(AssistantMessage((ToolCall("x", odd, "c"),))))).message.calls[0]
    assert again.args == odd
    nan = ToolCall("x", {"nan": float("nan")}).args["nan"]
    assert nan != nan
    assert Edit(odd).args == odd


def test_nobody_can_change_the_arguments_of_a_call_that_was_made():
    args = {"list": [1]}
    call = ToolCall("x", args)
    args["list"].append(2)
    call.args["list"].append(3)
    assert call.args == {"list": [1]}


@pytest.mark.parametrize("text", ['{"a": tru', "[1]", "7", '"text"', "[" * 100_000])
def test_arguments_that_are_no_object_are_kept_as_what_the_model_wrote(text):
    call = ToolCall("x", parse_arguments(text))
    assert (call.args, call.malformed) == ({}, text)


def test_arguments_that_nest_too_deep_to_be_read_from_anywhere_are_what_the_model_wrote():
    text = '{"a": ' + "[" * 200 + "]" * 200 + "}"
    assert ToolCall("x", parse_arguments(text)).malformed == text
    with pytest.raises(ValueError, match="nest deeper than 100"):
        ToolCall("x", from_json(text))


def test_arguments_may_be_left_out():
    assert ToolCall("x", parse_arguments("")).args == {}


@given(st.text(st.characters()))
def test_clean_text_can_be_encoded_and_other_text_is_as_it_was(text):
    cleaned = clean(text)
    cleaned.encode()
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        assert cleaned == text


@given(JSON)
def test_json_is_read_as_it_was_written(value):
    assert from_json(to_json(value)) == value


def test_provider_bytes_come_back_bit_by_bit():
    raw = b'{"type": "thinking", "signature": "\\u00e9==", "n": 1.0}'
    blocks = (Thinking("t", "anthropic", raw), ProviderBlock("openai", raw), Image(b"\x00\xff"), Text(""))
    event = ModelReplied(AssistantMessage(blocks))
    assert decode(encode(1, event)) == event


@pytest.mark.parametrize("value", [object(), {1, 2, object()}, 2**70, "\ud800", {"a": [object()]}])
def test_what_cannot_be_saved_is_refused_when_it_is_recorded(value):
    with pytest.raises(IllegalEvent, match="Noted cannot be saved"):
        encode(1, Noted("me", "k", value))


def test_an_event_of_the_wrong_types_is_refused_when_it_is_read_back():
    with pytest.raises(IllegalEvent, match="cannot be read back: Expected"):
        decode(encode(1, TodosWritten((Todo(7),))))


def test_an_event_over_the_cap_is_refused():
    with pytest.raises(SegmentTooLarge, match="FileWritten has 16,777,2"):
        encode(1, FileWritten("/a", "x" * 2**24, 2**24, "s", 1.0))


# ---- damage


GOOD = segment(ToolReturned("c", "result " * 50), TurnEnded(1.0))


@pytest.mark.parametrize("place", range(0, len(GOOD), 3))
def test_a_flipped_byte_is_found(place):
    bad = bytearray(GOOD)
    bad[place] ^= 0x40
    with pytest.raises((CorruptSegment, UnknownVersion), match="segment 'key'"):
        read_segment(bytes(bad), "key")


@pytest.mark.parametrize("length", range(0, len(GOOD), 7))
def test_a_truncated_segment_is_found(length):
    with pytest.raises(CorruptSegment, match="segment 'key'"):
        read_segment(GOOD[:length], "key")


@pytest.mark.parametrize(("major", "minor"), [(2, 0), (0, 9), (1, FORMAT[1] + 1)])
def test_a_format_of_the_future_is_refused_by_name(major, minor):
    with pytest.raises(UnknownVersion, match=f"has format {major}.{minor}, this version reads 1.{FORMAT[1]}"):
        read_segment(GOOD[:3] + bytes([major, minor]) + GOOD[5:], "key")


def forged(body: bytes, raw: int) -> bytes:
    """A segment with a right checksum round a body of somebody else's."""
    header = msgspec.msgpack.encode(Header("t", (), 1, 1, 0, b"id", raw, 1.0))
    length = struct.pack(">I", len(header))
    return b"mdl\x01\x00" + struct.pack(">I", zlib.crc32(length + header + body)) + length + header + body


def test_a_zstd_bomb_is_refused_before_memory_is_spent():
    bomb = zstandard.compress(bytes(2**28))
    assert len(bomb) < 30_000
    with pytest.raises(SegmentTooLarge, match="claims 268,435,456 bytes"):
        read_segment(forged(bomb, 100), "key")


@pytest.mark.parametrize(
    "body",
    [
        b"no zstd",
        zstandard.compress(b"\x91\x92\x01\x93\x63"),
        zstandard.compress(b"\x91\x92\x01\x92\x01\x05"),
        zstandard.ZstdCompressor(write_content_size=False).compress(b"\x90"),
    ],
)
def test_a_body_that_no_append_wrote_is_refused(body):
    with pytest.raises(CorruptSegment, match="segment 'key'"):
        read_segment(forged(body, 5), "key")
