"""Exceptions of a provider's SDK, translated into `ModelError`."""

import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import AuthenticationFailed, ContextOverflow, ModelError, Overloaded, RateLimited
from .error_bodies import codes_of, reason_of, status_of
from .waits import wait_in, wait_of

STATUSES: Mapping[int | None, type[ModelError]] = {
    401: AuthenticationFailed,
    403: AuthenticationFailed,
    404: ModelError,
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
    "model_context_window_exceeded": ContextOverflow,
    "model_max_prompt_tokens_exceeded": ContextOverflow,
    "invalid_request_prompt_too_long": ContextOverflow,
    "exceed_context_size_error": ContextOverflow,
    "context_exceeded": ContextOverflow,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "rate_limit_reached_error": RateLimited,
    "too_many_requests": RateLimited,
    "insufficient_quota": RateLimited,
    "exceeded_current_quota_error": RateLimited,
    "RESOURCE_EXHAUSTED": RateLimited,
    "ThrottlingException": RateLimited,
    "overloaded_error": Overloaded,
    "engine_overloaded_error": Overloaded,
    "server_is_overloaded": Overloaded,
    "slow_down": Overloaded,
    "UNAVAILABLE": Overloaded,
}
"""The error for the `code` or `type` of an error's body, or for the class of the exception.

These are more specific than the status, which is 200 inside a stream.
"""

WORDINGS: tuple[tuple[str, type[ModelError]], ...] = (
    ("missing credentials", AuthenticationFailed),  # Said by OpenAI's SDK without a key.
    ("could not resolve authentication method", AuthenticationFailed),  # Said by Anthropic's SDK without a key.
    ("incorrect api key", AuthenticationFailed),  # xAI, with status 400
    ("api key not valid", AuthenticationFailed),  # Gemini, with status 400
    ("too many tokens, please wait", RateLimited),  # Bedrock
    ("rate limit (is )?(reached|exceeded)", RateLimited),
    ("too many requests", RateLimited),
    ("request rate increased too quickly", RateLimited),
    ("prompt is too long", ContextOverflow),  # Anthropic, Bedrock, Fireworks
    ("exceeds? context limit", ContextOverflow),  # Anthropic, for the input together with `max_tokens`
    ("exceed(s|ed)? (the |this |max |model )*context window", ContextOverflow),  # OpenAI, Kimi, Cloudflare, llama-cpp
    ("context (window exceeds limit|length exceeded)", ContextOverflow),  # MiniMax, Ollama
    ("input tokens exceed", ContextOverflow),  # OpenAI, Bedrock
    ("maximum (context|model|prompt) length", ContextOverflow),  # OpenAI, vLLM, OpenRouter, DeepSeek, xAI
    ("the model's context length", ContextOverflow),  # vLLM, SGLang, Together, Novita
    ("(greater than the|loaded with|exceeds) context length", ContextOverflow),  # LM Studio
    (r"n_keep .*n_ctx", ContextOverflow),  # LM Studio
    ("exceeds the available context size", ContextOverflow),  # llama.cpp, Lemonade
    ("context size is [0-9,]+ tokens", ContextOverflow),  # DS4
    ("input token count", ContextOverflow),  # Gemini, Vertex
    ("input is too long", ContextOverflow),  # Bedrock
    ("reduce the length of the (messages|prompt|input)", ContextOverflow),  # Groq, Cerebras, vLLM
    ("tokens `?[+]`? `?max_new_tokens`? must be", ContextOverflow),  # TGI, Together
    ("inputs`? must have less than", ContextOverflow),  # TGI
    ("exceeded model token limit", ContextOverflow),  # Kimi
    ("prompt exceeds max length", ContextOverflow),  # z.ai
    ("prompt (too long|\u8d85\u957f)", ContextOverflow),  # z.ai, Ollama, oMLX
    ("prompt token count of [0-9]+ exceeds", ContextOverflow),  # GitHub Copilot
    ("range of input length should be", ContextOverflow),  # DashScope
    ("input length.* exceeds (the )?(maximum|context)", ContextOverflow),  # DeepInfra, Poolside, SGLang, LM Studio
    ("too many tokens: (size limit|total number)", ContextOverflow),  # Cohere
    ("tokens in request more than max", ContextOverflow),
)
"""The error for a message without a code, as a regular expression in lower case; the first that fits counts.

Each was seen: tests/unit/models/test_failures.py has the bodies with their sources. They are read only if the status
says nothing better. What is taken for an overflow costs a compaction, so none of them fits a limit on the reply alone.
"""
PER_MINUTE = re.compile(r"on (?:input )?tokens per .*?limit ([1-9][0-9]*),.*?requested ~?([0-9]+)")
"""A rate limit in tokens: how many there are for a minute or a day, and how many the request needs."""
REPLY_LIMIT = re.compile(r"tokens'? is too large: ([0-9]+)\..*?context length is ([0-9]+)")
"""vLLM's words for `max_tokens` that does not fit behind the input: its value, and the window."""
MAX_TEXT = 10_000
"""How many characters of a reason are read; a tenth of them is shown."""

