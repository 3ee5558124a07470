"""OpenAI's endpoint for batches."""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from ...plain_json import from_json
from ..amounts import nested
from ..answers import Wire, refusal
from ..body import encode

if TYPE_CHECKING:
    from openai import AsyncOpenAI

ENDED = ("completed", "failed", "expired", "cancelled")


class OpenAIBatches:
    """Batches of one of the two APIs, the one at *path*: https://developers.openai.com/api/docs/guides/batch"""

    def __init__(self, client: "AsyncOpenAI", path: str) -> None:
        import openai

        self.transient: tuple[type[Exception], ...] = (openai.APIConnectionError, openai.InternalServerError)
        self._client = client
        self._url: Any = f"/v1{path}"

    async def submit(self, bodies: Mapping[str, Any]) -> str:
        """Send the *bodies* of requests under their names; return the id of the batch."""
        lines = [
            encode({"custom_id": name, "method": "POST", "url": self._url, "body": body})
            for name, body in bodies.items()
        ]
        file = await self._client.files.create(file=("requests.jsonl", b"\n".join(lines)), purpose="batch")
        made = await self._client.batches.create(input_file_id=file.id, endpoint=self._url, completion_window="24h")
        return made.id

    async def ended(self, batch: str) -> bool:
        """Return whether no request of the *batch* is still to be answered."""
        return (await self._client.batches.retrieve(batch)).status in ENDED

    async def results(self, batch: str) -> AsyncIterator[tuple[str, Any]]:
        """Yield each request's name with the answer to it, or with an exception."""
        ended = await self._client.batches.retrieve(batch)
        for problem in (ended.errors and ended.errors.data) or ():
            raise refusal({"code": problem.code, "message": problem.message})
        for file in filter(None, (ended.output_file_id, ended.error_file_id)):
            for line in (await self._client.files.content(file)).content.splitlines():
                result = from_json(line)
                yield result["custom_id"], _answer(result)

    async def cancel(self, batch: str) -> None:
        """Cancel the *batch*."""
        await self._client.batches.cancel(batch)


def _answer(result: Any) -> Any:
    """Return the answer in one line of the results, with the tier of its price, or an exception."""
    body: Any = nested(result, "response", "body")
    error = nested(result, "error") or nested(body, "error")
    if error or nested(result, "response", "status_code") != 200 or not isinstance(body, dict):
        return refusal(error or {"message": f"this request of the batch failed: {str(result)[:200]}"})
    return {**cast(Wire, body), "service_tier": "batch"}
