"""What a server answers: one JSON document, or server-sent events.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, cast

from ..messages import from_json
from .failures import StreamBroke


class Answer:
    """The *response* of an HTTP client; *heard* is called for each part that comes."""

    def __init__(self, response: Any, heard: Callable[[], None]) -> None:
        self._response = response
        self._heard = heard
        self.is_json: bool = response.headers.get("content-type", "").startswith("application/json")
        self.done = False
        """True once the server has said `[DONE]`."""

    async def read(self) -> bytes:
        """Return the document."""
        return await self._response.aread()

    async def events(self) -> AsyncGenerator[dict[str, Any]]:
        """Yield the data of each event as soon as it has come.

        Events are told apart by their data, so that their names, which some servers leave out, are not needed.

        Raises:
            StreamBroke: data is not a JSON object.
        """
        stream = _Stream()
        async for chunk in self._response.aiter_bytes():
            self._heard()
            for data in stream.data_in(chunk):
                if data.startswith(b"[DONE]"):
                    self.done = True  # The rest is read all the same, so that the connection can be used again.
                elif not self.done:
                    yield _event(data)
        # Some servers end without the blank line. Any other event that is not ended is half of one.
        self.done = self.done or any(data.startswith(b"[DONE]") for data in stream.data_in(b"\n\n"))


def _event(data: bytes) -> dict[str, Any]:
    try:
        event = from_json(data)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise StreamBroke(f"an event should be a JSON object, found {data[:200]!r}")
    return cast(dict[str, Any], event)


class _Stream:
    """Bytes of a stream that comes in chunks, which may end anywhere."""

    def __init__(self) -> None:
        self._unended: list[bytes] = []
        """The line that has no end yet."""
        self._data: list[bytes] = []
        self._was_cut = False
        """True if the last chunk ended with a return, to which a newline may belong."""

    def data_in(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the data of the events that end in *chunk*."""
        if b"\r" in chunk or self._was_cut:
            chunk = self._with_newlines(chunk)
        if b"\n" not in chunk:
            self._unended.append(chunk)  # Joined once: a line may be megabytes long.
            return
        *lines, rest = b"".join([*self._unended, chunk]).split(b"\n")
        self._unended = [rest]
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif self._data and not line:
                yield b"\n".join(self._data)
                self._data = []

    def _with_newlines(self, chunk: bytes) -> bytes:
        chunk = chunk[1:] if self._was_cut and chunk.startswith(b"\n") else chunk
        self._was_cut = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
