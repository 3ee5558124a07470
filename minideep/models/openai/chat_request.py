"""The conversation in the words of Chat Completions, as one server wants to get it."""

import math
import time
from base64 import b64encode
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ... import media, messages as ours
from ...tools import Tool
from ..adapter import Wire, own_json, sendable, sent_name, server_of
from ..body import Part, encode
from . import sdk

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PROVIDER = "openai-chat"
"""The provider of blocks in older logs, whatever their server was."""

FORMATS = {
    "audio/wav": "wav",
    "audio/mpeg": "mp3",
    "audio/flac": "flac",
    "audio/ogg": "ogg",
    "audio/mp4": "m4a",
    "audio/webm": "webm",
}
"""The names of audio formats. OpenAI takes the first two; what others take depends on the model:
https://openrouter.ai/docs/features/multimodal/audio"""
URL_TYPES = media.IMAGES
"""The media that the API fetches; of files it takes the bytes only:
https://developers.openai.com/api/docs/guides/file-inputs"""
OPENAI_FORMATS = ("audio/wav", "audio/mpeg")


class Dialect(Struct, frozen=True):
    """What one server takes, and which of the blocks in a thread are its own."""

    provider: str
    """The provider of its blocks: `openai-chat:` and the server."""
    reasoning: bool = True
    """Whether its reasoning goes back to it."""
    is_openai: bool = False
    """True for OpenAI's own server, which rejects fields and content that it does not know."""
    annotations: bool = False
    """Whether sources and parsed files go back to it."""

    def own(self, block: ours.AnyBlock) -> Wire | None:
        """Return the JSON in *block* that goes back to this server."""
        if isinstance(block, ours.Thinking) and not self.reasoning:
            return None
        # A block without a server goes where it went before, since DeepSeek rejects calls without their reasoning:
        # https://api-docs.deepseek.com/guides/thinking_mode#tool-calls
        older = isinstance(block, ours.Thinking | ours.ProviderBlock) and block.provider == PROVIDER
        return own_json(block, PROVIDER if older and not self.is_openai else self.provider)


def dialect(client: "AsyncOpenAI", reasoning: bool) -> Dialect:
    """Return the dialect of the server that *client* asks."""
    at = f".{client.base_url.host}"
    is_openai, is_openrouter = (at.endswith(f".{host}") for host in ("openai.com", "openrouter.ai"))
    # https://openrouter.ai/docs/features/multimodal/pdfs
    return Dialect(server_of(client, PROVIDER), reasoning, is_openai, annotations=is_openrouter)


class Said(Part, frozen=True, gc=False):
    """A message, and the media that it shows and that its API takes only from users."""

    role: str
    media: list[bytes]
    expires: float = math.inf
    """The time from which *later* is sent instead, in seconds since 1970."""
    later: tuple[bytes, ...] = ()


def declared(tool: Tool) -> Part:
    said = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return Part([encode({"type": "function", "function": said})])


def conversation(system: str, said: Iterable[Said]) -> list[bytes]:
    """Return the messages of a request.

    Media of tools come after all results of a step, since results must directly follow their calls.
    """
    parts: list[bytes] = [encode({"role": "system", "content": system})] if system else []
    shown: list[bytes] = []
    for message in said:
        if shown and message.parts and message.role != "tool":
            parts.append(_shown(shown))
            shown = []
        parts += message.later if message.later and message.expires <= time.time() else message.parts
        shown += message.media
    return [*parts, _shown(shown)] if shown else parts


def _shown(media: list[bytes]) -> bytes:
    return b'{"role":"user","content":[%b]}' % b",".join(media)


def encoded(message: ours.Message, to: Dialect) -> Said:
    """Return *message* for the server *to*; without parts if all of it is another provider's."""
    match message:
        case ours.AssistantMessage(str(text)):
            return Said([encode({"role": "assistant", "content": text})] if text else [], "assistant", [])
        case ours.AssistantMessage():
            return _Reply(to).of(message.blocks)
        case ours.ToolMessage():
            shown = [
                part for block in message.blocks if not isinstance(block, ours.Text) and (part := _part(block, to))
            ]
            call_id, text = sdk.call_id(message.call_id), message.text or ("(shown below)" if shown else "")
            label = [_text(f"{sent_name(message.name)} ({call_id}) shows:")] if shown else []
            result = {"role": "tool", "tool_call_id": call_id, "content": text}
            return Said([encode(result)], "tool", [encode(part) for part in label + shown])
        case _:
            only_text = all(isinstance(block, ours.Text) for block in message.blocks)
            parts = [part for block in message.blocks if (part := _part(block, to))]
            content = message.text if only_text else parts or [_text("(empty)")]
            return Said([encode({"role": "user", "content": content})], "user", [])


def _text(text: str) -> Wire:
    return {"type": "text", "text": text}


