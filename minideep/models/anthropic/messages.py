"""Claude, through Anthropic's SDK and its Messages API."""

import hashlib
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
from msgspec import Struct

from ...checks import checked
from ...errors import AuthenticationFailed, ContextOverflow, ModelError
from ...events import ArgsDelta, StreamEvent, TextDelta, ThinkingDelta
from ...kinds import Positive, having
from ...messages import (
    AnyBlock,
    AssistantMessage,
    Document,
    Image,
    Message,
    ProviderBlock,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    clean,
    from_json,
    parse_arguments,
    to_json,
)
from ...ports import Emit, Reply, Request
from ...tools import Tool
from .. import adapter as wire
from ..catalog import Price, Tariff
from ..profile import Profile
from . import breakpoints
from .usage import cost, counted

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

PROVIDER = "anthropic"
KEY = "ANTHROPIC_API_KEY"
MAX_TOKENS = 16_000
THOUGHTS = ("thinking", "redacted_thinking")

STOPS: Mapping[str | None, StopReason] = {
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "refusal": "refused",
    "pause_turn": "continue",
    "compaction": "continue",
}
"""Every other reason is `done`: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons"""

PHRASES: Mapping[str, type[ModelError]] = {
    "prompt is too long": ContextOverflow,
    "exceed context limit": ContextOverflow,
    "could not resolve authentication method": AuthenticationFailed,
}
"""What the API, and the SDK where it has no key, say in words only."""

Wire = dict[str, Any]

EMPTY: Wire = {"type": "text", "text": "(empty)"}
"""Stands where nothing was said but something must be; the API refuses blank text."""


class Anthropic:
    """A Claude model: `Anthropic("claude-sonnet-4-6", thinking={"type": "adaptive"})`.

    *client* is an `anthropic.AsyncAnthropic`; without one it is made by the SDK's own rules (`ANTHROPIC_API_KEY`, two
    retries, ten minutes), and the SDK is imported, when it is first used. *max_tokens* limits one reply. *settings*
    are arguments of the SDK's `messages.create` (`thinking`, `tool_choice`, ...) and go there unread; `tools` among
    them, such as the provider's web search, stand before the agent's own, and a `format` in their `output_config`
    stands instead of a request's `schema` (None for a model that has no such mode). There is no `temperature`: the API
    refuses it (https://platform.claude.com/docs/en/api/migration-2026-10-21). *price* is what its replies cost, where
    that is not what is listed (`PRICES`). *window* is how many tokens it reads, where you know: conversations are
    compacted before that; *profile* is what it is told in other words.
    """

    @checked
    def __init__(
        self,
        name: str,
        *,
        client: "Annotated[AsyncAnthropic, having('messages', 'an `anthropic.AsyncAnthropic`')] | None" = None,
        max_tokens: Positive | None = None,
        price: Price | None = None,
        window: Positive | None = None,
        profile: Profile | None = None,
        **settings: Any,
    ) -> None:
        self.name = name
        self.window, self.profile = window, profile
        self._tariff = Tariff(name, price)
        self.states_cost = self._tariff.known
        self._client = wire.Client(client, _connect)
        self._settings = {"max_tokens": max_tokens or MAX_TOKENS, **settings}
        self._converted = wire.Converted(_to_wire)

    async def preload(self) -> None:
        """Import the SDK, which takes about a second, and make the client."""
        await self._client.get()

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request*: as one JSON document, or streamed where somebody listens.

        Raises:
            ModelError: the API failed after the SDK's own retries, or a stream broke twice.
        """
        secrets: list[str | None] = []
        try:
            client = await self._client.get()
            secrets += [getattr(client, name, None) for name in ("api_key", "auth_token")]
            body = self._body(request)
            return await wire.restarting(lambda emit: self._ask(client, body, emit), emit)
        except Exception as exc:  # noqa: BLE001  The door to a model: whatever fails behind it is the model's error.
            # Not chained: what a connection refused to send, such as a malformed key, stands in the cause.
            raise wire.failure(self.name, exc, key=KEY, secrets=secrets, phrases=PHRASES) from None

    def _body(self, request: Request) -> Wire:
        """The request: tools, system, messages. The same messages give the same bytes again, breakpoints aside."""
        body: Wire = {"model": self.name, **self._settings}
        if tools := [*body.get("tools", ()), *map(_tool, request.tools)]:
            body["tools"] = tools
        if system := _system(request):
            body["system"] = system
        if request.schema is not None:
            form: Wire = {"format": {"type": "json_schema", "schema": request.schema}}
            body["output_config"] = form | body.get("output_config", {})
        converted = [self._converted(message) for message in request.messages]
        body["messages"] = _merged(converted)
        if request.cache and "cache_control" not in body:
            breakpoints.mark(body, request.cache.ttl, _ends(converted, request.cache.stable_prefix))
        return body

    async def _ask(self, client: "AsyncAnthropic", body: Wire, emit: Emit | None) -> Reply:
        try:
            answer = await _send(client, body, emit)
        except ValueError as exc:  # The SDK does not wait for a reply that may take more than ten minutes.
            if "Streaming is required" not in str(exc):
                raise
            answer = await _send(client, body, _unheard)
        return _reply(answer, self._tariff)


def _connect() -> "AsyncAnthropic":
    import anthropic

    return anthropic.AsyncAnthropic()


async def _send(client: "AsyncAnthropic", body: Wire, emit: Emit | None) -> Any:
    """One request. The answer is read as plain JSON: the SDK's models would drop or reshape what they do not know."""
    import anthropic
    import httpx2

    create: Any = client.messages.with_raw_response.create
    if emit is None:
        response = await create(**body)
        return from_json(await response.read())
    response = await create(**body, stream=True)
    with wire.unbroken(anthropic.APIConnectionError, httpx2.TransportError):
        async with await response.parse(to=anthropic.AsyncStream[object]) as events:
            return await _gathered(events, emit)


