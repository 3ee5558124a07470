"""Converts messages, events and turns to plain JSON, for other programs to read. `decoding.py` reads it."""

import re
from base64 import b64encode
from typing import Any, cast

from msgspec import Struct, structs, to_builtins

from .kinds import shown
from .messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, Usage, UserMessage
from .plain_json import to_json
from .state import Edit, Interrupt

__all__ = ["json_line", "message_json", "plain"]
ABOUT = ("path", "number", "id", "at")
"""What an event carries besides its fields."""
FILE_FIELDS = {"content", "sha256"}
"""What `FileEntry` and `FileWritten` have in common."""
ROLES = {"user": "human", "assistant": "ai", "tool": "tool"}
_UNSEEN = "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
"""Characters that a terminal may obey or hide and JSON leaves as they are: DEL, C1, line and direction controls."""


def json_line(value: Any) -> str:
    r"""Return plain data as one line of JSON that is safe to print: control and bidirectional characters are escaped.

    >>> print(json_line({"file": "invoice\u202efdp.exe"}))
    {"file":"invoice\u202efdp.exe"}

    Raises:
        TypeError: *value* holds something that JSON cannot express.
    """
    return re.sub(_UNSEEN, _escaped, to_json(value).decode())


def _escaped(found: re.Match[str]) -> str:
    """Return a character as JSON escapes it: as two escapes if it takes two units of UTF-16."""
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def message_json(message: Message) -> dict[str, Any]:
    """Return a message as `{"type": "human" | "ai" | "tool", "content", ...}`.

    An `ai` message has `tool_calls`, each `{"id", "name", "args"}`; a `tool` message has `name`, `tool_call_id` and
    `is_error`. The content is text, or a list of blocks if it holds more than text and calls: citations, for example.
    """
    said = [block for block in message.blocks if not isinstance(block, ToolCall)]
    plain_text = all(isinstance(block, Text) and not block.citations for block in said)
    form: dict[str, Any] = {"type": ROLES[message.role], "content": message.text if plain_text else plain(said)}
    if isinstance(message, AssistantMessage):
        form["tool_calls"] = [plain(call) for call in message.calls]
    if isinstance(message, ToolMessage):
        form |= {"name": message.name, "tool_call_id": message.call_id, "is_error": message.is_error}
    return form


def event_json(event: Struct) -> dict[str, Any]:
    """Return an event as `{"event": its name, "path", "number", "id", "at", ...}`, with its fields by name."""
    about: dict[str, Any] = {name: plain(getattr(event, name)) for name in ABOUT}
    return {"event": type(event).__name__, **about, **_fields(event)}


def turn_json(turn: Struct) -> dict[str, Any]:
    """Return a turn as `{"event": "Turn", "thread_id", "status", ...}`, with its fields by name."""
    output: Any = getattr(turn, "output")  # noqa: B009
    return {"event": "Turn", **_fields(structs.replace(turn, output=None)), "output": as_plain(output)}


def as_plain(value: Any) -> Any:
    """Return a value of a user's type as plain data, from which it can be read again.

    Raises:
        TypeError: JSON cannot express it.
    """
    return to_builtins(value, str_keys=True, enc_hook=_dumped)


def _dumped(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # Of Pydantic.
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"JSON cannot express {shown(value)}")


def plain(value: Any) -> Any:
    """Return *value* as plain data: structs by field name, bytes as base64."""
    match value:
        case UserMessage() | AssistantMessage() | ToolMessage():
            return message_json(value)
        case ToolCall():
            return {
                "id": value.id,
                "name": value.name,
                "args": value.args if value.raw.startswith(b"{") else value.malformed,
            }
        case Edit():
            return {"type": "edit", "args": value.args}
        case Interrupt():
            return {"call_id": value.call_id, **_fields(value)}
        case Usage():
            return {**_fields(value), "total": value.total}
        case Struct():
            kind = value.__struct_config__.tag
            return {"type": kind, **_fields(value)} if isinstance(kind, str) else _fields(value)
        case bytes():
            return b64encode(value).decode()
        case dict():
            return {str(key): plain(item) for key, item in cast(dict[Any, Any], value).items()}
        case list() | tuple():
            return [plain(item) for item in cast(list[Any], value)]
        case _:
            return value


def _fields(value: Struct) -> dict[str, Any]:
    fields = {
        name: plain(getattr(value, field))
        for name, field in zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    }
    if fields.keys() >= FILE_FIELDS:  # A file, whose content is text, bytes, or kept elsewhere.
        content: Any = getattr(value, "content")  # noqa: B009
        fields["encoding"] = None if content is None else "base64" if isinstance(content, bytes) else "utf-8"
    return fields