def _part(block: ours.AnyBlock, to: Dialect) -> Wire | None:
    """Return a part of what a user says; of what the server cannot read, a text that says so."""
    match _taken(block, to):
        case ours.Text(text):
            return _text(text)
        case ours.Image() as image:
            return {"type": "image_url", "image_url": {"url": sdk.data_url(image)}}
        case ours.MediaLink(url):
            return {"type": "image_url", "image_url": {"url": url}}
        case ours.Audio(data, media_type):
            return {
                "type": "input_audio",
                "input_audio": {"data": b64encode(data).decode(), "format": FORMATS[media_type]},
            }
        case ours.Video() as video:
            return {"type": "video_url", "video_url": {"url": sdk.data_url(video)}}
        case ours.Document() as file:
            return {"type": "file", "file": {"filename": sdk.file_name(file), "file_data": sdk.data_url(file)}}
        case other:
            return to.own(other)


def _taken(block: ours.AnyBlock, to: Dialect) -> ours.AnyBlock:
    match block:
        case ours.Image():
            return media.sendable(block, *media.IMAGES)
        case ours.MediaLink():
            return media.sendable(block, *URL_TYPES)
        case ours.Audio():
            return media.sendable(block, *(OPENAI_FORMATS if to.is_openai else FORMATS))
        case ours.Video():
            # https://docs.vllm.ai/en/latest/features/multimodal_inputs and
            # https://openrouter.ai/docs/features/multimodal/videos
            return media.sendable(block, *(() if to.is_openai else ("video/",)))
        case ours.Document():
            return media.labelled(block)
        case _:
            return block


class _Reply:
    """The message of the model, as it goes back: text, calls, and what its server sent with them."""

    def __init__(self, to: Dialect) -> None:
        self._to = to
        self._parts: list[Wire] = []
        self._calls: list[Wire] = []
        self._images: list[Wire] = []
        self._cited: list[Any] = []
        self._shown: list[Wire] = []
        self._fields: Wire = {}
        self._besides: Wire = {}
        """The fields of the call or of the image that is next."""

    def of(self, blocks: Iterable[ours.AnyBlock]) -> Said:
        for block in blocks:
            self._add(block)
        audio: Wire = self._fields.pop("audio", {})
        shown = [_text("(the assistant's image)"), *self._shown] if self._shown else []
        said = Said(self._said(self._content()), "assistant", [encode(part) for part in shown])
        if not audio:
            return said
        # The transcript is sent when the server has forgotten the sound: an id that it does not know is an error.
        spoken = self._said({"audio": {"id": audio.get("id")}})
        ends: Any = audio.get("expires_at")
        expires = ends if isinstance(ends, int | float) else math.inf
        return Said(spoken, said.role, said.media, expires, tuple(said.parts))

    def _add(self, block: ours.AnyBlock) -> None:
        match block:
            case ours.Text():
                self._parts.append(_text(block.text))
                self._cited += (sendable(one.raw) for one in block.citations if one.provider == self._to.provider)
            case ours.ToolCall():
                self._calls.append(_call(block, self._besides))
                self._besides = {}
            case ours.Image() if image := self._besides.get("image"):
                link: Wire = {**(image.get("image_url") or {}), "url": sdk.data_url(block)}
                self._images.append({**image, "image_url": link})
                self._besides = {}
            case ours.Image():
                # No server takes an image of another as the model's own.
                self._shown += [part for part in [_part(block, self._to)] if part]
            case ours.Thinking() | ours.ProviderBlock() if own := self._to.own(block):
                self._add_own(block, own)
            case _:
                pass

    def _add_own(self, block: ours.AnyBlock, own: Wire) -> None:
        if "type" in own:
            self._parts.append(own)
        elif isinstance(block, ours.Thinking):
            self._fields |= own
        elif fields := own.get("message"):
            self._fields |= cast(Wire, fields)
        else:
            self._besides = own

    def _content(self) -> Wire:
        """Return the content: a text, unless there are other parts; null beside calls if there is none."""
        only_text = all(part["type"] == "text" for part in self._parts)
        content = "".join(part["text"] for part in self._parts) if only_text else self._parts
        return {"content": content or (None if self._calls else "")}

    def _said(self, content: Wire) -> list[bytes]:
        fields = dict(self._fields)
        annotations = [*self._cited, *fields.pop("annotations", ())]
        if annotations and self._to.annotations:
            fields["annotations"] = annotations
        if self._images:
            fields["images"] = self._images
        if not (any(content.values()) or self._calls or fields):
            return []
        calls: Wire = {"tool_calls": self._calls} if self._calls else {}
        return [encode({"role": "assistant", **content, **calls, **fields})]


def _call(call: ours.ToolCall, besides: Wire) -> Wire:
    name, call_id = sent_name(call.name), sdk.call_id(call.id)
    if "custom" in besides:
        custom = {"name": name, "input": str(call.args.get("input", ""))}
        return {"id": call_id, "type": "custom", **besides, "custom": custom}
    function = {"name": name, "arguments": sdk.arguments_text(call)}
    return {"id": call_id, "type": "function", "function": function, **besides}
