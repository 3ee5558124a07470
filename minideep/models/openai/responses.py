"""GPT, through OpenAI's SDK and its Responses API."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from ...checks import checked
from ...errors import ConfigError
from ...kinds import Positive, Seconds, having
from ...messages import Document, Image, ProviderBlock, StopReason
from ...plain_json import to_json
from ...ports import Emit, Reply, Request
from ...tools import Tool
from ..adapter import Wire, server_of
from ..amounts import nested
from ..answers import Stream, refusal
from ..body import Part, array, encode
from ..catalog import Price
from ..failures import BadReply
from ..profile import Profile
from ..timeouts import Timeouts
from . import client_calls, sdk
from .response_input import PROVIDER, URL_TYPES, Conversation, Server
from .response_output import blocks_of, is_message, parts_of
from .response_stream import Streamed
from .server_tools import provider_tool

if TYPE_CHECKING:
    from openai import AsyncOpenAI

SETTINGS = """
access_programs background background_options context_management conversation image include max_output_tokens
max_tool_calls metadata moderation parallel_tool_calls previous_response_id prompt prompt_cache_key
prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream_options
temperature text tool_choice tools top_logprobs top_p truncation user
"""
"""The arguments of the SDK's method that a request may carry as they are."""

KEPT_THERE = ("previous_response_id", "conversation")
"""Settings that would send a conversation twice: the provider adds what it has kept to the whole that is sent."""

ENDED = ("completed", "incomplete", None, "")
"""How a reply ends; some servers do not say it."""

STOPS: Mapping[str, StopReason] = {"max_output_tokens": "truncated", "content_filter": "refused"}


class OpenAI(sdk.OpenAIAdapter):
    """A GPT model behind the Responses API: `OpenAI("gpt-5.6", reasoning={"effort": "high"})`.

    * *api_key* is sent to the provider, or to the server at *base_url*. Without a *base_url* the SDK's own rules hold:
      `OPENAI_API_KEY`, and what else it finds in the environment. A server at a *base_url* gets the key that is
      given or a placeholder, and nothing that the environment holds for the provider.
    * *client* is an `openai.AsyncOpenAI` with its own key, address and retries. Without one it is made at first
      use, when the SDK is imported too, with the SDK's two retries.
    * *price* is what replies cost, if that is not the price in the catalog (`model_info`).
    * *window* is how many tokens the model reads, if that is not what the catalog says: conversations are compacted
      before they reach it.
    * *profile* adapts prompts and tool descriptions to the model.
    * *timeout* is a number of seconds for the whole reply, or `Timeouts`. By default a server may be silent for ten
      minutes, and a *client* that is given keeps its own.
    * *settings* are arguments of the SDK's `responses.create`, passed on as they are. `tools` among them, such as web
      search, come before the agent's own. A `format` in their `text` replaces a request's `schema`
      (`{"type": "text"}` for a model without such a mode).

    * *settings* may declare tools whose calls a tool of the agent answers, by the name in the table of
      `minideep/models/README.md`: custom tools, a shell, patches of files, a computer.

    Nothing is stored at OpenAI: `store` is False and reasoning comes back encrypted, unless *settings* say otherwise.
    """

    path = "/responses"
    url_types: tuple[str, ...] = URL_TYPES
    format_setting: ClassVar[tuple[str, ...]] = ("text", "format")
    count_path = "/responses/input_tokens"
    counted: ClassVar[frozenset[str]] = frozenset(
        {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text"}
    )
    known_settings: ClassVar[frozenset[str]] = frozenset(SETTINGS.split())
    counts: ClassVar[tuple[str, str]] = "input_tokens", "output_tokens"
    _provider_tool = staticmethod(provider_tool)

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
        timeout: Seconds | Timeouts | None = None,
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
            timeout=timeout,
        )
        for setting in KEPT_THERE:
            if settings.get(setting) is not None:
                problem = f"OpenAI: {setting!r} would send a conversation twice, as every request holds the whole of it"
                raise ConfigError(f"{problem}; leave it out, and give the agent a checkpointer")
        # Which server it is, is known when the first request has a client.
        self._to: Conversation | None = None
        self._declared = self._declaring(_declared)

    def _caller(self, declared: Wire) -> tuple[str, bool]:
        ours = client_calls.answering_tool(declared)
        return ours or declared.get("name") or "", bool(ours)

    def _body(self, client: "AsyncOpenAI", request: Request, *, streamed: bool = False) -> Wire:
        body: Wire = {"model": self.name, **sdk.cache_key(request), **self._settings}
        if request.schema is not None:
            form: Wire = {"format": {"type": "json_schema", "name": "reply", "schema": request.schema, "strict": True}}
            body["text"] = form | body.get("text", {})
        body["input"] = array(self._conversation(client).items(request.messages))
        tools = self._tools(request)
        if tools:
            body["tools"] = array(tools)
        if request.system:
            body["instructions"] = request.system
        return body | self._extra

    def _conversation(self, client: "AsyncOpenAI") -> Conversation:
        if self._to is None:
            stored = self._settings.get("store") is not False
            self._to = Conversation(Server(server_of(client, PROVIDER), stored))
        return self._to

    @checked
    async def upload(self, block: Image | Document) -> ProviderBlock:
        async def uploaded(client: "AsyncOpenAI") -> ProviderBlock:
            file = await sdk.uploaded(client, block)
            image: Wire = {"type": "input_image", "file_id": file, "detail": "auto"}
            named = image if isinstance(block, Image) else {"type": "input_file", "file_id": file}
            return ProviderBlock(server_of(client, PROVIDER), to_json(named))

        return await self._asked(uploaded)

    def _read(self, answer: Any) -> Reply:
        if error := answer.get("error"):
            raise refusal(error)
        status, output = answer.get("status"), answer.get("output")
        if status not in ENDED:
            raise BadReply(f"a response should end completed or incomplete, found {status!r}")
        if not isinstance(output, list):
            raise BadReply(f"a response should have a list of items as its output, found {output!r}")
        items = [item for item in cast(list[Any], output) if sdk.is_object(item)]
        for item in items:
            if reason := client_calls.unanswerable(item):
                raise BadReply(reason)
        blocks = blocks_of(items, self._to.server.provider if self._to else PROVIDER)
        return self._reply(blocks, _stop(answer, items), answer.get("usage"), answer.get("service_tier"))

    def _stream(self, emit: Emit) -> Stream:
        return Streamed(emit)


def _declared(tool: Tool) -> Part:
    said = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return Part([encode({"type": "function", **said, "strict": False})])


def _stop(response: Wire, items: list[Wire]) -> StopReason:
    parts = (part for item in items if is_message(item) for part in parts_of(item.get("content")))
    if any(part.get("type") == "refusal" for part in parts):
        return "refused"
    details = response.get("incomplete_details")
    if response.get("status") == "incomplete" or (details and not response.get("status")):
        return STOPS.get(str(nested(details, "reason")), "truncated")
    return "done"
