"""Who answers: the providers behind their SDKs, a fallback from one to another, a script, and an offline stand-in."""

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
    from .profile import Profile
    from .rate_limit import RateLimiter
    from .scripted import ScriptedModel

_HOMES = {
    "Anthropic": "anthropic.messages",
    "FallbackModel": "fallback",
    "OpenAI": "openai.responses",
    "OpenAIChat": "openai.chat",
    "OfflineModel": "offline",
    "PRICES": "catalog",
    "Price": "catalog",
    "Profile": "profile",
    "RateLimiter": "rate_limit",
    "ScriptedModel": "scripted",
}
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
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
