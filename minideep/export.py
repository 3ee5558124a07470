"""Converts messages and events to plain JSON, for other programs to read."""

import re
from base64 import b64encode
from typing import Any, cast

from msgspec import Struct

from .messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage, to_json
from .state import Edit

ROLES = {"user": "human", "assistant": "ai", "tool": "tool"}
_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Characters that a terminal may obey or hide and JSON leaves as they are: DEL, C1, line and direction controls."""


def json_line(value: Any) -> str:
    r"""Return plain data as one line of JSON that is safe to print: control and bidirectional characters are escaped.

    >>> print(json_line({"file": "invoice\u202efdp.exe"}))
    {"file":"invoice\u202efdp.exe"}

    Raises:
        TypeError: *value* holds something that JSON cannot express.
    """
    return _UNSEEN.sub(_escaped, to_json(value).decode())


def _escaped(found: re.Match[str]) -> str:
    """Return a character as JSON escapes it: as two escapes if it takes two units of UTF-16."""
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def message_json(message: Message) -> dict[str, Any]:
    """Return a message as `{"type": "human" | "ai" | "tool", "content", ...}`.

    An `ai` message has `tool_calls`, each `{"id", "name", "args"}`; a `tool` message has `name`, `tool_call_id` and
    `is_error`. The content is text, or a list of blocks if it holds more than text and calls.
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
    """Return an event as `{"event": its name, "path": [...], "id": ..., ...}` with its other fields by name. Without an
    id if it has none, such as a piece of text.
    """
    about = {"event": type(event).__name__, "path": list(getattr(event, "path", ()))}
    if event_id := getattr(event, "id", ""):
        about["id"] = event_id
    return {**about, **plain(event)}


def plain(value: Any) -> Any:
    """Return *value* as plain data: structs by field name, bytes as base64."""
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
