"""The common part of the adapters to OpenAI's two APIs."""

from abc import abstractmethod
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from mimetypes import guess_extension
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeGuard

import msgspec

from ... import messages as ours
from ...messages import from_json, to_json
from ...ports import Emit, Reply, Request
from ..adapter import Adapter, Wire, dollars, hashed_id, sendable, token_count
from ..answers import Answer
from ..body import encode
from ..failures import BadReply, StreamBroke, unbroken

if TYPE_CHECKING:
    from openai import AsyncOpenAI

NUMBERS: Mapping[str, str] = {
    "401": "invalid_api_key",
    "403": "invalid_api_key",
    "429": "rate_limit_exceeded",
    "500": "server_error",
    "502": "server_error",
    "503": "server_is_overloaded",
    "529": "server_is_overloaded",
}
"""OpenAI's codes for the statuses that some servers write as the code of an error in an answer of status 200:
https://openrouter.ai/docs/api/reference/errors-and-debugging"""

CACHED = (
    ("num_cached_tokens",),
    ("prompt_token_details", "cached_tokens"),
    ("prompt_cache_hit_tokens",),
    ("cached_tokens",),
)
"""Fields in which Mistral (https://github.com/vercel/ai/pull/14419), DeepSeek
(https://api-docs.deepseek.com/guides/kv_cache) and Kimi count tokens read from a cache, if they do not count them as
OpenAI does.
"""

TIERS: Mapping[str | None, float] = {None: 1.0, "auto": 1.0, "default": 1.0, "flex": 0.5, "batch": 0.5}
"""The price of a service tier as part of the listed one; others have lists of their own:
https://developers.openai.com/api/docs/guides/flex-processing and https://developers.openai.com/api/docs/guides/batch"""


class Stream(Protocol):
    """A reply that grows with the events of its stream."""

    def add(self, event: Wire) -> None:
        """Add one event and pass its deltas on to listeners. Raises `BadReply` for an error among the events."""
        ...

    def whole(self, done: bool) -> Wire | None:
        """Return the reply in the form that the API sends without streaming, or None if it is not complete.

        *done* is True if the server has said `[DONE]`.
        """
        ...


class OpenAIAdapter(Adapter["AsyncOpenAI"]):
    """A model behind OpenAI's SDK. A subclass is one of the two APIs."""

    sdk = "openai"
    client_class = "AsyncOpenAI"
    home = "openai.com"
    told_by_environment = ("OpenAI-Organization", "OpenAI-Project")
    key_variable = "OPENAI_API_KEY"
    counts: ClassVar[tuple[str, str]]
    """The API's names for the numbers of input and of output tokens."""

    @abstractmethod
    def _stream(self, emit: Emit) -> Stream:
        """Return an empty reply that is about to be streamed."""

    async def _ask(self, client: "AsyncOpenAI", request: Request, emit: Emit | None) -> Reply:
        import httpx2

        body = self._body(client, request, streamed=emit is not None)
        async with self._post(client, body, emit is not None) as answer:
            if not emit:
                return self._read(_object(await answer.read()))
            with unbroken((httpx2.TransportError,), (BadReply,)):
                if answer.is_json:
                    return self._read(_object(await answer.read()))
                return self._read(await self._gathered(answer, self._stream(emit)))

    async def _gathered(self, answer: Answer, stream: Stream) -> Wire:
        """Return the reply in a stream. A connection that is lost after the last event does no harm."""
        import httpx2

        try:
            async with aclosing(answer.events()) as events:
                async for event in events:
                    if error := event.get("error"):
                        raise refusal(error)
                    stream.add(event)
        except httpx2.TransportError:
            if not stream.whole(answer.done):
                raise
        if not (whole := stream.whole(answer.done)):
            raise StreamBroke("the stream ended before the reply did")
        return whole

    def _reply(self, content: Iterable[ours.AnyBlock], stop: ours.StopReason, said: Any, tier: Any) -> Reply:
        """Return a reply whose usage is what the server *said*, and which was made in the service tier *tier*.

        Its cost is what the server said too (https://openrouter.ai/docs/use-cases/usage-accounting), else by tariff.
        """
        usage, cost = _usage_of(said, *self.counts), dollars(said, "cost")
        if cost is None:
            details = f"{self.counts[0]}_details"
            long_writes = token_count(said, details, "cache_write_tokens_details", "ttl_12h_tokens") or 0
            cost = self._tariff.cost(
                usage, share=TIERS.get(tier) if isinstance(tier, str | None) else None, long_writes=long_writes
            )
        return Reply(ours.AssistantMessage(tuple(content)), usage, stop, cost)


