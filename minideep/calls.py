"""How one tool call is answered: hooks, a person's decision, arguments, a timeout, and whatever goes wrong."""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Iterable
from time import perf_counter
from typing import Any, TypeVar

from msgspec import structs

from .context import ToolContext
from .errors import MiddlewareError, ToolError
from .events import ToolEnded, ToolReturned, ToolStarted, ToolWaiting
from .messages import ToolCall, ToolResult, clean
from .ports import AgentSpec, Middleware
from .run import Run
from .state import Approve, Edit, Interrupt, OpenCall, Reject, Respond
from .tools import Tool, as_result, in_thread

logger = logging.getLogger("minideep")
GRACE = 5.0
"""Seconds that a cancelled tool has to end before it is left behind."""
T = TypeVar("T")


class ChildPaused(BaseException):
    """Leaves a tool whose child waits for a person. No `Exception`, so that no tool swallows a question by accident."""

    def __init__(self, interrupts: tuple[Interrupt, ...]) -> None:
        super().__init__("a child run waits for a person")
        self.interrupts = interrupts


async def call_tool(run: Run, ctx: ToolContext, entry: OpenCall) -> None:
    """Answer one call, or have it wait for a person."""
    call, started = entry.call, perf_counter()
    if run.emitter:
        run.emitter(ToolStarted(call))
    try:
        outcome = await _answer(run, ctx, call)
    except ChildPaused as pause:
        return run.record(ToolWaiting(call.id, pause.interrupts))
    finally:
        ctx.close()
    if isinstance(outcome, Interrupt):
        return run.record(ToolWaiting(call.id, (structs.replace(outcome, path=run.path),)))
    seconds = perf_counter() - started
    run.record(ToolReturned(call.id, outcome.content, outcome.is_error, outcome.ends, seconds))
    size = run.returned(outcome)
    if run.emitter:
        run.emitter(ToolEnded(call.id, call.name, outcome.is_error, seconds, size))
    return None


async def _answer(run: Run, ctx: ToolContext, call: ToolCall) -> ToolResult | Interrupt:
    """The result of *call*, or what it waits for.

    Raises:
        MiddlewareError: a hook failed.
        ChildPaused: a child run waits for a person.
    """
    match decision := ctx.decision:
        case None | Approve():
            pass
        case Reject(reason):
            return ToolResult(f"a person rejected this call{': ' if reason else ''}{clean(reason)}", is_error=True)
        case Respond(text):
            return ToolResult(clean(text))
        case Edit():
            call = ToolCall(call.name, decision.raw, call.id)
    spec = run.spec
    for middleware in spec.before_tool:
        outcome = await hooked(middleware, "before_tool", middleware.before_tool(ctx, call))
        if isinstance(outcome, ToolResult | Interrupt):
            return outcome
        if not isinstance(outcome, ToolCall):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MiddlewareError(f"{middleware.name}.before_tool gave {outcome!r}, no call, result or interrupt")
        call = outcome
    result = await _execute(spec, ctx, call)
    for middleware in spec.after_tool:
        result = as_result(await hooked(middleware, "after_tool", middleware.after_tool(ctx, call, result)))
    return result


async def hooked(middleware: Middleware, hook: str, outcome: Awaitable[T]) -> T:
    """What a hook gives.

    Raises:
        MiddlewareError: it raised; names the middleware and the hook.
    """
    try:
        return await outcome
    except Exception as exc:
        raise MiddlewareError(f"{middleware.name}.{hook} raised {type(exc).__name__}: {exc}") from exc


async def _execute(spec: AgentSpec, ctx: ToolContext, call: ToolCall) -> ToolResult:
    tool = spec.tools.get(call.name)
    if tool is None:
        return ToolResult(f"no tool named {call.name!r}; there is {', '.join(spec.tools) or 'none'}", is_error=True)
    try:
        arguments = tool.bind(call, ctx)
        if tool.timeout is not None:
            return as_result(await _timed(tool, arguments))
        if tool.is_async:
            return as_result(await tool.function(**arguments))
        ctx.bind(asyncio.get_running_loop())
        return as_result(await in_thread(tool.function, **arguments))
    except ToolError as exc:
        return ToolResult(clean(str(exc)), is_error=True)
    except asyncio.CancelledError:
        if cancelling():
            raise
        return ToolResult(f"{call.name}: the tool cancelled itself", is_error=True)
    except (Exception, SystemExit) as exc:
        logger.warning("tool %s failed", call.name, exc_info=exc)
        return ToolResult(f"{call.name} failed: {type(exc).__name__}: {clean(str(exc))}", is_error=True)


async def _timed(tool: Tool, arguments: dict[str, Any]) -> Any:
    """Call *tool* in a task of its own; after its timeout cancel it, and leave it behind if it does not end."""
    work = tool.function(**arguments) if tool.is_async else in_thread(tool.function, **arguments)
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait([task], timeout=tool.timeout)
    finally:
        task.cancel()
    if done:
        return task.result()
    await abandon(task)
    raise ToolError(f"{tool.name} did not end within {tool.timeout} s and was stopped; ask it for less")


async def side_by_side(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run calls each in a task of its own and wait for all; then raise what one of them raised."""
    tasks = [asyncio.ensure_future(call) for call in work]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    for task in tasks:
        task.result()


async def abandon(task: "asyncio.Task[Any]") -> None:
    """Give a task that was cancelled 5 seconds to end, then leave it behind."""
    await asyncio.wait([task], timeout=GRACE)
    task.add_done_callback(_forget)


def _forget(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()  # Retrieved, so that nobody is warned of what was left behind.


def cancelling() -> bool:
    """Whether somebody asked this task to end; a `CancelledError` that nobody asked for is a bug of the callee."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
