"""GPT, through OpenAI's SDK and its Responses API."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from ... import messages as ours
from ...checks import checked
from ...events import ArgsDelta, TextDelta, ThinkingDelta
from ...kinds import Positive, having
from ...messages import clean, parse_arguments, to_json
from ...ports import Emit, Reply, Request
from ...tools import Tool
from ..adapter import Wire, extra_fields, own_json, sent_name
from ..answers import Stream, refusal
from ..body import Encoded, Part, array, encode
from ..catalog import Price
from ..failures import BadReply
from ..profile import Profile
from . import sdk

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PROVIDER = "openai"

OWN = frozenset({"type", "id", "status", "role", "content", "call_id", "name", "arguments"})
"""The fields of a message or a call that our own blocks hold, or that are never needed again."""

SETTINGS = """
access_programs background background_options context_management conversation image include max_output_tokens
max_tool_calls metadata moderation parallel_tool_calls previous_response_id prompt prompt_cache_key
prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream_options
temperature text tool_choice tools top_logprobs top_p truncation user
"""
"""The arguments of the SDK's method that a request may carry as they are."""

STOPS: Mapping[str | None, ours.StopReason] = {"max_output_tokens": "truncated", "content_filter": "refused"}


class OpenAI(sdk.OpenAIAdapter):
    """A GPT model behind the Responses API: `OpenAI("gpt-5.6", reasoning={"effort": "high"})`.

    * *client* is an `openai.AsyncOpenAI`. Without one it is made at first use, when the SDK is imported too, by the
      SDK's own rules: `OPENAI_API_KEY`, two retries, a timeout of ten minutes.
    * *price* is what replies cost, if that is not the price in the catalog (`model_info`).
    * *window* is how many tokens the model reads, if that is not what the catalog says: conversations are compacted
      before they reach it.
    * *profile* adapts prompts and tool descriptions to the model.
    * *settings* are arguments of the SDK's `responses.create`, passed on as they are. `tools` among them, such as web
      search, come before the agent's own. A `format` in their `text` replaces a request's `schema`
      (`{"type": "text"}` for a model without such a mode).

    Nothing is stored at OpenAI: `store` is False and reasoning comes back encrypted, unless *settings* say otherwise.
    """

    path = "/responses"
    count_path = "/responses/input_tokens"
    counted: ClassVar[frozenset[str]] = frozenset(
        {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text"}
    )
    known_settings: ClassVar[frozenset[str]] = frozenset(SETTINGS.split())
    counts: ClassVar[tuple[str, str]] = "input_tokens", "output_tokens"

    @checked
    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: "Annotated[AsyncOpenAI, having('responses', 'an `openai.AsyncOpenAI`')] | None" = None,
        price: Price | None = None,
        window: Positive | None = None,
        profile: Profile | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            name,
            client,
            {"store": False, "include": ["reasoning.encrypted_content"], **settings},
            api_key=api_key,
            base_url=base_url,
            price=price,
            window=window,
            profile=profile,
        )
        self._said = Encoded(_encoded)
        self._declared = Encoded(_declared)

    def _caller(self, declared: Wire) -> tuple[str, bool]:
        return declared.get("name") or "", declared.get("type") == "function"

    def _body(self, client: "AsyncOpenAI", request: Request, *, streamed: bool = False) -> Wire:
        body: Wire = {"model": self.name, **sdk.cache_key(request), **self._settings}
        if request.schema is not None:
            form: Wire = {"format": {"type": "json_schema", "name": "reply", "schema": request.schema, "strict": True}}
            body["text"] = form | body.get("text", {})
        body["input"] = array(part for message in request.messages for part in self._said(message).parts)
        tools = self._tools(request)
        if tools:
            body["tools"] = array(tools)
        if request.system:
            body["instructions"] = request.system
        return body | self._extra

    @checked
    async def upload(self, block: ours.Image | ours.Document) -> ours.ProviderBlock:
        image = isinstance(block, ours.Image)
        file = await self._asked(lambda client: sdk.uploaded(client, block))
        named: Wire = {"type": "input_image", "file_id": file, "detail": "auto"}
        return ours.ProviderBlock(PROVIDER, to_json(named if image else {"type": "input_file", "file_id": file}))

    def _read(self, answer: Any) -> Reply:
        if error := answer.get("error"):
            raise refusal(error)
        status, output = answer.get("status"), answer.get("output")
        if status not in ("completed", "incomplete") or not isinstance(output, list):
            raise BadReply(f"a response should end completed or incomplete, found {status!r}")
        items = cast(list[Wire], output)
        content = [block for item in items for block in _from_wire(item)]
        return self._reply(content, _stop(answer, items), answer.get("usage"), answer.get("service_tier"))

    def _stream(self, emit: Emit) -> Stream:
        return _Streamed(emit)


