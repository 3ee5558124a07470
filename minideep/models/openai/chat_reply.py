"""What a message of Chat Completions says, as blocks."""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any, cast

from ... import messages as ours
from ...media import media_type
from ...messages import clean
from ...plain_json import parse_arguments, to_json
from ..adapter import Wire, extra_fields
from ..amounts import nested, token_count
from . import sdk
from .citations import citations

SPOKEN = ("reasoning_content", "reasoning")
REASONING = frozenset({*SPOKEN, "reasoning_details"})
"""The fields with reasoning that servers want back: https://api-docs.deepseek.com/guides/thinking_mode and
https://openrouter.ai/docs/use-cases/reasoning-tokens"""
SIGNED = "extra_content"
"""The field with Gemini's signature, of a message or of a call: https://ai.google.dev/gemini-api/docs/thought-signatures"""
OWN = frozenset({"id", "type", "index", "function", "custom"})
"""The fields of a call that our blocks hold."""
DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,(.*)", re.DOTALL)


def blocks(message: Wire, provider: str) -> tuple[ours.AnyBlock, ...]:
    """Return what *message* says.

    What our blocks do not hold stands in blocks of *provider* before the block that it belongs to: a part of the
    content (it has a "type"), fields of the `message`, of an `image`, or of a call.
    """
    said = list(_content(message, provider))
    text = any(isinstance(block, ours.Text) for block in said)
    images = [block for image in objects(message.get("images")) for block in _image(image, provider)]
    calls = [block for call in _calls(message) for block in _call(call, provider)]
    fields = _fields(message, text, bool(images))
    kept = (ours.ProviderBlock(provider, to_json({"message": fields})),) if fields else ()
    return (*_thinking(message, provider, bool(calls)), *kept, *said, *_sound(message), *images, *calls)


def objects(value: Any) -> list[Wire]:
    """Return the objects in a list, or the one that stands in its place."""
    items: list[Any] = cast(list[Any], value) if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def text_of(content: Any) -> str:
    """Return the text of a field that some servers send in parts."""
    if isinstance(content, list):
        return "".join(map(text_of, cast(list[Any], content)))
    return content if isinstance(content, str) else text_of(nested(content, "text") or nested(content, "refusal") or "")


def thought(fields: Wire) -> str:
    """Return the readable part of the reasoning; servers that send details mostly send the text as well."""
    spoken = next((text for name in SPOKEN if (text := text_of(fields.get(name)))), "")
    details = objects(fields.get("reasoning_details"))
    return spoken or "".join(text_of(detail.get("text") or detail.get("summary")) for detail in details)


# ---- text


def _content(message: Wire, provider: str) -> Iterator[ours.AnyBlock]:
    """Yield text and thinking in their order, and the other parts of the content. A refusal is text."""
    content: Any = message.get("content")
    text = ""
    for part in cast(list[Any], content) if isinstance(content, list) else [content]:
        kind = nested(part, "type")
        if (words := text_of(part)) or not isinstance(kind, str) or kind == "text":
            text += words
            continue
        yield from _text(text, message, provider)
        text = ""
        raw = to_json(part)
        # https://docs.mistral.ai/capabilities/reasoning
        thinking = kind == "thinking" and ours.Thinking(clean(text_of(part.get("thinking"))), provider, raw)
        yield thinking or ours.ProviderBlock(provider, raw)
    spoken = "" if content else text_of(nested(message, "audio", "transcript"))
    yield from _text(text + spoken + text_of(message.get("refusal")), message, provider)


def _text(text: str, message: Wire, provider: str) -> Iterator[ours.Text]:
    if text:
        yield ours.Text(
            clean(text), citations([one for one in objects(message.get("annotations")) if _cites(one)], provider)
        )


def _cites(annotation: Wire) -> bool:
    """Return False for a file that the server has parsed: https://openrouter.ai/docs/features/multimodal/pdfs"""
    return annotation.get("type") != "file"


# ---- reasoning, and other fields


def _thinking(message: Wire, provider: str, calls: bool) -> tuple[ours.Thinking, ...]:
    fields = {name: message[name] for name in (*SPOKEN, "reasoning_details") if message.get(name)}
    # DeepSeek rejects a call without the field, even if it was empty: https://github.com/BenedictKing/ccx/issues/170
    if not fields and calls and message.get(SPOKEN[0]) == "":
        fields = {SPOKEN[0]: ""}
    return (ours.Thinking(clean(thought(fields)), provider, to_json(fields)),) if fields else ()


def _fields(message: Wire, text: bool, images: bool) -> Wire:
    """Return the fields of *message* that its server takes back and that no other block holds."""
    fields: Wire = {name: message[name] for name in (SIGNED,) if message.get(name)}
    if sound := nested(message, "audio", "id"):
        fields["audio"] = {"id": sound, "expires_at": token_count(message, "audio", "expires_at")}
    if annotations := [one for one in objects(message.get("annotations")) if not (text and _cites(one))]:
        fields["annotations"] = annotations
    if message.get("images") and not images:
        fields["images"] = message["images"]
    return fields


def _image(image: Wire, provider: str) -> tuple[ours.AnyBlock, ...]:
    """Return an image that the model made: https://openrouter.ai/docs/features/multimodal/image-generation"""
    link = image.get("image_url")
    found = DATA_URL.fullmatch(text_of(nested(link, "url")))
    if not found or not (data := _decoded(found[2])):
        return ()
    rest = {**image, "image_url": {name: value for name, value in cast(Wire, link).items() if name != "url"}}
    return ours.ProviderBlock(provider, to_json({"image": rest})), ours.Image(data, found[1])


def _sound(message: Wire) -> tuple[ours.Audio, ...]:
    """Return what the model spoke: https://developers.openai.com/api/docs/guides/audio"""
    data = _decoded(text_of(nested(message, "audio", "data")))
    return (ours.Audio(data, media_type(data) or "audio/pcm"),) if data else ()


def _decoded(text: str) -> bytes:
    """Return the bytes in *text*, or none if base64 would not give it back."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return b""
    return data if b64encode(data).decode() == text else b""


# ---- calls


def _calls(message: Wire) -> list[Wire]:
    """Return the calls. An older form of the API has one, without an id."""
    return objects(message.get("tool_calls")) or [{"function": one} for one in objects(message.get("function_call"))]


def _call(call: Wire, provider: str) -> tuple[ours.AnyBlock, ...]:
    """Convert a call. Some servers leave out its id, or send its arguments as an object or as null."""
    besides = {name: value for name, value in call.items() if name not in OWN and value is not None}
    custom = call.get("custom")
    function: Any = custom or call.get("function") or {}
    name, call_id = (str(value or "") for value in (nested(function, "name"), call.get("id")))
    if custom:
        besides["custom"] = {}
        arguments = to_json({"input": text_of(nested(function, "input"))})
    else:
        arguments = parse_arguments(sdk.json_text(nested(function, "arguments")))
    return *extra_fields(besides, (), provider), ours.ToolCall(name, arguments, call_id)
