"""Chat Completions: what a server says in it, and a model behind it as it is asked."""

import asyncio
from typing import Any

import openai

from harness.providers import Answer, Provider, cut, json_answer, sse
from harness.wires.asking import HELLO, Heard, asking
from harness.wires.responses import KEY, connected
from minideep import ToolMessage, UserMessage
from minideep.models import OpenAIChat
from minideep.ports import Request


def completion(message: dict[str, Any], finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": None} | message, "finish_reason": finish}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": usage} | fields


def said(words: str) -> dict[str, Any]:
    return completion({"content": words})


def answer(whole: dict[str, Any], stream: bool = False) -> Answer:
    return sse(*events(whole)) if stream else json_answer(whole)


def call(call_id: str | None, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "ls", "arguments": arguments}} | fields


def events(whole: dict[str, Any]) -> list[Any]:
    """The events in which the API streams *whole*."""
    choice = whole["choices"][0]
    fields = {name: value for name, value in choice["message"].items() if value and name not in ("role", "tool_calls")}
    calls = choice["message"].get("tool_calls") or ()
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [part for name, value in fields.items() for part in parts(name, value)]
    deltas += [part for index, one in enumerate(calls) for part in call_parts(index, one)]
    return [
        *map(chunk, deltas),
        chunk({}, choice["finish_reason"]),
        {"choices": [], "usage": whole["usage"]},
        "[DONE]",
    ]


def chunk(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish} | fields], "usage": None}


def parts(name: str, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, str):
        return [{name: value}]
    middle = len(value) // 2
    return [{name: value[:middle]}, {name: value[middle:]}]


def call_parts(index: int, one: dict[str, Any]) -> list[dict[str, Any]]:
    written = one["function"]["arguments"]
    if not isinstance(written, str):
        return [{"tool_calls": [one | {"index": index}]}]
    begin = one | {"index": index, "function": one["function"] | {"arguments": ""}}
    rest = [{"index": index, "function": piece} for piece in parts("arguments", written)]
    return [{"tool_calls": [piece]} for piece in (begin, *rest)]


def refusal(status: int, code: Any, said: str, **headers: str) -> Answer:
    return json_answer({"error": {"type": "a_type", "code": code, "message": said}}, status, **headers)


WHOLE = sse(*events(said("hi there")))
SPOKEN = events(said("hi there"))[:-3]
BROKEN = {
    "cut": cut(sse(*SPOKEN, {}, {})),
    "ended early": sse(*SPOKEN),
    "server error": sse(*SPOKEN, {"error": {"type": "server_error", "message": "Oops."}}),
    "numbered error": sse(*SPOKEN, {"error": {"code": 502, "message": "Oops."}, "choices": []}),
    "error of the choice": sse(*SPOKEN, chunk({}, "error", error={"code": 502, "message": "Oops."})),
}


# ---- how it is asked


def model(client: openai.AsyncOpenAI, name: str = "", **settings: Any) -> OpenAIChat:
    return OpenAIChat(name or "local-x", client=client, **settings)


ask = asking(connected, model)


def sent(*messages: Any, system: str = "") -> list[Any]:
    """The messages as the server receives them, which may be part of a conversation."""
    return ask(answer(said("ok")), request=Request(system, messages), listen=False, part=True).bodies[0]["messages"]


def streamed(*deltas: dict[str, Any]) -> Heard:
    return ask(sse(*map(chunk, deltas), chunk({}, "tool_calls"), "[DONE]"))


def at_address(at: str, url: str) -> openai.AsyncOpenAI:
    """A client of the server at *url*, which believes that its address is *at*, such as `http://openrouter.ai/api/v1`."""
    return openai.AsyncOpenAI(
        base_url=at, api_key=KEY, max_retries=0, http_client=openai.DefaultAsyncHttpx2Client(proxy=url)
    )


def sent_to(at: str, *messages: Any, **settings: Any) -> list[Any]:
    """The messages as the server at the address *at* receives them, which may be part of a conversation."""

    async def go() -> list[Any]:
        with Provider(answer(said("ok")), part=True) as provider:
            async with at_address(at, provider.url) as client:
                await model(client, **settings).complete(Request("", messages), None)
            return provider.bodies[0]["messages"]

    return asyncio.run(go())


def resent(first: Answer, at: str = "http://local.test/v1", **settings: Any) -> Any:
    """The message in the *first* answer, as its server receives it with the next request."""
    streamed = first.headers["content-type"] == "text/event-stream"

    async def go() -> Any:
        with Provider(first, answer(said("ok"))) as provider:
            async with at_address(at, provider.url) as client:
                asked = model(client, **settings)
                reply = (await asked.complete(HELLO, (lambda event: None) if streamed else None)).message
                results = [ToolMessage("done", call.id, call.name) for call in reply.calls]
                request = Request("", (*HELLO.messages, reply, *results, UserMessage("go on")))
                await asked.complete(request, None)
            return provider.bodies[1]["messages"][1]

    return asyncio.run(go())