def _unheard(event: StreamEvent) -> None:
    """Nobody listens."""


# ---- a request


def _tool(tool: Tool) -> Wire:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def _system(request: Request) -> list[Wire]:
    """The prompt, and, where they are cached apart, the memory behind it; no blank text, which the API refuses."""
    cut = request.stable if request.cache and request.stable is not None else len(request.system)
    parts = request.system[:cut], request.system[cut:]
    parts = parts if all(part.strip() for part in parts) else (request.system,)
    return [{"type": "text", "text": part} for part in parts if part.strip()]


def _ends(converted: list[tuple[str, list[Wire]]], stable_prefix: int | None) -> list[int]:
    """How many blocks of messages the next request begins with, and how many the last ones had, the latest first.

    Those ended where an assistant's messages begin.
    """
    kept = converted[:stable_prefix]
    ends = [sum(len(blocks) for _, blocks in kept)]
    behind = 0
    for role, blocks in reversed(kept):
        behind += len(blocks)
        if role == "assistant" and blocks:
            ends.append(ends[0] - behind)
        if len(ends) == breakpoints.MOST:
            break
    return ends


def _merged(messages: Iterable[tuple[str, list[Wire]]]) -> list[Wire]:
    """Adjacent messages of one role as one, results of tools first, as the API demands; empty ones left out."""
    merged: list[Wire] = []
    for role, group in groupby((message for message in messages if message[1]), lambda message: message[0]):
        blocks = [block for _, blocks in group for block in blocks]
        blocks.sort(key=lambda block: block["type"] != "tool_result")
        merged.append({"role": role, "content": blocks})
    return merged


def _to_wire(message: Message) -> tuple[str, list[Wire]]:
    """The message's role and blocks; only an assistant's may be none, when another provider said all of it."""
    blocks = [wired for block in message.blocks if (wired := _block(block, message.role))]
    if isinstance(message, AssistantMessage):
        # Thinking must not be the last block, as it is in a reply that was cut while the model thought.
        return "assistant", [*blocks, EMPTY] if blocks and blocks[-1]["type"] in THOUGHTS else blocks
    if not isinstance(message, ToolMessage):
        return "user", blocks or [EMPTY]
    result: Wire = {"type": "tool_result", "tool_use_id": _id(message.call_id), "content": blocks or [EMPTY]}
    return "user", [result | {"is_error": True} if message.is_error else result]


def _block(block: AnyBlock, role: str) -> Wire | None:
    """The block in the API's words; None for blank text and for what it takes from nobody, or not from *role*."""
    match block:
        case Text(text):
            return {"type": "text", "text": text} if text.strip() else None
        case ToolCall():
            arguments: Wire = {} if block.malformed else wire.sendable(block.raw)
            return {"type": "tool_use", "id": _id(block.id), "name": block.name, "input": arguments}
        case Image() | Document() if role == "assistant":
            return None
        case Image(data, media_type):
            return {"type": "image", "source": _base64(data, media_type)}
        case Document():
            return _document(block)
        case Thinking(provider=provider, raw=raw) | ProviderBlock(provider, raw):
            return wire.sendable(raw) if provider == PROVIDER else None


