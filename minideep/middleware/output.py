"""Asks a model's provider for JSON of a schema, where it has a mode for that."""

from typing import Any

from msgspec import structs

from ..context import ToolContext
from ..ports import Middleware, Request


class ResponseFormat(Middleware):
    """Puts *schema* into every request of an agent."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        return structs.replace(request, schema=self._schema)
