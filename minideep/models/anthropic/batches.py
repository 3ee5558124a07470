"""Anthropic's endpoint for batches."""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from ...plain_json import from_json
from ..amounts import nested
from ..body import array, encode
from ..failures import BadReply

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

PATH = "/v1/messages/batches"


class AnthropicBatches:
    """Batches of the Messages API: https://platform.claude.com/docs/en/build-with-claude/batch-processing"""

    def __init__(self, client: "AsyncAnthropic") -> None:
        import anthropic
        import httpx2

        self.transient: tuple[type[Exception], ...] = (anthropic.APIConnectionError, anthropic.InternalServerError)
        self._client = client
        self._plain: Any = httpx2.Response

    async def submit(self, bodies: Mapping[str, Any]) -> str:
        """Send the *bodies* of requests under their names; return the id of the batch."""
        requests = array(encode({"custom_id": name, "params": body}) for name, body in bodies.items())
        made = await self._client.post(PATH, content=encode({"requests": requests}), cast_to=self._plain)
        return from_json(made.content)["id"]

    async def ended(self, batch: str) -> bool:
        """Return whether no request of the *batch* is still to be answered."""
        return (await self._client.messages.batches.retrieve(batch)).processing_status == "ended"

    async def results(self, batch: str) -> AsyncIterator[tuple[str, Any]]:
        """Yield each request's name with the answer to it, or with an exception."""
        told = await self._client.get(f"{PATH}/{batch}/results", cast_to=self._plain)
        for line in told.content.splitlines():
            result = from_json(line)
            match result["result"]:
                case {"type": "succeeded", "message": message}:
                    yield result["custom_id"], message
                case {"type": "errored", "error": error}:
                    inner = nested(error, "error") or error
                    yield result["custom_id"], BadReply(str(nested(inner, "message") or inner), inner)
                case other:
                    yield result["custom_id"], BadReply(f"this request of the batch was {nested(other, 'type')}")

    async def cancel(self, batch: str) -> None:
        """Cancel the *batch*."""
        await self._client.messages.batches.cancel(batch)
