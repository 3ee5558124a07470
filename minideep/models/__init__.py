"""Models: providers behind their SDKs, wrappers around other models, and models that need no provider."""

from .. import lazy_names

_PUBLIC = "Anthropic FallbackModel OfflineModel OpenAI OpenAIChat PRICES Price Profile RateLimiter ScriptedModel"
__all__ = _PUBLIC.split()  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = lazy_names(
    __name__,
    {
        "anthropic.messages": "Anthropic",
        "catalog": "PRICES Price",
        "fallback": "FallbackModel",
        "forbidden": "forbid_requests",
        "offline": "OfflineModel",
        "openai.chat": "OpenAIChat",
        "openai.responses": "OpenAI",
        "profile": "Profile profile_of",
        "rate_limit": "RateLimiter",
        "registry": "resolve",
        "scripted": "Policy Say ScriptedModel as_reply",
    },
)
