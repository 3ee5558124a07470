"""Who answers: the providers behind their SDKs, a script, and an offline stand-in."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..ports import Model

if TYPE_CHECKING:
    from .anthropic import Anthropic
    from .offline import OfflineModel
    from .openai import OpenAI
    from .openai_chat import OpenAIChat
    from .scripted import ScriptedModel

_HOMES = {
    "Anthropic": "anthropic",
    "OpenAI": "openai",
    "OpenAIChat": "openai_chat",
    "OfflineModel": "offline",
    "ScriptedModel": "scripted",
}
__all__ = ["Anthropic", "OfflineModel", "OpenAI", "OpenAIChat", "ScriptedModel"]
_PROVIDERS = {"anthropic": "Anthropic", "openai": "OpenAI", "openai-chat": "OpenAIChat", "offline": "OfflineModel"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def resolve(model: str | Model) -> Model:
    """*model* itself, or the one that a string such as `anthropic:claude-sonnet-4-6` or `offline:` names.

    Raises:
        ConfigError: the string names no provider, or no model; or *model* is no model.
    """
    if not isinstance(model, str):
        if not callable(getattr(model, "complete", None)) or not isinstance(getattr(model, "name", None), str):
            raise ConfigError(f"a model is a string or has `name` and `async complete(request, emit)`, not {model!r}")
        return model
    provider, colon, name = model.partition(":")
    if not colon or provider not in _PROVIDERS:
        known = ", ".join(f"{known}:" for known in _PROVIDERS)
        raise ConfigError(f"unknown model {model!r}; write `provider:model`, the provider one of {known}")
    if not name and provider != "offline":
        raise ConfigError(f"model {model!r} names no model; write for example `{provider}:MODEL`")
    if name and provider == "offline":
        raise ConfigError(f"there is one offline model; write 'offline:', not {model!r}")
    made: Any = __getattr__(_PROVIDERS[provider])
    return made(name) if name else made()
