"""Calls that Groq's server could not parse: it reports them as an error, with what the model wrote.

https://console.groq.com/docs/tool-use/local-tool-calling and https://github.com/pydantic/pydantic-ai/issues/2759
"""

import re
from collections.abc import Iterable
from typing import Any

from ...messages import AssistantMessage, Message, ToolCall
from ...plain_json import from_json, parse_arguments, to_json
from ...ports import Request
from ..adapter import Wire
from ..error_bodies import error_object
from .chat_reply import objects

MOST = 3
"""How many replies in a row may be such calls. A model that fails each time does not learn from the errors."""
ID = "failed_call_"
NAME = re.compile(r"[\w.-]+")


def failed_call(exc: Exception, request: Request) -> ToolCall | None:
    """Return the call that the model tried to make, to be refused or run as any other; None for any other error, and
    for one failure too many.
    """
    error = error_object(exc)
    written = error.get("failed_generation")
    if error.get("code") != "tool_use_failed" or not isinstance(written, str):
        return None
    failed = _failed_so_far(request.messages)
    if failed >= MOST:
        return None
    name, raw = _read(written, {tool.name for tool in request.tools})
    return ToolCall(name, raw, f"{ID}{len(request.messages)}")


def _failed_so_far(messages: Iterable[Message]) -> int:
    """Return how many of the latest replies were such calls."""
    count = 0
    for message in messages:
        if isinstance(message, AssistantMessage):
            failed = any(call.id.startswith(ID) for call in message.calls)
            count = count + 1 if failed else 0
    return count


def _read(written: str, tools: set[str]) -> tuple[str, bytes]:
    """Return name and arguments of the call in *written*: the arguments are malformed unless all of it is a call."""
    call = next(iter(objects(_json(written))), Wire())
    if isinstance(name := call.get("name"), str):
        arguments: Any = call.get("arguments", call.get("parameters"))
        if isinstance(arguments, dict):
            return name, parse_arguments(to_json(arguments).decode())
    # `<function=ls{"path": "a"}</function>`: the name is the first one that a tool has.
    return next((word for word in NAME.findall(written) if word in tools), ""), to_json(written)


def _json(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return None
