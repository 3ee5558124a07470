"""The common part of all adapters to providers' SDKs.

An adapter derives from `Adapter` and adds how a request is worded, how a reply is read and how a stream is gathered. It
raises `BadReply` for an answer that cannot be used; all other errors it leaves to `Adapter.complete`.
"""

import hashlib
import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec

from ..checks import checked
from ..errors import ConfigError, ModelError
from ..events import StreamEvent
from ..messages import AnyBlock, Document, Image, ProviderBlock, Thinking
from ..plain_json import from_json, to_json
from ..ports import Emit, Reply, Request, StructuredOutput
from ..tools import Tool
from .addresses import checked_address, other_address, without_login
from .amounts import token_count
from .answers import Stream, Wire, document, received
from .attempts import first_reply
from .body import Encoded, Part, encode
from .catalog import UNKNOWN_MODEL, Price, Tariff, model_info, report_unknown
from .clients import Client, new_client
from .failures import BadReply, StreamBroke, model_error, unbroken
from .forbidden import are_forbidden, check_allowed
from .hosted_tools import HostedTools
from .profile import Profile
from .settings import HEADERS, is_set, plain_settings
from .timeouts import UNLIMITED, Silence, TimedOut, Timeouts, within

T = TypeVar("T")
R = TypeVar("R")
Send = Callable[[Any, dict[str, Any]], Awaitable[Any]]


ACCEPTED = re.compile(r"[a-zA-Z0-9_-]+")


