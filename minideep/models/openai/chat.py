"""Models behind any server that speaks OpenAI's Chat Completions, through OpenAI's SDK."""

from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

from ...checks import checked
from ...errors import ConfigError
from ...events import ArgsDelta, TextDelta, ThinkingDelta
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
    Usage,
    clean,
    parse_arguments,
    to_json,
)
from ...ports import Emit, Reply, Request
from ...tools import Tool
from .. import adapter as wire
from ..catalog import Price, Tariff
from ..profile import Profile
from .sdk import (
    Door,
    Wire,
    answered,
    cache_key,
    call_id,
    counted,
    data_url,
    file_name,
    json_text,
    priced,
    refusal,
    unsaid,
    written,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PROVIDER = "openai-chat"

STOPS: Mapping[str | None, StopReason] = {"length": "truncated", "content_filter": "refused"}

SPOKEN = ("reasoning_content", "reasoning")
REASONING = (*SPOKEN, "reasoning_details")
"""Where servers put reasoning that they want back: https://api-docs.deepseek.com/guides/thinking_mode and
https://openrouter.ai/docs/use-cases/reasoning-tokens"""

OWN = frozenset({"id", "type", "index", "function"})


class OpenAIChat:
    """A model behind Chat Completions: `OpenAIChat("qwen3", base_url="http://localhost:8000/v1")`.

    *client* is an `openai.AsyncOpenAI`; without one it is made by the SDK's own rules (`OPENAI_API_KEY`, which a
    server without keys takes at any value, two retries, ten minutes) for *base_url*, by default OpenAI's, and the SDK
    is imported, when it is first used. *settings* are arguments of the SDK's `chat.completions.create` and go there
    unread; `tools` among them stand before the agent's own.

    A request's `schema` is sent as `response_format`, which a server without that mode may refuse with status 400, as
    DeepSeek's does: a `response_format` among *settings*, such as `{"type": "text"}`, stands instead. Beside tools it
    is not sent, since vLLM and Ollama then let no tool be called: https://github.com/vllm-project/vllm/issues/39929
    and https://github.com/ollama/ollama/issues/13750

    *price* is what its replies cost, where the server does not say it, and it is not what is listed (`PRICES`).
    Behind a *base_url* that is left to the server: `states_cost` is True, and a turn under `Limits(cost=...)` stops at
    a reply whose cost neither says; behind a *client* of your own say so yourself, `model.states_cost = True`.
    *window* is how many tokens it reads, where you know: conversations are compacted before that; *profile* is what it
    is told in other words.

    Raises:
        ConfigError: both a *base_url* and a *client* are given.
    """

    @checked
    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        client: "Annotated[AsyncOpenAI, having('chat', 'an `openai.AsyncOpenAI`')] | None" = None,
        price: Price | None = None,
        window: Positive | None = None,
        profile: Profile | None = None,
        **settings: Any,
    ) -> None:
        if base_url and client:
            raise ConfigError(f"model {name!r} takes a base_url or a client, not both; give the client the base_url")
        self.name = name
        self.window, self.profile = window, profile
        self._tariff = Tariff(name, price)
        self.states_cost = self._tariff.known or base_url is not None
        self._door = Door(name, client, base_url)
        self._extra: Wire = settings.pop("extra_body", {})
        self._hosted: Iterable[Any] = settings.pop("tools", ())
        self._settings = settings
        self._converted = wire.Converted(_to_wire)

    async def preload(self) -> None:
        """Import the SDK, which takes about half a second, and make the client."""
        await self._door.client()

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request*: as one JSON document, or streamed where somebody listens.

        Raises:
            ModelError: the API failed after the SDK's own retries, or a stream broke twice.
        """
        streamed: Wire = {"stream_options": {"include_usage": True}} if emit else {}

        def ask(client: "AsyncOpenAI", emit: Emit | None) -> Awaitable[Reply]:
            create = client.chat.completions.with_raw_response.create
            arguments = streamed | (cache_key(request) if _is_openai(client) else {}) | self._arguments(request)
            return answered(create, arguments, self._reply, _Streamed(emit) if emit else None)

        return await self._door.reply(ask, emit)

    def _arguments(self, request: Request) -> Wire:
        body: Wire = {"messages": _messages(request.system, map(self._converted, request.messages))}
        if tools := [*self._hosted, *map(_tool, request.tools)]:
            body["tools"] = tools
        form: Wire = {}
        if request.schema is not None and not tools:
            named = {"name": "reply", "schema": request.schema, "strict": True}
            form = {"response_format": {"type": "json_schema", "json_schema": named}}
        # The SDK insists on messages of its own; those of the body replace them.
        return {"model": self.name, "messages": [], **form, **self._settings, "extra_body": body | self._extra}

    def _reply(self, answer: Wire) -> Reply:
        reply = _reply(answer)
        return priced(reply, self._tariff, _usage(answer), "prompt_tokens", answer.get("service_tier"))


def _is_openai(client: "AsyncOpenAI") -> bool:
    """Whether the server is OpenAI's own; others refuse a request with a field that they do not know."""
    return f".{client.base_url.host}".endswith(".openai.com")


