"""Asking the model: directly, or through `wrap_model` hooks, which may ask several times or not at all."""

import math
from asyncio import CancelledError
from time import perf_counter
from typing import Any

from msgspec import structs

from ..checks import check
from ..context import ToolContext
from ..errors import MinideepError, ModelError
from ..events import ModelReplied, Restarted, StreamEvent, TextDelta, TurnExhausted
from ..messages import UNKNOWN, AssistantMessage, Usage, clean_content
from ..ports import Model, Reply, Request
from .calls import refuse_hidden
from .hooks import Innermost, Wrap, check_shown
from .run import Run
from .spec import check_price

NO_USAGE = Usage()
NUMBERS = (float, int)


async def call_directly(run: Run, request: Request) -> None:
    """Ask the agent's own model, and record its reply."""
    model, started = run.spec.model, perf_counter()
    try:
        # Without listeners it is spared making deltas for nobody.
        reply = await model.complete(request, run.emit if run.live.listening else None)
        # A lone surrogate cannot be stored, and would block every later append of the thread.
        content = clean_content(reply.message.content)
        message = reply.message if content is reply.message.content else AssistantMessage(content)
        message = run.journal.as_recorded(run.path, message, run.spec.tools)
    except MinideepError:  # The model's adapter has said what it means.
        raise
    except Exception as exc:  # Whatever a model raises, the turn records as its failure.
        raise model_error(model, exc) from exc
    finally:
        seconds = perf_counter() - started
        run.ledger.model_s += seconds
    usage, cost = took(reply)
    # Recorded before it is counted: the log refuses wrong types, with which nothing could be counted.
    run.record(ModelReplied(message, reply.stop, usage, reply.model or model.name, seconds, cost))
    run.ledger.add_model(usage, cost)
    if request.tools is not run.spec.tool_list:
        refuse_hidden(run, message.calls, request.tools)


class BudgetSpent(BaseException):
    """Raised through `wrap_model` hooks that ask again although a budget is spent."""


