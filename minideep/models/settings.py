"""The settings of a model: the arguments of the SDK's method that go along with every request."""

from collections.abc import Mapping, Set

from ..errors import ConfigError
from ..mistakes import did_you_mean
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


def check_settings(model: str, name: str, sdk: str, settings: Wire, known: Set[str]) -> None:
    """Check the *settings* of the *model* called *name*: what is refused here would be refused with every request.

    *model* is the class; *known* are the arguments of the *sdk*'s method. Those that are left out in the SDK's own
    words are removed.

    Raises:
        ConfigError: *settings* hold a name that the SDK does not know or a value that JSON cannot express, or *name*
            begins with the provider's.
    """
    for setting, value in list(settings.items()):
        if type(value).__name__ in ("Omit", "NotGiven"):  # The SDK's own words for an argument that is left out.
            del settings[setting]
        elif setting in INSTEAD:
            raise ConfigError(f"{model}: {setting!r} is no setting; {INSTEAD[setting]}")
        elif setting not in known | OPTIONS:
            other = "; what only the server knows goes into extra_body={...}"
            meant = did_you_mean(setting, known | OPTIONS, other)
            raise ConfigError(f"{model}: the {sdk} SDK knows no setting {setting!r}{meant}")
    try:
        encode({setting: value for setting, value in settings.items() if setting not in OPTIONS})
    except TypeError as exc:
        raise ConfigError(f"{model}: settings must be values that JSON can express: {exc}") from None
    provider, colon, rest = name.partition(":")
    if colon and provider in ("anthropic", "openai", "openai-chat"):
        problem = f"{model}: the model's name must be without its provider, not {name!r}"
        raise ConfigError(f"{problem}; write {model}({rest!r})")
