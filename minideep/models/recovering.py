"""A model that asks once more, with less, when a request was larger than its window."""

from typing import Any

from msgspec import structs

from ..errors import ContextOverflow
from ..ports import Emit, Model, Reply, Request


class Recovering:
    """*model*, asked a second time where it was too small for a request that can `shrink`.

    A middleware that compacts offers that; without one the error stays what it is. Everything else is *model*'s.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.name: str = model.name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Asked for by `copy` before there is a model.
            raise AttributeError(name)
        return getattr(self.model, name)

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request*, or what it shrinks to."""
        shrink, plain = request.shrink, structs.replace(request, shrink=None)
        try:
            return await self.model.complete(plain, emit)
        except ContextOverflow:
            smaller = await shrink(request.messages) if shrink else request.messages
            if smaller is request.messages:
                raise
        return await self.model.complete(structs.replace(plain, messages=smaller), emit)
