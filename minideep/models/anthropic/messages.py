"""Claude, through Anthropic's SDK and its Messages API."""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import msgspec
from msgspec import Struct

from ... import messages as ours
from ...checks import checked
from ...events import ArgsDelta, StreamEvent, TextDelta, ThinkingDelta
from ...kinds import Positive, Seconds, having
from ...messages import clean, from_json, parse_arguments, to_json
from ...ports import Emit, Reply, Request
from ...tools import Tool
from ..adapter import Adapter, Wire, hashed_id, own_json, sendable, sent_name
from ..answers import Stream
from ..body import Encoded, Part, array, encode
from ..catalog import Price, Tariff
from ..profile import Profile
from ..timeouts import Timeouts
from ..waits import refuse_long_wait
from . import breakpoints
from .usage import cost_of, usage_of

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

PROVIDER = "anthropic"
MAX_TOKENS = 16_000
THOUGHTS = ("thinking", "redacted_thinking")

SETTINGS = """
cache_control container diagnostics inference_geo metadata output_config service_tier speed stop_sequences thinking
tool_choice tools
"""
"""The arguments of the SDK's method that a request may carry as they are."""

STOPS: Mapping[str | None, ours.StopReason] = {
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "refusal": "refused",
    "pause_turn": "continue",
    "compaction": "continue",
}
"""Every other reason is `done`: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons"""

LONGEST_UNSTREAMED = 21_333
"""Tokens that are surely written within ten minutes: https://github.com/anthropics/anthropic-sdk-python#long-requests"""

EMPTY: Wire = {"type": "text", "text": "(empty)"}
"""Replaces content that would be empty or blank, which the API rejects."""


class Anthropic(Adapter["AsyncAnthropic"]):
    """A Claude model: `Anthropic("claude-sonnet-4-6", thinking={"type": "adaptive"})`.

    * *client* is an `anthropic.AsyncAnthropic`. Without one it is made at first use, when the SDK is imported too, by
      the SDK's own rules: `ANTHROPIC_API_KEY`, two retries, a timeout of ten minutes.
    * *max_tokens* limits one reply. By default it is 16,000, or the model's own limit if that is less.
    * *price* is what replies cost, if that is not the price in the catalog (`model_info`).
    * *window* is how many tokens the model reads, if that is not what the catalog says: conversations are compacted
      before they reach it.
    * *profile* adapts prompts and tool descriptions to the model.
    * *settings* are arguments of the SDK's `messages.create` (`thinking`, `tool_choice`, ...), passed on as they are.
      `tools` among them, such as the provider's web search, come before the agent's own. A `format` in their
      `output_config` replaces a request's `schema` (None for a model without a mode for structured output).
      `temperature` is not one of them: the API rejects it
      (https://platform.claude.com/docs/en/api/migration-2026-10-21).
    """

    sdk = "anthropic"
    client_class = "AsyncAnthropic"
    home = "anthropic.com"
    path = "/v1/messages"
    count_path = "/v1/messages/count_tokens"
    counted: ClassVar[frozenset[str]] = frozenset(
        {"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control"}
    )
    known_settings: ClassVar[frozenset[str]] = frozenset(SETTINGS.split())
    key_variable = "ANTHROPIC_API_KEY"
    credentials: ClassVar[tuple[str, ...]] = ("api_key", "auth_token")

    @checked
    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: "Annotated[AsyncAnthropic, having('messages', 'an `anthropic.AsyncAnthropic`')] | None" = None,
        max_tokens: Positive | None = None,
        price: Price | None = None,
        window: Positive | None = None,
        profile: Profile | None = None,
        timeout: Seconds | Timeouts | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            name,
            client,
            settings,
            api_key=api_key,
            base_url=base_url,
            price=price,
            window=window,
            profile=profile,
            timeout=timeout,
        )
        limit = max_tokens or min(MAX_TOKENS, self._info.output or MAX_TOKENS)
        self._settings = {"max_tokens": limit, **self._settings}
        self._said = Encoded(_said)
        self._declared = Encoded(_declared)

    def _connect(self, api_key: str | None, base_url: str | None) -> "AsyncAnthropic":
        client: Any = super()._connect(api_key, base_url)
        client._client.event_hooks["response"].append(refuse_long_wait)
        return client

    def _streams_unheard(self) -> bool:
        # The connection of a reply that may take more than ten minutes may be cut, if nothing comes for so long.
        return self._settings["max_tokens"] > LONGEST_UNSTREAMED

    def _stream(self, emit: Emit) -> Stream:
        return _Streamed(emit)

    def _body(self, client: "AsyncAnthropic", request: Request, *, streamed: bool = False) -> Wire:
        """Return the request as tools, system and messages.

        The same messages become the same bytes again, apart from breakpoints, or the provider's cache would miss them.
        """
        body: Wire = {"model": self.name, **self._settings}
        tools = [*map(encode, self._hosted), *(part for tool in request.tools for part in self._declared(tool).parts)]
        system = _system(request)
        if request.schema is not None:
            form: Wire = {"format": {"type": "json_schema", "schema": request.schema}}
            body["output_config"] = form | body.get("output_config", {})
        said = [self._said(message) for message in request.messages]
        turns = _merged(said)
        if request.cache and "cache_control" not in body:
            used = sum(map(breakpoints.is_marked, tools)) + sum(message.marks for message in said)
            breakpoints.mark(tools, system, turns, request.cache.ttl, _ends(said, request.cache.stable_prefix), used)
        if tools:
            body["tools"] = array(tools)
        if system:
            body["system"] = array(system)
        body["messages"] = array([_turn(turn) for turn in turns])
        return body | self._extra

    @checked
    async def upload(self, block: ours.Image | ours.Document) -> ours.ProviderBlock:
        kind = "image" if isinstance(block, ours.Image) else "document"
        name = getattr(block, "name", "") or kind
        file = await self._asked(lambda client: client.files.upload(file=(name, block.data, block.media_type)))
        named: Wire = {"type": kind, "source": {"type": "file", "file_id": file.id}}
        return ours.ProviderBlock(PROVIDER, to_json(named))

    def _read(self, answer: Any) -> Reply:
        return _reply(answer, self._tariff)


