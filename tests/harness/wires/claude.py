"""The Messages API: what a server says in it, and Claude as it is asked."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import anthropic

from harness.providers import Answer, cut, json_answer, sse
from harness.wires.asking import Heard, asking
from minideep.models import Anthropic
from minideep.ports import Request

KEY = "sk-ant-0123456789"


def message(*content: dict[str, Any], stop: str = "end_turn", **usage: Any) -> dict[str, Any]:
    usage = {"input_tokens": 7, "output_tokens": 3} | usage
    return {"type": "message", "role": "assistant", "content": list(content), "stop_reason": stop, "usage": usage}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def said(words: str) -> dict[str, Any]:
    return message(text(words))


def answer(whole: dict[str, Any], stream: bool = False) -> Answer:
    return sse(*events(whole)) if stream else json_answer(whole)


def events(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The events in which the API streams *whole*."""
    end = {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"]}}
    begin = whole | {"content": [], "stop_reason": None, "usage": whole["usage"] | {"output_tokens": 1}}
    return [
        {"type": "message_start", "message": begin},
        {"type": "ping"},
        *(event for index, block in enumerate(whole["content"]) for event in block_events(index, block)),
        end | {"usage": {"input_tokens": None, "output_tokens": whole["usage"]["output_tokens"]}},
        {"type": "message_stop"},
    ]


def block_events(index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    empty, deltas = block, []
    match block:
        case {"type": "text", "text": said}:
            empty, deltas = block | {"text": ""}, halves("text_delta", "text", said)
        case {"type": "thinking", "thinking": said, "signature": signature}:
            empty = block | {"thinking": "", "signature": ""}
            deltas = [*halves("thinking_delta", "thinking", said), {"type": "signature_delta", "signature": signature}]
        case {"type": "compaction", "content": said}:  # It comes in one piece.
            whole = {name: value for name, value in block.items() if name != "type"}
            empty, deltas = {"type": "compaction", "content": None}, [{"type": "compaction_delta", **whole}]
        case {"type": "tool_use" | "server_tool_use", "input": said}:
            written = said if isinstance(said, str) else json.dumps(said) if said else ""
            empty, deltas = block | {"input": {}}, halves("input_json_delta", "partial_json", written)
    return [
        {"type": "content_block_start", "index": index, "content_block": empty},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def halves(kind: str, name: str, said: str) -> list[dict[str, Any]]:
    middle = len(said) // 2
    return [{"type": kind, name: part} for part in ("", said[:middle], said[middle:])]


def refusal(status: int, kind: str, said: str, **headers: str) -> Answer:
    return json_answer({"type": "error", "error": {"type": kind, "message": said}}, status, **headers)


def broken_off(kind: str, said: str) -> Answer:
    """A stream that begins well and ends with an error event."""
    error = {"type": "error", "error": {"type": kind, "message": said}}
    return sse(*events(message(text("hi there")))[:5], error)


WHOLE = answer(said("hi there"), stream=True)
BROKEN = {
    "cut": cut(sse(*events(said("hi there"))[:7])),
    "ended early": sse(*events(said("hi there"))[:5]),
    "overloaded": broken_off("overloaded_error", "Overloaded"),
    "api error": broken_off("api_error", "Internal server error"),
}
"""Streams of "hi there" that break in the middle."""


# ---- how it is asked


def connected(url: str, key: str = KEY, retries: int = 0) -> anthropic.AsyncAnthropic:
    """The SDK's client; that it loads no certificates saves 30 ms."""
    http = anthropic.DefaultAsyncHttpxClient(verify=False)
    return anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=retries, http_client=http)


def model(client: anthropic.AsyncAnthropic, name: str = "", **settings: Any) -> Anthropic:
    return Anthropic(name or "claude-x", client=client, **settings)


def at_address(at: str, url: str, retries: int = 0) -> anthropic.AsyncAnthropic:
    """A client of the server at *url*, which believes that its address is *at*."""
    http = anthropic.DefaultAsyncHttpxClient(proxy=url, verify=False)
    return anthropic.AsyncAnthropic(base_url=at, api_key=KEY, max_retries=retries, http_client=http)


def asking_at(at: str) -> Callable[..., Heard]:
    """A function that asks a server which seems to be at the address *at*."""
    return asking(partial(at_address, at), model)


ask = asking_at("http://api.anthropic.com")


def sent(*messages: Any) -> list[Any]:
    """The messages as the server receives them, which may be part of a conversation."""
    return ask(answer(said("ok")), request=Request("", messages), listen=False, part=True).bodies[0]["messages"]
