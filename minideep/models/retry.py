"""A model that is asked again, after a wait, when it fails in a way that may pass."""

import asyncio

from ..backoff import wait_before
from ..checks import checked
from ..kinds import Positive, Seconds
from ..ports import Emit, Model, Reply, Request
from .attempts import first_reply
from .fallback import FAILURES
from .resolving import resolve
from .wrapper import ModelWrapper


class RetryModel(ModelWrapper):
    """*model*, asked again up to *retries* times: `RetryModel("anthropic:claude-sonnet-4-6")`.

    The SDKs retry for some seconds by themselves; this is for outages that last longer. The model is asked again after
    the failures at which `FallbackModel` asks the next one: rate limited, overloaded, out of reach, broken on the
    provider's side. The first wait has about *initial_backoff* seconds, each further one twice as many, up to
    *max_backoff*, and each is shortened by up to half at random; none is shorter than the provider asks for
    (`retry_after`). If that is more than *max_backoff*, the request fails at once. A cancelled turn waits no longer,
    nor does one whose `Limits(seconds=...)` are over. Listeners receive `Restarted` for an interrupted reply.

    Raises:
        ConfigError: *model* is not a model, or a number is wrong.
    """

    @checked
    def __init__(
        self,
        model: str | Model,
        retries: Positive = 5,
        *,
        initial_backoff: Seconds = 2.0,
        max_backoff: Seconds = 60.0,
    ) -> None:
        super().__init__([resolve(model)])
        self._retries = retries
        self._backoff = initial_backoff, max_backoff

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request*.

        Raises:
            ModelError: the error of the last attempt.
        """
        waits: list[float] = []

        async def attempt(emit: Emit | None) -> Reply:
            if waits:
                await asyncio.sleep(waits[-1])
            try:
                return await self.models[0].complete(request, emit)
            except FAILURES as exc:
                waits.append(max(getattr(exc, "retry_after", None) or 0.0, wait_before(len(waits) + 1, *self._backoff)))
                raise

        return await first_reply([attempt] * (self._retries + 1), emit, *FAILURES, patience=self._backoff[1])
