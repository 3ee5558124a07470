"""How one tool call is answered: hooks, a person's decision, arguments, a timeout, and whatever goes wrong."""

import asyncio
import logging
from collections.abc import Awaitable, Collection, Coroutine, Iterable, Sequence
from functools import cache
from time import perf_counter
from typing import Any, TypeVar, Union

from msgspec import structs

from ..checks import check
from ..context import ToolContext
from ..errors import ConfigError, IllegalEvent, MiddlewareError, SegmentTooLarge, ThreadConflict, ToolError
from ..events import ToolEnded, ToolReturned, ToolStarted, ToolWaiting
from ..kinds import Kind, kind_of
from ..loops import ThreadCall
from ..messages import Text, ToolCall, ToolResult, clean
from ..ports import Middleware, Request, ToolHook
from ..state import Edit, Interrupt, OpenCall, Reject, Respond
from ..tools import MAX_RESULT, Tool, as_result, capped
from .run import Run

logger = logging.getLogger("minideep")
T = TypeVar("T")
CUT_SHORT = "a person let it run, and it had begun when the turn was cut short; it may have taken effect"
EDIT_SHOWN = 2_000
"""Characters of the arguments that a person gave which are shown beside the result, or when it is asked again."""
GRACE = 5.0
"""Seconds that a cancelled tool has to end before it is left behind."""


async def call_tool(run: Run, ctx: ToolContext, entry: OpenCall) -> None:
    """Answer one call, or have it wait for a person."""
    call, started = entry.call, perf_counter()
    if entry.started and not run.has_children(call.id):
        ctx.close()
        run.record(ToolWaiting(call.id, (Interrupt(call, _cut_short(entry), run.path),)))
        return
    if run.emitter:
        run.emitter(ToolStarted(call))
    try:
        # Hooks that nobody overrides cost nothing, not even the asking.
        plain = ctx.decision is None and not run.spec.tool_hooks
        outcome = await (_execute if plain else _answer)(run, ctx, call)
        # However a tool ended whose child asks something, the call waits: no `except` may eat a question.
        if ctx.paused:
            await ctx.children_over()
            run.record(ToolWaiting(call.id, ctx.paused))
            return
    finally:
        ctx.close()
    _answered(run, call, outcome, perf_counter() - started)
    if entry.started or run.journal.durability == "tool":
        await run.save()


def _answered(run: Run, call: ToolCall, outcome: ToolResult | Interrupt, seconds: float) -> None:
    if isinstance(outcome, Interrupt):
        asked = structs.replace(outcome, call=structs.replace(outcome.call, id=call.id), path=run.path)
        run.record(ToolWaiting(call.id, (asked,)))
    else:
        _returned(run, call, outcome, seconds)


def _returned(run: Run, call: ToolCall, result: ToolResult, seconds: float) -> None:
    """Record a result, or, if it cannot be kept, an error result that says so."""
    if type(result.content) is not str or len(result.content) > MAX_RESULT:
        result = capped(result)
    try:
        run.record(ToolReturned(call.id, result.content, result.is_error, result.ends, seconds))
    except (IllegalEvent, SegmentTooLarge) as exc:
        result = ToolResult(f"{call.name}: its result cannot be kept: {exc}", is_error=True)
        run.record(ToolReturned(call.id, result.content, True, False, seconds))
    size = run.returned(result)
    if run.emitter:
        run.emitter(ToolEnded(call.id, call.name, result.is_error, seconds, size))


def _cut_short(entry: OpenCall) -> str:
    """Why a call that had begun waits. A decision is for the call as the model asked for it, so if a person had edited
    it, what began is not what is asked about.
    """
    if not isinstance(entry.decision, Edit):
        return CUT_SHORT
    return f"{CUT_SHORT}; it began with other arguments, which a person gave: {_brief(entry.decision.raw)}"


async def _answer(run: Run, ctx: ToolContext, call: ToolCall) -> ToolResult | Interrupt:
    """The result of *call*, or what it waits for.

    Raises:
        MiddlewareError: a hook failed.
    """
    hooks, decision = run.spec.tool_hooks, ctx.decision
    match decision:
        case Reject(reason):
            return ToolResult(f"a person rejected this call{': ' if reason else ''}{clean(reason)}", is_error=True)
        case Respond(text):
            return await _passed(ctx, call, ToolResult(clean(text)), hooks)
        case Edit():
            call = ToolCall(call.name, decision.raw, call.id)
        case _:
            pass
    for place, hook in enumerate(hooks):
        if not hook.before:
            continue
        kinds = (ToolCall, ToolResult, Interrupt)
        outcome = await call_hook(hook.middleware, "before_tool", kinds, ctx, call)
        if isinstance(outcome, ToolResult):
            return await _passed(ctx, call, outcome, hooks[:place])
        if isinstance(outcome, Interrupt):
            return outcome
        call = outcome
    if decision is not None and (failed := await run.begin(call)):
        return ToolResult(f"{call.name} was not run: its beginning could not be saved: {failed}", is_error=True)
    result = await _execute(run, ctx, call)
    if ctx.paused:
        return result  # Which nobody is told: the call waits.
    result = await _passed(ctx, call, result, hooks)
    return _with_edit(result, call) if isinstance(decision, Edit) else result


