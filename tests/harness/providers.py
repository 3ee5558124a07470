"""A provider on loopback: a real HTTP server that gives scripted answers to a real SDK and keeps the requests.

    with Provider(json_answer({"error": ...}, status=429), sse(*events)) as provider:
        client = SomeSDK(base_url=provider.url, api_key="x", max_retries=0)
        ...
    provider.bodies          # the request bodies, as parsed JSON, in order
    provider.paths           # the paths that were asked
    provider.headers         # the request headers, a dict in lower case each
    provider.left            # a threading.Event: the client hung up on an answer with `hold=True`

Answers are given in order, whatever the request. When none is left the server returns 500 and asks for no retry.

Every body is shown to the oracle (`harness.oracle`). What a real API would refuse fails the test at the end of the
`with`, unless the provider is `lenient`: then it only stands in `provider.faults`. A provider that is asked a `part` of
a conversation does not mind that it is not whole.
"""

import json
import re
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from harness.oracle import faults

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["yes", "no"]},
        "why": {"type": ["string", "null"]},
        "text": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["verdict", "why", "text"],
    "additionalProperties": False,
}
"""A schema for structured output that every provider accepts."""


@dataclass(frozen=True)
class Answer:
    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    """Promise more than *body*, and close the connection after it."""
    hold: bool = False
    """Promise more than *body*, and wait after it until the client hangs up."""
    gap: float = 0.0
    """Seconds between two events."""


def json_answer(value: Any, status: int = 200, **headers: str) -> Answer:
    """*value* as JSON; `retry_after="0"` becomes the header `retry-after`."""
    return Answer(json.dumps(value).encode(), status, _named(headers) | {"content-type": "application/json"})


def sse(*events: Any, cut: bool = False, hold: bool = False) -> Answer:
    """Server-sent events: a dict is sent as JSON, under the name of its `type` if it has one, a str as it is."""
    body = "".join(map(_event, events)).encode()
    return Answer(body, headers={"content-type": "text/event-stream"}, cut=cut, hold=hold)


def cut(answer: Answer, size: int | None = None) -> Answer:
    """*answer*, of which *size* bytes, or all but the last event, arrive before the connection is closed."""
    body = answer.body[:size] if size is not None else answer.body[: answer.body.rstrip().rfind(b"\n\n") + 2]
    return replace(answer, body=body, cut=True)


class Provider:
    """The server, in a thread of its own, as a context manager."""

    def __init__(self, *answers: Answer, lenient: bool = False, part: bool = False) -> None:
        self.answers = deque(answers)
        self.faults: dict[str, int] = {}
        """What a real API would refuse, each with the number of the first request that held it."""
        self._lenient, self._part = lenient, part
        self._said: set[str] = set()
        self.bodies: list[Any] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.left = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"provider": self}))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "Provider":
        threading.Thread(target=self._server.serve_forever, args=(0.002,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self.faults and not self._lenient:
            found = [f"from request {number} on, {fault}" for fault, number in self.faults.items()]
            raise AssertionError("\n".join(["a real API refuses what was sent:", *found]))

    def answer_to(self, body: Any) -> Answer:
        """Return what is sent for a request."""
        return self.take()

    def take(self) -> Answer:
        return self.answers.popleft() if self.answers else _NONE_LEFT

    def judge(self, sent: bytes, path: str) -> None:
        """Keep what a real API would refuse in a request."""
        for fault in faults(sent, path, self._said, self._part):
            self.faults.setdefault(fault, len(self.bodies) + 1)

    def remember(self, answer: Answer) -> None:
        """Keep the names of the fields in an answer: these the server may be sent."""
        self._said.update(_FIELD.findall(answer.body.decode(errors="replace")))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # Head and body are two writes, of which the second would wait 40 ms.
    provider: Provider

    def do_POST(self) -> None:
        provider = self.provider
        sent, kind = self.rfile.read(int(self.headers["content-length"])), self.headers["content-type"]
        provider.judge(sent, self.path)
        body = json.loads(sent) if kind == "application/json" else {"content-type": kind, "sent": sent}
        provider.bodies.append(body)
        provider.paths.append(self.path)
        provider.headers.append({name.lower(): value for name, value in self.headers.items()})
        answer = provider.answer_to(body)
        provider.remember(answer)
        self._send(answer)

    def _send(self, answer: Answer) -> None:
        unfinished = answer.cut or answer.hold
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(answer.body) + 1000 * unfinished))
        self.end_headers()
        for part in re.split(rb"(?<=\n\n)", answer.body) if answer.gap else [answer.body]:
            self.wfile.write(part)
            time.sleep(answer.gap)
        self.close_connection = self.close_connection or unfinished
        if answer.hold:
            self.rfile.read(1)
            self.provider.left.set()

    def log_message(self, *_: object) -> None:
        pass


def _event(event: Any) -> str:
    if isinstance(event, str):
        return f"data: {event}\n\n"
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


_FIELD = re.compile(r'"(\w+)": ?')
_NONE_LEFT = json_answer({"error": {"type": "test", "message": "no answer is left"}}, 500, x_should_retry="false")
