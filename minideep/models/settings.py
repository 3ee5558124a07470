"""The settings of a model: the arguments of the SDK's method that go along with every request."""

from collections.abc import Iterable, Mapping, Set
from typing import Any, cast

from ..errors import ConfigError
from ..mistakes import did_you_mean
from ..plain_json import from_json
from .answers import Wire
from .body import encode

HEADERS = {"extra_headers": "headers", "extra_query": "params"}
"""Arguments of the SDKs' methods that are not part of the body, and what the SDKs call them in a request."""
OPTIONS = frozenset({*HEADERS, "extra_body"})
INSTEAD: Mapping[str, str] = {
    "model": "the model's name is the first argument",
    **dict.fromkeys(("messages", "input"), "the messages are those of the agent: `agent.run(text)`"),
    **dict.fromkeys(("system", "instructions"), "give the prompt to the agent: `Agent(model, system_prompt=...)`"),
    "stream": "a reply is streamed to whoever listens: `agent.stream(text)`",
    **dict.fromkeys(
        ("auth_token", "default_headers", "http_client", "max_retries", "organization", "project"),
        "give it to a client of the SDK: `client=...`",
    ),
}
"""What to write in place of arguments that are the adapter's own, or the client's."""


def plain_settings(model: str, name: str, sdk: str, settings: Wire, known: Set[str]) -> Wire:
    """Return a copy of the *settings* of the *model* called *name* as plain JSON, so that later changes of the caller's
    lists and dicts change no request.

    *model* is the class; *known* are the arguments of the *sdk*'s method.

    Raises:
        ConfigError: *settings* hold a name that the SDK does not know or a value that JSON cannot express, or *name*
            begins with the provider's.
    """
    # The SDK's own words for an argument that is left out.
    said = {key: value for key, value in settings.items() if type(value).__name__ not in ("Omit", "NotGiven")}
    for key in said:
        if key in INSTEAD:
            raise ConfigError(f"{model}: {key!r} is not a setting; {INSTEAD[key]}")
        if key not in known | OPTIONS:
            meant = did_you_mean(key, known | OPTIONS, "; what only the server knows goes into extra_body={...}")
            raise ConfigError(f"{model}: the {sdk} SDK knows no setting {key!r}{meant}")
    provider, colon, rest = name.partition(":")
    if colon and provider in ("anthropic", "openai", "openai-chat"):
        problem = f"{model}: the model's name must be without its provider, not {name!r}"
        raise ConfigError(f"{problem}; write {model}({rest!r})")
    headers = {key: dict(said.pop(key) or {}) for key in HEADERS if key in said}
    try:
        return from_json(encode(said)) | headers
    except TypeError as exc:
        raise ConfigError(f"{model}: settings must be values that JSON can express: {exc}") from None


def is_set(settings: Wire, place: Iterable[str]) -> bool:
    """Return whether *settings* hold a value at *place*, which may be null."""
    at: Any = settings
    for name in place:
        if not isinstance(at, dict) or name not in at:
            return False
        at = cast(Wire, at)[name]
    return True
