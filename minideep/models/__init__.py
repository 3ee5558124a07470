"""Models: providers behind their SDKs, wrappers around other models, and models that need no provider."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .registry import resolve as resolve

if TYPE_CHECKING:
    from .anthropic.messages import Anthropic as Anthropic
    from .catalog import PRICES as PRICES, Price as Price
    from .fallback import FallbackModel as FallbackModel
    from .offline import OfflineModel as OfflineModel
    from .openai.chat import OpenAIChat as OpenAIChat
    from .openai.responses import OpenAI as OpenAI
    from .profile import Profile as Profile, profile_of as profile_of
    from .rate_limit import RateLimiter as RateLimiter
    from .scripted import Policy as Policy, Say as Say, ScriptedModel as ScriptedModel, as_reply as as_reply

_PUBLIC = {
    "Anthropic": "anthropic.messages",
    "FallbackModel": "fallback",
    "OfflineModel": "offline",
    "OpenAI": "openai.responses",
    "OpenAIChat": "openai.chat",
    "PRICES": "catalog",
    "Price": "catalog",
    "Profile": "profile",
    "RateLimiter": "rate_limit",
    "ScriptedModel": "scripted",
}
_HOMES = _PUBLIC | {"Policy": "scripted", "Say": "scripted", "as_reply": "scripted", "profile_of": "profile"}
__all__ = sorted(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a name at first use: an adapter must not be loaded for a model that nobody asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value
