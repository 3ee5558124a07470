"""Answering one tool call: hooks, a person's decision, arguments, a timeout, and whatever goes wrong."""

import asyncio
import logging
from collections.abc import Iterable
from time import perf_counter
from typing import Any

from msgspec import structs

from ..context import CallPaused, ToolContext
from ..errors import IllegalEvent, MinideepError, SegmentTooLarge, ToolError
from ..events import CallStarted, Decided, ToolEnded, ToolReturned, ToolWaiting
from ..messages import Text, ToolCall, ToolResult, clean
from ..state import Answer, Edit, Interrupt, OpenCall, Reject, Respond
from ..tools import MAX_RESULT, Tool, as_result
from .cancel import carried, leave, result_of
from .children import end_children, has_children
from .hooks import Innermost, Wrap, call_hook, changed_result
from .run import Call, Run

logger: logging.Logger = logging.getLogger("minideep")
CUT_SHORT = "a person let it run, and it had begun when the turn was cut short; it may have taken effect"
EDIT_SHOWN = 2_000
"""Characters of a person's arguments that are shown beside the result, or when the call is asked about again."""


async def call_tool(run: Run, asked: ToolCall) -> None:
    """Answer one call, or make it wait for a person."""
    entry, started = run.state.open[asked.id], perf_counter()
    call = Call(run, entry)
    # An approved call that was cut short may have taken effect. Only a person can say whether it may run twice. One
    # that has run children is safe to begin again: they continue from the log.
    if entry.started and not has_children(call):
        run.record(ToolWaiting(asked.id, (Interrupt(asked, _cut_short(run, entry), run.path),)))
        return  # Even if nobody attends: no decision that was made beforehand is about a second time.
    try:
        if entry.decision is not None or run.spec.tool_hooks or run.spec.wrap_tool:
            outcome = await _answer(call, ToolContext(run, call), asked)
        else:  # There is nothing to do but run the tool.
            outcome = await _execute(call, None, asked)
        # A tool whose child asks something waits, however it ended: no `except` in it may swallow a question.
        if call.paused or call.stopped:
            # A child that still runs could pause as well, and its question would be missing here.
            await _children_over(call)
            if call.paused:
                _wait(call, call.paused)
            return
    finally:
        # Also after an error: what the call has left running must not write to the thread any more.
        call.over = True
    if run.live.resumed:
        end_children(call)
        if entry.decision is not None and not isinstance(outcome, Interrupt):
            from .questions import forget

            forget(run, asked.id)
    if isinstance(outcome, Interrupt):
        # A hook may show another call than the model's; the decision must still find this one.
        # Nor does the tool ask: a `Respond` to a hook must not run it.
        wait = structs.replace(outcome, call=structs.replace(outcome.call, id=asked.id), path=run.path, question=False)
        _wait(call, (wait,))
    else:
        _record_result(run, asked, outcome, perf_counter() - started)
    # `entry` is the state's own object: `started` is set by now if the call ran with a person's decision.
    if entry.started or "result" in run.saves_at:  # An approved call must not run twice, whatever the durability.
        await run.checkpoint()


def _wait(call: Call, interrupts: tuple[Interrupt, ...]) -> None:
    """Let a call wait for a person; or, if nobody attends, for the decision that was made beforehand."""
    run, was_decided = call.run, call.entry.decision is not None
    run.record(ToolWaiting(call.entry.call.id, interrupts))
    if run.live.unattended is not None:
        from .decisions import decided_beforehand
        from .questions import asks_again

        # A hook that asks again about a call that it has a decision about would ask for ever, as a tool that its answer
        # does not satisfy.
        again = asks_again(run, call.entry) if call.asked else was_decided
        if not again and (decision := decided_beforehand(call.entry, run.live.unattended)):
            run.record(Decided(call.entry.call.id, decision))


async def _children_over(call: Call) -> None:
    """Wait for children that outlived their tool, as under a `gather` that one of them left."""
    running = [end for end in call.children.values() if not end.done()]
    if running:
        await asyncio.wait(running)


def _cut_short(run: Run, entry: OpenCall) -> str:
    """Return the reason why a call that had begun waits. The interrupt shows the model's arguments, though the call may
    have begun with a person's.
    """
    from .questions import arguments_of

    raw = arguments_of(run, entry)
    return (
        CUT_SHORT if raw is None else f"{CUT_SHORT}; it began with other arguments, which a person gave: {_brief(raw)}"
    )


