"""Claude, through Anthropic's SDK and its Messages API."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ... import messages as ours
from ...checks import checked
from ...errors import ConfigError
from ...kinds import Positive, Seconds, having
from ...media import labelled
from ...plain_json import to_json
from ...ports import Emit, Reply, Request
from ..adapter import Adapter, is_cloud
from ..amounts import nested
from ..answers import Stream, Wire
from ..body import Encoded, array
from ..catalog import Price
from ..profile import Profile
from ..timeouts import Timeouts
from ..waits import refuse_long_wait
from . import breakpoints
from .blocks import URL_TYPES, Blocks, blocks_of, declaration, prompt_blocks, provider_of
from .replies import reply_of
from .server_tools import container_of, provider_tool, settled
from .streaming import Streamed
from .turns import as_json, ends_of, goes_on_without_thinking, turns_of, user_last

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

MAX_TOKENS = 16_000

OURS = ("custom", "bash_", "text_editor_", "memory_", "computer_")
"""Types of tools whose calls the client answers, as they begin; the others run at the provider.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-reference
"""
TOOLSET = "_toolset_2"
"""Part of the types of toolsets: tools of computer or browser use that are declared together."""

SETTINGS = """
cache_control container diagnostics inference_geo metadata output_config service_tier speed stop_sequences thinking
tool_choice tools
"""
"""The arguments of the SDK's method that a request may carry as they are."""

LONGEST_UNSTREAMED = 21_333
"""Tokens that are surely written within ten minutes: https://github.com/anthropics/anthropic-sdk-python#long-requests"""