TRANSIENT = frozenset({"api_error", "overloaded_error", "server_error", "server_is_overloaded"})
"""Kinds of error that a provider sends in the middle of a stream, and that a second attempt may avoid."""
LOST = frozenset({"APIConnectionError", "TransportError", "TimedOut", "timeout_error"})
"""Exception classes of the SDKs, of httpx and our own, and one kind of error, for a server that did not answer in time.
"""


class StreamBroke(Exception):
    """A stream ended before its reply was complete; `__cause__` is the reason, if known."""


class MissingKey(Exception):
    """There is no key for a server that needs one."""


class BadReply(Exception):
    """An answer that cannot be used; *body* is its error object (`type`, `code`, `message`), if it has one."""

    def __init__(self, text: str, body: Any = None) -> None:
        super().__init__(text)
        self.body = body


@contextmanager
def unbroken() -> Generator[None, None, None]:
    """Raise `StreamBroke` for an error among the events of a stream that may not happen again.

    Those are the `TRANSIENT` ones and those with a status of 500 and above; the others pass through.
    """
    try:
        yield
    except BadReply as exc:
        if TRANSIENT.isdisjoint(_kinds(exc)) and (status_of(exc) or 0) < 500:
            raise
        raise StreamBroke(str(exc)) from exc


def model_error(
    model: str, exc: Exception, *, key_variable: str, unreachable: str = "", secrets: Iterable[str | None]
) -> ModelError:
    """Return the `ModelError` for an exception of an SDK, with the text `model: status kind: reason`.

    It is classified by the `type` or `code` of the error's body, then by its wording, then by the HTTP status.
    *key_variable* is the environment variable to set if authentication fails, *unreachable* what to do if there is no
    connection. *secrets* are removed from the text.
    """
    broke = isinstance(exc, StreamBroke)
    if broke and isinstance(exc.__cause__, Exception):
        exc = exc.__cause__
    kinds, text = _kinds(exc), _without(secrets, _text(exc))[:MAX_TEXT]
    by_code = _by_code(kinds, status_of(exc))
    found = _by_wording(text.lower(), by_code)
    status = status_of(exc)
    label = kinds[0] if status in (None, 200) else f"{status} {kinds[0]}"
    # A request that is too large for one account's minute may be small enough for another model.
    transient = found.transient or by_code is RateLimited or (found is ModelError and (broke or _may_pass(exc, kinds)))
    # How long to wait is nothing to say of a request that would be refused again.
    wait = wait_of(exc, text) if transient and found is not ContextOverflow else None
    remedy = ""
    if found is AuthenticationFailed:
        remedy = f"; set {key_variable} to a key that is accepted"
    elif unreachable and kinds[0] == "APIConnectionError":
        remedy = f"; {unreachable}"
    elif wait and wait_in(text) is None:
        remedy = f"; it asks to wait {seconds(wait)}"
    error = found(f"{model}: {label}: {text[: MAX_TEXT // 10].rstrip('. ')}{remedy}")
    error.transient, error.retry_after = transient, wait
    error.code = next(iter(codes_of(exc)), str(status or ""))
    return error


def seconds(wait: float) -> str:
    """Return *wait* in words: `0.25 s`, `20 s`, `3,600 s`."""
    return f"{wait:.2g} s" if wait < 10 else f"{wait:,.0f} s"


def _by_code(kinds: Iterable[str], status: int | None) -> type[ModelError] | None:
    return next((KINDS[kind] for kind in kinds if kind in KINDS), STATUSES.get(status))


def _by_wording(text: str, by_code: type[ModelError] | None) -> type[ModelError]:
    """Return the class for an error with *text*, in lower case; that *by_code* if the text says nothing better."""
    if over := PER_MINUTE.search(text):
        # A request for more than a whole minute's tokens is refused however long one waits.
        return ContextOverflow if int(over[2]) > int(over[1]) else RateLimited
    if by_code:
        return by_code
    if (limit := REPLY_LIMIT.search(text)) and int(limit[1]) >= int(limit[2]):
        return ModelError
    return next((error for wording, error in WORDINGS if re.search(wording, text)), ModelError)


def _may_pass(exc: Exception, kinds: Iterable[str]) -> bool:
    """Return whether the error is one of the server, of the connection, or a timeout."""
    status = status_of(exc)
    names = {base.__name__ for base in type(exc).__mro__}
    return (status or 0) >= 500 or status == 408 or not (TRANSIENT | LOST).isdisjoint({*kinds, *names})


def _kinds(exc: Exception) -> list[str]:
    """Return the codes of the error's body, or the name of the exception's class; never an empty list."""
    return codes_of(exc) or [type(exc).__name__]


def _text(exc: Exception) -> str:
    """Return the reason; without an HTTP status the cause is added, such as that of a lost connection."""
    if reason := reason_of(exc):
        return reason
    text = str(exc)
    if text.startswith("Error code: "):  # All that the SDKs say of an answer without a body.
        return "the server gave no reason"
    cause = str(exc.__cause__ or "")
    if getattr(exc, "status_code", None) is None and cause not in text:
        text = f"{text.rstrip('.')}: {cause}"
    return text


def _without(secrets: Iterable[str | None], text: str) -> str:
    for secret in secrets:
        # A shorter text is a placeholder, not a key. Replacing it could garble the message.
        if secret and len(secret.strip()) >= 8:
            text = text.replace(secret.strip(), "***")
    return text
