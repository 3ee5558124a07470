"""A server of the Model Context Protocol of 2025-11-25 over HTTP, whose answers are streams of events. It forgets its
sessions, as one that was started anew does, and can be asked for answers of any size.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Handler(BaseHTTPRequestHandler):
    server: "SseServer"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.headers.append(dict(self.headers))
        session = self.headers.get("Mcp-Session-Id")
        if session is not None and session != str(self.server.session):
            self.send_error(404)
        elif "id" not in asked:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._answer({"jsonrpc": "2.0", "id": asked["id"], **self._said(asked)})

    def do_GET(self) -> None:
        self.send_error(405)

    def do_DELETE(self) -> None:
        self.send_error(405)

    def _said(self, asked: Any) -> dict[str, Any]:
        match asked["method"]:
            case "initialize":
                result: Any = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
                result["serverInfo"] = {"name": "streaming", "version": "1"}
            case "tools/list":
                schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
                result = {"tools": [{"name": "say", "description": "Say it.", "inputSchema": schema}]}
            case "tools/call":
                self.server.calls += 1
                result = {"content": [{"type": "text", "text": "x" * asked["params"]["arguments"]["size"]}]}
                result["_meta"] = {"padding": "y" * self.server.padding}
            case method:
                return {"error": {"code": -32601, "message": f"no method {method}"}}
        return {"result": result}

    def _answer(self, said: Any) -> None:
        body = f"event: message\ndata: {json.dumps(said)}\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Mcp-Session-Id", str(self.server.session))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


class SseServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.session = 1
        """The session that it knows."""
        self.padding = 0
        """Bytes that each result has beside its text."""
        self.calls = 0
        self.headers: list[dict[str, str]] = []
        self.url: str = f"http://127.0.0.1:{self.server_address[1]}/mcp"


@contextmanager
def streaming() -> Iterator[SseServer]:
    with SseServer() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