async def _passed(ctx: ToolContext, call: ToolCall, result: ToolResult, hooks: Sequence[ToolHook]) -> ToolResult:
    """*result* after the `after_tool` of *hooks*, the innermost first."""
    for hook in reversed(hooks):
        if hook.after:
            result = await call_hook(hook.middleware, "after_tool", (ToolResult,), ctx, call, result)
    return result


def _with_edit(result: ToolResult, call: ToolCall) -> ToolResult:
    """*result*, and the arguments that *call* was run with: what the model reads of its own call are the old ones."""
    note = f"\n[A person changed this call; its arguments were {_brief(call.raw)}]"
    content = result.content
    return structs.replace(result, content=content + note if isinstance(content, str) else (*content, Text(note)))


def _brief(raw: bytes) -> str:
    written = raw.decode(errors="replace")
    return written if len(written) <= EDIT_SHOWN else f"{written[:EDIT_SHOWN]}... ({len(written):,} characters)"


def check_shown(middleware: Middleware, shown: Iterable[Tool], tools: Collection[str]) -> None:
    """Make sure that a hook shows only tools that can be run.

    Raises:
        MiddlewareError: it shows another one, or what is no tool.
    """
    _see(shown, (tuple[Tool, ...],), f"{middleware.name}.before_model", "tools")
    for tool in shown:
        if tool.name not in tools:
            problem = f"{middleware.name}.before_model shows {tool.name!r}, which the agent does not have"
            raise MiddlewareError(f"{problem}; give it in the `tools` of the agent or of a middleware")


def refuse_hidden(run: Run, calls: Iterable[ToolCall], shown: Iterable[Tool]) -> None:
    """Answer the calls of tools that the agent has but that the request did not show: they are not to be run."""
    names = [tool.name for tool in shown]
    for call in calls:
        if call.name in run.spec.tools and call.name not in names:
            there = f"there is {', '.join(names) or 'none'}"
            _returned(run, call, ToolResult(f"{call.name!r} cannot be used at this point; {there}", is_error=True), 0.0)


