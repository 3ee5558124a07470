"""GPT, through OpenAI's SDK and its Responses API."""

from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

from ...checks import checked
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

PROVIDER = "openai"

OWN = frozenset({"type", "id", "status", "role", "content", "call_id", "name", "arguments"})
"""The fields of a message or a call that our own blocks say, or that nobody needs again."""

STOPS: Mapping[str | None, StopReason] = {"max_output_tokens": "truncated", "content_filter": "refused"}


class OpenAI:
    """A GPT model behind the Responses API: `OpenAI("gpt-5.6", reasoning={"effort": "high"})`.

    *client* is an `openai.AsyncOpenAI`; without one it is made by the SDK's own rules (`OPENAI_API_KEY`, two retries,
    ten minutes), and the SDK is imported, when it is first used. *settings* are arguments of the SDK's
    `responses.create` and go there unread; `tools` among them, such as web search, stand before the agent's own, and a
    `format` in their `text` stands instead of a request's `schema` (`{"type": "text"}` for a model that has no such
    mode). *price* is what its replies cost, where that is not what is listed (`PRICES`). *window* is how many tokens it
    reads, where you know: conversations are compacted before that; *profile* is what it is told in other words.

    Nothing is kept at OpenAI: `store` is False and reasoning comes back encrypted, unless *settings* say otherwise.
    """

    @checked
    def __init__(
        self,
        name: str,
        *,
        client: "Annotated[AsyncOpenAI, having('responses', 'an `openai.AsyncOpenAI`')] | None" = None,
        price: Price | None = None,
        window: Positive | None = None,
        profile: Profile | None = None,
        **settings: Any,
    ) -> None:
        self.name = name
        self.window, self.profile = window, profile
        self._tariff = Tariff(name, price)
        self.states_cost = self._tariff.known
        self._door = Door(name, client)
        self._extra: Wire = settings.pop("extra_body", {})
        self._hosted: Iterable[Any] = settings.pop("tools", ())
        self._settings: Wire = {"store": False, "include": ["reasoning.encrypted_content"], **settings}
        self._converted = wire.Converted(_items)

    async def preload(self) -> None:
        """Import the SDK, which takes about half a second, and make the client."""
        await self._door.client()

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request*: as one JSON document, or streamed where somebody listens.

        Raises:
            ModelError: the API failed after the SDK's own retries, or a stream broke twice.
        """

        def ask(client: "AsyncOpenAI", emit: Emit | None) -> Awaitable[Reply]:
            create = client.responses.with_raw_response.create
            return answered(create, self._arguments(request), self._reply, _Streamed(emit) if emit else None)

        return await self._door.reply(ask, emit)

    def _arguments(self, request: Request) -> Wire:
        body: Wire = {"input": [item for message in request.messages for item in self._converted(message)]}
        if tools := [*self._hosted, *map(_tool, request.tools)]:
            body["tools"] = tools
        if request.system:
            body["instructions"] = request.system
        settings = self._settings
        if request.schema is not None:
            form: Wire = {"format": {"type": "json_schema", "name": "reply", "schema": request.schema, "strict": True}}
            settings = settings | {"text": form | settings.get("text", {})}
        return {"model": self.name, **cache_key(request), **settings, "extra_body": body | self._extra}

    def _reply(self, response: Wire) -> Reply:
        reply = _reply(response)
        return priced(reply, self._tariff, response.get("usage"), "input_tokens", response.get("service_tier"))


# ---- a request


def _tool(tool: Tool) -> Wire:
    said = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", **said, "strict": False}


def _items(message: Message) -> list[Wire]:
    """The message as input items; none where another provider said all of it."""
    match message:
        case AssistantMessage():
            return _said(message.blocks)
        case ToolMessage():
            only_text = all(isinstance(block, Text) for block in message.blocks)
            output = message.text if only_text else _parts(message.blocks)
            return [{"type": "function_call_output", "call_id": call_id(message.call_id), "output": output}]
        case _:
            return [{"role": "user", "content": _parts(message.blocks)}]


def _parts(blocks: Iterable[AnyBlock]) -> list[Wire]:
    return [part for block in blocks if (part := _part(block))]


def _part(block: AnyBlock) -> Wire | None:
    match block:
        case Text(text):
            return {"type": "input_text", "text": text}
        case Image():
            return {"type": "input_image", "image_url": data_url(block), "detail": "auto"}
        case Document():
            return {"type": "input_file", "filename": file_name(block), "file_data": data_url(block)}
        case _:
            return None


def _said(blocks: Iterable[AnyBlock]) -> list[Wire]:
    """What the model said, in its order: a reasoning item belongs to the one after it.

    Messages and calls go without their item ids, which mean nothing where nothing was stored.
    """
    items: list[Wire] = []
    besides: Wire = {}
    for item in filter(None, map(_item, blocks)):
        if "type" in item or "role" in item:
            items.append(item | besides)
            besides = {}
        else:
            besides = item
    return items


def _item(block: AnyBlock) -> Wire | None:
    """The block as an item; as the fields that the next item has besides; or None, such as for another provider's."""
    match block:
        case Text(text) if text:
            return {"role": "assistant", "content": text}
        case ToolCall(name):
            called = {"type": "function_call", "call_id": call_id(block.id), "name": name}
            return called | {"arguments": written(block)}
        case Thinking() | ProviderBlock() if block.provider == PROVIDER:
            return wire.sendable(block.raw)
        case _:
            return None


