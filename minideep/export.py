"""Messages and events as plain JSON, for other programs to read."""

from base64 import b64encode
from typing import Any, cast

from msgspec import Struct

from .messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from .state import Edit

ROLES = {"user": "human", "assistant": "ai", "tool": "tool"}


def message_json(message: Message) -> dict[str, Any]:
    """A message as `{"type": "human" | "ai" | "tool", "content", ...}`.

    An `ai` message has `tool_calls`, each `{"id", "name", "args"}`; a `tool` message `name`, `tool_call_id` and
    `is_error`. The content is text, or a list of blocks where it holds more than text and calls.
    """
    said = [block for block in message.blocks if not isinstance(block, ToolCall)]
    plain_text = all(isinstance(block, Text) for block in said)
    form: dict[str, Any] = {"type": ROLES[message.role], "content": message.text if plain_text else plain(said)}
    if isinstance(message, AssistantMessage):
        form["tool_calls"] = [plain(call) for call in message.calls]
    if isinstance(message, ToolMessage):
        form |= {"name": message.name, "tool_call_id": message.call_id, "is_error": message.is_error}
    return form


def event_json(event: Struct) -> dict[str, Any]:
    """An event as `{"event": its name, "path": [...], ...}` with its other fields by name."""
    return {"event": type(event).__name__, "path": list(getattr(event, "path", ())), **plain(event)}


def plain(value: Any) -> Any:
    """*value* as JSON can say it: structs by field name, bytes as base64."""
    match value:
        case UserMessage() | AssistantMessage() | ToolMessage():
            return message_json(value)
        case ToolCall():
            return {"id": value.id, "name": value.name, "args": value.malformed or value.args}
        case Edit():
            return {"type": "edit", "args": value.args}
        case Struct():
            kind = value.__struct_config__.tag
            fields = {name: plain(getattr(value, name)) for name in value.__struct_fields__}
            return {"type": kind, **fields} if isinstance(kind, str) else fields
        case bytes():
            return b64encode(value).decode()
        case dict():
            return {str(key): plain(item) for key, item in cast(dict[Any, Any], value).items()}
        case list() | tuple():
            return [plain(item) for item in cast(list[Any], value)]
        case BaseException():
            return f"{type(value).__name__}: {value}"
        case _:
            return value
