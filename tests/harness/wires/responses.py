"""The Responses API: what a server says in it, and a model behind it as it is asked."""

from collections.abc import Callable
from functools import partial
from typing import Any

import openai

from harness.providers import Answer, cut, json_answer, sse
from harness.wires.asking import Heard, asking
from minideep.models import OpenAI
from minideep.ports import Request

KEY = "sk-0123456789abcdef"


def response(*output: dict[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 7, "output_tokens": 3}
    return {"id": "resp_1", "status": status, "error": None, "output": list(output), "usage": usage} | fields


def message(said: str, **fields: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": said, "annotations": [], "logprobs": []}
    return {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]} | fields


def said(words: str) -> dict[str, Any]:
    return response(message(words))


def answer(whole: dict[str, Any], stream: bool = False) -> Answer:
    return sse(*events(whole)) if stream else json_answer(whole)


def call(call_id: str, arguments: str, **fields: Any) -> dict[str, Any]:
    said = {"id": f"fc_{call_id}", "call_id": call_id, "name": "ls", "arguments": arguments, "status": "completed"}
    return {"type": "function_call"} | said | fields


def reasoning(*summary: str) -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": "gAAA", "new": {"n": [1, None]}}


REFUSED = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot"}]}


def events(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The events in which the API streams *whole*."""
    created = {"type": "response.created", "response": whole | {"status": "in_progress", "output": [], "usage": None}}
    items = [event for at, item in enumerate(whole["output"]) for event in item_events(at, item)]
    return [created, *items, {"type": f"response.{whole['status']}", "response": whole}]


def item_events(at: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = []
    match item:
        case {"type": "message", "content": [{"text": said}]}:
            deltas = halves("response.output_text.delta", said)
        case {"type": "message", "content": [{"refusal": said}]}:
            deltas = halves("response.refusal.delta", said)
        case {"type": "function_call", "arguments": said}:
            deltas = halves("response.function_call_arguments.delta", said)
        case {"type": "reasoning", "summary": parts}:
            for number, part in enumerate(parts or []):
                deltas.append({"type": "response.reasoning_summary_part.added", "summary_index": number})
                deltas += halves("response.reasoning_summary_text.delta", part["text"])
    return [
        {"type": "response.output_item.added", "output_index": at, "item": item | {"status": "in_progress"}},
        *(delta | {"output_index": at} for delta in deltas),
        {"type": "response.output_item.done", "output_index": at, "item": item},
    ]


def halves(kind: str, said: str) -> list[dict[str, Any]]:
    middle = len(said) // 2
    return [{"type": kind, "delta": part} for part in (said[:middle], said[middle:])]


def refusal(status: int, code: str | None, said: str, **headers: str) -> Answer:
    return json_answer({"error": {"type": "a_type", "code": code, "message": said}}, status, **headers)


def broken_off(last: dict[str, Any]) -> Answer:
    """A stream that begins well and ends with the event *last*."""
    return sse(*events(response(message("hi there")))[:-2], last)


def failed(code: str, said: str) -> dict[str, Any]:
    whole = response(status="failed", error={"code": code, "message": said})
    return {"type": "response.failed", "response": whole}


WHOLE = sse(*events(response(message("hi there"))))
FLAT = {"type": "error", "code": "server_error", "message": "Oops."}
NESTED = {"type": "error", "error": {"type": "server_error", "message": "Oops."}}
NUMBERED = {"error": {"code": 503, "message": "Oops."}}
BROKEN = {
    "cut": cut(WHOLE),
    "no json": sse(*events(response(message("hi there")))[:-2], '{"type'),
    "ended early": sse(*events(response(message("hi there")))[:-1]),
    "flat error": broken_off(FLAT),
    "nested error": broken_off(NESTED),
    "numbered error": broken_off(NUMBERED),
    "failed": broken_off(failed("server_error", "Oops.")),
}


# ---- how it is asked


def connected(url: str, key: str = KEY, retries: int = 0) -> openai.AsyncOpenAI:
    """The SDK's client; that it loads no certificates saves 23 ms."""
    http = openai.DefaultAsyncHttpxClient(verify=False)
    return openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=retries, http_client=http)


def model(client: openai.AsyncOpenAI, name: str = "", **settings: Any) -> OpenAI:
    return OpenAI(name or "gpt-x", client=client, **settings)


OWN = "openai:api.openai.com"
"""The provider of the blocks in replies to `ask`."""


def at_address(at: str, url: str, retries: int = 0) -> openai.AsyncOpenAI:
    """A client of the server at *url*, which believes that its address is *at*."""
    http = openai.DefaultAsyncHttpxClient(proxy=url, verify=False)
    return openai.AsyncOpenAI(base_url=at, api_key=KEY, max_retries=retries, http_client=http)


def asking_at(at: str) -> Callable[..., Heard]:
    """A function that asks a server which seems to be at the address *at*."""
    return asking(partial(at_address, at), model)


ask = asking_at("http://api.openai.com/v1")


def sent(*messages: Any) -> list[Any]:
    """The input items as the server receives them, which may be part of a conversation."""
    return ask(answer(said("ok")), request=Request("", messages), listen=False, part=True).bodies[0]["input"]