def _record_result(run: Run, asked: ToolCall, result: ToolResult, seconds: float) -> None:
    """Record a result or, if it cannot be kept, an error result that says so."""
    if type(result.content) is not str or len(result.content) > MAX_RESULT:
        from ..content import recordable  # Most results are short texts.

        result = recordable(result)
    try:
        run.record(ToolReturned(asked.id, result.content, result.is_error, result.ends, seconds))
    # Recorded as it is, one lone surrogate or a huge result would block every later append of the thread.
    except (IllegalEvent, SegmentTooLarge) as exc:
        result = ToolResult(f"{asked.name}: its result cannot be kept: {exc}", is_error=True)
        run.record(ToolReturned(asked.id, result.content, True, False, seconds))
    size = len(result.content if type(result.content) is str else result.text)
    run.ledger.costs.tool_chars += size
    if run.live.listening:
        run.emit(ToolEnded(asked.id, asked.name, result.is_error, seconds, size))


def refuse_hidden(run: Run, calls: Iterable[ToolCall], shown: Iterable[Tool]) -> None:
    """Answer the calls of tools that the agent has but that the request did not show: they must not run."""
    names = [tool.name for tool in shown]
    for asked in calls:
        if asked.name in run.spec.tools and asked.name not in names:  # An unknown one gets its own error.
            there = f"there is {', '.join(names) or 'none'}"
            result = ToolResult(f"{asked.name!r} cannot be used at this point; {there}", is_error=True)
            _record_result(run, asked, result, 0.0)


# ---- hooks and decisions


async def _answer(call: Call, ctx: ToolContext, asked: ToolCall) -> ToolResult | Interrupt:
    """Return the result of a call, or the interrupt that it waits for.

    Raises:
        MiddlewareError: a hook failed.
    """
    run, decision, edited = call.run, ctx.decision, False
    hooks = run.spec.tool_hooks
    if isinstance(decision, Reject):  # Nothing ran, so `after_tool` has nothing to look at.
        reason = f": {clean(decision.reason)}" if decision.reason else ""
        return ToolResult(f"a person rejected this call{reason}", is_error=True)
    if isinstance(decision, Respond):
        return await changed_result(hooks, ctx, asked, ToolResult(clean(decision.text)))
    if isinstance(decision, Edit | Answer):
        from .questions import edited_call

        asked, edited = edited_call(run, call.entry, asked)
    # After a decision too: a person's edit must not lead around a hook that denies.
    for place, hook in enumerate(hooks):
        if not hook.before:
            continue
        outcome = await call_hook(hook.middleware, "before_tool", (ToolCall, ToolResult, Interrupt), ctx, asked)
        if isinstance(outcome, ToolResult):
            # Those outside of this one still see the result, for example to redact it.
            return await changed_result(hooks[:place], ctx, asked, outcome)
        if isinstance(outcome, Interrupt):
            return outcome
        asked = outcome
    # If a crash followed an unsaved beginning, an approved payment would be made twice.
    if decision is not None and (failed := await _save_start(run, asked)):
        return ToolResult(f"{asked.name} was not run: its beginning could not be saved: {failed}", is_error=True)
    result = await (_run_wrapped if run.spec.wrap_tool else _execute)(call, ctx, asked)
    if call.paused:
        return result  # Nobody reads it: the call waits.
    result = await changed_result(hooks, ctx, asked, result)
    return _with_edit(result, asked) if edited else result


async def _save_start(run: Run, asked: ToolCall) -> Exception | None:
    """Save that an approved call begins; it must not run if that fails."""
    run.record(CallStarted(asked.id))
    failed = await run.save()
    # After a conflict another writer has the thread, and may be running this very call.
    run.scope.check()
    return failed


async def _run_wrapped(call: Call, ctx: ToolContext, asked: ToolCall) -> ToolResult:
    """Run a call inside the `wrap_tool` of every middleware that has one."""
    below, attempts = Innermost(), 0

    async def run_once(again: ToolCall) -> ToolResult:
        nonlocal attempts
        attempts, call.asked = attempts + 1, 0  # It asks from its first line, and has the answers.
        # Keys of a further attempt are its own: the children of the first one are over.
        own = ctx if attempts == 1 else ToolContext(call.run, call, attempts)
        call.run.scope.check()
        if not (call.paused or call.stopped):  # Otherwise nothing may run again before the turn is resumed.
            # A wrap may pass on a call of its own making; the result still answers this one.
            below.last = await _execute(call, own, structs.replace(again, id=asked.id))
        if call.paused or call.stopped:
            raise CallPaused  # A wrap must not take the pause for a result.
        return below.last

    outer: Any = run_once
    for part in reversed(call.run.spec.wrap_tool):
        outer = Wrap(call.run.scope, part, "wrap_tool", ToolResult, ctx, below, outer)
    try:
        result = await outer(asked)
    except CallPaused:
        result = ToolResult("")
    # A wrap may have caught the cancellation, and must not make a result of it.
    call.run.scope.check()
    return result


