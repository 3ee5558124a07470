"""Structured output: ask the model's provider for JSON of a schema."""

from typing import Any

from msgspec import structs

from ..context import ToolContext
from ..ports import Middleware, Request


class ResponseFormat(Middleware):
    """Puts the JSON Schema *schema* into every request, as `Request.schema`. Models whose provider has no mode for
    structured output ignore it.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        return structs.replace(request, schema=self._schema)
