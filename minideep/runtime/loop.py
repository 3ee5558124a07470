"""The loop: decide, perform, apply, until the turn hands over. Everything else is a tool, a hook or a store.

Nothing is written here: whoever drives the main run appends its events before and after.
"""

import asyncio
import time
from time import perf_counter
from types import NoneType
from typing import Literal

from ..context import ToolContext
from ..core import decide
from ..errors import ConfigError, MinideepError, ModelError
from ..events import (
    CallModel,
    CallTools,
    Finish,
    Pause,
    TurnCancelled,
    TurnEnded,
    TurnExhausted,
    TurnPaused,
    UserSaid,
)
from ..messages import AssistantMessage, Input, UserMessage, as_message, clean_content
from ..ports import Messages, Request, Runnable
from ..state import OpenCall
from ..turn import Turn, failed
from .calls import call_hook, call_tool, cancelling, check_cancelled, check_shown, refuse_hidden, side_by_side, within
from .run import Run
from .spec import below


async def drive(run: Run) -> None:
    """Drive *run* to a boundary; whatever goes wrong, one is recorded."""
    ctx, state, task = ToolContext(run, run_child), run.state, asyncio.current_task()
    try:
        while state.status == "running":
            if run.scope.stopped or (task and task.cancelling()):
                check_cancelled(run)
            match decide(state):
                case CallModel():
                    await (call_model_in_time if run.budgets else call_model)(run, ctx)
                case CallTools(calls):
                    await call_tools(run, [state.open[call.id] for call in calls])
                case Finish(reason):
                    await finish(run, ctx, reason)
                case Pause():
                    run.record(TurnPaused(time.time()))
                case stop:
                    run.record(TurnExhausted(time.time(), stop.limit))
    except asyncio.CancelledError:
        if cancelling(run):
            run.record(TurnCancelled(time.time()))
            raise
        run.record(failed(ModelError("the model, or a hook, cancelled itself"), time.time()))
    except MinideepError as exc:
        run.record(failed(exc, time.time()))
    finally:
        run.close_step()
        run.book()


async def call_model_in_time(run: Run, ctx: ToolContext) -> None:
    """`call_model`, cut short when the seconds of a budget are over. A reply that still comes then counts."""
    left = run.seconds_left()
    if left is None:
        await call_model(run, ctx)
    elif not await within(left, call_model(run, ctx)) and run.state.status == "running":
        run.record(TurnExhausted(time.time(), "seconds"))


async def call_model(run: Run, ctx: ToolContext) -> None:
    """One question, one reply."""
    run.close_step()
    spec = run.spec
    await run.save_if("step", "tool")
    request = Request(spec.system, Messages(run.state.messages), spec.tool_list)
    if spec.before_model:
        request = await changed_by_hooks(run, ctx, request)
    if run.budgets and run.state.status == "running" and (stopped := run.over_budget()):
        run.record(stopped)
    if run.state.status != "running":
        return  # A hook has escalated, or a budget is spent.
    started = perf_counter()
    try:
        reply = await spec.model.complete(request, run.emitter)
        content = clean_content(reply.message.content)
        message = run.journal.with_unique_call_ids(
            run.path, reply.message if content is reply.message.content else AssistantMessage(content)
        )
    except MinideepError:
        raise
    except Exception as exc:  # The model door: a model may be anybody's, and its failure is the turn's.
        error = ModelError(f"{spec.model.name}: {type(exc).__name__}: {exc}")
        error.transient = isinstance(exc, ConnectionError | TimeoutError)
        raise error from exc
    finally:
        seconds = run.waited(started)
    run.replied(message, reply, seconds)
    if request.tools is not spec.tool_list:
        refuse_hidden(run, message.calls, request.tools)


async def changed_by_hooks(run: Run, ctx: ToolContext, request: Request) -> Request:
    """The request as every `before_model` has changed it."""
    spec = run.spec
    for middleware in spec.before_model:
        request = await call_hook(middleware, "before_model", (Request,), ctx, request)
        if request.tools is not spec.tool_list:
            check_shown(middleware, request.tools, spec.tools)
    return request


async def call_tools(run: Run, entries: list[OpenCall]) -> None:
    """Run calls side by side; each result is recorded as soon as it is there."""
    await run.save_if("tool")
    started, save_s = perf_counter(), run.total.save_s
    work = [call_tool(run, ToolContext(run, run_child, entry), entry) for entry in entries]
    try:
        # One call needs no task of its own: whoever started the turn leaves a tool behind that does not end.
        await (work[0] if len(work) == 1 else side_by_side(work))
    finally:
        run.worked(started, save_s)


async def finish(run: Run, ctx: ToolContext, reason: Literal["done", "truncated", "refused"]) -> None:
    """End the turn, unless a middleware has one more thing to say, or to ask."""
    for middleware in run.spec.before_finish:
        message = await call_hook(middleware, "before_finish", (UserMessage, NoneType), ctx)
        if message is not None:
            run.record(UserSaid(message, time.time(), by=middleware.name))
            return
    if run.state.status == "running":
        run.record(TurnEnded(time.time(), reason))


async def run_child(ctx: ToolContext, parent: Run, agent: Runnable, input: Input, key: str | None) -> Turn:
    """What `ToolContext.run` does: run *agent* below a call, or go on with what the log holds of it."""
    started, spec, message = perf_counter(), below(agent.spec, parent.spec), as_message(input)
    child, cut_short = parent.child(spec, f"{ctx.call_id}/{key}" if key else ctx.call_id, ctx)
    if (state := child.state).status == "ready":
        child.record(UserSaid(message, time.time(), spec.limits, agent=spec.name))
        child.share_notes(parent.state)
    elif (state.agent, state.said) != (spec.name, message):
        raise ConfigError(f"run {child.path!r} was begun by agent {state.agent!r} or with another input; give a `key`")
    elif cut_short:
        child.go_on()
    try:
        if state.status == "running":
            await drive(child)
            await child.save_if("tool")  # Its call may go on with others for long.
    finally:
        parent.delegated(child, started)
    parent.scope.check()
    if state.status == "paused":
        ctx.paused += state.interrupts
        raise ChildPaused
    return child.turn()


class ChildPaused(BaseException):
    """Leaves a tool whose child waits for a person. No `Exception`, so that few tools go on by mistake."""
