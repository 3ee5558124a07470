"""Models behind any server that speaks OpenAI's Chat Completions, through OpenAI's SDK."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ...checks import checked
from ...errors import ConfigError
from ...events import Restarted
from ...kinds import Positive, Seconds, having
from ...messages import Document, Image, Message, ProviderBlock, StopReason
from ...plain_json import to_json
from ...ports import Emit, Reply, Request
from ..adapter import Wire
from ..amounts import nested
from ..answers import Stream, refusal
from ..body import Encoded, array
from ..catalog import Price
from ..failures import BadReply
from ..profile import Profile
from ..timeouts import Timeouts
from . import sdk, server_tools
from .chat_reply import blocks, objects
from .chat_request import URL_TYPES, Dialect, Said, conversation, declared, dialect, encoded
from .chat_stream import Streamed, usage_in
from .failed_call import failed_call

if TYPE_CHECKING:
    from openai import AsyncOpenAI

SETTINGS = """
audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens metadata
modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_options
prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop store
stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options
"""
"""The arguments of the SDK's method that a request may carry as they are."""

STOPS: Mapping[str, StopReason] = {
    **dict.fromkeys(("length", "max_tokens", "window_exceeded"), "truncated"),
    **dict.fromkeys(("content_filter", "safety", "recitation", "prohibited_content", "blocklist", "spii"), "refused"),
    **dict.fromkeys(("sensitive", "refusal"), "refused"),
}
"""Parts of the words for why a reply ended, in lower case: those of OpenAI, Mistral (https://docs.mistral.ai/api),
Gemini (https://ai.google.dev/api/generate-content#FinishReason) and GLM
(https://docs.z.ai/api-reference/llm/chat-completion). Some have a longer form: `IMAGE_SAFETY`."""
FAILURES = ("error", "insufficient_system_resource", "malformed_function_call")
"""Parts of the words for a reply that the server could not end:
https://openrouter.ai/docs/api/reference/errors-and-debugging and
https://api-docs.deepseek.com/api/create-chat-completion"""


