"""Server-sent events, read from chunks that end anywhere."""

import asyncio

import pytest

from minideep.models.answers import Answer
from minideep.models.failures import StreamBroke


class Response:
    """A response whose body comes in these chunks."""

    def __init__(self, *chunks):
        self.headers = {"content-type": "text/event-stream"}
        self.chunks = chunks

    async def aiter_bytes(self):
        for chunk in self.chunks:
            yield chunk


def read(*chunks):
    """The events in *chunks*, whether the stream said that it is done, and how often something was heard."""
    heard = []

    async def go():
        answer = Answer(Response(*chunks), lambda: heard.append(1))
        return [event async for event in answer.events()], answer.done

    return *asyncio.run(go()), len(heard)


STREAM = (
    b": a comment\n\n"
    b'event: a\ndata: {"n": 1}\nid: 7\nretry: soon\n\n'
    b'data:{"n": 2}\n\n\n'
    b'data: {"n":\ndata: 3}\n\n'
    b'data: {"n": "\xc3\xa9"}\n\n'
    b"data: [DONE]\n\n"
    b'data: {"n": "behind the end"}\n\n'
)
EVENTS = [{"n": 1}, {"n": 2}, {"n": 3}, {"n": "é"}]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_events_are_the_same_wherever_the_stream_is_cut(end):
    stream = STREAM.replace(b"\n", end)
    assert read(stream) == (EVENTS, True, 1)
    for cut in range(len(stream)):
        assert read(stream[:cut], stream[cut:]) == (EVENTS, True, 2)
    assert read(*[stream[at : at + 1] for at in range(len(stream))]) == (EVENTS, True, len(stream))


def test_an_event_comes_as_soon_as_it_is_whole():
    async def go():
        answer = Answer(Response(b'data: {"n": 1}\r\n\r', b'\ndata: {"n": 2}\r\n\r\n'), lambda: heard.append(1))
        heard = []
        return [(event, len(heard)) async for event in answer.events()]

    assert asyncio.run(go()) == [({"n": 1}, 1), ({"n": 2}, 2)]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n\r\n"])
def test_the_end_is_seen_without_the_blank_line_behind_it(end):
    assert read(b'data: {"n": 1}\n\ndata: [DONE]' + end) == ([{"n": 1}], True, 1)


def test_half_of_an_event_at_the_end_is_none():
    assert read(b'data: {"n": 1}\n\ndata: {"n"') == ([{"n": 1}], False, 1)
    assert read() == ([], False, 0)


@pytest.mark.parametrize("data", [b"{", b"[]", b"7", b"\xff", b"null"])
def test_data_that_is_no_object_breaks_the_stream(data):
    with pytest.raises(StreamBroke, match="an event should be a JSON object, found b'"):
        read(b"data: " + data + b"\n\n")


def test_a_line_of_megabytes_comes_in_small_chunks():
    line = b'data: {"n": "' + b"x" * 5_000_000 + b'"}\n\n'
    chunks = [line[at : at + 1000] for at in range(0, len(line), 1000)]
    events, _, _ = read(*chunks)
    assert len(events[0]["n"]) == 5_000_000