class WrappedModel(Innermost):
    """The model of a run inside its `wrap_model` hooks, put together once for all steps of the run.

    The reply that is recorded carries what all questions of the step took, and listeners see the text of that reply.
    """

    __slots__ = (
        "_cost", "_earlier", "_model", "_outer", "_request", "_run", "_seconds", "_stopped", "_streamed", "_usage",
    )  # fmt: skip

    def __init__(self, run: Run, ctx: ToolContext) -> None:
        super().__init__()
        self._run = run
        self._outer: Any = self._ask
        for part in reversed(run.spec.wrap_model):
            self._outer = Wrap(run.scope, part, "wrap_model", Reply, ctx, self, self._outer)

    def close(self) -> None:
        """Let go of the hooks, which refer back to this."""
        self._outer = None

    async def call(self, request: Request) -> None:
        """Ask *request* through the hooks, and record the reply that they return."""
        run = self._run
        self._request, self._model = request, run.spec.model
        self._usage: Usage | None = None
        self._cost: float | None = 0.0
        self._seconds, self._streamed = 0.0, False
        self.last: Reply | None = None
        self._earlier: list[tuple[Reply, Request, Model]] = []
        self._stopped: TurnExhausted | None = None
        reply: Any = None
        try:
            reply = await self._outer(request)
        except BudgetSpent:
            pass
        finally:
            # An exception keeps the frames of the whole step alive.
            self.raised.clear()
            run.ledger.model_s += self._seconds
        # A hook may have made a reply out of the end of the turn.
        if run.scope.status != "open":
            run.scope.check()
        if self._stopped is None:
            self._record(reply)
        else:  # Whatever the hooks made of that.
            run.end(self._stopped)

    def _record(self, reply: Reply) -> None:
        run = self._run
        if self._usage is None:  # Nobody was asked.
            self._usage = NO_USAGE
            run.ledger.add_model(NO_USAGE, 0.0)
        # A hook may have asked something else since, for example what is to be thought of this reply.
        for earlier, request, asked in self._earlier:
            if earlier.message is reply.message:
                self._request, self._model = request, asked
        if run.live.listening and (self.last is None or reply.message is not self.last.message):
            self._stream_instead(reply.message.text)
        try:
            message = run.journal.as_recorded(run.path, reply.message, run.spec.tools)
        except Exception as exc:  # The ids of calls may be anything.
            raise model_error(self._model, exc) from exc
        model = reply.model or self._model.name
        run.record(ModelReplied(message, reply.stop, self._usage, model, self._seconds, self._cost))
        if self._request.tools is not run.spec.tool_list:
            refuse_hidden(run, message.calls, self._request.tools)

    async def _ask(self, request: Request, model: Model | None = None) -> Reply:
        """Ask a model once, below all hooks."""
        run, started = self._run, perf_counter()
        try:
            if request is not self._request or model is not None or self._usage is not None:
                self._check_again(request, model)
            if run.scope.status != "open":  # A hook has swallowed the end of the turn.
                run.scope.check()
            reply = await self._model.complete(request, self._listen if run.live.listening else None)
            content = clean_content(reply.message.content)
        except (MinideepError, CancelledError, BudgetSpent) as exc:
            self.raised.append(exc)
            raise
        except Exception as exc:  # Hooks see the error that the turn would fail with.
            self.raised.append(error := model_error(self._model, exc))
            raise error from exc
        finally:
            self._seconds += perf_counter() - started
        if content is not reply.message.content:
            reply = structs.replace(reply, message=AssistantMessage(content))
        usage, cost = took(reply)
        run.ledger.add_model(usage, cost)
        # A hook may throw this reply away, and it is paid for all the same.
        self._usage = usage if self._usage is None else self._usage + usage
        self._cost = None if cost is None or self._cost is None else self._cost + cost
        self.last = reply
        return reply

    def _check_again(self, request: Request, model: Model | None) -> None:
        """Check what the loop has not: another request, another model, or a second question in one step."""
        run = self._run
        # A hook that asks again and again could otherwise spend without end.
        if self._usage is not None and (stopped := run.over_budget()):
            self._stopped = stopped
            raise BudgetSpent
        if self.last is not None:
            self._earlier.append((self.last, self._request, self._model))
        if request.tools is not self._request.tools:
            check_shown("wrap_model", request.tools, run.spec.tools)
        self._request, self._model = request, run.spec.model if model is None else run.model_for(model)
        if model is not None:
            self._check_model(self._model)
        # Listeners have the text of a reply that will not be recorded.
        if self._streamed:
            self._listen(Restarted())

    def _check_model(self, model: Model) -> None:
        check(model, Model, "model", "ask")
        # Unlike the agent's own models, this one was not checked when the agent was built.
        for above in self._run.budgets:
            check_price(self._run.spec.name, model, above.state.limits, above.spec.name)

    def _listen(self, event: StreamEvent) -> None:
        self._streamed = not isinstance(event, Restarted)
        self._run.emit(event)

    def _stream_instead(self, text: str) -> None:
        """Stream a reply that no model gave, so that listeners have the text that is recorded."""
        if self._streamed:
            self._listen(Restarted())
        if text:
            self._listen(TextDelta(text))


def took(reply: Reply) -> tuple[Usage, float | None]:
    """Return the tokens and the cost that *reply* states. Impossible amounts count as unknown, for a negative one would
    refill a budget.

    Wrong types are left to the log's format, which refuses them.
    """
    usage, cost = reply.usage, reply.cost
    if type(cost) in NUMBERS and not 0 <= cost < math.inf:  # type: ignore[operator]
        cost = None
    if type(usage) is Usage and type(usage.input) is type(usage.output) is int and (usage.input | usage.output) < 0:
        usage = UNKNOWN
    return usage, cost


def model_error(model: Model, exc: Exception) -> ModelError:
    """Return a `ModelError` for an exception of a model that is none of ours."""
    error = ModelError(f"{model.name}: {type(exc).__name__}: {exc}")
    error.transient = isinstance(exc, ConnectionError | TimeoutError)
    return error
