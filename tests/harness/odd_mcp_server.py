"""A server of the Model Context Protocol without any SDK, which can so do what no SDK lets it: `python odd_mcp_server.py
KIND`. It speaks the protocol of 2025-11-25 over standard input and output, or a little of that of 2026-07-28.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

OFFERED = ["echo"]
MODERN = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
OPEN = {"type": "object", "properties": {}}
BAD_SCHEMAS = {
    "empty": {},
    "no_properties": {"type": "object", "properties": None, "required": None},
    "not_an_object": {"type": "string"},
    "one_of": {
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
        "oneOf": [{"required": ["page"], "properties": {"page": {"type": "integer"}}}, {"$ref": "#/$defs/all"}],
        "$defs": {"all": {"required": ["whole"], "properties": {"whole": {"type": "boolean"}}}},
    },
    "all_of": {"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, True]},
    "keys": {
        "type": "object",
        "properties": {"filter[id]": {"type": "integer"}, "Time<": {}, "Time>": {}, "plain.key": {}},
        "required": ["filter[id]"],
    },
    "circle": {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
    "wrong_parts": {"type": "object", "properties": {"a": 3, "b": {"$ref": "#/x/y"}, "c": {"type": 7, "enum": 5}}},
}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def tools(kind, cursor):
    names = OFFERED
    if kind == "many":
        start = int(cursor or 0)
        page = {"nextCursor": str(start + 50)} if start < 150 else {}
        return {"tools": [{"name": f"tool_{n}", "inputSchema": OPEN} for n in range(start, start + 50)], **page}
    if kind == "endless":
        return {"tools": [{"name": f"tool_{cursor}", "inputSchema": OPEN}], "nextCursor": f"{cursor}1"}
    if kind == "schemas":
        return {"tools": [{"name": name, "inputSchema": schema} for name, schema in BAD_SCHEMAS.items()]}
    if kind == "names":
        names = ["a.b", "a/b", "a_b", "x" * 100, "x" * 99 + "y", "größe"]
    more = MODERN if kind == "modern" else {}
    return {"tools": [{"name": name, "description": "Echo.", "inputSchema": OPEN} for name in names], **more}


def call(kind, number, params):
    if kind == "hangs":
        return
    if kind == "dies":
        os._exit(1)
    if kind == "once":  # Dies at the first call of the first process only.
        mark = Path(sys.argv[2])
        if not mark.exists():
            mark.touch()
            print("out of memory", file=sys.stderr, flush=True)
            os._exit(1)
    if kind == "link":
        data = {"url": "https://example.com/allow"}
        send(id=number, error={"code": -32003, "message": "a person has to allow it", "data": data})
        return
    if kind == "malformed":
        send(id=number, result={"content": "no list"})
        return
    if kind == "huge":
        send(id=number, result={"content": [{"type": "text", "text": "x" * 3_000_000}]})
        return
    if kind == "changes":
        OFFERED.append("more")
        send(method="notifications/tools/list_changed")
    text = json.dumps([params["name"], params.get("arguments")])
    more = {"resultType": "complete"} if kind == "modern" else {}
    send(id=number, result={"content": [{"type": "text", "text": text}], **more})


def begin(kind):
    if kind == "silent":
        time.sleep(600)
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])  # It ignores signals as well.
    if kind == "chatty":
        sys.stderr.write("Still here.\n" * 1_000_000)
    if kind == "leaves":
        sys.exit("no license found for key sk-secret-123")


def chatter():
    """Write what no client asked for."""
    print("Listening on port 80 ...\n{]\n\x00", flush=True)
    sys.stdout.buffer.write(b"\xff\xfe\n")
    sys.stdout.buffer.flush()
    send(method="notifications/unheard_of", params={})
    send(method="notifications/progress", params={"progressToken": 99, "progress": 1})
    send(id=12345, result={})


def greet(kind, method, number):
    if kind == "modern" and method == "initialize":
        supported = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
        send(id=number, error={"code": -32022, "message": "Unsupported protocol version", "data": supported})
    elif kind == "modern":
        send(id=number, result={"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **MODERN})
    else:
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}}
        send(id=number, result={**result, "serverInfo": {"name": "odd", "version": "1"}})


def main(kind):
    begin(kind)
    greetings = ("initialize", "server/discover") if kind == "modern" else ("initialize",)
    for place, line in enumerate(sys.stdin):
        asked = json.loads(line)
        method, number = asked.get("method"), asked.get("id")
        if kind == "garbage":
            chatter()
        if kind == "strict" and place == 0 and method != "initialize":
            sys.exit("ExpectedInitializeRequest")
        if method in greetings:
            greet(kind, method, number)
        elif method == "tools/list":
            send(id=number, result=tools(kind, (asked.get("params") or {}).get("cursor")))
        elif method == "tools/call":
            call(kind, number, asked["params"])
        elif number is not None:
            send(id=number, error={"code": -32601, "message": f"no method {method}"})
    if kind == "stubborn":
        time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1])
