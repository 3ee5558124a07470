"""Models by name: `provider:model`."""

from importlib import import_module

from ..errors import ConfigError
from ..kinds import shown
from ..ports import Model

PROVIDERS = {
    "anthropic": ("anthropic.messages", "Anthropic"),
    "openai": ("openai.responses", "OpenAI"),
    "openai-chat": ("openai.chat", "OpenAIChat"),
    "offline": ("offline", "OfflineModel"),
}
"""The module and the class of each provider. The module is imported when a model of it is asked for."""


def resolve(model: str | Model) -> Model:
    """Return *model* itself, or the model that a string such as `anthropic:claude-sonnet-4-6` or `offline:` names.

    Raises:
        ConfigError: the string names no known provider or no model, or *model* is not a model.
    """
    if not isinstance(model, str):
        if not callable(getattr(model, "complete", None)) or not isinstance(getattr(model, "name", None), str):
            raise ConfigError(f"a model is a string or has `name` and `async complete(request, emit)`, not {model!r}")
        return model
    provider, colon, name = model.partition(":")
    if not colon or provider not in PROVIDERS:
        from ..mistakes import did_you_mean

        known = ", ".join(f"{known}:" for known in PROVIDERS)
        otherwise = f"; write `provider:model`, the provider one of {known}"
        meant = did_you_mean(f"{provider}:", [f"{known}:" for known in PROVIDERS], otherwise) if colon else otherwise
        raise ConfigError(f"unknown model {shown(model)}{meant}")
    if not name and provider != "offline":
        raise ConfigError(f"model {model!r} names no model; write for example `{provider}:MODEL`")
    if name and provider == "offline":
        raise ConfigError(f"there is one offline model; write 'offline:', not {model!r}")
    module, class_name = PROVIDERS[provider]
    make = getattr(import_module(f".{module}", __package__), class_name)
    return make(name) if name else make()
