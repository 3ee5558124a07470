"""What a tool of an MCP server answers, as the result of a call."""

from base64 import b64decode
from binascii import Error
from typing import Any

from ..messages import AnyBlock, Audio, Document, Image, Text, ToolResult, Video, clean
from ..plain_json import to_json

DOCUMENTS = ("application/pdf", "text/")


def result_of(answer: Any) -> ToolResult:
    """Return a `CallToolResult` of the SDK as a `ToolResult`.

    Structured content is the same once more for programs, so it is shown only where there is no text.
    """
    blocks = [_block(part) for part in answer.content]
    structured = answer.structured_content
    if structured is not None and not any(isinstance(block, Text) for block in blocks):
        blocks.append(Text(to_json(structured).decode()))
    match blocks:
        case []:
            return ToolResult("it failed and said nothing" if answer.is_error else "done", answer.is_error)
        case [Text(text)]:
            return ToolResult(clean(text), answer.is_error)
        case _:
            return ToolResult(tuple(blocks), answer.is_error)


def _block(part: Any) -> AnyBlock:
    match part.type:
        case "text":
            return Text(clean(part.text))
        case "image" | "audio":
            return _media(part.data, part.mime_type or f"{part.type}/", part.type)
        case "resource_link":
            about = ", ".join(filter(None, (part.mime_type, part.description)))
            return Text(clean(f"[{part.title or part.name}: {part.uri}{about and f' ({about})'}]"))
        case _:
            inner = part.resource
            if hasattr(inner, "text"):
                return Text(clean(f"[{inner.uri}]\n{inner.text}"))
            return _media(inner.blob, inner.mime_type or "", str(inner.uri))


def _media(data: str, media_type: str, name: str) -> AnyBlock:
    """Return the block for base64 *data*; of what no block holds, the model is told in words."""
    try:
        content = b64decode(data)
    except (Error, ValueError):
        return Text(clean(f"[{name}: {media_type or 'data'} that is not base64]"))
    kinds = {"image": Image, "audio": Audio, "video": Video}
    if kind := kinds.get(media_type.partition("/")[0]):
        return kind(content, media_type)
    if media_type.startswith(DOCUMENTS):
        return Document(content, media_type, clean(name.rpartition("/")[2]))
    return Text(clean(f"[{name}: {len(content):,} bytes of {media_type or 'an unknown type'}, not shown]"))
