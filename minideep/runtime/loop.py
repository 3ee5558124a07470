"""The loop: decide, perform, apply, until the turn hands over. Everything else is a tool, a hook or a store.

Nothing is saved here at a turn's two ends: the owner of the main run appends its events before and after.
"""

import asyncio
import time
from time import perf_counter
from types import NoneType
from typing import Literal

from ..context import DRIVEN, ToolContext
from ..core import decide
from ..effects import CallModel, CallTools, Finish, Pause
from ..errors import MinideepError, ModelError
from ..events import TurnEnded, TurnExhausted, TurnPaused, UserSaid
from ..messages import ToolCall, UserMessage
from ..ports import Request
from ..turn import failed
from .calls import call_tool
from .cancel import side_by_side, within
from .hooks import call_hook, changed_request
from .model_calls import WrappedModel, call_directly
from .run import Run

OPEN = ("ready", "decided", "started")
"""The phases of a call that has neither an answer nor waits for a person."""


async def drive(run: Run) -> None:
    """Drive *run* to a boundary. An error of this package is recorded as one; any other is a bug, and is raised.

    `run.state` is the object that the journal applies events to: whatever is recorded, `decide` sees.
    """
    ctx, state, scope, task, above = ToolContext(run), run.state, run.scope, asyncio.current_task(), DRIVEN.get()
    DRIVEN.set(run)
    try:
        while state.status == "running":
            # Before each step: a tool, a hook or a model may have swallowed the cancellation.
            if scope.status != "open" or (task is not None and task.cancelling()):
                scope.check(task)
            match decide(state):
                case CallModel():
                    # Without a budget a question needs no task and no timer of its own.
                    await (call_model_in_time if run.budgets else call_model)(run, ctx)
                case CallTools(calls):
                    await call_tools(run, calls)
                case Finish(reason):
                    await finish(run, ctx, reason)
                case Pause():
                    run.end(TurnPaused(time.time()))
                case stop:
                    run.end(TurnExhausted(time.time(), stop.limit))
    except asyncio.CancelledError:
        # Otherwise something cancelled itself, and nobody waits for a `CancelledError`.
        if scope.cancel_requested():
            end_cut(run)
            raise
        run.end(failed(ModelError("the model, or a hook, cancelled itself"), time.time()))
    # Any other exception is a bug of this package: it is raised, and no failure of the turn is made of it.
    except MinideepError as exc:
        run.end(failed(exc, time.time()))
    finally:
        DRIVEN.set(above)  # Not by its token, which another context refuses: the garbage collector may end a turn.
        run.close()


def end_cut(run: Run) -> None:
    """End a run whose turn was cancelled, unless one of several calls has escalated."""
    # If nobody has said yet who cut the turn, its owner knows.
    if run.scope.cut and run.state.status == "running" and (event := run.scope.event()):
        run.end(event)


async def call_model_in_time(run: Run, ctx: ToolContext) -> None:
    """Call the model, but no longer than a budget of seconds allows. A reply that arrives after all still counts."""
    left = run.seconds_left()
    if left is None:
        await call_model(run, ctx)
    elif not await within(left, call_model(run, ctx), run.scope.grace) and run.state.status == "running":
        run.end(TurnExhausted(time.time(), "seconds"))


async def call_model(run: Run, ctx: ToolContext) -> None:
    """Ask the model once, and record its reply."""
    run.ledger.close_step()
    # The next reply begins children of its own.
    run.begun, run.has_new_budget, spec = 0, False, run.spec
    # Before the model call, so that what was paid for so far is not paid again after a crash.
    if "step" in run.saves_at:
        await run.checkpoint()
    if run.live.inbox and run.parent is None:
        run.live.hear(run.record)
    # A view: copying the messages at every step would make a long run quadratic.
    request = Request(spec.system, run.view.messages, spec.tool_list)
    if spec.before_model:
        request = await changed_request(spec, ctx, request)
    # After the hooks: a compaction among them spends tokens too.
    if run.budgets and run.state.status == "running" and (stopped := run.over_budget()):
        run.end(stopped)
    if run.state.status != "running":
        return  # A hook has escalated, or a budget is spent.
    if spec.wrap_model:
        run.wrapped = run.wrapped or WrappedModel(run, ctx)
        await run.wrapped.call(request)
    else:
        await call_directly(run, request)


async def call_tools(run: Run, calls: tuple[ToolCall, ...]) -> None:
    """Run calls side by side; each result is recorded as soon as it is there."""
    # Before its calls have effects: after a crash the model could ask for others in their place.
    if "reply" in run.saves_at:
        await run.checkpoint()
    started, saved_before = perf_counter(), run.ledger.total.save_s
    try:
        # One call needs no task of its own: if it never ends, the owner of the turn leaves the whole run behind.
        if len(calls) == 1:
            await call_tool(run, calls[0])
        else:
            await side_by_side([call_tool(run, call) for call in calls], run.scope)
    finally:
        run.ledger.add_tools_time(started, saved_before)
    if run.budgets and run.state.status == "running":
        left = [entry for call in calls if (entry := run.state.open.get(call.id)) and entry.phase in OPEN]
        # A budget has stopped a child, whose call stays open until the turn is resumed.
        if left and (stopped := run.over_budget()):
            run.end(stopped)


async def finish(run: Run, ctx: ToolContext, reason: Literal["done", "truncated", "refused"]) -> None:
    """End the turn, unless a middleware has one more message for the model, or escalates."""
    for middleware in run.spec.before_finish:
        message = await call_hook(middleware, "before_finish", (UserMessage, NoneType), ctx)
        if message is not None:
            if type(message.content) is not str:
                from ..content import message_of_hook  # Seldom needed.

                message = message_of_hook(f"{middleware.name}.before_finish", message)
            run.record(UserSaid(message, time.time(), by=middleware.name))
            return  # The hooks after it are asked when the model has answered.
    if run.live.inbox and run.parent is None and run.state.status == "running" and run.live.hear(run.record):
        return
    if run.state.status == "running":  # A hook may have escalated.
        run.end(TurnEnded(time.time(), reason))
