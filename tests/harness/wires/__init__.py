"""The three wire formats, as a server on loopback speaks them to the real SDKs.

Each module has the same functions: `said` (a whole reply with a text), `answer` (a whole reply as JSON or streamed),
`refusal` (an error), `connected` (the SDK's client), `model` (the adapter) and `ask` (requests to a server with answers).
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from types import ModuleType
from typing import Any

from harness.providers import Answer
from harness.wires import chat, claude, responses
from harness.wires.asking import HELLO, Heard, ls as plain_ls
from minideep import tool
from minideep.ports import Model

WIRES: dict[str, ModuleType] = {"anthropic": claude, "openai": responses, "openai-chat": chat}
FORMATS = list(WIRES)

SIGNED = {"type": "thinking", "thinking": "let me look", "signature": "c2lnbmVk=="}
SEALED = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "let me look"}],
          "encrypted_content": "c2VhbGVk=="}  # fmt: skip

_NUMBERS = count(100)  # The API gives no two items the same id.

__all__ = [
    "FORMATS",
    "HELLO",
    "WIRES",
    "Heard",
    "chat",
    "claude",
    "connected",
    "ls",
    "plain_ls",
    "reply",
    "responses",
    "saying",
]


@tool
async def ls(path: str) -> str:
    """List a folder."""
    return f"in {path}"


def reply(kind: str, *calls: tuple[str, dict[str, Any]], text: str = "", stream: bool = False) -> Answer:
    """One reply in the words of *kind*: thoughts, text, and calls of `ls` as (id, arguments)."""
    if kind == "anthropic":
        blocks = [SIGNED, *([claude.text(text)] if text else [])]
        blocks += [{"type": "tool_use", "id": id, "name": "ls", "input": args} for id, args in calls]
        return claude.answer(claude.message(*blocks, stop="tool_use" if calls else "end_turn"), stream)
    if kind == "openai":
        items = [
            SEALED | {"id": f"rs_{next(_NUMBERS)}"},
            *([responses.message(text, id=f"msg_{next(_NUMBERS)}")] if text else []),
        ]
        items += [responses.call(id, json.dumps(args)) for id, args in calls]
        return responses.answer(responses.response(*items), stream)
    message: dict[str, Any] = {"content": text or None, "reasoning_content": "let me look"}
    if calls:
        message["tool_calls"] = [chat.call(id, json.dumps(args)) for id, args in calls]
    return chat.answer(chat.completion(message, "tool_calls" if calls else "stop"), stream)


@asynccontextmanager
async def connected(kind: str, url: str, name: str = "", **settings: Any) -> AsyncIterator[Model]:
    """The model of *kind* over the real SDK."""
    async with WIRES[kind].connected(url) as client:
        yield WIRES[kind].model(client, name, **settings)


def saying(wire: ModuleType, stream: bool) -> Callable[..., Heard]:
    """A function that has the server say whole replies, as JSON or streamed, and asks for them."""

    def say(*wholes: dict[str, Any], **how: Any) -> Heard:
        return wire.ask(*(wire.answer(whole, stream) for whole in wholes), listen=stream, **how)

    return say
