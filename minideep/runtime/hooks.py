"""Calling hooks: an error names the middleware and the hook, and no wrap can hide how a turn ends."""

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from types import NoneType
from typing import Any, Union

from ..checks import check, check_fields
from ..context import ToolContext
from ..errors import ConfigError, MiddlewareError, OutputViolation
from ..kinds import Kind, kind_of, shown
from ..messages import ToolCall, ToolResult
from ..ports import Middleware, Model, Reply, Request
from ..spec import AgentSpec, ToolHook
from ..tools import Tool
from .cancel import TurnScope


async def call_hook(middleware: Middleware, hook: str, kinds: tuple[type, ...], *args: Any) -> Any:
    """Return what a hook returns, which is of one of *kinds*.

    Raises:
        MiddlewareError: it raised, or returned something else; names the middleware and the hook.
        OutputViolation: it raised that.
    """
    try:
        outcome = await getattr(middleware, hook)(*args)
    except OutputViolation:  # What is wrong is the model's reply.
        raise
    except Exception as exc:  # Whatever a hook raises, the turn fails with an error that names it.
        raise _blamed(middleware, hook, exc) from exc
    if outcome is not args[-1]:  # Most hooks return what they were given.
        _check_outcome(middleware, hook, kinds, outcome)
    return outcome


async def changed_request(spec: AgentSpec, ctx: ToolContext, request: Request) -> Request:
    """Return *request* as every `before_model` has changed it. One coroutine for all of them, as every step calls them.

    Raises:
        MiddlewareError: as `call_hook`; or a hook shows a tool that the agent does not have.
    """
    for middleware in spec.before_model:
        try:
            changed: Any = await middleware.before_model(ctx, request)
        except Exception as exc:
            raise _blamed(middleware, "before_model", exc) from exc
        if type(changed) is not Request:
            _check_outcome(middleware, "before_model", (Request,), changed)
        if changed.tools is not request.tools:
            check_shown(f"{middleware.name}.before_model", changed.tools, spec.tools)
        request = changed
    return request


async def changed_result(hooks: Sequence[ToolHook], ctx: ToolContext, call: ToolCall, result: ToolResult) -> ToolResult:
    """Return *result* as the `after_tool` of *hooks* leave it, the innermost first.

    Raises:
        MiddlewareError: as `call_hook`.
    """
    for hook in reversed(hooks):
        if hook.after:
            try:
                changed: Any = await hook.middleware.after_tool(ctx, call, result)
            except Exception as exc:
                raise _blamed(hook.middleware, "after_tool", exc) from exc
            if changed is not result:
                _check_outcome(hook.middleware, "after_tool", (ToolResult,), changed)
                result = changed
    return result


def _blamed(middleware: Middleware, hook: str, exc: Exception) -> MiddlewareError:
    # msgspec's words for a frozen Struct do not say what to do instead.
    frozen = isinstance(exc, AttributeError) and str(exc).startswith("immutable type")
    remedy = "; make a changed copy: `msgspec.structs.replace(request, system=...)`" if frozen else ""
    return MiddlewareError(f"{middleware.name}.{hook} raised {type(exc).__name__}: {exc}{remedy}")


def _check_outcome(middleware: Middleware, hook: str, kinds: tuple[type, ...], outcome: Any) -> None:
    if not isinstance(outcome, kinds):
        expected = " or ".join("None" if kind is NoneType else kind.__name__ for kind in kinds)
        from ..mistakes import RETURNS

        problem = f"{middleware.name}.{hook} must return {expected}, not {shown(outcome)}"
        raise MiddlewareError(f"{problem}; to change nothing, write `{RETURNS[hook]}`")
    if not _is_plain(outcome):
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


class Innermost:
    """The innermost call or question, inside all wraps."""

    __slots__ = ("last", "raised")

    def __init__(self) -> None:
        self.last: Any = None
        """The last result: a wrap that returns it unchanged needs no check."""
        self.raised: list[BaseException] = []
        """The exceptions that came out: the wraps are not to blame for those."""


class Wrap:
    """One middleware's wrap round *inner*, which is the next one's, or the innermost call itself."""

    __slots__ = ("_below", "_ctx", "_hook", "_inner", "_kind", "_part", "_scope")

    def __init__(
        self, scope: TurnScope, part: Middleware, hook: str, kind: type, ctx: ToolContext, below: Innermost, inner: Any
    ) -> None:
        self._scope, self._part, self._hook, self._kind = scope, part, getattr(part, hook), kind
        self._ctx, self._below, self._inner = ctx, below, inner

    async def __call__(self, value: Any, model: Model | None = None) -> Any:
        # A model that an outer wrap has chosen holds unless this one chooses another.
        inner = self._inner if model is None else _asking(self._inner, model)
        try:
            outcome = await self._hook(self._ctx, value, inner)
        except Exception as exc:  # What came from below is not this middleware's fault.
            # First: the hook may have failed only because the turn is over.
            self._scope.check()
            if any(exc is one for one in self._below.raised):  # By identity: a wrap may raise an equal one.
                raise
            error = _blamed(self._part, self._hook.__name__, exc)
            self._below.raised.append(error)  # The wraps outside are not to blame for it either.
            raise error from exc
        if outcome is not self._below.last or outcome is None:
            _check_outcome(self._part, self._hook.__name__, (self._kind,), outcome)
        return outcome


def _asking(inner: Any, chosen: Model) -> Any:
    """Return *inner*, which asks *chosen* if no model is given. A `partial` would refuse one without its name."""

    def ask(request: Request, model: Model | None = None) -> Any:
        return inner(request, chosen if model is None else model)

    return ask