class Adapter(ABC, Generic[T]):
    """A model behind an SDK whose client is a *T*: the *client* given, or the one that *connect* makes at first use."""

    sdk: ClassVar[str]
    """The package that the first request imports."""
    client_class: ClassVar[str]
    """The SDK's own client, which sends bytes as they are; those for clouds look into the body."""
    path: ClassVar[str]
    """Where requests are posted."""
    count_path: ClassVar[str] = ""
    """Where the tokens of a request are counted; empty: nowhere."""
    counted: ClassVar[frozenset[str]] = frozenset()
    """The fields of a body that are counted."""
    known_settings: ClassVar[frozenset[str]]
    """The arguments of the SDK's method for a request that a setting may be."""
    home: ClassVar[str]
    """The domain of the provider itself."""
    format_setting: ClassVar[tuple[str, ...]]
    """The names that lead, in the settings, to a format of replies: it replaces the schema of a request."""
    told_by_environment: ClassVar[tuple[str, ...]] = ()
    """Headers that the SDK sends if the environment says so."""
    key_variable: str
    """The environment variable with the API key, or the argument."""
    unreachable: str = ""
    """What to do if the server cannot be reached, as an order."""
    url_types: tuple[str, ...] = ()
    """The beginnings of the media types of which the provider fetches a `MediaLink`."""
    credentials: ClassVar[tuple[str, ...]] = ("api_key",)
    """Attributes of the client that must never appear in an error."""
    _declared: Encoded[Tool, Part]
    """The declarations of the agent's tools."""

    def __init__(
        self,
        name: str,
        client: T | None,
        settings: Wire,
        *,
        api_key: str | None,
        base_url: str | None,
        price: Price | None,
        window: float | None,
        profile: Profile | None,
        timeout: float | Timeouts | None,
    ) -> None:
        self.name = name
        settings = plain_settings(type(self).__name__, name, self.sdk, settings, self.known_settings)
        self._info = model_info(name) or UNKNOWN_MODEL
        self.window: float | None = self._info.window if window is None else window
        self.profile: Profile | None = profile
        self._tariff = Tariff(name, price)
        self.states_cost: bool = self._tariff.known
        if client is not None and (base_url is not None or api_key is not None):
            given = "an api_key" if base_url is None else "a base_url"
            raise ConfigError(f"model {name!r} takes {given} or a client, not both; give it to the client")
        if api_key is not None and not api_key.strip():
            raise ConfigError(f"{type(self).__name__}: api_key is blank; give the key, or leave it out")
        base_url = checked_address(base_url, type(self).__name__) if base_url is not None else None
        self.base_url: str | None = without_login(base_url)[0] if base_url else None
        """The address of the server, if it was given, without a name and password in it."""
        if api_key or base_url:
            self.key_variable = "api_key="
        # A closure, which shows the key to nobody who looks at the model.
        self._client = Client(client, lambda: self._connect(api_key, base_url))
        usual = Timeouts() if client is None else None
        self._timeouts = Timeouts(total=timeout) if isinstance(timeout, int | float) else timeout or usual
        """None: those of the client that was given."""
        self._hosted = HostedTools(repr(self), settings.pop("tools", None) or (), self._caller)
        self._extra: Wire = settings.pop("extra_body", None) or {}
        self._options = {option: settings.pop(name) for name, option in HEADERS.items() if name in settings}
        self._settings = settings
        has_format = is_set(settings, self.format_setting)
        self.structured_output: StructuredOutput = not has_format and self._is_home(client, base_url)
        """As in `Model`. Set it yourself if another server has such a mode, or if a schema is too much for this one."""
        self._span: Wire = {}
        """What the SDK's own method for requests tells OpenTelemetry, for an SDK that makes spans."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _is_home(self, client: T | None, base_url: str | None) -> bool:
        """Return whether the provider itself is asked, or a cloud for which the SDK has a client."""
        if client is None:
            host = urlsplit(base_url).hostname if base_url else self.home
        elif is_cloud(client, self.sdk):
            return True
        else:
            host = getattr(getattr(client, "base_url", None), "host", "")
        return f".{host}".endswith(f".{self.home}")

    @abstractmethod
    def _caller(self, declared: Wire) -> tuple[str, bool]:
        """Return by which name the model calls a tool of the settings, and whether a tool of the agent must answer.

        The name is empty if it has none.
        """

    @staticmethod
    @abstractmethod
    def _provider_tool(tool: Tool, model: str) -> Wire:
        """Return the declaration of a `ProviderTool` for *model*, as errors name it.

        Raises:
            ConfigError: the provider has no such tool, or nothing for one of its options.
        """

    def check_tools(self, tools: Collection[Tool]) -> None:
        """Check that the provider has those of an agent's *tools* which it should run, and that the settings declare
        none but those which an agent with these tools can use.

        Raises:
            ConfigError: it has not; or a tool of the settings has no tool of the agent to answer it, or one too many.
        """
        for tool in tools:
            if tool.is_hosted:
                self._provider_tool(tool, repr(self))
        self._hosted.check({tool.name for tool in tools})

    def _tools(self, request: Request) -> list[bytes]:
        """Return the declarations of the settings, then those of the *request*'s own tools.

        Raises:
            ConfigError: a tool has the name of one that the provider runs, or the provider has none like it.
        """
        return self._hosted.beside(request.tools, self._declared)

    def _declaring(self, declare: Callable[[Tool], Part]) -> Encoded[Tool, Part]:
        """Return what encodes tools: *declare* those of the agent, `_provider_tool` those of the provider."""

        def encoded(tool: Tool) -> Part:
            return Part([encode(self._provider_tool(tool, repr(self)))]) if tool.is_hosted else declare(tool)

        return Encoded(encoded)

    def _connect(self, api_key: str | None, base_url: str | None) -> T:
        """Make the SDK's client, importing the SDK."""
        return new_client(self.sdk, self.client_class, self.home, self.told_by_environment, api_key, base_url)

    async def preload(self) -> None:
        """Import the SDK, which takes up to a second, and make the client; unless requests are forbidden."""
        if not are_forbidden():
            await self._client.get()

    async def complete(self, request: Request, emit: Emit | None, *, send: "Send | None" = None) -> Reply:
        """Answer *request*: with *emit* the reply is streamed, else it is one JSON document.

        A stream that breaks is restarted once, since the SDKs retry only requests that were not answered. With *send*,
        which is given the SDK's client and the body of a request and returns the answer, no request is made here.

        Raises:
            ModelError: the API failed after the SDK's own retries, or a stream broke twice.
            ConfigError: requests to real models are forbidden, or a tool has the name of one that the provider runs.
                It is no `ModelError`: nothing asks again after it.
        """
        report_unknown(self.name, window=self.window is None, price=not self.states_cost)

        async def ask(client: T) -> Reply:
            if send:
                return self._read(await send(client, self._body(client, request)))
            return await first_reply([partial(self._ask, client, request)] * 2, emit, StreamBroke)

        return await self._asked(ask)

    async def _asked(self, ask: Callable[[T], Awaitable[R]]) -> R:
        """Return what *ask* makes of the SDK's client for the running event loop.

        Raises:
            ModelError: for whatever the SDK raises.
            ConfigError: requests to real models are forbidden.
        """
        check_allowed(self.name)
        used: list[T] = []
        try:
            async with within(self._timeouts and self._timeouts.total):
                used.append(client := await self._client.get())
                return await ask(client)
        except ConfigError:
            raise
        except Exception as exc:  # noqa: BLE001  Whatever the SDK raises is the model's error.
            # Not chained: the cause may quote what the connection refused to send, such as a malformed key.
            raise self._failure(exc, *used) from None

    @checked
    async def count_tokens(self, request: Request) -> int:
        """Return how many tokens of input the provider counts in *request*, by a request that writes no reply.

        Raises:
            ModelError: the API failed.
            ConfigError: the API counts no tokens.
        """
        if not self.count_path:
            raise ConfigError(f"{type(self).__name__}: this API counts no tokens; `OpenAI` and `Anthropic` do")
        return await self._asked(lambda client: self._count(client, request))

    async def _count(self, client: T, request: Request) -> int:
        body = {name: value for name, value in self._body(client, request).items() if name in self.counted}
        async with self._post(client, body, False, self.count_path) as chunks:
            answer = await document(chunks)
        count = token_count(answer, "input_tokens")
        if count is None:
            raise BadReply(f"the answer should hold input_tokens, found {to_json(answer)[:200]!r}")
        return count

    async def _ask(self, client: T, request: Request, emit: Emit | None) -> Reply:
        """Make one attempt at *request*."""
        streamed = emit is not None or self._streams_unheard()
        async with self._post(client, self._body(client, request, streamed=streamed), streamed) as chunks:
            with unbroken() if streamed else nullcontext():
                return self._read(await received(chunks, self._stream(emit or _ignore)))

    @abstractmethod
    def _stream(self, emit: Emit) -> Stream:
        """Return an empty reply that is about to be streamed."""

    def _streams_unheard(self) -> bool:
        """Return whether a reply is streamed though nobody listens."""
        return False

    @abstractmethod
    async def upload(self, block: Image | Document) -> ProviderBlock:
        """Upload an image or a document, once; return a block that names it in messages to this provider.

        Other providers are not sent the block. The file stays until it is deleted with the SDK.
        """

    @abstractmethod
    def _body(self, client: T, request: Request, *, streamed: bool = False) -> Wire:
        """Return the body of *request*. Its values may be encoded already."""

    @abstractmethod
    def _read(self, answer: Any) -> Reply:
        """Return the reply in *answer*, the provider's whole JSON. Raises `BadReply` if it has none."""

    def _failure(self, exc: Exception, *clients: T) -> ModelError:
        """Return *exc*, an exception of the SDK, as the model's error, without the keys of *clients*."""
        if self._timeouts and type(exc.__cause__).__name__ == "ConnectTimeout":
            exc = TimedOut("no connection was accepted", "connect", self._timeouts.connect)
        error = model_error(
            self.name,
            exc,
            key_variable=self.key_variable,
            unreachable=self.unreachable,
            secrets=[getattr(client, name, None) for client in clients for name in self.credentials],
        )
        # LM Studio answers an unknown path with status 200.
        is_missing = getattr(exc, "status_code", None) in (404, 405) or "unexpected endpoint" in str(error).lower()
        if self.base_url and is_missing and (remedy := other_address(self.base_url, self.path)):
            error.args = (f"{error}; {remedy}",)
        return error

    @asynccontextmanager
    async def _post(
        self, client: Any, body: Wire, streamed: bool, path: str = ""
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Send *body*, and open the answer, which is still to come if it is *streamed*."""
        import httpx2

        sent = encode({**body, "stream": True} if streamed else body)
        own = type(client) is getattr(sys.modules[self.sdk], self.client_class)
        limits = {"timeout": httpx2.Timeout(None, connect=self._timeouts.connect)} if self._timeouts else {}
        async with Silence(self._timeouts or UNLIMITED) as silence:
            response = await client.post(
                path or self.path,
                **{"content": sent} if own else {"body": from_json(sent)},
                cast_to=httpx2.Response,
                options={**limits, **self._options, **({} if path else self._span)},
                stream=streamed,
                stream_cls=object,
            )
            try:
                async with aclosing(_chunks(client, response, silence.heard)) as chunks:
                    yield chunks
            finally:
                await response.aclose()


async def _chunks(client: Any, response: Any, heard: Callable[[], None]) -> AsyncGenerator[bytes]:
    """Yield the bytes of *response*, and call *heard* for each part; Amazon's own form as server-sent events."""
    if response.headers.get("content-type", "").startswith("application/vnd.amazon.eventstream"):
        async for event in client._make_sse_decoder().aiter_bytes(response.aiter_bytes()):
            heard()
            yield f"event: {event.event}\ndata: {event.data}\n\n".encode()
        return
    async for chunk in response.aiter_bytes():
        heard()
        yield chunk


def _ignore(event: StreamEvent) -> None:
    """Emit nothing: the reply is streamed, but nobody listens."""


# ---- what a request says


def sendable(raw: bytes) -> Any:
    """Decode *raw* JSON so that a request can carry it: a lone surrogate becomes `?`, NaN and infinities are text."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        text = json.dumps(json.loads(raw), ensure_ascii=False).encode("utf-8", "replace")
        return json.loads(text, parse_constant=str)


def is_cloud(client: object, sdk: str) -> bool:
    """Return whether *client* is one of those that *sdk* has for clouds."""
    return any(base.__module__.startswith(f"{sdk}.lib.") for base in type(client).__mro__)


def server_of(client: Any, api: str) -> str:
    """Return the provider of blocks of the server that *client* asks: *api*, and the server's address.

    None knows what another has encrypted, signed or stored, and some reject the fields of others.
    """
    url = client.base_url
    path = url.path.rstrip("/")
    return f"{api}:{url.netloc.decode()}{'' if path == '/v1' else path}"


def own_json(block: AnyBlock, provider: str) -> Any:
    """Return the JSON that *provider* itself sent and now gets back; None for any other block."""
    if isinstance(block, Thinking | ProviderBlock) and block.provider == provider:
        return sendable(block.raw)
    return None


def sent_name(name: str, most: int = 64) -> str:
    """Return the name of a tool, or what a provider that takes *most* characters accepts if a model made it up."""
    if len(name) <= most and ACCEPTED.fullmatch(name):
        return name
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:most] or "unnamed"


def extra_fields(item: Wire, own: Collection[str], provider: str) -> tuple[AnyBlock, ...]:
    """Return a block of the fields of *item* that our blocks do not hold, to be sent back with it; without nulls."""
    rest = {name: value for name, value in item.items() if name not in own and value is not None}
    return (ProviderBlock(provider, to_json(rest)),) if rest else ()


def hashed_id(call_id: str) -> str:
    """Return an id that every provider accepts, the same one for the call and for its result."""
    return f"call_{hashlib.sha256(call_id.encode(errors='surrogatepass')).hexdigest()[:32]}"