async def call_hook(middleware: Middleware, hook: str, kinds: tuple[type, ...], *args: Any) -> Any:
    """What a hook gives, which is of one of *kinds*.

    Raises:
        MiddlewareError: it raised, or gave something else; names the middleware and the hook.
    """
    try:
        outcome = await getattr(middleware, hook)(*args)
    except Exception as exc:  # The hook door: the turn fails, the thread is kept, the culprit is named.
        raise MiddlewareError(f"{middleware.name}.{hook} raised {type(exc).__name__}: {exc}") from exc
    if not isinstance(outcome, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise MiddlewareError(f"{middleware.name}.{hook} must give {expected}, not {outcome!r}")
    # Most hooks give back what they were given, or a request, whose tools are looked at where they are others.
    if outcome is not args[-1] and type(outcome) is not Request and not _is_plain(outcome):
        _see(outcome, kinds, f"{middleware.name}.{hook}", "its answer")
    return outcome


def _is_plain(outcome: Any) -> bool:
    """Whether a glance tells that a hook's answer holds what it should. Asked of every answer, so it makes nothing."""
    if type(outcome) is ToolResult:
        return type(outcome.content) is str
    return outcome is None or (type(outcome) is ToolCall and type(outcome.name) is str)


def _see(value: Any, kinds: tuple[Any, ...], hook: str, name: str) -> None:
    """See that what a hook gives holds what it should: else it would break the loop, or the log, further on."""
    try:
        check(value, _one_of(kinds), name, hook)
    except ConfigError as exc:
        raise MiddlewareError(str(exc)) from None


@cache
def _one_of(kinds: tuple[Any, ...]) -> Kind:
    return kind_of(Union[kinds])  # noqa: UP007 - They are known only now.


async def _execute(run: Run, ctx: ToolContext, call: ToolCall) -> ToolResult:
    tools = run.spec.tools
    tool = tools.get(call.name)
    if tool is None:
        return ToolResult(f"no tool named {call.name!r}; there is {', '.join(tools) or 'none'}", is_error=True)
    try:
        arguments = tool.bind(call, ctx)
        if tool.runs_inline:
            return as_result(await tool.function(**arguments))
        value = await run_isolated(tool, arguments)
        return as_result(await value if hasattr(value, "__await__") else value)
    except ToolError as exc:
        return ToolResult(clean(str(exc)), is_error=True)
    except asyncio.CancelledError:
        if cancelling(run):
            raise
        return ToolResult(f"{call.name}: the tool cancelled itself", is_error=True)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # The tool door: a broken tool must not end a long run.
        if exc is run.journal.conflict:
            raise
        if not ctx.paused:
            logger.warning("tool %s failed", call.name, exc_info=exc)
        return ToolResult(f"{call.name} failed: {type(exc).__name__}: {clean(str(exc))[:10_000]}", is_error=True)


async def run_isolated(tool: Tool, arguments: dict[str, Any]) -> Any:
    """Call a plain function on a thread, or a coroutine in a task, and wait as long as it may take.

    Cancelled, it has 5 seconds to end, and what it has done by then counts: a thread cannot be stopped, and done work
    must not be done again. Over its timeout, or after those seconds, it is left behind.
    """
    if tool.is_async:
        work = carried(tool.function(**arguments))
    else:
        from ..workers import start_thread  # The pool of threads is loaded by the first plain function.

        work = start_thread(tool.function, **arguments)
    work = asyncio.ensure_future(work)
    try:
        await asyncio.wait([work], timeout=tool.timeout)
    except asyncio.CancelledError:
        await _leave(work, tool.is_async, GRACE)
        if not work.done() or work.cancelled():
            raise
    else:
        if not work.done():
            await _leave(work, tool.is_async, GRACE if tool.is_async else 0)
            raise ToolError(f"{tool.name} did not end within {tool.timeout} s and was stopped; ask it for less")
    return result_of(work)


async def _leave(work: "asyncio.Future[Any]", stop: bool, seconds: float) -> None:
    if stop or (isinstance(work, ThreadCall) and not work.begun):
        work.cancel()
    await asyncio.wait([work], timeout=seconds)
    if isinstance(work, ThreadCall):
        work.cancel()  # A thread that was left behind no longer counts against the bound of the process.
    work.add_done_callback(_forget)


class Carried(Exception):
    """Holds a `SystemExit` or `KeyboardInterrupt` of a task of ours. Raised by the task itself, it would stop the event
    loop before the turn is saved; `result_of` raises it where the task is waited for.
    """


async def carried(work: Awaitable[T]) -> T:
    """Await *work*, in a task of its own.

    Raises:
        Carried: it raised `SystemExit` or `KeyboardInterrupt`.
    """
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as exc:
        raise Carried(exc) from None


def result_of(task: "asyncio.Future[T]") -> T:
    """The result of a task, or of a thread; raises what it raised, whatever that is."""
    try:
        return task.result()
    except Carried as exc:
        raise exc.args[0] from None


async def side_by_side(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run calls each in a task of its own and wait for all; then raise what the first of them raised.

    Once another writer has gone on with the thread nothing that they do can be saved: they are cancelled.
    """
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(carried(call)) for call in work]
    try:
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        if any(isinstance(task.exception(), ThreadConflict) for task in done if not task.cancelled()):
            for task in others:
                task.cancel()
        if others:
            await asyncio.wait(others)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    failed = [task for task in tasks if not task.cancelled() and task.exception()]
    if failed:
        result_of(failed[0])


async def abandon(task: "asyncio.Task[Any]") -> None:
    """Cancel a task, give it 5 seconds to end, and leave it behind if it does not."""
    await _leave(task, True, GRACE)


async def within(seconds: float, work: Awaitable[object]) -> bool:
    """Wait for *work*, and raise what it raises, but cancel it after *seconds*; returns whether it ended well.

    Cancelled, it has 5 seconds to end, as a tool has, and is then left behind; what it raises by then is not told.
    """
    task = asyncio.ensure_future(carried(work))
    try:
        await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        await abandon(task)
        raise
    if task.done():
        result_of(task)
        return True
    await abandon(task)
    return task.done() and not task.cancelled() and task.exception() is None


def _forget(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled():
        task.exception()  # Retrieved, so that nobody is warned of what was left behind.


def cancelling(run: Run) -> bool:
    """Whether somebody asked for this task's end; a `CancelledError` that nobody asked for is a bug of the callee."""
    task = asyncio.current_task()
    return run.journal.cancelled or (task is not None and task.cancelling() > 0)


def check_cancelled(run: Run) -> None:
    """Go on only if the turn is not cancelled, even if a tool, a hook or a model has swallowed that.

    A `TaskGroup` that failed in one of them has cancelled this task, and Python 3.11 does not take that back.
    """
    run.journal.check()
    if run.journal.cancelled:
        raise asyncio.CancelledError
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