class OpenAIChat(sdk.OpenAIAdapter):
    """A model behind Chat Completions: `OpenAIChat("qwen3", base_url="http://localhost:8000/v1")`.

    * *base_url* is the server, OpenAI's by default.
    * *api_key* is sent to the provider, or to the server at *base_url*. Without a *base_url* the SDK's own rules hold:
      `OPENAI_API_KEY`, and what else it finds in the environment. A server at a *base_url* gets the key that is
      given or a placeholder, and nothing that the environment holds for the provider.
    * *client* is an `openai.AsyncOpenAI` with its own key, address and retries. Without one it is made at first
      use, when the SDK is imported too, with the SDK's two retries.
    * *price* is what replies cost, if the server does not say it and it is not the price in the catalog. With a
      *base_url* the server is trusted to state the cost: `states_cost` is True, and a turn under `Limits(cost=...)`
      stops at a reply whose cost is unknown. With a *client* of your own say so yourself: `model.states_cost = True`.
    * *window* is how many tokens the model reads, if that is not what the catalog says: conversations are compacted
      before they reach it.
    * *profile* adapts prompts and tool descriptions to the model.
    * *timeout* is a number of seconds for the whole reply, or `Timeouts`. By default a server may be silent for ten
      minutes, and a *client* that is given keeps its own.
    * *send_reasoning* is False for a server that rejects the reasoning which it has sent, as Groq does for some models.
    * *settings* are arguments of the SDK's `chat.completions.create`, passed on as they are. `tools` among them come
      before the agent's own.

    A request's `schema` is sent as `response_format`. A server without that mode may reject it with status 400, as
    DeepSeek's does; a `response_format` among *settings*, such as `{"type": "text"}`, replaces it. It is sent together
    with tools where `structured_output` is True, as it is for OpenAI itself. vLLM and Ollama would then call none:
    https://github.com/vllm-project/vllm/issues/39929 and https://github.com/ollama/ollama/issues/13750

    Raises:
        ConfigError: both a *base_url* or *api_key* and a *client* are given, or a setting that the SDK does not know.
    """

    path = "/chat/completions"
    url_types: tuple[str, ...] = URL_TYPES
    format_setting: ClassVar[tuple[str, ...]] = ("response_format",)
    known_settings: ClassVar[frozenset[str]] = frozenset(SETTINGS.split())
    counts: ClassVar[tuple[str, str]] = "prompt_tokens", "completion_tokens"
    _provider_tool = staticmethod(server_tools.no_tool)

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
        timeout: Seconds | Timeouts | None = None,
        send_reasoning: bool = True,
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
        self.states_cost: bool = self._tariff.known or base_url is not None
        self._send_reasoning = send_reasoning
        # Which server it is, is known when the first request has a client.
        self._to = Dialect("")
        self._said = Encoded(self._encoded)
        self._declared = self._declaring(declared)

    def _caller(self, declared: Wire) -> tuple[str, bool]:
        kind = declared.get("type")
        return nested(declared, str(kind), "name") or "", kind in ("function", "custom")

    async def _ask(self, client: "AsyncOpenAI", request: Request, emit: Emit | None) -> Reply:
        import openai

        try:
            return await super()._ask(client, request, emit)
        except (openai.BadRequestError, BadReply) as exc:
            if call := failed_call(exc, request):
                if emit and isinstance(exc, BadReply):  # The stream has begun.
                    emit(Restarted())
                return self._reply([call], "done", None, None)
            raise

    def _body(self, client: "AsyncOpenAI", request: Request, *, streamed: bool = False) -> Wire:
        body: Wire = {"model": self.name}
        if streamed:
            body["stream_options"] = {"include_usage": True}
        if self._dialect(client).is_openai:
            body |= sdk.cache_key(request)
        tools = self._tools(request)
        if request.schema is not None and (self.structured_output is True or not tools):
            named = {"name": "reply", "schema": request.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        body |= self._settings
        if tools:
            body["tools"] = array(tools)
        body["messages"] = array(conversation(request.system, map(self._said, request.messages)))
        return body | self._extra

    @checked
    async def upload(self, block: Image | Document) -> ProviderBlock:
        if isinstance(block, Image):
            raise ConfigError("OpenAIChat: this API takes uploaded documents only; put the `Image` into the message")

        async def uploaded(client: "AsyncOpenAI") -> ProviderBlock:
            named = {"type": "file", "file": {"file_id": await sdk.uploaded(client, block)}}
            return ProviderBlock(self._dialect(client).provider, to_json(named))

        return await self._asked(uploaded)

    def _read(self, answer: Any) -> Reply:
        if error := answer.get("error"):
            raise refusal(error)
        for choice in objects(answer.get("choices")):
            # Some servers send `error: null` beside a choice that failed.
            if error := choice.get("error"):
                raise refusal(error)
            message = next(iter(objects(choice.get("message"))), Wire())
            stop = _stop(choice.get("finish_reason"), message)
            return self._reply(blocks(message, self._to.provider), stop, usage_in(answer), answer.get("service_tier"))
        raise BadReply(f"the answer should hold a choice, found {to_json(answer).decode()[:200]}")

    def _stream(self, emit: Emit) -> Stream:
        return Streamed(emit)

    def _dialect(self, client: "AsyncOpenAI") -> Dialect:
        if not self._to.provider:
            self._to = dialect(client, self._send_reasoning)
        return self._to

    def _encoded(self, message: Message) -> Said:
        return encoded(message, self._to)


def _stop(reason: Any, message: Wire) -> StopReason:
    """Return why the reply ended. Raises `BadReply` if the server could not end it."""
    word = reason.lower() if isinstance(reason, str) else ""
    if any(part in word for part in FAILURES):
        raise refusal({"code": "server_error", "message": f"the server ended the reply with {reason!r}"})
    if message.get("refusal"):
        return "refused"
    for part, stop in STOPS.items():
        if part in word:
            return stop
    return "done"
