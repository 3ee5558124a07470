"""Several models in place of one: if the first cannot answer, the next one is asked."""

from collections.abc import Iterable
from functools import partial

from msgspec import structs

from ..checks import checked
from ..errors import ConfigError, ModelError
from ..ports import Emit, Model, Reply, Request
from .attempts import first_reply
from .resolving import resolve
from .wrapper import ModelWrapper

FAILURES = (ModelError, ConnectionError, TimeoutError)


class FallbackModel(ModelWrapper):
    """Asks *models*, instances or strings, in order until one answers: `FallbackModel(["openai:gpt-5", spare])`.

    The next one is asked if a model is rate limited, overloaded, out of reach or broken on the provider's side
    (`ModelError.transient`; for a model of your own also `ConnectionError` and `TimeoutError`), after the SDK's own
    retries. Every other error is raised at once: asking another model would hide, and might bill twice, a rejected key,
    a wrong request or one that is too large for the window. Every request starts with the first model again.

    No part of an interrupted reply is recorded; its listeners receive `Restarted`. `Reply.model` names who answered.

    Raises:
        ConfigError: *models* is empty, or one of them is not a model.
    """

    @checked
    def __init__(self, models: str | Iterable[str | Model]) -> None:
        super().__init__([resolve(model) for model in ([models] if isinstance(models, str) else models)])
        if not self.models:
            raise ConfigError("FallbackModel: models is empty; it needs a model to ask, and others to ask instead")

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request*.

        Raises:
            ModelError: the error of the last model that was asked; its text includes those of the ones before.
        """
        failures: list[str] = []
        attempts = [partial(_ask, model, request, failures) for model in self.models]
        return await first_reply(attempts, emit, *FAILURES)


async def _ask(model: Model, request: Request, failures: list[str], emit: Emit | None) -> Reply:
    """Ask one model. If it fails, the text of its error joins *failures*, and all of them are raised as one."""
    try:
        reply = await model.complete(request, emit)
    except FAILURES as exc:
        failures.append(str(exc) if isinstance(exc, ModelError) else f"{model.name}: {type(exc).__name__}: {exc}")
        exc.args = ("; ".join(failures),)
        raise
    return structs.replace(reply, model=reply.model or model.name)
