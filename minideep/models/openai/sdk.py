"""The way to OpenAI's SDK, and what its two APIs have in common."""

import hashlib
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from json import JSONDecodeError
from mimetypes import guess_extension
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec import structs

from ...errors import AuthenticationFailed, ContextOverflow, ModelError
from ...messages import AnyBlock, Document, Image, ProviderBlock, ToolCall, Usage, from_json, to_json
from ...ports import Emit, Reply, Request
from .. import adapter as wire
from ..catalog import Tariff

if TYPE_CHECKING:
    from openai import AsyncOpenAI

KEY = "OPENAI_API_KEY"

PHRASES: Mapping[str, type[ModelError]] = {
    "missing credentials": AuthenticationFailed,
    # A limit on the reply that is wrong by itself, though the text goes on about the context length.
    "tokens' is too large": ModelError,
    "maximum context length": ContextOverflow,
    "maximum prompt length": ContextOverflow,
    "the model's context length": ContextOverflow,
    "exceeds the available context size": ContextOverflow,
    "exceeds the context": ContextOverflow,
    "exceed context window": ContextOverflow,
    "greater than the context length": ContextOverflow,
    "prompt is too long": ContextOverflow,
    "input token count": ContextOverflow,
}
"""What the SDK without a key, and compatible servers without a code of their own, say in words only."""

NUMBERS: Mapping[str, str] = {
    "401": "invalid_api_key",
    "403": "invalid_api_key",
    "429": "rate_limit_exceeded",
    "500": "server_error",
    "502": "server_error",
    "503": "server_is_overloaded",
    "529": "server_is_overloaded",
}
"""OpenAI's word for the status that some servers write as the code of an error inside an answer of status 200:
https://openrouter.ai/docs/api/reference/errors-and-debugging"""

CACHED = (("num_cached_tokens",), ("prompt_cache_hit_tokens",), ("cached_tokens",))
"""Where Mistral, DeepSeek (https://api-docs.deepseek.com/guides/kv_cache) and Kimi count what their caches held,
where they do not say it as OpenAI does.
"""

STANDARD = (None, "auto", "default")
"""The service tiers that the list of prices is for."""

Wire = dict[str, Any]


class Stream(Protocol):
    """A reply as the events of its stream arrive."""

    def add(self, event: Wire) -> None:
        """Take in one event and tell listeners. Raises `BadReply` for an error among the events."""
        ...

    def whole(self, done: bool) -> Wire | None:
        """The reply as the API sends it unstreamed, once all of it is there; *done*: the server said `[DONE]`."""
        ...


class Door:
    """The way to a model behind OpenAI's SDK."""

    def __init__(self, name: str, client: "AsyncOpenAI | None", base_url: str | None = None) -> None:
        self._name = name
        self._client = wire.Client(client, lambda: _connect(base_url))

    async def client(self) -> "AsyncOpenAI":
        return await self._client.get()

    async def reply(self, ask: Callable[["AsyncOpenAI", Emit | None], Awaitable[Reply]], emit: Emit | None) -> Reply:
        """What *ask* returns, asked again if a stream breaks. Raises `ModelError` whatever goes wrong."""
        client = None
        try:
            client = opened = await self.client()
            return await wire.restarting(lambda emit: ask(opened, emit), emit)
        except Exception as exc:  # noqa: BLE001  The door to a model: whatever fails behind it is the model's error.
            # Not chained: what a connection refused to send, such as a malformed key, stands in the cause.
            secrets = [client and client.api_key]
            raise wire.failure(self._name, exc, key=KEY, secrets=secrets, phrases=PHRASES) from None


def _connect(base_url: str | None) -> "AsyncOpenAI":
    import openai

    return openai.AsyncOpenAI(base_url=base_url)


async def answered(create: Any, arguments: Wire, read: Callable[[Wire], Reply], stream: Stream | None) -> Reply:
    """One request by a `with_raw_response.create`: what *read* makes of the answer, gathered by *stream* if any.

    The answer is read as plain JSON: the SDK's models would reshape what they do not know. What is long in a request
    is its `extra_body`, which the SDK sends as it is; other arguments it copies, for half a second per 1000 items.
    """
    response = await create(**arguments | ({"stream": True} if stream else {}))
    if stream and not response.headers.get("content-type", "").startswith("application/json"):
        return await _gathered(response, read, stream)
    return read(_object(await response.http_response.aread()))


