"""Models behind any server that speaks OpenAI's Chat Completions, through OpenAI's SDK."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from ... import messages as ours
from ...checks import checked
from ...errors import ConfigError
from ...events import ArgsDelta, TextDelta, ThinkingDelta
from ...kinds import Positive, having
from ...messages import clean, parse_arguments, to_json
from ...ports import Emit, Reply, Request
from ...tools import Tool
from ..adapter import Wire, extra_fields, nested, own_json, sendable, sent_name
from ..answers import Stream, refusal
from ..body import Encoded, Part, array, encode
from ..catalog import Price
from ..failures import BadReply
from ..profile import Profile
from . import sdk

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PROVIDER = "openai-chat"

SETTINGS = """
audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens metadata
modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_options
prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop store
stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options
"""
"""The arguments of the SDK's method that a request may carry as they are."""

STOPS: Mapping[str | None, ours.StopReason] = {"length": "truncated", "content_filter": "refused"}

SPOKEN = ("reasoning_content", "reasoning")
REASONING = (*SPOKEN, "reasoning_details")
"""The fields with reasoning that servers want back: https://api-docs.deepseek.com/guides/thinking_mode and
https://openrouter.ai/docs/use-cases/reasoning-tokens"""

OWN = frozenset({"id", "type", "index", "function"})


