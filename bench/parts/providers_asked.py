"""A request to a provider, made by its SDK and by minideep."""

import json
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

import anthropic
import openai
from harness.providers import Provider
from harness.wires import WIRES
from work import ping, text

from minideep import AssistantMessage, ToolCall, ToolMessage, UserMessage
from minideep.ports import Model, Request

RESOURCES: dict[str, Callable[[Any], Any]] = {
    "anthropic": lambda client: client.messages,
    "openai": lambda client: client.responses,
    "openai-chat": lambda client: client.chat.completions,
}


def conversation(messages: int) -> Request:
    """Return a request with an odd number of messages: a question, and then calls of a tool, each with its result."""
    said: list[Any] = [UserMessage("go")]
    for number in range(messages // 2):
        said += [AssistantMessage((ToolCall("ping", {"text": "x"}, f"c{number}"),))]
        said += [ToolMessage(text(500), f"c{number}", "ping")]
    return Request("You answer.", said, (ping,))


async def body_of(kind: str, request: Request, streamed: bool) -> dict[str, Any]:
    """Return what minideep sends for *request*."""
    wire = WIRES[kind]
    with Provider(wire.answer(wire.said("hello"), streamed)) as provider:
        async with wire.connected(provider.url) as client:
            await wire.model(client).complete(request, str if streamed else None)
    return provider.bodies[0]


async def through_the_sdk(resource: Any, body: dict[str, Any]) -> None:
    """Send the same requests as the pages of the SDK show it: it makes objects of what it sends and receives."""
    answer = await resource.create(**body)
    if "stream" in body:
        async for _piece in answer:
            pass


async def through_the_raw_sdk(resource: Any, body: dict[str, Any]) -> None:
    """Send the same requests, and take what comes as JSON: the part of the SDK that minideep uses."""
    sdk = anthropic if type(resource).__module__.startswith("anthropic") else openai
    answer = await resource.with_raw_response.create(**body)
    if "stream" in body:
        events = answer.parse(to=sdk.AsyncStream[object])
        async for _piece in await events if isawaitable(events) else events:
            pass
    else:
        json.loads(await answer.http_response.aread())


def as_extra_body(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments for *body* with which OpenAI's SDK sends most of it as it is, as minideep has it do."""
    if kind == "anthropic":
        return body
    plain = {name: body[name] for name in ("model", "stream", "stream_options") if name in body}
    needed = {"messages": []} if kind == "openai-chat" else {}
    return plain | needed | {"extra_body": {name: value for name, value in body.items() if name not in plain}}


async def through_minideep(model: Model, request: Request, streamed: bool) -> None:
    assert (await model.complete(request, str if streamed else None)).message.text
