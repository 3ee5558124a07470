"""Asking another model from inside `wrap_model`: a typed answer about data that cannot pass for instructions."""

from typing import Any, TypeVar

from ..datatypes import DataType
from ..messages import UserMessage
from ..models import ModelWrapper
from ..plain_json import to_json
from ..ports import Ask, Emit, Model, Reply, Request
from ..strict_schema import strict
from .aside import Aside

T = TypeVar("T")
ANSWERS = {("Rubric", "grade"), ("ToolSelector", "chosen")}
"""The notes that hold such answers, by owner and key. A replay takes them out of the recording."""


class Unheard(ModelWrapper):
    """A model whose replies are not streamed: listeners follow the agent, not those that it asks."""

    def __init__(self, model: Model) -> None:
        super().__init__([model])

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        return await self.models[0].complete(request, None)


async def answer_of(ask: Ask, model: Model, system: str, about: dict[str, Any], kind: DataType[T]) -> T:
    """Return what *model* says *about* something. What it takes counts as part of the reply around which *ask* stands.

    Raises:
        ModelError: it could not be asked.
        ValueError: its answer is not of this *kind*.
    """
    # As JSON, no text in it can forge an end of the message, or another part of it.
    message = UserMessage(to_json(about).decode())
    schema = strict(kind.schema) if getattr(model, "structured_output", False) else None
    request = Aside(f"{system}\n\nReply with JSON alone: {kind.wanted}.", [message], schema=schema)
    reply = await ask(request, model=Unheard(model))
    return kind.read_text(reply.message.text)
