"""What the adapters share: the SDK's client, converted messages, broken streams, and errors in our words.

For an adapter `complete` is, in outline::

    try:
        return await wire.restarting(lambda emit: self._ask(request, emit), emit)
    except Exception as exc:  # noqa: BLE001  The door to a model: ...
        raise wire.failure(self.name, exc, key="ANTHROPIC_API_KEY", secrets=..., phrases=...) from None

and `_ask` reads a stream under `with wire.unbroken(SomeSDK.APIConnectionError, httpx2.TransportError):`, raises
`BadReply` for an answer that cannot be used and `StreamBroke` for a stream that stops before its end.
"""

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from email.utils import mktime_tz, parsedate_tz
from typing import Any, Generic, TypeVar, cast

import msgspec

from ..errors import AuthenticationFailed, ContextOverflow, ModelError, Overloaded, RateLimited
from ..events import Restarted, StreamEvent
from ..messages import Message
from ..ports import Emit, Reply
from ..workers import in_thread

T = TypeVar("T")

STATUSES: Mapping[int | None, type[ModelError]] = {
    401: AuthenticationFailed,
    403: AuthenticationFailed,
    413: ContextOverflow,
    429: RateLimited,
    503: Overloaded,
    529: Overloaded,
}
KINDS: Mapping[str, type[ModelError]] = {
    "authentication_error": AuthenticationFailed,
    "permission_error": AuthenticationFailed,
    "invalid_api_key": AuthenticationFailed,
    "CredentialsError": AuthenticationFailed,
    "IdentityTokenFileError": AuthenticationFailed,
    "WorkloadIdentityError": AuthenticationFailed,
    "request_too_large": ContextOverflow,
    "context_length_exceeded": ContextOverflow,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "insufficient_quota": RateLimited,
    "overloaded_error": Overloaded,
    "server_is_overloaded": Overloaded,
    "slow_down": Overloaded,
}
"""What the `code` or `type` of an error's body, else the exception's class, means.

It says more than the status, which is 200 inside a stream.
"""

PASSING = frozenset({"api_error", "overloaded_error", "server_error", "server_is_overloaded"})
"""Kinds of error that a provider sends inside a stream which it cannot finish, and that another try may not meet."""
LOST = frozenset({"APIConnectionError", "APITimeoutError", "timeout_error"})
"""Classes of the SDKs' errors, and a kind, that say that nobody answered in time."""


class StreamBroke(Exception):
    """A stream stopped before its reply was whole; `__cause__` says why, where anything does."""


