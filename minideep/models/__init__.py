"""Models: providers behind their SDKs, wrappers around other models, and models that need no provider."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .registry import resolve as resolve

if TYPE_CHECKING:
    from .anthropic.messages import Anthropic
    from .catalog import PRICES, Price
    from .fallback import FallbackModel
    from .offline import OfflineModel
    from .openai.chat import OpenAIChat
    from .openai.responses import OpenAI
    from .profile import Profile, profile_of as profile_of
    from .rate_limit import RateLimiter
    from .scripted import Policy as Policy, Say as Say, ScriptedModel, as_reply as as_reply

_HOMES = {
    "Anthropic": "anthropic.messages",
    "FallbackModel": "fallback",
    "OpenAI": "openai.responses",
    "OpenAIChat": "openai.chat",
    "OfflineModel": "offline",
    "PRICES": "catalog",
    "Policy": "scripted",
    "Price": "catalog",
    "Profile": "profile",
    "RateLimiter": "rate_limit",
    "Say": "scripted",
    "ScriptedModel": "scripted",
    "as_reply": "scripted",
    "profile_of": "profile",
}
# The other names are for the rest of this package, and no promise to its users.
__all__ = [
    "PRICES",
    "Anthropic",
    "FallbackModel",
    "OfflineModel",
    "OpenAI",
    "OpenAIChat",
    "Price",
    "Profile",
    "RateLimiter",
    "ScriptedModel",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: an adapter must not be loaded for a model that nobody asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value
