"""The body of an answer, whatever its form: one JSON document, or server-sent events.

The SDKs trust the request and the headers to say which of the two it is, and their readers lose events without a name,
or fail at events without data. Gateways send all of these, so bodies are read here.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol, cast

from ..plain_json import from_json
from .error_bodies import reason_of
from .failures import BadReply, StreamBroke

Wire = dict[str, Any]
"""A JSON object in a provider's words."""

BLANK = b" \t\r\n\xef\xbb\xbf"
"""What may stand before a body: blanks, and a byte order mark."""
MAX_OTHER = 20_000
"""How much is kept of a body that is neither JSON nor events."""
META = (b"", b"id", b"retry")
"""The fields of events that say nothing here; a comment is a field without a name."""


class Stream(Protocol):
    """A reply that grows with the events of its stream."""

    def add(self, event: Wire) -> None:
        """Add one event and pass its deltas on to listeners. Raises `BadReply` for an error among the events."""
        ...

    def whole(self, done: bool) -> Wire | None:
        """Return the reply in the form that the API sends without streaming, or None if it is not complete.

        *done* is True if the server has said `[DONE]`.
        """
        ...


async def received(chunks: AsyncIterator[bytes], stream: Stream) -> Wire:
    """Return the document in *chunks*, or what *stream* makes of the events in them.

    A connection that is lost after the last event of a reply does no harm.

    Raises:
        BadReply: the body is neither of the two, or it says that something failed.
        StreamBroke: it ended before the reply did.
    """
    import httpx2

    events, lost, found = Events(), None, b""
    try:
        found = await _head(chunks)
        if found[:1] in (b"{", b"["):
            return _document(found + b"".join([chunk async for chunk in chunks]))
        async for chunk in _all(found, chunks):
            for event in events.read(chunk):
                stream.add(event)
    except httpx2.TransportError as exc:
        lost = exc
    if whole := stream.whole(events.done):
        return whole
    if events.other and not lost:
        raise BadReply(f"the answer should be JSON or events, found {_prose(events.other)!r}")
    ended = "the stream ended before the reply did" if found else "the answer is empty"
    raise StreamBroke(str(lost or ended)) from lost


async def document(chunks: AsyncIterator[bytes]) -> Wire:
    """Return the document in *chunks*.

    Raises:
        BadReply: the body is no JSON object, or it says that something failed.
    """
    return _document(b"".join([chunk async for chunk in chunks]))


class Events:
    """Server-sent events, from chunks of bytes that end anywhere.

    https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
    """

    def __init__(self) -> None:
        self.done: bool = False
        """Whether the server has said `[DONE]`. What follows is not read."""
        self.other: bytes = b""
        """The beginning of what is no event."""
        self._unended: list[bytes] = []
        """The line that has no end yet."""
        self._return = b""
        self._name = b""
        self._data: list[bytes] = []

    def read(self, chunk: bytes) -> Iterator[Wire]:
        """Yield the events that *chunk* completes. An empty one is the last, and ends an event that nothing ended.

        Raises:
            BadReply: an event says that something failed.
            StreamBroke: an event is not JSON.
        """
        if not chunk:
            chunk = b"\n\n"
        elif self._return or b"\r" in chunk:
            chunk = self._with_plain_ends(chunk)
        if b"\n" not in chunk:
            self._unended.append(chunk)  # Joined once: a line may be megabytes long.
            return
        *lines, rest = (b"".join([*self._unended, chunk]) if self._unended else chunk).split(b"\n")
        self._unended = [rest] if rest else []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line:
                self._add(line)
            elif (event := self._ended()) is not None:
                yield event

    def _with_plain_ends(self, chunk: bytes) -> bytes:
        """Return *chunk* with each line ended by a line feed. A return at its end waits for what follows it."""
        chunk, self._return = self._return + chunk, b""
        if chunk.endswith(b"\r"):
            chunk, self._return = chunk[:-1], b"\r"
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _add(self, line: bytes) -> None:
        """Add a line that is not data."""
        field, _, value = line.partition(b":")
        if field == b"event":
            self._name = value.strip()
        elif field == b"error":  # As llama.cpp sent errors: https://github.com/ggml-org/llama.cpp/pull/16109
            self._name, self._data = field, [value]
        elif field not in META and len(self.other) < MAX_OTHER:
            self.other += line + b"\n"

    def _ended(self) -> Wire | None:
        """Return the event whose lines have come; None if it says nothing."""
        name, data = self._name, self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._name, self._data = b"", []
        # Gateways send comments as data: https://github.com/mnfst/llm-gateway/issues/2053
        if not data or data.startswith(b":") or self.done:
            return None
        if data.startswith(b"[DONE]"):
            self.done = True
            return None
        try:
            value = from_json(data)
        except ValueError:
            text = data[:200].decode(errors="replace")
            raise (
                refusal(text) if name == b"error" else StreamBroke(f"an event should be JSON, found {text!r}")
            ) from None
        return _unrefused(cast(Wire, value), name == b"error") if isinstance(value, dict) else None


async def _head(chunks: AsyncIterator[bytes]) -> bytes:
    """Return the first chunks, up to the first that is not blank, without the blanks before it."""
    async for chunk in chunks:
        if head := chunk.lstrip(BLANK):
            return head
    return b""


async def _all(head: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield *head*, the chunks behind it, and an empty one as the end."""
    yield head
    async for chunk in chunks:
        if chunk:
            yield chunk
    yield b""


def _document(content: bytes) -> Wire:
    try:
        value = from_json(content)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BadReply(f"the answer should be a JSON object, found {_prose(content)!r}")
    return _unrefused(cast(Wire, value))


def _unrefused(value: Wire, named: bool = False) -> Wire:
    """Return *value*; if it is an error, which one *named* so is, raise it."""
    if error := value.get("error"):
        raise refusal(error)
    if named or value.get("type") == "error" or value.get("object") == "error":
        raise refusal(value)
    return value


def refusal(error: Any) -> BadReply:
    """Return an exception for the error in an answer of status 200."""
    return BadReply(reason_of(BadReply("", error)) or str(error), error)


def _prose(content: bytes) -> str:
    """Return the beginning of *content*, or what a page in HTML says."""
    text = content[:MAX_OTHER].decode(errors="replace")
    return (reason_of(BadReply("", text)) or text)[:200]
