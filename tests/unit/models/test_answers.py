"""Bodies of answers: documents and events, however they are cut into chunks."""

import httpx2
import pytest

from minideep.models.answers import Events, document, received
from minideep.models.failures import BadReply, StreamBroke

EVENTS = [{"at": 1}, {"at": 2, "text": "h\u00e9"}, {"at": 3}]
LINES = 'data: {"at": 1}\n\n: alive\n\nevent: two\nid: 7\ndata: {"at": 2,\ndata:"text": "h\u00e9"}\n\nretry: 3\n\ndata:{"at": 3}\n\n'


class Said:
    """A stream whose reply is complete with the last of `EVENTS`, or with `[DONE]`."""

    def __init__(self):
        self.events = []

    def add(self, event):
        self.events.append(event)

    def whole(self, done):
        return {"events": self.events} if done or EVENTS[-1] in self.events else None


async def parts(*chunks, lost=False):
    for chunk in chunks:
        yield chunk
    if lost:
        raise httpx2.RemoteProtocolError("peer closed connection")


def read(*chunks):
    events = Events()
    return [event for chunk in (*chunks, b"") for event in events.read(chunk)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CR LF", "CR"])
def test_events_are_the_same_wherever_their_chunks_end(end):
    raw = LINES.replace("\n", end).encode()
    assert read(*(raw[at : at + 1] for at in range(len(raw)))) == EVENTS
    assert all(read(raw[:at], raw[at:]) == EVENTS for at in range(1, len(raw)))


def test_an_event_is_there_as_soon_as_its_blank_line_is():
    events = Events()
    assert list(events.read(b'data: {"at": 1}\n')) == []
    assert list(events.read(b'\ndata: {"a')) == [{"at": 1}]


def test_what_follows_done_is_not_read():
    events = Events()
    assert list(events.read(b'data: [DONE]\n\ndata: {"at": 1}\n\n')) == []
    assert events.done


@pytest.mark.parametrize("blank", [b"", b" \r\n", b"\xef\xbb\xbf"], ids=["nothing", "blanks", "byte order mark"])
async def test_the_first_bytes_say_what_an_answer_is(blank):
    assert await received(parts(blank, b'{"a": ', b"1}"), Said()) == {"a": 1}
    assert await received(parts(blank, LINES.encode()), Said()) == {"events": EVENTS}


async def test_a_connection_that_is_lost_after_the_reply_does_no_harm():
    assert await received(parts(LINES.encode(), b"data: {", lost=True), Said()) == {"events": EVENTS}


@pytest.mark.parametrize(
    ("chunks", "lost", "said"),
    [
        ([b'data: {"at": 1}\n\n'], True, "peer closed connection"),
        ([b'{"a": '], True, "peer closed connection"),
        ([b"no healthy upst"], True, "peer closed connection"),
        ([b'data: {"at": 1}\n\n'], False, "the stream ended before the reply did"),
        ([b'data: {"at": \n\n'], False, "an event should be JSON, found '{\"at\": '"),
        ([], False, "the answer is empty"),
    ],
    ids=["lost", "lost in a document", "lost in a text", "ended", "no JSON", "empty"],
)
async def test_a_reply_that_is_not_complete_may_be_asked_for_again(chunks, lost, said):
    with pytest.raises(StreamBroke) as caught:
        await received(parts(*chunks, lost=lost), Said())
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
        await received(parts(raw), Said())
    assert str(caught.value).endswith(said)


async def test_where_a_document_is_wanted_events_are_refused():
    with pytest.raises(BadReply, match="a JSON object"):
        await document(parts(LINES.encode()))