def _document(block: Document) -> Wire:
    """PDF as base64; text as text, which the API takes in no other form."""
    source = _base64(block.data, block.media_type)
    if block.media_type.startswith("text/"):
        source = {"type": "text", "media_type": "text/plain", "data": block.data.decode(errors="replace")}
    return {"type": "document", "source": source} | ({"title": block.name} if block.name else {})


def _base64(data: bytes, media_type: str) -> Wire:
    return {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}


def _id(call_id: str) -> str:
    """The id itself, or, where another provider's holds characters that the API refuses, one made of its hash."""
    if re.fullmatch(r"[a-zA-Z0-9_-]+", call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode(errors='surrogatepass')).hexdigest()[:32]}"


# ---- a reply


class _Answer(Struct):
    content: list[Wire]
    stop_reason: str | None = None
    usage: Any = None
    """Read leniently: an answer that is paid for must not be lost because it is counted strangely."""


def _reply(answer: Any, tariff: Tariff) -> Reply:
    checked = msgspec.convert(answer, _Answer)
    content = tuple(map(_kept, checked.content))
    stop = STOPS.get(checked.stop_reason, "done")
    return Reply(AssistantMessage(content), counted(checked.usage), stop, cost(checked.usage, tariff))


def _kept(block: Wire) -> AnyBlock:
    """The block as ours; thinking, and what only the provider understands, with its own JSON."""
    match block:
        case {"type": "text", "text": text}:
            return Text(clean(text))
        case {"type": "tool_use", "name": name}:
            return ToolCall(name, to_json(block.get("input") or {}), block.get("id"))
        case {"type": kind} if kind in THOUGHTS:
            return Thinking(clean(block.get("thinking") or ""), PROVIDER, to_json(block))
        case _:
            return ProviderBlock(PROVIDER, to_json(block))


# ---- a stream


async def _gathered(events: AsyncIterator[Any], emit: Emit) -> Wire:
    """The message that the events of a stream describe, in the shape in which the API sends it whole.

    Raises:
        StreamBroke: the events end before the reason why the reply stopped.
    """
    answer = _Streamed(emit)
    async for event in events:
        answer.add(event)
    return answer.whole()


class _Streamed:
    """A message as its events arrive; listeners are told at once."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._stop: str | None = None
        self._usage: Wire = {}
        self._blocks: dict[int, Wire] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}

    def add(self, event: Any) -> None:
        """Take in one event; a kind that is not known is passed over, as the API asks its readers to do."""
        match event:
            case {"type": "message_start", "message": message}:
                self._count(message.get("usage"))
                self._usage.pop("output_tokens", None)  # Of the little that is written by then.
            case {"type": "content_block_start", "index": index, "content_block": block}:
                self._blocks[index] = block
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                self._grow(index, self._blocks[index], delta)
            case {"type": "message_delta", "delta": delta}:
                self._stop = delta.get("stop_reason") or self._stop
                self._count(event.get("usage"))
            case _:
                pass

    def whole(self) -> Wire:
        if self._stop is None:
            raise wire.StreamBroke("the stream ended before the reply did")
        for (index, field), pieces in self._pieces.items():
            block, text = self._blocks[index], "".join(pieces)
            block[field] = from_json(parse_arguments(text)) if field == "input" else block[field] + text
        return {"content": list(self._blocks.values()), "stop_reason": self._stop, "usage": self._usage}

    def _count(self, usage: Any) -> None:
        """Counts are totals so far; null, or none at all, leaves what was said before."""
        said = cast(Wire, usage) if isinstance(usage, dict) else {}
        self._usage |= {name: count for name, count in said.items() if count is not None}

    def _grow(self, index: int, block: Wire, delta: Wire) -> None:
        match delta:
            case {"type": "text_delta", "text": text}:
                self._write(index, "text", text, TextDelta(clean(text)))
            case {"type": "thinking_delta", "thinking": text}:
                self._write(index, "thinking", text, ThinkingDelta(clean(text)))
            case {"type": "input_json_delta", "partial_json": text}:
                self._write(index, "input", text, self._args(index, block, text))
            case {"type": "citations_delta", "citation": citation}:
                block["citations"] = [*(block.get("citations") or ()), citation]
            case _:  # A signature, or what a later version adds: comes whole.
                block |= {name: value for name, value in delta.items() if name != "type"}

    def _write(self, index: int, field: str, text: str, event: StreamEvent | None) -> None:
        self._pieces.setdefault((index, field), []).append(text)
        if text and event:
            self._emit(event)

    def _args(self, index: int, block: Wire, text: str) -> ArgsDelta | None:
        """None for a tool that the provider itself runs."""
        calls = [other for other, block in self._blocks.items() if block["type"] == "tool_use"]
        return ArgsDelta(calls.index(index), block["name"], text) if index in calls else None