async def _gathered(response: Any, read: Callable[[Wire], Reply], stream: Stream) -> Reply:
    """What *read* makes of the events. A connection lost after the last one is no loss."""
    import openai

    response.http_response = ending = _Ending(response.http_response)
    with wire.unbroken(openai.APIConnectionError, JSONDecodeError):
        async with response.parse(to=openai.AsyncStream[object]) as events:
            try:
                async for event in events:
                    stream.add(event)
            except openai.APIError as exc:
                if exc.body:
                    raise refusal(exc.body) from None
                if not stream.whole(ending.done):
                    raise
        return read(_whole(stream, ending.done))


def _whole(stream: Stream, done: bool) -> Wire:
    if not (whole := stream.whole(done)):
        raise wire.StreamBroke("the stream ended before the reply did")
    return whole


class _Ending:
    """A response that knows whether its stream said `[DONE]`, which the SDK keeps to itself."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self._tail = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    @property
    def done(self) -> bool:
        return self._tail.rstrip().endswith(b"[DONE]")

    async def aiter_bytes(self) -> Any:
        async for chunk in self._response.aiter_bytes():
            self._tail = (self._tail + chunk)[-16:]
            yield chunk


def _object(content: bytes) -> Wire:
    try:
        body = from_json(content)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise wire.BadReply(f"the answer should be a JSON object, found {content[:200]!r}")
    return cast(Wire, body)


def refusal(error: Any) -> wire.BadReply:
    """The error object inside an answer of status 200, as something to raise."""
    body: Wire = cast(Wire, error) if isinstance(error, dict) else {"message": str(error)}
    code = body.get("code")
    return wire.BadReply(str(body.get("message") or body), {**body, "code": NUMBERS.get(str(code), code)})


def unsaid(said: Wire, own: Iterable[str], provider: str) -> tuple[AnyBlock, ...]:
    """The fields of an item that our blocks do not say, kept to be sent back with it; nulls say nothing."""
    rest = {name: value for name, value in said.items() if name not in own and value is not None}
    return (ProviderBlock(provider, to_json(rest)),) if rest else ()


def written(call: ToolCall) -> str:
    """The call's arguments as JSON text; an empty object where the model wrote none."""
    return "{}" if call.malformed else call.raw.decode()


def json_text(arguments: Any) -> str:
    """A call's arguments as the text that they should be; some servers send them as an object, or none."""
    return arguments if isinstance(arguments, str) else to_json(arguments).decode() if arguments else ""


def call_id(given: str) -> str:
    """The id itself, or, where it is longer than the 64 characters that OpenAI takes, one made of its hash."""
    if 0 < len(given) <= 64:
        return given
    return f"call_{hashlib.sha256(given.encode(errors='surrogatepass')).hexdigest()[:32]}"


def cache_key(request: Request) -> Wire:
    """The name by which OpenAI keeps the requests of a run together; what they have in common it caches by itself.

    https://developers.openai.com/api/docs/guides/prompt-caching
    """
    return {"prompt_cache_key": request.cache.key} if request.cache and request.cache.key else {}


def data_url(block: Image | Document) -> str:
    return f"data:{block.media_type};base64,{b64encode(block.data).decode()}"


def file_name(block: Document) -> str:
    return block.name or f"document{guess_extension(block.media_type) or ''}"


def counted(said: Any, input: str, output: str) -> Usage:
    """The usage that a server said, whatever that is; *input* and *output* are the API's names of the two counts."""
    taken, given = wire.count(said, input), wire.count(said, output)
    places = [(f"{input}_details", "cached_tokens"), *CACHED]
    read = next((tokens for place in places if (tokens := wire.count(said, *place))), 0)
    write = wire.count(said, f"{input}_details", "cache_write_tokens") or 0
    reasoning = wire.count(said, f"{output}_details", "reasoning_tokens") or 0
    return Usage(taken or 0, given or 0, read, write, reasoning, int(taken is None or given is None))


def priced(reply: Reply, tariff: Tariff, said: Any, input: str, tier: Any) -> Reply:
    """*reply* with its cost: what the server *said*, as https://openrouter.ai/docs/use-cases/usage-accounting; else by
    *tariff*.
    """
    cost = wire.dollars(said, "cost")
    if cost is None:
        long_writes = wire.count(said, f"{input}_details", "cache_write_tokens_details", "ttl_12h_tokens") or 0
        cost = tariff.cost(reply.usage, standard=tier in STANDARD, long_writes=long_writes)
    return structs.replace(reply, cost=cost)