# ---- a request


class _Said(Part, frozen=True, gc=False):
    """A message as blocks."""

    role: str
    kinds: list[str]
    """The types of the blocks."""
    marks: int = 0
    """How many breakpoints the user has put into it."""


def _declared(tool: Tool) -> Part:
    return Part([encode({"name": tool.name, "description": tool.description, "input_schema": tool.schema})])


def _system(request: Request) -> list[bytes]:
    """Return the prompt, split from the memory behind it if they are cached apart; the API rejects blank text."""
    cut = request.stable if request.cache and request.stable is not None else len(request.system)
    parts = request.system[:cut], request.system[cut:]
    parts = parts if all(part.strip() for part in parts) else (request.system,)
    return [encode({"type": "text", "text": part}) for part in parts if part.strip()]


def _ends(said: list[_Said], stable_prefix: int | None) -> list[int]:
    """Return how many blocks of messages the next request starts with, and how many earlier ones had, latest first.

    An earlier request ended where a message of the assistant begins.
    """
    kept = said[:stable_prefix]
    ends = [sum(len(message.parts) for message in kept)]
    behind = 0
    for message in reversed(kept):
        behind += len(message.parts)
        if message.role == "assistant" and message.parts:
            ends.append(ends[0] - behind)
        if len(ends) == breakpoints.MAX_BREAKPOINTS:
            break
    return ends


def _merged(said: Iterable[_Said]) -> list[_Said]:
    """Join adjacent messages of one role and drop empty ones. The API requires that tool results come first."""
    merged: list[_Said] = []
    for role, group in groupby((message for message in said if message.parts), lambda message: message.role):
        first, *others = group
        # A new message, since breakpoints are put into it.
        turn = _Said([*first.parts], role, [*first.kinds])
        for message in others:
            turn.parts.extend(message.parts)
            turn.kinds.extend(message.kinds)
        merged.append(_results_first(turn) if others else turn)
    return merged


def _results_first(turn: _Said) -> _Said:
    order = sorted(range(len(turn.parts)), key=lambda at: turn.kinds[at] != "tool_result")
    return _Said([turn.parts[at] for at in order], turn.role, [turn.kinds[at] for at in order])


def _turn(turn: _Said) -> bytes:
    return b'{"role":"%b","content":[%b]}' % (turn.role.encode(), b",".join(turn.parts))


def _said(message: ours.Message) -> _Said:
    role, blocks = _to_wire(message)
    marks = sum("cache_control" in block for block in blocks)
    return _Said([encode(block) for block in blocks], role, [block["type"] for block in blocks], marks)


def _to_wire(message: ours.Message) -> tuple[str, list[Wire]]:
    """Return role and blocks. Only an assistant's message may have none, if all of it is another provider's."""
    blocks = [wired for block in message.blocks if (wired := _block(block, message.role))]
    if isinstance(message, ours.AssistantMessage):
        # The API rejects thinking as the last block, which it is in a reply that was truncated while the model thought.
        return "assistant", [*blocks, EMPTY] if blocks and blocks[-1]["type"] in THOUGHTS else blocks
    if not isinstance(message, ours.ToolMessage):
        return "user", blocks or [EMPTY]
    result: Wire = {"type": "tool_result", "tool_use_id": _id(message.call_id), "content": blocks or [EMPTY]}
    return "user", [result | {"is_error": True} if message.is_error else result]