class Anthropic(Adapter["AsyncAnthropic"]):
    """A Claude model: `Anthropic("claude-sonnet-4-6", thinking={"type": "adaptive"})`.

    * *api_key* is sent to the provider, or to the server at *base_url*. Without a *base_url* the SDK's own rules hold:
      `ANTHROPIC_API_KEY`, and what else it finds in the environment. A server at a *base_url* gets the key that is
      given or a placeholder, and nothing that the environment holds for the provider.
    * *client* is an `anthropic.AsyncAnthropic` with its own key, address and retries. Without one it is made at first
      use, when the SDK is imported too, with the SDK's two retries.
    * *max_tokens* limits one reply. By default it is 16,000, or the model's own limit if that is less.
    * *price* is what replies cost, if that is not the price in the catalog (`model_info`).
    * *window* is how many tokens the model reads, if that is not what the catalog says: conversations are compacted
      before they reach it.
    * *profile* adapts prompts and tool descriptions to the model.
    * *timeout* is a number of seconds for the whole reply, or `Timeouts`. By default a server may be silent for ten
      minutes, and a *client* that is given keeps its own.
    * *settings* are arguments of the SDK's `messages.create` (`thinking`, `tool_choice`, ...), passed on as they are.
      `tools` among them, such as the provider's web search, come before the agent's own. A `format` in their
      `output_config` replaces a request's `schema` (None for a model without a mode for structured output).
      `temperature` is not one of them: the API rejects it
      (https://platform.claude.com/docs/en/api/migration-2026-10-21).
    """

    sdk = "anthropic"
    client_class = "AsyncAnthropic"
    home = "anthropic.com"
    format_setting: ClassVar[tuple[str, ...]] = ("output_config", "format")
    path = "/v1/messages"
    count_path = "/v1/messages/count_tokens"
    counted: ClassVar[frozenset[str]] = frozenset(
        {"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control"}
    )
    known_settings: ClassVar[frozenset[str]] = frozenset(SETTINGS.split())
    key_variable = "ANTHROPIC_API_KEY"
    _provider_tool = staticmethod(provider_tool)
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
        self._span = {
            "span_name": "anthropic.messages.create",
            "span_route": self.path,
            "span_attributes": {"gen_ai.request.model": name, "gen_ai.request.max_tokens": limit},
        }
        # Which server it is, is known when the first request has a client.
        self._provider = ""
        # https://github.com/langchain-ai/langchain-google/issues/1088
        self.url_types: tuple[str, ...] = () if client is not None and is_cloud(client, self.sdk) else URL_TYPES
        self._blocks = Encoded(blocks_of)
        self._declared = self._declaring(declaration)

    def _caller(self, declared: Wire) -> tuple[str, bool]:
        kind = declared.get("type") or "custom"
        if TOOLSET in kind:
            problem = f"{self!r}: the calls of a {kind!r} name its members, which no tool of an agent can answer"
            raise ConfigError(f"{problem}; give the agent tools of its own instead")
        return declared.get("name") or "", kind.startswith(OURS)

    def _connect(self, api_key: str | None, base_url: str | None) -> "AsyncAnthropic":
        client: Any = super()._connect(api_key, base_url)
        client._client.event_hooks["response"].append(refuse_long_wait)
        return client

    def _streams_unheard(self) -> bool:
        # The connection of a reply that may take more than ten minutes may be cut, if nothing comes for so long.
        return self._settings["max_tokens"] > LONGEST_UNSTREAMED

    def _stream(self, emit: Emit) -> Stream:
        return Streamed(emit)

    def _body(self, client: "AsyncAnthropic", request: Request, *, streamed: bool = False) -> Wire:
        """Return the request as tools, system and messages.

        The same messages become the same bytes again, apart from breakpoints, or the provider's cache would miss them.
        """
        body: Wire = {"model": self.name, **self._settings}
        tools, prompt = self._tools(request), prompt_blocks(request)
        if request.schema is not None:
            form: Wire = {"format": {"type": "json_schema", "schema": request.schema}}
            body["output_config"] = form | body.get("output_config", {})
        provider = self._server(client)
        messages = [self._blocks(message, provider, self.url_types) for message in request.messages]
        # Nearly all messages are plain: only the others are looked at more than once.
        special = [message for message in messages if message.server or message.marks]
        if any(message.server for message in special):
            container = self._container(messages)
            body |= {"container": container} if container else {}
            messages = settled(messages, bool(container))
        turns = user_last(turns_of(messages))
        if nested(body, "thinking", "type") == "enabled" and goes_on_without_thinking(turns):
            del body["thinking"]
        if request.cache and "cache_control" not in body:
            marks = [*map(breakpoints.lifetime, tools), *(mark for message in special for mark in message.marks)]
            ends = ends_of(messages, request.cache.stable_prefix)
            breakpoints.mark(tools, prompt, turns, request.cache.ttl, ends, [*filter(None, marks)])
        if tools:
            body["tools"] = array(tools)
        if prompt:
            body["system"] = array(prompt)
        body["messages"] = array(map(as_json, turns))
        return body | self._extra

    def _server(self, client: "AsyncAnthropic") -> str:
        """Return the provider of blocks of the server that *client* asks."""
        self._provider = self._provider or provider_of(client)
        return self._provider

    def _container(self, messages: list[Blocks]) -> Any:
        """Return the container in which the provider's tools go on, if there is one: that of the settings has its id
        from them or from the thread.
        """
        given: Any = self._settings.get("container")
        if isinstance(given, str) or nested(given, "id"):
            return given
        latest = container_of(messages)
        return {**given, "id": latest} if given and latest else latest

    @checked
    async def upload(self, block: ours.Image | ours.Document) -> ours.ProviderBlock:
        kind = "image" if isinstance(block, ours.Image) else "document"
        name, sent = getattr(block, "name", "") or kind, labelled(block)

        async def uploaded(client: "AsyncAnthropic") -> ours.ProviderBlock:
            file = await client.files.upload(file=(name, sent.data, sent.media_type))
            named: Wire = {"type": kind, "source": {"type": "file", "file_id": file.id}}
            return ours.ProviderBlock(self._server(client), to_json(named))

        return await self._asked(uploaded)

    def _read(self, answer: Any) -> Reply:
        return reply_of(answer, self._tariff, self._provider)