# ---- a request


def _tool(tool: Tool) -> Wire:
    said = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": said}


def _messages(system: str, converted: Iterable[tuple[list[Wire], list[Wire]]]) -> list[Wire]:
    """The conversation. What tools showed follows their results, all of which must stand next to their calls."""
    said: list[Wire] = [{"role": "system", "content": system}] if system else []
    shown: list[Wire] = []
    for messages, media in converted:
        if shown and messages and messages[0]["role"] != "tool":
            said.append({"role": "user", "content": shown})
            shown = []
        said += messages
        shown += media
    return [*said, {"role": "user", "content": shown}] if shown else said


def _to_wire(message: Message) -> tuple[list[Wire], list[Wire]]:
    """The message, or none where another provider said all of it; and the media that a tool's result cannot hold."""
    match message:
        case AssistantMessage():
            said = _said(message.blocks)
            return [{"role": "assistant", **said}] if said else [], []
        case ToolMessage():
            media = [part for block in message.blocks if not isinstance(block, Text) and (part := _part(block))]
            text = message.text or ("(shown below)" if media else "")
            result = {"role": "tool", "tool_call_id": call_id(message.call_id), "content": text}
            label = {"type": "text", "text": f"{message.name} ({call_id(message.call_id)}) shows:"}
            return [result], [label, *media] if media else []
        case _:
            only_text = all(isinstance(block, Text) for block in message.blocks)
            parts = [part for block in message.blocks if (part := _part(block))]
            return [{"role": "user", "content": message.text if only_text else parts}], []


def _part(block: AnyBlock) -> Wire | None:
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case Image():
            return {"type": "image_url", "image_url": {"url": data_url(block)}}
        case Document():
            return {"type": "file", "file": {"filename": file_name(block), "file_data": data_url(block)}}
        case _:
            return None


def _said(blocks: Iterable[AnyBlock]) -> Wire:
    """What the model said: its text and its calls, with the reasoning and the other fields that came with them."""
    text, calls = "", list[Wire]()
    fields: Wire = {}
    besides: Wire = {}
    for block in blocks:
        match block:
            case Text():
                text += block.text
            case ToolCall(name):
                function = {"name": name, "arguments": written(block)}
                calls.append({"id": call_id(block.id), "type": "function", "function": function} | besides)
                besides = {}
            case Thinking(provider=provider) if provider == PROVIDER:
                fields |= wire.sendable(block.raw)
            case ProviderBlock(provider=provider) if provider == PROVIDER:
                besides = wire.sendable(block.raw)
            case _:
                pass
    if calls:
        return {"content": text or None, "tool_calls": calls, **fields}
    return {"content": text, **fields} if text or fields else {}


# ---- a reply


def _reply(answer: Wire) -> Reply:
    """Raises `BadReply` if *answer* is an error, or holds no choice."""
    match answer:
        case {"error": error} if error:
            raise refusal(error)
        case {"choices": [{"error": error}, *_]} if error:
            raise refusal(error)
        case {"choices": [{**choice}, *_]}:
            return _chosen(choice, counted(_usage(answer), "prompt_tokens", "completion_tokens"))
        case _:
            raise wire.BadReply(f"the answer should hold a choice, found {to_json(answer).decode()[:200]}")


def _chosen(choice: Wire, usage: Usage) -> Reply:
    message: Wire = choice.get("message") or {}
    stop = "refused" if message.get("refusal") else STOPS.get(choice.get("finish_reason"), "done")
    return Reply(AssistantMessage(_content(message)), usage, stop)


def _content(message: Wire) -> tuple[AnyBlock, ...]:
    text = _text(message.get("content")) + _text(message.get("refusal"))
    calls = (block for call in message.get("tool_calls") or () for block in _call(call))
    return *_thinking(message), *((Text(clean(text)),) if text else ()), *calls


