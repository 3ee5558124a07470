"""Calling hooks: an error names the middleware and the hook, and no wrap can hide how a turn ends."""

import math
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import cache
from time import perf_counter
from types import NoneType
from typing import Any, Union

from msgspec import structs

from ..checks import check, check_fields
from ..context import ToolContext
from ..errors import ConfigError, MiddlewareError, MinideepError, ModelError
from ..events import Restarted, StreamEvent, TextDelta, TurnExhausted
from ..kinds import Kind, kind_of
from ..messages import UNKNOWN, AssistantMessage, ToolCall, ToolResult, Usage, clean_content
from ..ports import Middleware, Model, Reply, Request
from ..tools import Tool
from .cancel import TurnScope
from .run import Run
from .spec import check_price


async def call_hook(middleware: Middleware, hook: str, kinds: tuple[type, ...], *args: Any) -> Any:
    """Return what a hook returns, which is of one of *kinds*.

    Raises:
        MiddlewareError: it raised, or returned something else; names the middleware and the hook.
    """
    try:
        outcome = await getattr(middleware, hook)(*args)
    except Exception as exc:  # The hook door: the turn fails, the thread is kept, the culprit is named.
        raise _blamed(middleware, hook, exc) from exc
    _check_outcome(middleware, hook, kinds, outcome, args[-1])
    return outcome


def _blamed(middleware: Middleware, hook: str, exc: Exception) -> MiddlewareError:
    return MiddlewareError(f"{middleware.name}.{hook} raised {type(exc).__name__}: {exc}")


def _check_outcome(middleware: Middleware, hook: str, kinds: tuple[type, ...], outcome: Any, given: Any) -> None:
    if not isinstance(outcome, kinds):
        expected = " or ".join("None" if kind is NoneType else kind.__name__ for kind in kinds)
        raise MiddlewareError(f"{middleware.name}.{hook} must return {expected}, not {outcome!r}")
    # Most hooks return what they were given, or a request, whose tools are checked where they change.
    if outcome is not given and type(outcome) is not Request and not _is_plain(outcome):
        _check_parts(outcome, kinds, f"{middleware.name}.{hook}", "the returned value")


def _is_plain(outcome: Any) -> bool:
    """Return whether a glance shows that *outcome* is well formed. Called for every hook, so it allocates nothing."""
    if type(outcome) is ToolResult:
        return type(outcome.content) is str
    return outcome is None or (type(outcome) is ToolCall and type(outcome.name) is str)


def _check_parts(value: Any, kinds: tuple[Any, ...], hook: str, name: str) -> None:
    """Refuse a value with parts of a wrong type, which would break the loop, or the log, further on."""
    try:
        if type(value) is Reply:  # Made or passed on by a hook. A reply without hooks is checked by the log's encoder.
            check_fields(value)
        check(value, _one_of(kinds), name, hook)
    except ConfigError as exc:
        raise MiddlewareError(str(exc)) from None


@cache
def _one_of(kinds: tuple[Any, ...]) -> Kind:
    return kind_of(Union[kinds])  # noqa: UP007 - They are known only now.


def check_shown(middleware: str, shown: Iterable[Tool], tools: Collection[str]) -> None:
    """Check that a hook shows only tools that can run.

    Raises:
        MiddlewareError: it shows another one, or something that is not a tool.
    """
    _check_parts(shown, (tuple[Tool, ...],), middleware, "tools")
    for tool in shown:
        if tool.name not in tools:
            problem = f"{middleware} shows {tool.name!r}, which the agent does not have"
            raise MiddlewareError(f"{problem}; give it in the `tools` of the agent or of a middleware")


def wrapped(
    scope: TurnScope, hook: str, kind: type, parts: Iterable[Middleware], ctx: ToolContext, inner: Callable[..., Any]
) -> Callable[..., Awaitable[Any]]:
    """Return *inner* inside the *hook* of each of *parts*, of which the first is the outermost."""
    for part in reversed(tuple(parts)):
        inner = _layer(scope, hook, kind, part, ctx, inner)
    return inner


