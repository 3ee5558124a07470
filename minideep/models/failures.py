"""Exceptions of a provider's SDK, translated into `ModelError`."""

import math
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from email.utils import mktime_tz, parsedate_tz
from typing import Any, cast

from ..errors import AuthenticationFailed, ContextOverflow, ModelError, Overloaded, RateLimited

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
    "MissingKey": AuthenticationFailed,
    "request_too_large": ContextOverflow,
    "context_length_exceeded": ContextOverflow,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "insufficient_quota": RateLimited,
    "overloaded_error": Overloaded,
    "server_is_overloaded": Overloaded,
    "slow_down": Overloaded,
}
"""The error for the `code` or `type` of an error's body, or for the class of the exception.

These are more specific than the status, which is 200 inside a stream.
"""

TRANSIENT = frozenset({"api_error", "overloaded_error", "server_error", "server_is_overloaded"})
"""Kinds of error that a provider sends in the middle of a stream, and that a second attempt may avoid."""
TIMEOUTS = frozenset({"APIConnectionError", "APITimeoutError", "TimedOut", "timeout_error"})
"""Exception classes of the SDKs and our own, and one kind of error, for a server that did not answer in time."""


class StreamBroke(Exception):
    """A stream ended before its reply was complete; `__cause__` is the reason, if known."""


class MissingKey(Exception):
    """There is no key for a server that needs one."""


class BadReply(Exception):
    """An answer that cannot be used; *body* is its error object (`type`, `code`, `message`), if it has one."""

    def __init__(self, text: str, body: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.body = body


@contextmanager
def unbroken(lost: tuple[type[Exception], ...], reported: tuple[type[Exception], ...]) -> Generator[None, None, None]:
    """Raise `StreamBroke` for an error that ends a stream but may not happen again.

    *lost* are the exceptions of a lost connection. *reported* are those for an error event among the events; of these
    only the `TRANSIENT` ones are translated, the others pass through.
    """
    try:
        yield
    except lost as exc:
        raise StreamBroke(str(exc)) from exc
    except reported as exc:
        if TRANSIENT.isdisjoint(_kinds(exc)):
            raise
        raise StreamBroke(str(exc)) from exc


def model_error(
    model: str,
    exc: Exception,
    *,
    key_variable: str,
    unreachable: str = "",
    secrets: Iterable[str | None],
    phrases: Mapping[str, type[ModelError]],
) -> ModelError:
    """Return the `ModelError` for an exception of an SDK, with the text `model: status kind: message`.

    It is classified by the `type` or `code` of the error's body, then by *phrases*, then by the HTTP status. *phrases*
    are parts of a message, in lower case. They are used only if the status says nothing better (none, 200 or 400).
    *key_variable* is the environment variable to set if authentication fails, *unreachable* what to do if there is no
    connection. *secrets* are removed from the text.
    """
    broke = isinstance(exc, StreamBroke)
    if broke and isinstance(exc.__cause__, Exception):
        exc = exc.__cause__
    status: int | None = getattr(exc, "status_code", None)
    kinds, text = _kinds(exc), _without(secrets, _text(exc))
    found = next((KINDS[kind] for kind in kinds if kind in KINDS), None)
    if not found and status in (None, 200, 400):
        found = next((error for phrase, error in phrases.items() if phrase in text.lower()), None)
    found = found or STATUSES.get(status, ModelError)
    label = kinds[0] if status in (None, 200) else f"{status} {kinds[0]}"
    remedy = ""
    if found is AuthenticationFailed:
        remedy = f"; set {key_variable} to a key that is accepted"
    elif unreachable and kinds[0] == "APIConnectionError":
        remedy = f"; {unreachable}"
    error = found(f"{model}: {label}: {text[:1000].rstrip('. ')}{remedy}")
    error.retry_after = _retry_after(exc)
    error.code = next(iter(_codes(exc)), str(status or ""))
    if found is ModelError:
        error.transient = broke or (status or 0) >= 500 or status == 408 or not (TRANSIENT | TIMEOUTS).isdisjoint(kinds)
    return error


def _error_object(exc: Exception) -> Mapping[str, Any]:
    """Return the error object of the body. Anthropic wraps it in `error`; OpenAI's SDK has unwrapped it."""
    body: Any = getattr(exc, "body", None)
    inner = cast(dict[str, Any], body).get("error", body) if isinstance(body, dict) else None
    return cast(dict[str, Any], inner) if isinstance(inner, dict) else {}


def _kinds(exc: Exception) -> list[str]:
    """Return the codes of the error's body, or the name of the exception's class; never an empty list."""
    return _codes(exc) or [type(exc).__name__]


def _codes(exc: Exception) -> list[str]:
    """Return `code` and `type` of the error's body, as far as it has them."""
    error = _error_object(exc)
    return [kind for kind in (error.get("code"), error.get("type")) if isinstance(kind, str)]


def _retry_after(exc: Exception) -> float | None:
    """Return the seconds to wait, from a header that is a number or a date; None without one.

    https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
    """
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
    """Return the message; without an HTTP status the cause is added, such as that of a lost connection."""
    text = str(_error_object(exc).get("message") or exc)
    if getattr(exc, "status_code", None) is None and exc.__cause__ and str(exc.__cause__):
        text = f"{text.rstrip('.')}: {exc.__cause__}"
    return text


def _without(secrets: Iterable[str | None], text: str) -> str:
    for secret in secrets:
        # A shorter text is a placeholder, not a key. Replacing it could garble the message.
        if secret and len(secret.strip()) >= 8:
            text = text.replace(secret.strip(), "***")
    return text
