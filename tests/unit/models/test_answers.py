"""Bodies of answers, whatever their form, read from chunks that end anywhere."""

import httpx2
import pytest

from minideep.models.answers import Events, document, received
from minideep.models.failures import BadReply, StreamBroke


def read(*chunks):
    """The events in *chunks*, and whether the stream said that it is done."""
    events = Events()
    found = [event for chunk in chunks if chunk for event in events.read(chunk)]
    return [*found, *events.read(b"")], events.done


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
    assert read(stream) == (EVENTS, True)
    for cut in range(len(stream)):
        assert read(stream[:cut], stream[cut:]) == (EVENTS, True)
    assert read(*[stream[at : at + 1] for at in range(len(stream))]) == (EVENTS, True)


def test_an_event_comes_as_soon_as_it_is_whole():
    events = Events()
    assert list(events.read(b'data: {"n": 1}\n\ndata: {"n"')) == [{"n": 1}]
    assert list(events.read(b": 2}\n\n")) == [{"n": 2}]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n\r\n"])
def test_the_end_is_seen_without_the_blank_line_behind_it(end):
    assert read(b'data: {"n": 1}\n\ndata: [DONE]' + end) == ([{"n": 1}], True)


@pytest.mark.parametrize("data", [b"{", b"\xff", b'{"n"'])
def test_data_that_is_no_json_breaks_the_stream(data):
    with pytest.raises(StreamBroke, match="an event should be JSON, found '"):
        read(b'data: {"n": 1}\n\ndata: ' + data)


@pytest.mark.parametrize("data", [b"[]", b"7", b"null", b":", b""])
def test_data_that_is_no_object_is_no_event(data):
    assert read(b"data: " + data + b'\n\ndata: {"n": 1}\n\n') == ([{"n": 1}], False)


def test_a_line_of_megabytes_comes_in_small_chunks():
    line = b'data: {"n": "' + b"x" * 5_000_000 + b'"}\n\n'
    (event,), _ = read(*[line[at : at + 1000] for at in range(0, len(line), 1000)])
    assert len(event["n"]) == 5_000_000


class Gathered:
    """A reply that is whole at its third event, or once the server has said that it is done."""

    def __init__(self):
        self.events = []

    def add(self, event):
        self.events.append(event)

    def whole(self, done):
        return {"events": self.events} if done or len(self.events) >= 3 else None


async def chunks_of(*chunks, lost=False):
    for chunk in chunks:
        yield chunk
    if lost:
        raise httpx2.RemoteProtocolError("peer closed connection")


async def test_a_body_is_known_as_a_document_or_as_events_by_its_first_bytes():
    assert await received(chunks_of(b"\xef\xbb\xbf \n", b'{"a"', b": 1}"), Gathered()) == {"a": 1}
    assert await received(chunks_of(b"\n: hi\n\ndata: ", b'{"n": 1}\n\ndata: [DONE]'), Gathered()) == {
        "events": [{"n": 1}]
    }
    assert await document(chunks_of(b'{"a"', b": 1}")) == {"a": 1}


async def test_a_connection_that_is_lost_after_the_reply_does_no_harm():
    assert await received(chunks_of(STREAM, b"data: {", lost=True), Gathered()) == {"events": EVENTS}


@pytest.mark.parametrize(
    ("chunks", "lost", "said"),
    [
        ([b'data: {"n": 1}\n\n'], True, "peer closed connection"),
        ([b'{"a": '], True, "peer closed connection"),
        ([b"no healthy upst"], True, "peer closed connection"),
        ([b'data: {"n": 1}\n\n'], False, "the stream ended before the reply did"),
        ([b'data: {"n": \n\n'], False, "an event should be JSON, found '{\"n\": '"),
        ([], False, "the answer is empty"),
    ],
    ids=["lost", "lost in a document", "lost in a text", "ended", "no JSON", "empty"],
)
async def test_a_reply_that_is_not_complete_may_be_asked_for_again(chunks, lost, said):
    with pytest.raises(StreamBroke) as caught:
        await received(chunks_of(*chunks, lost=lost), Gathered())
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"<html><title>Not here</title><p>data: 1</p></html>", "JSON or events, found 'Not here'"),
        (b"no healthy upstream", "JSON or events, found 'no healthy upstream'"),
        (b'{"a": 1', "a JSON object, found '{\"a\": 1'"),
        (b"[1]", "a JSON object, found '[1]'"),
        (b'{"error": {"message": "too hot"}}', "too hot"),
        (b'data: {"error": "too hot"}\n\n', "too hot"),
        (b'data: {"type": "error", "message": "too hot"}\n\n', "too hot"),
        (b"event: error\ndata: too hot\n\n", "too hot"),
        (b'error: {"message": "too hot"}\n\n', "too hot"),
    ],
)
async def test_what_is_no_reply_is_refused_with_what_it_says(raw, said):
    with pytest.raises(BadReply) as caught:
        await received(chunks_of(raw), Gathered())
    assert str(caught.value).endswith(said)


async def test_where_a_document_is_wanted_events_are_refused():
    with pytest.raises(BadReply, match="a JSON object"):
        await document(chunks_of(STREAM))
