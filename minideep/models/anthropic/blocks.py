"""One message, one tool or one prompt in the words of the Messages API: blocks, which are encoded once."""

import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from ... import media, messages as ours
from ...ports import Request
from ...tools import Tool
from ..adapter import Wire, hashed_id, is_cloud, own_json, sendable, sent_name, server_of
from ..amounts import nested
from ..body import Part, encode

PROVIDER = "anthropic"
"""The provider of blocks of Anthropic, and of those in older logs, whatever their server was."""
THOUGHTS = ("thinking", "redacted_thinking")
SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
"""Types of calls of tools that run at the provider. Their results are of types that end with `_tool_result`."""
URL_TYPES = (*media.IMAGES, "application/pdf")
"""The media that the API fetches: https://platform.claude.com/docs/en/build-with-claude/vision and
https://platform.claude.com/docs/en/build-with-claude/pdf-support"""
DOCUMENTS = ("application/pdf", "text/")
MAX_TITLE = 500
"""The number of characters that the title of a document may have."""

EMPTY: Wire = {"type": "text", "text": "(empty)"}
"""Replaces content that would be empty or blank, which the API rejects."""


class ServerBlock(Struct, frozen=True, gc=False):
    """What a block has to do with tools that run at the provider."""

    at: int
    """The place of the block in its message."""
    id: str
    """The id of the call that it is, or whose result it is."""
    is_result: bool
    code: str
    """The id of the call whose code has made this call; empty if the model itself has."""
    needs_container: bool
    alone: bytes
    """A call of a tool of the agent as if the model itself had made it; empty for a call of the provider's tools."""


class Blocks(Part, frozen=True, gc=False):
    """A message as blocks."""

    role: str
    kinds: list[str]
    """The types of the blocks."""
    marks: tuple[str, ...] = ()
    """The lifetimes of the breakpoints that the user has put into it."""
    server: tuple[ServerBlock, ...] = ()
    container: Wire | None = None
    """The container in which the provider's tools ran."""


def provider_of(client: Any) -> str:
    """Return the provider of blocks of the server that *client* asks.

    Anthropic's API and the clouds, which have clients of their own in the SDK, take what another of them has signed:
    https://platform.claude.com/docs/en/build-with-claude/extended-thinking
    """
    is_home = f".{client.base_url.host}".endswith(".anthropic.com")
    return PROVIDER if is_cloud(client, "anthropic") or is_home else server_of(client, PROVIDER)


def declaration(tool: Tool) -> Part:
    return Part([encode({"name": tool.name, "description": tool.description, "input_schema": tool.schema})])


def prompt_blocks(request: Request) -> list[bytes]:
    """Return the prompt, split from the memory behind it if they are cached apart; the API rejects blank text."""
    cut = request.stable if request.cache and request.stable is not None else len(request.system)
    parts = request.system[:cut], request.system[cut:]
    parts = parts if all(part.strip() for part in parts) else (request.system,)
    return [encode({"type": "text", "text": part}) for part in parts if part.strip()]


def blocks_of(message: ours.Message, provider: str, url_types: tuple[str, ...] = URL_TYPES) -> Blocks:
    """Return *message* as blocks for the server that is the *provider*, and that fetches links of *url_types*.

    Only an assistant's message may have none, if all of it is another provider's.
    """
    blocks, besides = _wired(message, provider, url_types)
    match message:
        case ours.AssistantMessage():
            role, blocks = "assistant", _ended(blocks)
        case ours.ToolMessage():
            role, blocks = "user", _result(message, blocks)
        case _:
            role, blocks = "user", blocks or [EMPTY]
    return Blocks(
        [encode(block) for block in blocks],
        role,
        [block["type"] for block in blocks],
        tuple([nested(block, "cache_control", "ttl") or "5m" for block in blocks if block.get("cache_control")]),
        tuple(_server_blocks(blocks)) if role == "assistant" else (),
        besides.get("container"),
    )


def _wired(message: ours.Message, provider: str, url_types: tuple[str, ...]) -> tuple[list[Wire], Wire]:
    """Return the blocks of *message*, and the fields of the message itself: those that no block follows."""
    blocks: list[Wire] = []
    besides: Wire = {}
    shown = [media.sendable(one, *url_types) if isinstance(one, ours.MediaLink) else one for one in message.blocks]
    for block in filter(None, [_block(block, message.role, provider) for block in shown]):
        if "type" in block:
            blocks.append(block | besides)
            besides = {}
        else:
            besides = block
    return blocks, besides