def _block(block: ours.AnyBlock, role: str) -> Wire | None:
    """Return the block in the API's words; None for blank text and for what the API does not accept from *role*."""
    match block:
        case ours.Text(text):
            return {"type": "text", "text": text} if text.strip() else None
        case ours.ToolCall():
            arguments: Wire = {} if block.malformed else sendable(block.raw)
            return {"type": "tool_use", "id": _id(block.id), "name": sent_name(block.name, 128), "input": arguments}
        case ours.Image() | ours.Document() if role == "assistant":
            return None
        case ours.Image(data, media_type):
            return {"type": "image", "source": _base64(data, media_type)}
        case ours.Document():
            return _document(block)
        case _:
            return own_json(block, PROVIDER)


def _document(block: ours.Document) -> Wire:
    """Return a PDF as base64 and text as text, the only form in which the API accepts it."""
    source = _base64(block.data, block.media_type)
    if block.media_type.startswith("text/"):
        source = {"type": "text", "media_type": "text/plain", "data": block.data.decode(errors="replace")}
    return {"type": "document", "source": source} | ({"title": block.name} if block.name else {})


def _base64(data: bytes, media_type: str) -> Wire:
    return {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}


def _id(call_id: str) -> str:
    """Return *call_id*, or its hash if another provider put characters into it that the API rejects."""
    return call_id if re.fullmatch(r"[a-zA-Z0-9_-]+", call_id) else hashed_id(call_id)


# ---- a reply


class _Answer(Struct):
    content: list[Wire]
    stop_reason: str | None = None
    usage: Any = None
    """Not checked: a reply that is paid for must not be lost because its usage has an odd form."""


def _reply(answer: Any, tariff: Tariff) -> Reply:
    checked = msgspec.convert(answer, _Answer)
    content = tuple(map(_from_wire, checked.content))
    stop = STOPS.get(checked.stop_reason, "done")
    return Reply(ours.AssistantMessage(content), usage_of(checked.usage), stop, cost_of(checked.usage, tariff))


def _from_wire(block: Wire) -> ours.AnyBlock:
    """Convert a block; thinking and blocks that only the provider understands keep its JSON."""
    match block:
        case {"type": "text", "text": text}:
            return ours.Text(clean(text))
        case {"type": "tool_use", "name": name}:
            return ours.ToolCall(name, to_json(block.get("input") or {}), block.get("id"))
        case {"type": kind} if kind in THOUGHTS:
            return ours.Thinking(clean(block.get("thinking") or ""), PROVIDER, to_json(block))
        case _:
            return ours.ProviderBlock(PROVIDER, to_json(block))


# ---- a stream


class _Streamed:
    """A message that grows with the events of its stream. Listeners receive its deltas at once."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._stop: str | None = None
        self._usage: Wire = {}
        self._blocks: dict[int, Wire] = {}
        self._parts: dict[tuple[int, str], list[str]] = {}

    def add(self, event: Any) -> None:
        """Add one event. Unknown kinds are ignored, as the API asks of its clients."""
        match event:
            case {"type": "message_start", "message": message}:
                self._count(message.get("usage"))
                # Counts only the little that is written by then; the total comes at the end.
                self._usage.pop("output_tokens", None)
            case {"type": "content_block_start", "index": index, "content_block": block}:
                self._blocks[index] = block
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                self._grow(index, self._blocks[index], delta)
            case {"type": "message_delta", "delta": delta}:
                self._stop = delta.get("stop_reason") or self._stop
                self._count(event.get("usage"))
            case _:
                pass

    def whole(self, done: bool) -> Wire | None:
        if self._stop is None:
            return None
        for (index, field), parts in self._parts.items():
            block, text = self._blocks[index], "".join(parts)
            block[field] = from_json(parse_arguments(text)) if field == "input" else block[field] + text
        return {"content": list(self._blocks.values()), "stop_reason": self._stop, "usage": self._usage}

    def _count(self, usage: Any) -> None:
        # Counts are totals so far. A null, or no usage at all, must not erase an earlier count.
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
            case _:
                # A signature, or a delta of a later version: its fields are complete.
                block |= {name: value for name, value in delta.items() if name != "type"}

    def _write(self, index: int, field: str, text: str, event: StreamEvent | None) -> None:
        self._parts.setdefault((index, field), []).append(text)
        if text and event:
            self._emit(event)

    def _args(self, index: int, block: Wire, text: str) -> ArgsDelta | None:
        """Return the event for part of a call's arguments; None for a tool that the provider itself runs."""
        calls = [other for other, block in self._blocks.items() if block["type"] == "tool_use"]
        return ArgsDelta(calls.index(index), block["name"], text, block.get("id", "")) if index in calls else None
