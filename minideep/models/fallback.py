"""Several models for one: where the first cannot answer, the next is asked."""

from collections.abc import Iterable

from msgspec import structs

from ..checks import checked
from ..errors import ConfigError, ModelError
from ..ports import Emit, Model, Reply, Request
from .adapter import Listener
from .profile import Profile
from .registry import resolve

LOST = (ModelError, ConnectionError, TimeoutError)


class FallbackModel:
    """Asks each of *models* in turn, models or strings, until one answers: `FallbackModel(["openai:gpt-5", spare])`.

    The next is asked where a model is rate limited, overloaded, out of reach or broken at its provider's end
    (`ModelError.transient`; of a model of your own also `ConnectionError` and `TimeoutError`), after the SDK's own
    retries. Anything else is raised at once: a key that is not accepted, a request that is wrong or too large for the
    window, would be hidden, and paid for elsewhere. Every request begins with the first model again.

    Nothing of a reply that broke off is kept, and its listeners get `Restarted`. The reply says who gave it.
    """

    @checked
    def __init__(self, models: str | Iterable[str | Model]) -> None:
        """Raises ConfigError if there is no model, or what is there is none."""
        self.models: tuple[Model, ...] = tuple(map(resolve, [models] if isinstance(models, str) else models))
        if not self.models:
            raise ConfigError("FallbackModel: models is empty; it needs a model to ask, and others to ask instead")
        self.name = " or ".join(model.name for model in self.models)

    @property
    def window(self) -> float | None:
        """The smallest window of those that are known, in tokens: whoever is asked, the request must fit."""
        windows = (getattr(model, "window", None) for model in self.models)
        return min((window for window in windows if window is not None), default=None)

    @property
    def states_cost(self) -> bool:
        """Whether every one of the models says what its replies cost."""
        return all(getattr(model, "states_cost", False) for model in self.models)

    @property
    def profile(self) -> Profile | None:
        """The first model's: nearly every request is answered by that one."""
        return getattr(self.models[0], "profile", None)

    async def preload(self) -> None:
        """Import what each of the models needs."""
        for model in self.models:
            preload = getattr(model, "preload", None)
            if preload is not None:
                await preload()

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request*.

        Raises:
            ModelError: that of the last model that was asked; its text says what went wrong with each.
        """
        failed: list[str] = []
        listener = Listener(emit) if emit else None
        for model in self.models[:-1]:
            try:
                return await _asked(model, request, listener, failed)
            except LOST as exc:
                if not getattr(exc, "transient", True):
                    raise
                if listener:
                    listener.take_back()
        return await _asked(self.models[-1], request, emit, failed)


async def _asked(model: Model, request: Request, emit: Emit | None, failed: list[str]) -> Reply:
    """The model's reply and who gave it. If there is none the error tells of it and of all that *failed* before."""
    try:
        reply = await model.complete(request, emit)
    except LOST as exc:
        failed.append(str(exc) if isinstance(exc, ModelError) else f"{model.name}: {type(exc).__name__}: {exc}")
        exc.args = ("; ".join(failed),)
        raise
    return structs.replace(reply, model=reply.model or model.name)
