"""Settings of a model: arguments of its SDK's method that every request carries."""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from ..errors import ConfigError
from ..messages import from_json
from ..mistakes import did_you_mean
from .body import encode

OPTIONS = {"extra_headers": "headers", "extra_query": "params"}
"""Arguments that are not part of the body, and what the SDKs call them in a request."""
EXTRA = frozenset({*OPTIONS, "extra_body"})
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


class Settings(Struct):
    """Settings by where they go, all of them copies."""

    body: dict[str, Any]
    """Fields of the body."""
    tools: list[Any]
    """Tools in the provider's words."""
    extra_body: dict[str, Any]
    """Fields that take the place of any other in the body."""
    options: dict[str, Any]
    """Headers and parameters of the address."""


def checked_settings(given: Mapping[str, Any], known: Collection[str], owner: str, sdk: str) -> Settings:
    """Return the settings that are *given* to the model *owner*. Those of the body become plain JSON.

    Raises:
        ConfigError: the SDK knows no setting of that name, or JSON cannot express its value.
    """
    # The SDKs' own words for an argument that is left out.
    said = {name: value for name, value in given.items() if type(value).__name__ not in ("Omit", "NotGiven")}
    for name in said:
        if name in INSTEAD:
            raise ConfigError(f"{owner}: {name!r} is not a setting; {INSTEAD[name]}")
        if name not in known and name not in EXTRA:
            other = "; what only the server knows goes into extra_body={...}"
            meant = did_you_mean(name, {*known, *EXTRA}, other)
            raise ConfigError(f"{owner}: the {sdk} SDK knows no setting {name!r}{meant}")
    options = {option: dict(said.pop(name) or {}) for name, option in OPTIONS.items() if name in said}
    try:
        # Decoded again, so that what a caller does to a list or a dict afterwards changes no request.
        body = from_json(encode(said))
    except TypeError as exc:
        raise ConfigError(f"{owner}: settings must be values that JSON can express: {exc}") from None
    return Settings(body, body.pop("tools", None) or [], body.pop("extra_body", None) or {}, options)