class BadReply(Exception):
    """A provider answered what cannot be used; *body* is its error object (`type`, `code`, `message`), if any."""

    def __init__(self, text: str, body: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.body = body


class Client(Generic[T]):
    """An SDK's client: the *given* one, or what *make* returns, called off the event loop at first use.

    *make* imports the SDK. What it returns is kept for one event loop, to which its open connections belong: a
    program that calls `asyncio.run` twice gets two.
    """

    def __init__(self, given: T | None, make: Callable[[], T]) -> None:
        self._given = given
        self._make = make
        self._made: dict[asyncio.AbstractEventLoop, T] = {}

    async def get(self) -> T:
        """The client of the running event loop."""
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            client = await in_thread(self._make)
            for closed in [other for other in list(self._made) if other.is_closed()]:
                self._made.pop(closed, None)
            self._made.setdefault(loop, client)
        return self._made[loop]


class Converted(Generic[T]):
    """Messages in a provider's words, each converted once: `Converted(convert)(message)`.

    Known by identity, since messages are frozen and stay the same objects from step to step. Holds at most *limit*
    of them and begins anew when it is full. What it returns is shared: it must not be changed.
    """

    def __init__(self, convert: Callable[[Message], T], limit: int = 2000) -> None:
        self._convert = convert
        self._limit = limit
        self._kept: dict[int, tuple[Message, T]] = {}

    def __call__(self, message: Message) -> T:
        kept = self._kept.get(id(message))
        if kept is None:
            if len(self._kept) >= self._limit:
                self._kept.clear()
            # The message is kept too: its id is nobody else's as long as it lives.
            kept = self._kept[id(message)] = message, self._convert(message)
        return kept[1]


def sendable(raw: bytes) -> Any:
    """What the JSON *raw* says, as a request can carry it: a lone surrogate becomes `?`, NaN and infinities text."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        text = json.dumps(json.loads(raw), ensure_ascii=False).encode("utf-8", "replace")
        return json.loads(text, parse_constant=str)


ABSURD = 2**53
"""No reply takes more tokens, or dollars; sums of such numbers could not be kept."""


def under(said: Any, *names: str) -> Any:
    """What stands in *said* under *names*, each inside the one before it; None where nothing does."""
    for name in names:
        said = cast(dict[str, Any], said).get(name) if isinstance(said, dict) else None
    return said


def count(usage: Any, *names: str) -> int | None:
    """The number of tokens under *names*; None where none stands there. Some servers write it as a float."""
    value = under(usage, *names)
    return round(value) if _is_amount(value) else None


def dollars(usage: Any, *names: str) -> float | None:
    """The amount of money under *names*; None where none stands there."""
    value = under(usage, *names)
    return float(value) if _is_amount(value) else None


def _is_amount(value: Any) -> bool:
    """Whether *value* may be added to what is spent: NaN or a negative number would defeat every budget."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= ABSURD


async def restarting(ask: Callable[[Emit | None], Awaitable[Reply]], emit: Emit | None) -> Reply:
    """What *ask* returns; if its stream breaks it is asked once more, from the start.

    Listeners that were told something get `Restarted` first. The SDKs retry a request that was not answered, but
    never a stream that broke.
    """
    listener = Listener(emit) if emit else None
    try:
        return await ask(listener)
    except StreamBroke:
        if listener:
            listener.take_back()
        return await ask(emit)


class Listener:
    """Passes on what is told of a reply, until it is known whether that comes to its end."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._told = False

    def __call__(self, event: StreamEvent) -> None:
        self._told = not isinstance(event, Restarted)
        self._emit(event)

    def take_back(self) -> None:
        """The reply broke off: say so to who was told something of it."""
        if self._told:
            self(Restarted())


@contextmanager
def unbroken(*lost: type[Exception]) -> Generator[None, None, None]:
    """Turn what breaks a stream midway into `StreamBroke`: one of *lost*, or an error event that may pass."""
    try:
        yield
    except lost as exc:
        raise StreamBroke(str(exc)) from exc
    except Exception as exc:
        if PASSING.isdisjoint(_kinds(exc)):
            raise
        raise StreamBroke(str(exc)) from exc


def failure(
    model: str,
    exc: Exception,
    *,
    key: str,
    secrets: Iterable[str | None] = (),
    phrases: Mapping[str, type[ModelError]] | None = None,
) -> ModelError:
    """The error that *exc*, raised by an SDK, is in our words: `model: status kind: what the provider says`.

    Sorted by the `type` or `code` of the error's body, then by *phrases*, then by the HTTP status. *phrases* are
    parts of a text, in lower case, and only read where the status says nothing better (none, 200 and 400). *key*
    names the environment variable that is the remedy when authentication fails. *secrets* never stand in the text.
    """
    broke = isinstance(exc, StreamBroke)
    if broke and isinstance(exc.__cause__, Exception):
        exc = exc.__cause__
    status: int | None = getattr(exc, "status_code", None)
    kinds, text = _kinds(exc), _without(secrets, _text(exc))
    found = next((KINDS[kind] for kind in kinds if kind in KINDS), None)
    if not found and status in (None, 200, 400):
        found = next((error for phrase, error in (phrases or {}).items() if phrase in text.lower()), None)
    found = found or STATUSES.get(status, ModelError)
    label = kinds[0] if status in (None, 200) else f"{status} {kinds[0]}"
    remedy = f"; set {key} to a key that is accepted" if found is AuthenticationFailed else ""
    error = found(f"{model}: {label}: {text[:1000].rstrip('. ')}{remedy}")
    error.retry_after = _retry_after(exc)
    error.code = next(iter(_codes(exc)), str(status or ""))
    if found is ModelError:
        error.transient = broke or (status or 0) >= 500 or status == 408 or not (PASSING | LOST).isdisjoint(kinds)
    return error


def _error(exc: Exception) -> Mapping[str, Any]:
    """The error object of the body: Anthropic wraps it in `error`, OpenAI's SDK has unwrapped it."""
    body: Any = getattr(exc, "body", None)
    inner = cast(dict[str, Any], body).get("error", body) if isinstance(body, dict) else None
    return cast(dict[str, Any], inner) if isinstance(inner, dict) else {}


def _kinds(exc: Exception) -> list[str]:
    """The code and the type of the error's body, else the exception's class: at least one word."""
    return _codes(exc) or [type(exc).__name__]


def _codes(exc: Exception) -> list[str]:
    """The code and the type of the error's body."""
    error = _error(exc)
    return [kind for kind in (error.get("code"), error.get("type")) if isinstance(kind, str)]


def _retry_after(exc: Exception) -> float | None:
    """Seconds, as the answer's headers say: a number, or a date. https://www.rfc-editor.org/rfc/rfc9110#field.retry-after"""
    headers: Any = getattr(getattr(exc, "response", None), "headers", None) or {}
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        return seconds if 0 <= seconds < math.inf else None
    date = parsedate_tz(headers.get("retry-after", ""))
    return max(0.0, mktime_tz(date) - time.time()) if date else None


def _text(exc: Exception) -> str:
    """What is wrong, with the cause of a lost connection."""
    text = str(_error(exc).get("message") or exc)
    if getattr(exc, "status_code", None) is None and exc.__cause__ and str(exc.__cause__):
        text = f"{text.rstrip('.')}: {exc.__cause__}"
    return text


def _without(secrets: Iterable[str | None], text: str) -> str:
    for secret in secrets:
        # A shorter one is no key, and would tear the text apart.
        if secret and len(secret.strip()) >= 8:
            text = text.replace(secret.strip(), "***")
    return text