# ---- a request


def _declared(tool: Tool) -> Part:
    said = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return Part([encode({"type": "function", **said, "strict": False})])


def _encoded(message: ours.Message) -> Part:
    return Part([encode(item) for item in _items(message)])


def _items(message: ours.Message) -> list[Wire]:
    """Return the message as input items; there are none if all of it is another provider's."""
    match message:
        case ours.AssistantMessage():
            return _said(message.blocks)
        case ours.ToolMessage():
            only_text = all(isinstance(block, ours.Text) for block in message.blocks)
            output = message.text if only_text else _parts(message.blocks)
            return [{"type": "function_call_output", "call_id": sdk.call_id(message.call_id), "output": output}]
        case _:
            return [{"role": "user", "content": _parts(message.blocks)}]


def _parts(blocks: Iterable[ours.AnyBlock]) -> list[Wire]:
    return [part for block in blocks if (part := _part(block))]


def _part(block: ours.AnyBlock) -> Wire | None:
    match block:
        case ours.Text(text):
            return {"type": "input_text", "text": text}
        case ours.Image():
            return {"type": "input_image", "image_url": sdk.data_url(block), "detail": "auto"}
        case ours.Document():
            return {"type": "input_file", "filename": sdk.file_name(block), "file_data": sdk.data_url(block)}
        case _:
            return own_json(block, PROVIDER)


def _said(blocks: Iterable[ours.AnyBlock]) -> list[Wire]:
    """Return what the model said, in its order: a reasoning item belongs to the item after it.

    Messages and calls are sent without item ids, which OpenAI knows only for items that it has stored.
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


def _item(block: ours.AnyBlock) -> Wire | None:
    """Return the block as an item, or as extra fields of the next item; None if it is another provider's, or empty."""
    match block:
        case ours.Text(text) if text:
            return {"role": "assistant", "content": text}
        case ours.ToolCall(name):
            called = {"type": "function_call", "call_id": sdk.call_id(block.id), "name": sent_name(name)}
            return called | {"arguments": sdk.arguments_text(block)}
        case _:
            return own_json(block, PROVIDER)


# ---- a reply


def _stop(response: Wire, items: list[Wire]) -> ours.StopReason:
    if any(part.get("type") == "refusal" for item in items for part in _contents(item)):
        return "refused"
    if response["status"] == "completed":
        return "done"
    details: Wire = response.get("incomplete_details") or {}
    return STOPS.get(details.get("reason"), "truncated")


def _from_wire(item: Wire) -> tuple[ours.AnyBlock, ...]:
    """Convert an item; reasoning, and items that only the provider understands, keep its JSON."""
    match item:
        case {"type": "message"}:
            text = "".join(part.get("text") or part.get("refusal") or "" for part in _contents(item))
            return (*extra_fields(item, OWN, PROVIDER), ours.Text(clean(text))) if text else ()
        case {"type": "function_call", "name": str(name)}:
            call = ours.ToolCall(name, parse_arguments(sdk.json_text(item.get("arguments"))), item.get("call_id"))
            return *extra_fields(item, OWN, PROVIDER), call
        case {"type": "reasoning"}:
            parts = item.get("summary") or _contents(item)
            text = "\n\n".join(part.get("text") or "" for part in parts)
            return (ours.Thinking(clean(text), PROVIDER, to_json(item)),)
        case _:
            return (ours.ProviderBlock(PROVIDER, to_json(item)),)


def _contents(item: Wire) -> list[Wire]:
    content = item.get("content")
    return cast(list[Wire], content) if isinstance(content, list) else []


class _Streamed:
    """A response that grows with the events of its stream. Listeners receive its deltas at once."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._calls: dict[int, tuple[int, str, str]] = {}
        self._items: list[Any] = []
        self._response: Wire | None = None

    def add(self, event: Wire) -> None:
        """Add one event. Unknown kinds are ignored."""
        match event:
            case {"type": "response.output_item.added", "output_index": at, "item": {"type": "function_call", **item}}:
                self._calls[at] = len(self._calls), item.get("name", ""), item.get("call_id", "")
            case {"type": "response.output_item.done", "item": item}:
                self._items.append(item)
            case {"type": "response.completed" | "response.incomplete" | "response.failed", "response": response}:
                self._response = response
            case {"type": "error"}:
                raise refusal(event)
            case _:
                self._emit_delta(event)

    def _emit_delta(self, event: Wire) -> None:
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
                index, name, call_id = self._calls[at]
                self._emit(ArgsDelta(index, name, clean(text), call_id))
            case _:
                pass

    def whole(self, done: bool) -> Wire | None:
        """Return the response after a closing event. Some servers send its items only in the events before."""
        return self._response and self._response | {"output": self._response.get("output") or self._items}
