"""Models of the servers in the table `servers`, by the adapter to Chat Completions."""

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ...messages import AnyBlock, StopReason
from ...ports import Reply
from ..adapter import Client
from ..failures import MissingKey
from ..servers import SERVERS, Server, loopback_host, server_address
from .chat import OpenAIChat

if TYPE_CHECKING:
    from openai import AsyncOpenAI

NO_KEY = "none"
"""Sent to a server that needs no key, since the SDK wants one, and must not take the one for OpenAI."""


class ServedModel(OpenAIChat):
    """The model *name* of a server in `SERVERS`, which is asked with the key for this server and no other.

    Its address and its key are in *environ*; the key is read at first use.
    """

    def __init__(self, server: str, name: str, environ: Mapping[str, str] = os.environ) -> None:
        served, url = SERVERS[server], server_address(server, environ)
        super().__init__(name, base_url=url, send_reasoning=served.send_reasoning, **served.settings)
        self.key_variable: str = served.key_variable
        self.unreachable: str = served.start
        # Ollama passes on requests for its cloud models, which are paid.
        self._free = bool(served.start) and not name.endswith(("-cloud", ":cloud"))
        self.states_cost: bool = self._free or served.states_cost or self._tariff.known
        self._client = Client(None, partial(_connect, served, url, environ))

    def _reply(self, content: Iterable[AnyBlock], stop: StopReason, said: Any, tier: Any) -> Reply:
        reply = super()._reply(content, stop, said, tier)
        return structs.replace(reply, cost=0.0) if self._free else reply


def _connect(server: Server, url: str, environ: Mapping[str, str]) -> "AsyncOpenAI":
    key = environ.get(server.key_variable, "").strip()
    if not key and not server.start:
        raise MissingKey(f"{server.title} needs a key")
    return _client(url, key or NO_KEY)


def _client(url: str, key: str) -> "AsyncOpenAI":
    """Return a client that sends *key*, and nothing of what the SDK finds in the environment about OpenAI."""
    import openai

    of_openai = [line.partition(":")[0].strip() for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")]
    headers: dict[str, Any] = dict.fromkeys(["OpenAI-Organization", "OpenAI-Project", *of_openai], openai.Omit())
    kept = {name: value for name, value in headers.items() if name and name.lower() != "authorization"}
    return openai.AsyncOpenAI(
        base_url=url,
        api_key=key,
        default_headers={**kept, "Authorization": f"Bearer {key}"},
        # A proxy cannot reach this machine, and must not see what stays on it.
        http_client=openai.DefaultAsyncHttpx2Client(trust_env=False) if loopback_host(url) else None,
    )