def is_object(value: Any) -> TypeGuard[Wire]:
    """Return whether *value*, which may be whatever a server sends, is a JSON object."""
    return isinstance(value, dict)


def _object(content: bytes) -> Wire:
    try:
        body = from_json(content)
    except ValueError:
        body = None
    if not is_object(body):
        raise BadReply(f"the answer should be a JSON object, found {content[:200]!r}")
    return body


def refusal(error: Any) -> BadReply:
    """Return an exception for the error object in an answer of status 200."""
    body: Wire = error if is_object(error) else {"message": str(error)}
    code = body.get("code")
    return BadReply(str(body.get("message") or body), {**body, "code": NUMBERS.get(str(code), code)})


def arguments_text(call: ours.ToolCall) -> str:
    """Return the arguments of *call* as JSON; an empty object if what the model wrote is not one."""
    if not call.raw.startswith(b"{"):
        return "{}"
    try:
        msgspec.json.decode(call.raw)
    except msgspec.DecodeError:  # NaN or a lone surrogate, which servers reject as well.
        return encode(sendable(call.raw)).decode()
    return call.raw.decode()


def json_text(arguments: Any) -> str:
    """Return a call's arguments as the JSON text they should be; some servers send an object, or nothing."""
    return arguments if isinstance(arguments, str) else to_json(arguments).decode() if arguments else ""


def call_id(given: str) -> str:
    """Return *given*, or its hash if it is empty or longer than the 64 characters that OpenAI accepts."""
    return given if 0 < len(given) <= 64 else hashed_id(given)


def cache_key(request: Request) -> Wire:
    """Return the key under which OpenAI keeps the requests of a run together; it caches their common start by itself.

    https://developers.openai.com/api/docs/guides/prompt-caching
    """
    return {"prompt_cache_key": request.cache.key} if request.cache and request.cache.key else {}


def data_url(block: ours.Image | ours.Video | ours.Document) -> str:
    return f"data:{block.media_type};base64,{b64encode(block.data).decode()}"


async def uploaded(client: "AsyncOpenAI", block: ours.Image | ours.Document) -> str:
    """Upload *block* and return the id of its file."""
    image = isinstance(block, ours.Image)
    name = f"image{guess_extension(block.media_type) or ''}" if isinstance(block, ours.Image) else file_name(block)
    sent = (name, block.data, block.media_type)
    return (await client.files.create(file=sent, purpose="vision" if image else "user_data")).id


def file_name(block: ours.Document) -> str:
    return block.name or f"document{guess_extension(block.media_type) or ''}"


def _usage_of(said: Any, input: str, output: str) -> ours.Usage:
    """Return the usage that a server *said*, whatever its form; *input* and *output* are the API's names."""
    taken, given = token_count(said, input), token_count(said, output)
    places = [(f"{input}_details", "cached_tokens"), *CACHED]
    read = next((tokens for place in places if (tokens := token_count(said, *place))), 0)
    write = token_count(said, f"{input}_details", "cache_write_tokens") or 0
    reasoning = token_count(said, f"{output}_details", "reasoning_tokens") or 0
    return ours.Usage(taken or 0, given or 0, read, write, reasoning, int(taken is None or given is None))
