"""Who answers: the providers behind their SDKs, a fallback from one to another, a script, and an offline stand-in."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .naming import resolve as resolve

if TYPE_CHECKING:
    from .anthropic import Anthropic
    from .fallback import FallbackModel
    from .gate import RateGate
    from .offline import OfflineModel
    from .openai import OpenAI
    from .openai_chat import OpenAIChat
    from .prices import PRICES, Price
    from .profile import Profile
    from .scripted import ScriptedModel

_HOMES = {
    "Anthropic": "anthropic",
    "FallbackModel": "fallback",
    "OpenAI": "openai",
    "OpenAIChat": "openai_chat",
    "OfflineModel": "offline",
    "PRICES": "prices",
    "Price": "prices",
    "Profile": "profile",
    "RateGate": "gate",
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
    "RateGate",
    "ScriptedModel",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
