"""A model at half its price for runs that can wait: the requests of many runs are sent as batches."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Protocol, cast
from uuid import uuid4

from ..checks import checked
from ..errors import ConfigError
from ..events import TextDelta
from ..kinds import Positive, Seconds
from ..ports import Emit, Model, Reply, Request
from .adapter import Adapter
from .clients import PerLoop
from .failures import BadReply
from .resolving import resolve
from .wrapper import ModelWrapper


class Batches(Protocol):
    """A provider's endpoint for batches: their ids, and the answers or exceptions by the names of the requests."""

    transient: tuple[type[Exception], ...]
    """The SDK's exceptions for a server that cannot be reached, or fails."""

    async def submit(self, bodies: Mapping[str, Any]) -> str: ...
    async def ended(self, batch: str) -> bool: ...
    def results(self, batch: str) -> AsyncIterator[tuple[str, Any]]: ...
    async def cancel(self, batch: str) -> None: ...


class BatchModel(ModelWrapper):
    """*model* at half its price, for runs that can wait: `BatchModel("anthropic:claude-sonnet-4-6")`.

    Share one among many runs. The requests of *max_wait* seconds, at most *max_size* of them, become one batch, about
    which the provider is asked every *poll* seconds. Most batches take minutes, some a day. A request that fails, or
    that its batch leaves unanswered, fails its own run. If all runs of a batch are cancelled, so is the batch. A run
    that was killed asks again when it is resumed. Listeners receive the text of a reply at once.

    https://platform.claude.com/docs/en/build-with-claude/batch-processing and
    https://developers.openai.com/api/docs/guides/batch

    Raises:
        ConfigError: *model* is none of `Anthropic`, `OpenAI` and `OpenAIChat`.
    """

    @checked
    def __init__(
        self,
        model: str | Model,
        *,
        max_wait: Seconds = 5.0,
        max_size: Positive = 1000,
        poll: Seconds = 30.0,
    ) -> None:
        found: Any = resolve(model)
        if not isinstance(found, Adapter):
            raise ConfigError(f"BatchModel: model must be an Anthropic, OpenAI or OpenAIChat, not {found!r}")
        self._model: Adapter[Any] = cast(Any, found)
        super().__init__([self._model])
        self._times = max_wait, max_size, poll
        self._gathering = PerLoop[list["_Batch"]]()

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request* when its batch has ended.

        Raises:
            ModelError: the batch could not be sent or read, or it has no answer to *request*.
        """
        reply = await self._model.complete(request, None, send=self._send)
        if emit and reply.message.text:
            emit(TextDelta(reply.message.text))
        return reply

    async def _send(self, client: Any, body: Any) -> Any:
        return await self._open(client).answer_to(body)

    def _open(self, client: Any) -> "_Batch":
        """Return the batch that takes the next request."""
        open_ones = self._gathering.get() or self._gathering.put([])
        if not open_ones or open_ones[-1].closed:
            open_ones[:] = [_Batch(self._model, client, *self._times)]
        return open_ones[-1]


class _Batch:
    """Requests that are sent together, and the task that sends them and waits for the answers."""

    def __init__(self, model: Adapter[Any], client: Any, max_wait: float, max_size: int, poll: float) -> None:
        self._batches = _batches(model, client)
        self._max_wait, self._max_size, self._poll = max_wait, max_size, poll
        self._bodies: dict[str, Any] = {}
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._full = asyncio.Event()
        self.closed = False
        self._task: asyncio.Task[None] = asyncio.create_task(self._run())
        self._task.add_done_callback(self._end)

    async def answer_to(self, body: Any) -> Any:
        """Return the answer to a request, or raise the exception that the batch ended with."""
        name = uuid4().hex
        self._bodies[name] = body
        self._answers[name] = future = asyncio.get_running_loop().create_future()
        if len(self._answers) >= self._max_size:
            self.closed = True
            self._full.set()
        try:
            return await future
        finally:
            self._bodies.pop(name, None)
            if all(other.cancelled() for other in self._answers.values()):
                self.closed = True
                self._task.cancel()

    async def _run(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._full.wait(), self._max_wait)
        self.closed = True
        bodies, self._bodies = self._bodies, {}
        batch = await self._batches.submit(bodies)
        try:
            while True:
                await asyncio.sleep(self._poll)
                # The batch goes on, and is paid for, while its provider is out of reach.
                with suppress(*self._batches.transient):
                    if await self._batches.ended(batch):
                        break
        except asyncio.CancelledError:
            await self._batches.cancel(batch)
            raise
        async for name, answer in self._batches.results(batch):
            if (future := self._answers.get(name)) and not future.done():
                future.set_exception(answer) if isinstance(answer, Exception) else future.set_result(answer)

    def _end(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        for future in self._answers.values():
            if not future.done():
                future.set_exception(problem or BadReply("the batch has ended without an answer to this request"))


def _batches(model: Adapter[Any], client: Any) -> Batches:
    if model.sdk == "anthropic":
        from .anthropic.batches import AnthropicBatches

        return AnthropicBatches(client)
    from .openai.batches import OpenAIBatches

    return OpenAIBatches(client, model.path)
