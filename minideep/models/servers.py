"""Servers that speak OpenAI's Chat Completions, as data: `ollama:qwen3` is such a server and a model behind it.

Addresses and variables as their documentation has them, read on 2026-11-22: https://docs.ollama.com/api,
https://lmstudio.ai/docs/api/rest-api, https://docs.vllm.ai, https://openrouter.ai/docs,
https://console.groq.com/docs/openai, https://api-docs.deepseek.com, https://docs.mistral.ai/api and
https://ai.google.dev/gemini-api/docs/openai
"""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from ..errors import ConfigError
from .addresses import address


class Server(Struct, frozen=True):
    """One server, or one program that people run as a server."""

    title: str
    base_url: str
    key_variable: str
    """The environment variable with the key."""
    url_variable: str
    """The environment variable that names another address."""
    start: str = ""
    """How to start it, if it runs on one's own machine: such a server needs no key, and its replies cost nothing."""
    states_cost: bool = False
    """True if each of its replies says what it costs."""
    settings: Mapping[str, Any] = {}
    """Arguments that every request to it needs."""
    send_reasoning: bool = True
    """False if it rejects reasoning that it has sent."""
    structured_output: Literal[False, "without tools"] = False
    """As in `Model`."""
    note: str = ""
    """What its users should know."""


SERVERS: Mapping[str, Server] = MappingProxyType(
    {
        "ollama": Server(
            "Ollama",
            "http://127.0.0.1:11434/v1",
            "OLLAMA_API_KEY",
            "OLLAMA_HOST",
            start="start it with `ollama serve`",
            structured_output="without tools",
            note="cuts longer requests off unasked: set `OLLAMA_CONTEXT_LENGTH` to 32768 or more where it runs",
        ),
        "lmstudio": Server(
            "LM Studio",
            "http://127.0.0.1:1234/v1",
            "LM_API_TOKEN",
            "LMSTUDIO_BASE_URL",
            start="start it with `lms server start`",
            structured_output="without tools",
            note="load the model with a context of 32768 tokens or more",
        ),
        "vllm": Server(
            "vLLM",
            "http://127.0.0.1:8000/v1",
            "VLLM_API_KEY",
            "VLLM_BASE_URL",
            start="start it with `vllm serve MODEL --enable-auto-tool-choice --tool-call-parser PARSER`",
            structured_output="without tools",
            note="calls no tools without these two flags",
        ),
        "openrouter": Server(
            "OpenRouter",
            "https://openrouter.ai/api/v1",
            "OPENROUTER_API_KEY",
            "OPENROUTER_BASE_URL",
            states_cost=True,
            note="every reply states its cost",
        ),
        # Its models that do not reason reject the field, empty or not: https://github.com/vercel/ai/pull/8057
        "groq": Server("Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "GROQ_BASE_URL", send_reasoning=False),
        "deepseek": Server(
            "DeepSeek",
            "https://api.deepseek.com/v1",
            "DEEPSEEK_API_KEY",
            "DEEPSEEK_BASE_URL",
            settings={"response_format": {"type": "text"}},
            note="has no mode for JSON that fits a schema; the schema is only part of the prompt",
        ),
        "mistral": Server(
            "Mistral",
            "https://api.mistral.ai/v1",
            "MISTRAL_API_KEY",
            "MISTRAL_BASE_URL",
            structured_output="without tools",
        ),
        "gemini": Server(
            "Gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "GEMINI_API_KEY",
            "GEMINI_BASE_URL",
            structured_output="without tools",
        ),
    }
)
"""The servers by the name that stands before the colon."""


def server_address(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the base URL of the server *name*: the one in its variable in *environ*, else the usual one.

    Raises:
        ConfigError: the variable holds no address. It is not quoted, because an address may hold a password.
    """
    server = SERVERS[name]
    given = environ.get(server.url_variable, "").strip()
    if not given:
        return server.base_url
    try:
        if url := address(_ollama_url(given) if name == "ollama" else given):
            return url
    except ValueError:
        pass
    raise ConfigError(f"{server.url_variable} holds no address; set it to one such as {server.base_url}, or unset it")


def _ollama_url(given: str) -> str:
    """Return the URL that `OLLAMA_HOST` stands for, by Ollama's own rules: scheme, host, port and path may be missing.

    https://github.com/ollama/ollama/blob/main/envconfig/config.go
    """
    scheme, found, rest = given.partition("://") if "://" in given else ("http", "", given)
    host, _, path = rest.partition("/")
    if host.count(":") > 1 and not host.startswith("["):  # An IPv6 address without its brackets.
        host = f"[{host}]"
    if "@" in host:
        raise ValueError("Ollama knows no names and passwords")
    parts = urlsplit(f"{scheme}://{host}")
    port = parts.port or (443 if scheme == "https" else 80 if found else 11434)
    # Ollama listens to everybody at such an address; one cannot connect to it everywhere.
    name = {None: "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(parts.hostname, parts.hostname)
    base = path.strip("/").removesuffix("v1").rstrip("/")
    return f"{scheme}://{f'[{name}]' if ':' in str(name) else name}:{port}/{f'{base}/' if base else ''}v1"
