"""Calls of the Responses API that the client answers, though the agent declared no function for them.

Such a call is an item of a type of its own, and what answers it is an item of the matching type. In a reply the item is
kept as the provider sent it, before a `ToolCall` to the tool of the agent that answers it:

| item | tool | its arguments |
| --- | --- | --- |
| `custom_tool_call` | the declared name | `input` |
| `shell_call` | `shell` | `commands`, `timeout_ms`, `max_output_length` |
| `local_shell_call` | `local_shell` | `command`, `env`, `timeout_ms`, `user`, `working_directory` |
| `apply_patch_call` | `apply_patch` | `type`, `path`, `diff` |
| `computer_call` | `computer` | `actions`, `pending_safety_checks` |

https://developers.openai.com/api/docs/guides/function-calling, and the pages of the tools beside it.
"""

from collections.abc import Iterable
from typing import Any, cast

from ...media import IMAGES, labelled, type_of
from ...messages import AnyBlock, Image, Text, ToolCall, ToolMessage
from ...plain_json import parse_arguments, to_json
from ..adapter import Wire
from ..amounts import nested
from . import sdk

ANSWERED = "custom_tool_call", "shell_call", "local_shell_call", "apply_patch_call", "computer_call"
"""The types of these calls."""

BLANK = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
"""A screenshot of one pixel, for a call that was answered without one: it cannot stay without an answer."""


def answering_tool(declared: Wire) -> str:
    """Return the name of the agent's tool that answers calls of a *declared* tool; "" if the provider does."""
    match declared:
        case {"type": "custom" | "function", "name": str(name)}:
            return name
        case {"type": "shell", "environment": {"type": "container_auto" | "container_reference"}}:
            return ""
        case {"type": "shell" | "local_shell" | "apply_patch" | "computer" as kind}:
            return kind
        case {"type": "computer_use_preview"}:
            return "computer"
        case _:
            return ""


def unanswerable(item: Wire) -> str:
    """Return why nobody can answer *item*, and what to do; "" if it can stay without an answer or has one."""
    match item:
        case {"type": "mcp_approval_request"}:
            server, name = item.get("server_label"), item.get("name")
            asked = (
                f"the provider asks whether {name!r} of the MCP server {server!r} may be called, which cannot be said"
            )
            return f'{asked}; set `"require_approval": "never"` in the declaration of that server among the `tools`'
        case {"type": "tool_search_call", "execution": "client"}:
            return "the provider wants the client to search for tools; declare `tool_search` without `execution`"
        case _:
            return ""


def answered(items: Iterable[Wire]) -> set[str]:
    """Return the ids of the calls that the provider itself has answered among *items*."""
    return {call_id(item) for item in items if str(item.get("type")).endswith("_output")}


def call_id(item: Wire) -> str:
    """Return the id of the call that *item* is, or that it answers; "" if a server has left it out."""
    said = item.get("call_id")
    return said if isinstance(said, str) else ""


def call_in(item: Wire) -> ToolCall | None:
    """Return the call to the agent's tool that *item* asks for; None if it asks for none."""
    match item:
        case {"type": "custom_tool_call"}:
            return _call(item, str(item.get("name") or ""), {"input": item.get("input") or ""})
        case {"type": "shell_call", "environment": {"type": "container_reference"}}:
            return None
        case {"type": "shell_call" | "local_shell_call" as kind}:
            return _call(item, kind.removesuffix("_call"), item.get("action"), "type")
        case {"type": "apply_patch_call"}:
            return _call(item, "apply_patch", item.get("operation"))
        case {"type": "computer_call"}:
            # The tool of 2025 sends one action at a time.
            actions = item.get("actions") or [item.get("action")]
            checks = item.get("pending_safety_checks") or None
            return _call(item, "computer", {"actions": actions, "pending_safety_checks": checks})
        case _:
            return None


def _call(item: Wire, name: str, arguments: Any, *unneeded: str) -> ToolCall:
    if isinstance(arguments, dict):
        said = cast(Wire, arguments).items()
        arguments = {key: value for key, value in said if value is not None and key not in unneeded}
    return ToolCall(name, parse_arguments(to_json(arguments).decode()), call_id(item))


def answer(call: Wire, result: ToolMessage, output: str | list[Wire]) -> tuple[Wire, Iterable[AnyBlock]]:
    """Return the item that answers *call* with *result*, and the blocks of it that this item cannot hold.

    *output* is the result in the words of the API, for the types that take it.
    """
    item: Wire = {"type": f"{call['type']}_output", "call_id": sdk.call_id(result.call_id)}
    if call.get("caller"):
        item["caller"] = call["caller"]
    media = [block for block in result.blocks if not isinstance(block, Text)]
    match call["type"]:
        case "shell_call":
            said = {"stdout": "", "stderr": "", "stderr" if result.is_error else "stdout": result.text}
            item["output"] = [said | {"outcome": {"type": "exit", "exit_code": int(result.is_error)}}]
            if limit := nested(call, "action", "max_output_length"):
                item["max_output_length"] = limit
            return item, media
        case "local_shell_call":
            return item | {"output": result.text}, media
        case "apply_patch_call":
            return item | {"status": "failed" if result.is_error else "completed", "output": result.text}, media
        case "computer_call":
            return _seen(item, call, result)
        case _:
            return item | {"output": output}, ()


def _seen(item: Wire, call: Wire, result: ToolMessage) -> tuple[Wire, Iterable[AnyBlock]]:
    """Return a screenshot: the first image of *result*.

    The checks of safety count as acknowledged: the tool was given them among its arguments, and the API takes no answer
    that leaves them open. A tool without a parameter for them never sees such a call, which fails as any with unknown
    arguments does.
    """
    if checks := call.get("pending_safety_checks"):
        item["acknowledged_safety_checks"] = checks
    images = (block for block in result.blocks if isinstance(block, Image) and type_of(block) in IMAGES)
    shot = next(images, None)
    item["output"] = {"type": "computer_screenshot", "image_url": sdk.data_url(labelled(shot)) if shot else BLANK}
    return item, [block for block in result.blocks if block is not shot]