def _with_edit(result: ToolResult, asked: ToolCall) -> ToolResult:
    """Add the arguments that *asked* ran with: in its own call the model reads the old ones."""
    note = f"\n[A person changed this call; its arguments were {_brief(asked.raw)}]"
    content = result.content
    return structs.replace(result, content=content + note if isinstance(content, str) else (*content, Text(note)))


def _brief(raw: bytes) -> str:
    written = raw.decode(errors="replace")
    return written if len(written) <= EDIT_SHOWN else f"{written[:EDIT_SHOWN]}... ({len(written):,} characters)"


# ---- the tool


async def _execute(call: Call, ctx: ToolContext | None, asked: ToolCall) -> ToolResult:
    """Run the tool. Whatever goes wrong in it is an error result. Without *ctx*, a context is made if the tool takes
    one.
    """
    run, tools = call.run, call.run.spec.tools
    tool = tools.get(asked.name)
    if tool is None:
        return ToolResult(f"no tool named {asked.name!r}; there is {', '.join(tools) or 'none'}", is_error=True)
    try:
        arguments = tool.bind(asked, ctx or (ToolContext(run, call) if tool.takes_context else None))
        if run.live.listening:
            call.emit_start()
        if not tool.runs_inline:
            return as_result(await _run_isolated(tool, arguments, run.scope.grace))
        return as_result(await tool.function(**arguments))
    except ToolError as exc:
        return ToolResult(clean(str(exc)), is_error=True)
    except asyncio.CancelledError:
        if run.scope.cancel_requested():
            raise
        return ToolResult(f"{asked.name}: the tool cancelled itself", is_error=True)
    except CallPaused:
        return ToolResult("")  # Nobody reads it: the call stays open.
    except KeyboardInterrupt:  # Ctrl-C is for the program, not for the model.
        raise
    except BaseException as exc:  # noqa: BLE001  Whatever a tool raises: a broken one must not end a long run.
        return _failure(run, asked.name, exc)


def _failure(run: Run, name: str, exc: BaseException) -> ToolResult:
    # As a result it would be recorded in a thread that can no longer be saved, and the turn would go on.
    if run.scope.conflict is not None:
        raise run.scope.conflict from None
    # An error of this package, such as a spent limit of a child, is no bug of the tool: its words are enough.
    logger.warning("tool %s failed: %s", name, exc, exc_info=None if isinstance(exc, MinideepError) else exc)
    return ToolResult(f"{name} failed: {type(exc).__name__}: {clean(str(exc))[:10_000]}", is_error=True)


def _on_thread(tool: Tool, arguments: dict[str, Any]) -> "asyncio.Future[Any]":
    from ..workers import start_thread  # Only plain functions need threads.

    return start_thread(tool.function, **arguments)


async def _run_isolated(tool: Tool, arguments: dict[str, Any], grace: float) -> Any:
    """Call a plain function on a thread, or a coroutine function in a task of its own, within the tool's timeout.

    When the turn is cancelled it has *grace* seconds to end, and then its result counts: a thread cannot be stopped,
    and finished work must not be done again. Over its timeout, or after those seconds, it is left behind.
    """
    work = asyncio.ensure_future(carried(tool.function(**arguments)) if tool.is_async else _on_thread(tool, arguments))
    try:
        await asyncio.wait([work], timeout=tool.timeout)
    except asyncio.CancelledError:
        await leave(work, grace, cancel=tool.is_async)
        if not work.done() or work.cancelled():
            raise
    else:
        if not work.done():
            # Nothing stops a thread, so waiting for one any longer only delays the error.
            await leave(work, grace if tool.is_async else 0, cancel=tool.is_async)
            raise ToolError(f"{tool.name} did not end within {tool.timeout} s and was stopped; ask it for less")
    value = result_of(work)
    return await value if hasattr(value, "__await__") else value