def _ended(blocks: list[Wire]) -> list[Wire]:
    """Return what the assistant said as the API accepts it at the end of a request."""
    match blocks:
        case [*before, {"type": "text", "text": text} as last]:
            # https://github.com/tailcallhq/forgecode/issues/1872: blanks at the end, in a turn that paused there.
            return [*before, last | {"text": text.rstrip()}]
        case [*_, {"type": kind}] if kind in THOUGHTS:
            # Thinking comes last in a reply that was truncated while the model thought.
            return [*blocks, EMPTY]
        case _:
            return blocks


def _result(message: ours.ToolMessage, blocks: list[Wire]) -> list[Wire]:
    result: Wire = {"type": "tool_result", "tool_use_id": _id(message.call_id), "content": blocks or [EMPTY]}
    if not message.is_error:
        return [result]
    # In an error the API accepts text only, so images come behind it:
    # https://github.com/vellum-ai/vellum-assistant/pull/18387
    texts = [block for block in blocks if block["type"] == "text"]
    others = [block for block in blocks if block["type"] != "text"]
    return [result | {"content": texts or [EMPTY], "is_error": True}, *others]


def _server_blocks(blocks: Iterable[Wire]) -> Iterable[ServerBlock]:
    for at, block in enumerate(blocks):
        kind, by = block["type"], str(nested(block, "caller", "type"))
        in_code = by.startswith("code_execution")
        code = str(nested(block, "caller", "tool_id") or "") if in_code else ""
        if kind in SERVER_CALLS:
            needs_container = in_code or "code_execution" in str(block.get("name"))
            yield ServerBlock(at, str(block.get("id")), False, code, needs_container, b"")
        elif kind.endswith("_tool_result"):
            yield ServerBlock(at, str(block.get("tool_use_id")), True, "", False, b"")
        elif kind == "tool_use" and in_code:
            alone = {name: value for name, value in block.items() if name != "caller"}
            yield ServerBlock(at, block["id"], False, code, True, encode(alone))


# ---- one block


def _block(block: ours.AnyBlock, role: str, provider: str) -> Wire | None:
    """Return the block in the API's words, or fields of the next one.

    None for blank text and for what the API does not accept from *role*.
    """
    match block:
        case ours.Text():
            return _text(block, provider)
        case ours.ToolCall():
            arguments: Wire = {} if block.malformed else sendable(block.raw)
            return {"type": "tool_use", "id": _id(block.id), "name": sent_name(block.name, 128), "input": arguments}
        case ours.Image() | ours.Document() | ours.Audio() | ours.Video():
            return None if role == "assistant" else _medium(block, provider)
        case ours.MediaLink(url, kind):
            form = "image" if kind.startswith("image/") else "document"
            return None if role == "assistant" else {"type": form, "source": {"type": "url", "url": url}}
        case _:
            return _own(own_json(block, provider) or own_json(block, PROVIDER))


def _text(block: ours.Text, provider: str) -> Wire | None:
    if not block.text.strip():
        return None
    own = [one.raw for one in block.citations if one.provider in (provider, PROVIDER)]
    cited = [sendable(raw) for raw in own if raw]
    return {"type": "text", "text": block.text} | ({"citations": cited} if cited else {})


def _own(block: Any) -> Wire | None:
    """Return what the provider itself sent. The input of a call that was cut is no object, which the API rejects."""
    if block and block.get("type") in SERVER_CALLS and not isinstance(block.get("input"), dict):
        return block | {"input": {}}
    return block


def _medium(block: media.Media, provider: str) -> Wire | None:
    """Return an image, a PDF as base64, or text as text: the API accepts no other media."""
    match block:
        case ours.Image():
            shown = media.sendable(block, *media.IMAGES)
        case ours.Document():
            shown = media.sendable(block, *DOCUMENTS)
        case ours.Audio():
            shown = media.sendable(block)
        case ours.Video():
            shown = media.sendable(block)
    match shown:
        case ours.Image(data, media_type):
            return {"type": "image", "source": _base64(data, media_type)}
        case ours.Document():
            return _document(shown)
        case _:
            return _block(shown, "user", provider)


def _document(block: ours.Document) -> Wire | None:
    source = _base64(block.data, block.media_type)
    if block.media_type.startswith("text/"):
        source = {"type": "text", "media_type": "text/plain", "data": block.data.decode(errors="replace")}
        if not source["data"].strip():
            return None
    return {"type": "document", "source": source} | ({"title": block.name[:MAX_TITLE]} if block.name else {})


def _base64(data: bytes, media_type: str) -> Wire:
    return {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}


def _id(call_id: str) -> str:
    """Return *call_id*, or its hash if another provider put characters into it that the API rejects."""
    return call_id if re.fullmatch(r"[a-zA-Z0-9_-]+", call_id) else hashed_id(call_id)