def _text(content: Any) -> str:
    """The text of *content*, which some servers send in parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in cast(list[Wire], content))
    return content if isinstance(content, str) else ""


def _thinking(message: Wire) -> tuple[Thinking, ...]:
    fields = {name: message[name] for name in REASONING if message.get(name)}
    return (Thinking(clean(_thought(fields)), PROVIDER, to_json(fields)),) if fields else ()


def _thought(fields: Wire) -> str:
    """What of the reasoning can be shown; servers that send it in details mostly send it as text too."""
    details: list[Wire] = fields.get("reasoning_details") or []
    spoken = next((text for name in SPOKEN if (text := _text(fields.get(name)))), "")
    return spoken or "".join(detail.get("text") or detail.get("summary") or "" for detail in details)


def _call(call: Wire) -> tuple[AnyBlock, ...]:
    """The call, whatever a server made of it: an id may be missing, arguments may be an object, or null."""
    function: Wire = call.get("function") or {}
    name, call_id = (str(value or "") for value in (function.get("name"), call.get("id")))
    called = ToolCall(name, parse_arguments(json_text(function.get("arguments"))), call_id)
    return *unsaid(call, OWN, PROVIDER), called


def _usage(said: Wire) -> Any:
    """The counts in an answer, or in a part of one: Kimi puts them into the choice, Groq into a field of its own.

    https://github.com/earendil-works/pi/issues/2017 and https://github.com/vercel/ai/issues/1651
    """
    choices: list[Any] = said.get("choices") or [None]
    return said.get("usage") or wire.under(choices[0], "usage") or wire.under(said, "x_groq", "usage")


class _Streamed:
    """A message as its chunks arrive; listeners are told at once."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._pieces: dict[str, list[str]] = {}
        self._details: list[Wire] = []
        self._calls: list[Wire] = []
        self._choice: Wire = {}
        self._about: Wire = {}

    def add(self, event: Wire) -> None:
        said = {"usage": _usage(event), "service_tier": event.get("service_tier")}
        self._about |= {name: value for name, value in said.items() if value}
        for choice in event.get("choices") or ():
            self._choice |= {name: value for name, value in choice.items() if value is not None}
            self._grow(choice.get("delta") or {})

    def whole(self, done: bool) -> Wire | None:
        """The answer, once the reason why it stopped has come, or the word that this was all."""
        if not (done or self._choice.get("finish_reason")):
            return None
        message: Wire = {name: "".join(pieces) for name, pieces in self._pieces.items()}
        calls = [call | {"function": _joined(call["function"])} for call in self._calls]
        message |= {"reasoning_details": self._details, "tool_calls": calls}
        return {"choices": [self._choice | {"message": message}] if self._choice else [], **self._about}

    def _grow(self, delta: Wire) -> None:
        for name in ("content", "refusal", *SPOKEN):
            if text := _text(delta.get(name)):
                self._pieces.setdefault(name, []).append(text)
        for detail in delta.get("reasoning_details") or ():
            self._detail(detail)
        if text := _thought(delta):
            self._emit(ThinkingDelta(clean(text)))
        if text := _text(delta.get("content")) or _text(delta.get("refusal")):
            self._emit(TextDelta(clean(text)))
        for piece in delta.get("tool_calls") or ():
            self._piece(piece)

    def _detail(self, detail: Wire) -> None:
        """Pieces of one text become one detail again: its signature is of the whole."""
        last = self._details[-1] if self._details else {}
        grows = detail.get("type") in ("reasoning.text", "reasoning.summary")
        if not grows or any(detail.get(name) != last.get(name) for name in ("type", "index")):
            self._details.append(dict(detail))
            return
        text = {name: (last.get(name) or "") + detail[name] for name in ("text", "summary") if detail.get(name)}
        last |= {name: value for name, value in detail.items() if value is not None} | text

    def _piece(self, piece: Wire) -> None:
        """A piece of a call: its id, its name, and some of its arguments, any of which may be missing."""
        function: Wire = piece.get("function") or {}
        if self._begins(piece, function.get("name")):
            self._calls.append({"index": piece.get("index"), "function": {"name": "", "arguments": []}})
        at = self._place(piece)
        call = self._calls[at]
        call |= {name: value for name, value in piece.items() if value and name != "function"}
        call["function"]["name"] = function.get("name") or call["function"]["name"]
        if text := json_text(function.get("arguments")):
            call["function"]["arguments"].append(text)
            self._emit(ArgsDelta(at, call["function"]["name"], clean(text)))

    def _place(self, piece: Wire) -> int:
        """Where the call stands that *piece* belongs to: the last of its index, or, without one, the last; or -1."""
        index = piece.get("index")
        same = (at for at, call in enumerate(self._calls) if index is None or call["index"] == index)
        return max(same, default=-1)

    def _begins(self, piece: Wire, name: str | None) -> bool:
        """Whether a call begins here. A name tells where a server gives no index, or the same one to every call."""
        at = self._place(piece)
        if at < 0 or not name:
            return at < 0
        return piece.get("index") is None or piece.get("id") not in (None, "", self._calls[at].get("id"))


def _joined(function: Wire) -> Wire:
    return function | {"arguments": "".join(function["arguments"])}
