"""Models by name: `provider:model`.

Providers are our own, the servers in a table, those that a program registers, and those that other packages declare.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import cast

from ..checks import checked
from ..errors import ConfigError
from ..kinds import shown
from ..ports import Model
from .servers import SERVERS

Factory = Callable[[str], Model]
"""Makes a model from what stands behind the colon."""

PROVIDERS = {
    "anthropic": ("anthropic.messages", "Anthropic"),
    "openai": ("openai.responses", "OpenAI"),
    "openai-chat": ("openai.chat", "OpenAIChat"),
    "offline": ("offline", "OfflineModel"),
}
"""The module and the class of each provider. The module is imported when a model of it is asked for."""

GROUP = "minideep.models"
"""The group of entry points with which packages declare providers: `name = "module:factory"`."""

_registered: dict[str, Factory] = {}
_declared: dict[str, Factory] = {}
"""The factories of entry points, as far as they were asked for."""


@checked
def register(name: str, factory: Factory, *, replace: bool = False) -> None:
    """Let the model string `name:model` stand for what *factory* makes of `model`, in this process.

    *factory* takes the text behind the colon and returns a model. With *replace* it may take the place of a provider
    that is there already, built in or not.

    Raises:
        ConfigError: *name* is taken, or is not a name that can stand before the colon.
    """
    if not 0 < len(name) <= 64 or not name.isprintable() or any(char.isspace() or char == ":" for char in name):
        raise ConfigError(f"register: name must be a word of up to 64 characters without colon, not {shown(name)}")
    if not replace and (name in _registered or name in PROVIDERS or name in SERVERS):
        raise ConfigError(f"the provider {name!r} is there already; take another name, or pass `replace=True`")
    _registered[name] = factory


def made(model: str) -> Model:
    """Return what the provider's factory makes of the model that a string names.

    Raises:
        ConfigError: the string names no known provider, or no model.
    """
    provider, colon, name = model.partition(":")
    factory = _factory(provider) if colon else None
    if factory is None:
        raise ConfigError(_unknown(model, provider if colon else ""))
    offline = factory is _offline
    if not name and not offline:
        raise ConfigError(f"model {model!r} names no model; write for example `{provider}:MODEL`")
    if name and offline:
        raise ConfigError(f"there is one offline model; write 'offline:', not {model!r}")
    return factory(name)


def _factory(provider: str) -> Factory | None:
    """Return the factory of *provider*; None if nobody has it."""
    if provider in _registered:
        return _registered[provider]
    if provider == "offline":
        return _offline
    if provider in PROVIDERS:
        return _own(provider)
    if provider in SERVERS:
        from .openai.served import ServedModel

        return partial(ServedModel, provider)
    if provider not in _declared and (found := _of_package(provider)):
        _declared[provider] = found
    return _declared.get(provider)


def _own(provider: str) -> Factory:
    module, class_name = PROVIDERS[provider]
    return getattr(import_module(f".{module}", __package__), class_name)


def _offline(name: str) -> Model:
    from .offline import OfflineModel

    return OfflineModel()


def _of_package(provider: str) -> Factory | None:
    """Return the factory that an installed package declares for *provider*, or None.

    Raises:
        ConfigError: it cannot be imported, or two packages declare it.
    """
    from importlib.metadata import entry_points  # Here, because reading what is installed takes long.

    found = list(entry_points(group=GROUP, name=provider))
    if not found:
        return None
    packages = " and ".join(sorted(point.dist.name if point.dist else point.value for point in found))
    if len(found) > 1:
        raise ConfigError(f"provider {provider!r} is declared by {packages}; uninstall one, or call `register`")
    try:
        factory: object = found[0].load()
    except Exception as exc:
        problem = f"{type(exc).__name__}: {exc}"
        raise ConfigError(f"provider {provider!r} of package {packages} cannot be imported: {problem}") from exc
    if not callable(factory):
        raise ConfigError(f"provider {provider!r} of package {packages} is not a function: {shown(factory)}")
    return cast(Factory, factory)


def _unknown(model: str, provider: str) -> str:
    """Return the message for a string that names no model."""
    from importlib.metadata import entry_points

    from ..mistakes import did_you_mean

    declared = sorted(point.name for point in entry_points(group=GROUP))
    known = [f"{name}:" for name in dict.fromkeys([*PROVIDERS, *SERVERS, *_registered, *declared])]
    otherwise = f"; write `provider:model`, the provider one of {', '.join(known)}"
    meant = did_you_mean(f"{provider}:", known, otherwise) if provider else otherwise
    return f"unknown model {shown(model)}{meant}"
