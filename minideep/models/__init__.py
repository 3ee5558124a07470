"""Models: providers behind their SDKs, wrappers around other models, and models that need no provider."""

from .. import lazy_names

_PUBLIC = (
    "Anthropic BatchModel CodeExecution FallbackModel FileSearch ModelInfo OfflineModel OpenAI OpenAIChat Price "
    "Profile RateLimiter RedactPII RetryModel ScriptedModel Timeouts WebSearch add_model_info model_info register"
)
__all__ = _PUBLIC.split()  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = lazy_names(
    __name__,
    {
        "addresses": "loopback_host",
        "anthropic.messages": "Anthropic",
        "background": "begin_imports",
        "batch": "BatchModel",
        "catalog": "ModelInfo Price add_model_info model_info",
        "fallback": "FallbackModel",
        "forbidden": "forbid_requests",
        "offline": "OfflineModel",
        "openai.chat": "OpenAIChat",
        "openai.responses": "OpenAI",
        "profile": "Profile profile_of",
        "provider_tools": "CodeExecution FileSearch WebSearch",
        "rate_limit": "RateLimiter",
        "redact_pii": "RedactPII",
        "registry": "register",
        "resolving": "resolve",
        "retry": "RetryModel",
        "scripted": "Policy Say ScriptedModel as_reply",
        "servers": "SERVERS server_address",
        "timeouts": "Timeouts",
        "tool_check": "check_tools",
        "wrapper": "ModelWrapper",
    },
)