def _layer(
    scope: TurnScope, hook: str, kind: type, part: Middleware, ctx: ToolContext, inner: Callable[..., Any]
) -> Callable[..., Awaitable[Any]]:
    async def outer(value: Any, **given: Any) -> Any:
        raised: list[BaseException] = []

        async def below(value: Any, **others: Any) -> Any:
            try:
                return await inner(
                    value, **given | {name: other for name, other in others.items() if other is not None}
                )
            except BaseException as exc:
                raised.append(exc)
                raise

        try:
            outcome = await getattr(part, hook)(ctx, value, below)
        except Exception as exc:  # The hook door: what came from below is not this middleware's fault.
            scope.check()
            if any(exc is one for one in raised):
                raise
            raise _blamed(part, hook, exc) from exc
        _check_outcome(part, hook, (kind,), outcome, None)
        return outcome

    return outer


class BudgetSpent(BaseException):
    """Raised through `wrap_model` hooks that ask again although a budget is spent."""


class Asking:
    """One step's questions to models through `wrap_model` hooks: counts what the replies take, and streams the last."""

    def __init__(self, run: Run, request: Request) -> None:
        self.run = run
        self.request = request
        """The last request that was asked: its tools may be called."""
        self.seconds = 0.0
        self.stopped: TurnExhausted | None = None
        self._emitter = self._listen if run.emitter else None
        self._streamed = False
        self._replies: list[tuple[Reply, str]] = []
        self._usage = Usage()
        self._cost: float | None = 0.0

    async def reply(self, ctx: ToolContext) -> Reply:
        """Return the reply that the hooks make of the request, with the tokens and the cost of all questions.

        Raises:
            BudgetSpent: a hook asked again although a budget is spent, which `stopped` names.
        """
        spec, scope = self.run.spec, self.run.scope
        outer = wrapped(scope, "wrap_model", Reply, spec.wrap_model, ctx, self._ask)
        try:
            reply = await outer(self.request)
        finally:
            if self.stopped:  # Even if a hook has caught it.
                raise BudgetSpent
        scope.check()
        if not self._replies:
            self.run.ledger.add_model(self._usage, self._cost)  # Nothing, which is known.
        message, (last, model) = reply.message, self._replies[-1] if self._replies else (None, spec.model.name)
        if self.run.emitter and (last is None or message is not last.message):
            self._stream_instead(message.text)
        return Reply(message, self._usage, reply.stop, self._cost, reply.model or model)

    async def _ask(self, request: Request, model: Model | None = None) -> Reply:
        """Ask a model once, below all hooks."""
        run = self.run
        run.scope.check()
        if self._replies and (stopped := run.over_budget()):
            self.stopped = stopped
            raise BudgetSpent
        if request.tools is not self.request.tools:
            check_shown("wrap_model", request.tools, run.spec.tools)
        self.request = request
        asked = run.spec.model if model is None else self._checked(model)
        if self._streamed:
            self._listen(Restarted())
        started = perf_counter()
        try:
            reply = await asked.complete(request, self._emitter)
            reply = structs.replace(reply, message=AssistantMessage(clean_content(reply.message.content)))
        except MinideepError:
            raise
        except Exception as exc:  # The model door: hooks see the error that the turn would fail with.
            raise model_error(asked, exc) from exc
        finally:
            self.seconds += perf_counter() - started
        usage, cost = took(reply)
        run.ledger.add_model(usage, cost)
        self._usage += usage
        self._cost = None if cost is None or self._cost is None else self._cost + cost
        self._replies.append((reply, asked.name))
        return reply

    def _checked(self, model: Model) -> Model:
        check(model, Model, "model", "ask")
        for above in self.run.budgets:
            check_price(self.run.spec.name, model, above.state.limits, above.spec.name)
        return model

    def _listen(self, event: StreamEvent) -> None:
        self._streamed = not isinstance(event, Restarted)
        self.run.emit(event)

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
    if isinstance(cost, int | float) and not 0 <= cost < math.inf:
        cost = None
    if type(usage) is Usage and type(usage.input) is type(usage.output) is int and (usage.input | usage.output) < 0:
        usage = UNKNOWN
    return usage, cost


def model_error(model: Model, exc: Exception) -> ModelError:
    """Return a `ModelError` for an exception of a model that is none of ours."""
    error = ModelError(f"{model.name}: {type(exc).__name__}: {exc}")
    error.transient = isinstance(exc, ConnectionError | TimeoutError)
    return error