# ---- a reply


def _reply(response: Wire) -> Reply:
    """Raises `BadReply` if *response* failed, or is none that ended."""
    if error := response.get("error"):
        raise refusal(error)
    status, output = response.get("status"), response.get("output")
    if status not in ("completed", "incomplete") or not isinstance(output, list):
        raise wire.BadReply(f"a response should end completed or incomplete, found {status!r}")
    items = cast(list[Wire], output)
    content = tuple(block for item in items for block in _kept(item))
    usage = counted(response.get("usage"), "input_tokens", "output_tokens")
    return Reply(AssistantMessage(content), usage, _stop(response, items))


def _stop(response: Wire, items: list[Wire]) -> StopReason:
    if any(part.get("type") == "refusal" for item in items for part in _contents(item)):
        return "refused"
    if response["status"] == "completed":
        return "done"
    details: Wire = response.get("incomplete_details") or {}
    return STOPS.get(details.get("reason"), "truncated")


def _kept(item: Wire) -> tuple[AnyBlock, ...]:
    """The item as ours; reasoning, and what only the provider understands, with its own JSON."""
    match item:
        case {"type": "message"}:
            text = "".join(part.get("text") or part.get("refusal") or "" for part in _contents(item))
            return (*unsaid(item, OWN, PROVIDER), Text(clean(text))) if text else ()
        case {"type": "function_call", "name": str(name)}:
            call = ToolCall(name, parse_arguments(json_text(item.get("arguments"))), item.get("call_id"))
            return *unsaid(item, OWN, PROVIDER), call
        case {"type": "reasoning"}:
            told = item.get("summary") or _contents(item)
            text = "\n\n".join(part.get("text") or "" for part in told)
            return (Thinking(clean(text), PROVIDER, to_json(item)),)
        case _:
            return (ProviderBlock(PROVIDER, to_json(item)),)


def _contents(item: Wire) -> list[Wire]:
    content = item.get("content")
    return cast(list[Wire], content) if isinstance(content, list) else []


class _Streamed:
    """A response as its events arrive; listeners are told at once."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._calls: dict[int, tuple[int, str]] = {}
        self._items: list[Any] = []
        self._response: Wire | None = None

    def add(self, event: Wire) -> None:
        """Take in one event; a kind that is not known is passed over."""
        match event:
            case {"type": "response.output_item.added", "output_index": at, "item": {"type": "function_call", **item}}:
                self._calls[at] = len(self._calls), item.get("name", "")
            case {"type": "response.output_item.done", "item": item}:
                self._items.append(item)
            case {"type": "response.completed" | "response.incomplete" | "response.failed", "response": response}:
                self._response = response
            case {"type": "error"}:
                raise refusal(event)
            case _:
                self._tell(event)

    def _tell(self, event: Wire) -> None:
        match event:
            case {"type": "response.output_text.delta" | "response.refusal.delta", "delta": str(text)}:
                self._emit(TextDelta(clean(text)))
            case {
                "type": "response.reasoning_summary_text.delta" | "response.reasoning_text.delta",
                "delta": str(text),
            }:
                self._emit(ThinkingDelta(clean(text)))
            case {"type": "response.reasoning_summary_part.added", "summary_index": part} if part:
                self._emit(ThinkingDelta("\n\n"))
            case {"type": "response.function_call_arguments.delta", "output_index": at, "delta": text} if (
                at in self._calls
            ):
                self._emit(ArgsDelta(*self._calls[at], clean(text)))
            case _:
                pass

    def whole(self, done: bool) -> Wire | None:
        """The response, once one of the three last events has come. Some servers leave its items to earlier events."""
        return self._response and self._response | {"output": self._response.get("output") or self._items}
