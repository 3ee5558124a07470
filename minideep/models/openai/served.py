"""Models of the servers in the table `servers`, by the adapter to Chat Completions."""

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ...messages import AnyBlock, StopReason
from ...ports import Reply, StructuredOutput
from ..failures import MissingKey
from ..servers import SERVERS, server_address
from .chat import OpenAIChat

if TYPE_CHECKING:
    from openai import AsyncOpenAI


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
        self.structured_output: StructuredOutput = served.structured_output
        self._environ = environ
        self._server = served

    def _connect(self, api_key: str | None, base_url: str | None) -> "AsyncOpenAI":
        key = self._environ.get(self.key_variable, "").strip()
        if not key and not self._server.start:
            raise MissingKey(f"{self._server.title} needs a key")
        return super()._connect(key or None, base_url)

    def _reply(self, content: Iterable[AnyBlock], stop: StopReason, said: Any, tier: Any) -> Reply:
        reply = super()._reply(content, stop, said, tier)
        return structs.replace(reply, cost=0.0) if self._free else reply