class OpenAIChat(sdk.OpenAIAdapter):
    """A model behind Chat Completions: `OpenAIChat("qwen3", base_url="http://localhost:8000/v1")`.

    * *base_url* is the server, OpenAI's by default.
    * *client* is an `openai.AsyncOpenAI`. Without one it is made at first use, when the SDK is imported too, by the
      SDK's own rules: `OPENAI_API_KEY` (any value, if the server needs no key), two retries, a timeout of ten minutes.
    * *price* is what replies cost, if the server does not say it and it is not the price in the catalog. With a
      *base_url* the server is trusted to state the cost: `states_cost` is True, and a turn under `Limits(cost=...)`
      stops at a reply whose cost is unknown. With a *client* of your own say so yourself: `model.states_cost = True`.
    * *window* is how many tokens the model reads, if that is not what the catalog says: conversations are compacted
      before they reach it.
    * *profile* adapts prompts and tool descriptions to the model.
    * *settings* are arguments of the SDK's `chat.completions.create`, passed on as they are. `tools` among them come
      before the agent's own.

    A request's `schema` is sent as `response_format`. A server without that mode may reject it with status 400, as
    DeepSeek's does; a `response_format` among *settings*, such as `{"type": "text"}`, replaces it. It is not sent
    together with tools, since vLLM and Ollama then call none: https://github.com/vllm-project/vllm/issues/39929 and
    https://github.com/ollama/ollama/issues/13750

    Raises:
        ConfigError: both a *base_url* or *api_key* and a *client* are given, or a setting that the SDK does not know.
    """

    path = "/chat/completions"
    known_settings: ClassVar[frozenset[str]] = frozenset(SETTINGS.split())
    counts: ClassVar[tuple[str, str]] = "prompt_tokens", "completion_tokens"

    @checked
    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: "Annotated[AsyncOpenAI, having('chat', 'an `openai.AsyncOpenAI`')] | None" = None,
        price: Price | None = None,
        window: Positive | None = None,
        profile: Profile | None = None,
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
        )
        self.states_cost: bool = self._tariff.known or base_url is not None
        self._said = Encoded(_encoded)
        self._declared = Encoded(_declared)

    def _caller(self, declared: Wire) -> tuple[str, bool]:
        kind = declared.get("type")
        return nested(declared, str(kind), "name") or "", kind == "function"

    def _body(self, client: "AsyncOpenAI", request: Request, *, streamed: bool = False) -> Wire:
        body: Wire = {"model": self.name}
        if streamed:
            body["stream_options"] = {"include_usage": True}
        if _is_openai(client):
            body |= sdk.cache_key(request)
        tools = self._tools(request)
        if request.schema is not None and not tools:
            named = {"name": "reply", "schema": request.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        body |= self._settings
        if tools:
            body["tools"] = array(tools)
        body["messages"] = array(_messages(request.system, map(self._said, request.messages)))
        return body | self._extra

    @checked
    async def upload(self, block: ours.Image | ours.Document) -> ours.ProviderBlock:
        if isinstance(block, ours.Image):
            raise ConfigError("OpenAIChat: this API takes uploaded documents only; put the `Image` into the message")
        file = await self._asked(lambda client: sdk.uploaded(client, block))
        return ours.ProviderBlock(PROVIDER, to_json({"type": "file", "file": {"file_id": file}}))

    def _read(self, answer: Any) -> Reply:
        match answer:
            case {"error": error} if error:
                raise refusal(error)
            # Some servers send `error: null` beside a choice that failed.
            case {"choices": [{"error": error}, *_]} if error:
                raise refusal(error)
            case {"choices": [{**choice}, *_]}:
                message: Wire = choice.get("message") or {}
                stop = "refused" if message.get("refusal") else STOPS.get(choice.get("finish_reason"), "done")
                return self._reply(_content(message), stop, _usage(answer), answer.get("service_tier"))
            case _:
                raise BadReply(f"the answer should hold a choice, found {to_json(answer).decode()[:200]}")

    def _stream(self, emit: Emit) -> Stream:
        return _Streamed(emit)


def _is_openai(client: "AsyncOpenAI") -> bool:
    """Return True if the server is OpenAI's own; others reject requests with fields that they do not know."""
    return f".{client.base_url.host}".endswith(".openai.com")


# ---- a request


class _Said(Part, frozen=True, gc=False):
    """A message, and the media that it shows and that its API takes only from users."""

    role: str
    media: list[bytes]


def _declared(tool: Tool) -> Part:
    said = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return Part([encode({"type": "function", "function": said})])


def _messages(system: str, said: Iterable[_Said]) -> list[bytes]:
    """Return the conversation.

    Media of tools come after all results of a step, since results must directly follow their calls.
    """
    parts: list[bytes] = [encode({"role": "system", "content": system})] if system else []
    shown: list[bytes] = []
    for message in said:
        if shown and message.parts and message.role != "tool":
            parts.append(_shown(shown))
            shown = []
        parts += message.parts
        shown += message.media
    return [*parts, _shown(shown)] if shown else parts


def _shown(media: list[bytes]) -> bytes:
    return b'{"role":"user","content":[%b]}' % b",".join(media)


def _encoded(message: ours.Message) -> _Said:
    messages, media = _to_wire(message)
    return _Said([encode(one) for one in messages], message.role, [encode(part) for part in media])


def _to_wire(message: ours.Message) -> tuple[list[Wire], list[Wire]]:
    """Return the message, or none if it is all another provider's, and the media that a tool's result cannot hold."""
    match message:
        case ours.AssistantMessage():
            said = _said(message.blocks)
            return [{"role": "assistant", **said}] if said else [], []
        case ours.ToolMessage():
            media = [part for block in message.blocks if not isinstance(block, ours.Text) and (part := _part(block))]
            text = message.text or ("(shown below)" if media else "")
            result = {"role": "tool", "tool_call_id": sdk.call_id(message.call_id), "content": text}
            label = {"type": "text", "text": f"{message.name} ({sdk.call_id(message.call_id)}) shows:"}
            return [result], [label, *media] if media else []
        case _:
            only_text = all(isinstance(block, ours.Text) for block in message.blocks)
            parts = [part for block in message.blocks if (part := _part(block))]
            return [{"role": "user", "content": message.text if only_text else parts}], []


def _part(block: ours.AnyBlock) -> Wire | None:
    match block:
        case ours.Text(text):
            return {"type": "text", "text": text}
        case ours.Image():
            return {"type": "image_url", "image_url": {"url": sdk.data_url(block)}}
        case ours.Document():
            return {"type": "file", "file": {"filename": sdk.file_name(block), "file_data": sdk.data_url(block)}}
        case _:
            return own_json(block, PROVIDER)


def _said(blocks: Iterable[ours.AnyBlock]) -> Wire:
    """Return text and calls of the model, with the reasoning and the other fields that came with them."""
    text, calls = "", list[Wire]()
    fields: Wire = {}
    besides: Wire = {}
    for block in blocks:
        match block:
            case ours.Text():
                text += block.text
            case ours.ToolCall(name):
                function = {"name": sent_name(name), "arguments": sdk.arguments_text(block)}
                calls.append({"id": sdk.call_id(block.id), "type": "function", "function": function} | besides)
                besides = {}
            case ours.Thinking(provider=provider) if provider == PROVIDER:
                fields |= sendable(block.raw)
            case ours.ProviderBlock(provider=provider) if provider == PROVIDER:
                besides = sendable(block.raw)
            case _:
                pass
    if calls:
        return {"content": text or None, "tool_calls": calls, **fields}
    return {"content": text, **fields} if text or fields else {}


# ---- a reply


def _content(message: Wire) -> tuple[ours.AnyBlock, ...]:
    text = _text(message.get("content")) + _text(message.get("refusal"))
    calls = (block for call in message.get("tool_calls") or () for block in _call(call))
    return *_thinking(message), *((ours.Text(clean(text)),) if text else ()), *calls


def _text(content: Any) -> str:
    """Return the text of *content*, which some servers send in parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in cast(list[Wire], content))
    return content if isinstance(content, str) else ""


def _thinking(message: Wire) -> tuple[ours.Thinking, ...]:
    fields = {name: message[name] for name in REASONING if message.get(name)}
    return (ours.Thinking(clean(_thought(fields)), PROVIDER, to_json(fields)),) if fields else ()


def _thought(fields: Wire) -> str:
    """Return the readable part of the reasoning; servers that send details mostly send the text as well."""
    details: list[Wire] = fields.get("reasoning_details") or []
    spoken = next((text for name in SPOKEN if (text := _text(fields.get(name)))), "")
    return spoken or "".join(detail.get("text") or detail.get("summary") or "" for detail in details)


def _call(call: Wire) -> tuple[ours.AnyBlock, ...]:
    """Convert a call. Some servers leave out its id, or send its arguments as an object or as null."""
    function: Wire = call.get("function") or {}
    name, call_id = (str(value or "") for value in (function.get("name"), call.get("id")))
    called = ours.ToolCall(name, parse_arguments(sdk.json_text(function.get("arguments"))), call_id)
    return *extra_fields(call, OWN, PROVIDER), called


def _usage(said: Wire) -> Any:
    """Return the usage in an answer or a chunk. Kimi puts it into the choice, Groq into a field of its own.

    https://github.com/earendil-works/pi/issues/2017 and https://github.com/vercel/ai/issues/1651
    """
    choices: list[Any] = said.get("choices") or [None]
    return said.get("usage") or nested(choices[0], "usage") or nested(said, "x_groq", "usage")


class _Streamed:
    """A message that grows with the chunks of its stream. Listeners receive its deltas at once."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._texts: dict[str, list[str]] = {}
        self._details: list[Wire] = []
        self._calls: list[Wire] = []
        self._choice: Wire = {}
        self._fields: Wire = {}

    def add(self, event: Wire) -> None:
        said = {"usage": _usage(event), "service_tier": event.get("service_tier")}
        self._fields |= {name: value for name, value in said.items() if value}
        for choice in event.get("choices") or ():
            self._choice |= {name: value for name, value in choice.items() if value is not None}
            self._grow(choice.get("delta") or {})

    def whole(self, done: bool) -> Wire | None:
        """Return the answer after a finish reason or `[DONE]`."""
        if not (done or self._choice.get("finish_reason")):
            return None
        message: Wire = {name: "".join(texts) for name, texts in self._texts.items()}
        calls = [call | {"function": _joined(call["function"])} for call in self._calls]
        message |= {"reasoning_details": self._details, "tool_calls": calls}
        return {"choices": [self._choice | {"message": message}] if self._choice else [], **self._fields}

    def _grow(self, delta: Wire) -> None:
        for name in ("content", "refusal", *SPOKEN):
            if text := _text(delta.get(name)):
                self._texts.setdefault(name, []).append(text)
        for detail in delta.get("reasoning_details") or ():
            self._add_detail(detail)
        if text := _thought(delta):
            self._emit(ThinkingDelta(clean(text)))
        if text := _text(delta.get("content")) or _text(delta.get("refusal")):
            self._emit(TextDelta(clean(text)))
        for part in delta.get("tool_calls") or ():
            self._add_call(part)

    def _add_detail(self, detail: Wire) -> None:
        """Join the parts of one text to one detail again, since its signature is for the whole."""
        last = self._details[-1] if self._details else {}
        grows = detail.get("type") in ("reasoning.text", "reasoning.summary")
        if not grows or any(detail.get(name) != last.get(name) for name in ("type", "index")):
            self._details.append(dict(detail))
            return
        text = {name: (last.get(name) or "") + detail[name] for name in ("text", "summary") if detail.get(name)}
        last |= {name: value for name, value in detail.items() if value is not None} | text

    def _add_call(self, part: Wire) -> None:
        """Add part of a call: id, name and some of its arguments, each of which may be missing."""
        function: Wire = part.get("function") or {}
        if self._begins(part, function.get("name")):
            self._calls.append({"index": part.get("index"), "function": {"name": "", "arguments": []}})
        at = self._place(part)
        call = self._calls[at]
        call |= {name: value for name, value in part.items() if value and name != "function"}
        call["function"]["name"] = function.get("name") or call["function"]["name"]
        if text := sdk.json_text(function.get("arguments")):
            call["function"]["arguments"].append(text)
            self._emit(ArgsDelta(at, call["function"]["name"], clean(text), call.get("id", "")))

    def _place(self, part: Wire) -> int:
        """Return the place of the last call with the index of *part*, or of the last call if it has none; else -1."""
        index = part.get("index")
        same = (at for at, call in enumerate(self._calls) if index is None or call["index"] == index)
        return max(same, default=-1)

    def _begins(self, part: Wire, name: str | None) -> bool:
        """Return True if *part* begins a call. Some servers send no index, or the same one for every call."""
        at = self._place(part)
        if at < 0 or not name:
            return at < 0
        return part.get("index") is None or part.get("id") not in (None, "", self._calls[at].get("id"))


def _joined(function: Wire) -> Wire:
    return function | {"arguments": "".join(function["arguments"])}
