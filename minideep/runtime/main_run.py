"""Driving the main run in a task of its own: a cancellation must not cut off what is still to be recorded."""

import asyncio

from .cancel import TurnTask, leave, result_of
from .loop import drive
from .run import Run


async def drive_main(run: Run, *, detached: bool) -> None:
    """Drive the main run to its boundary. When cancelled, tools have a grace period and are then left behind.

    The task of a *detached* turn is our own: only a loop that is being closed cancels it.
    """
    scope = run.scope
    if scope.cut:  # While its input was being saved. A task that is cancelled before it begins would warn of `drive`.
        run.close()
        _close(run)
        return
    # In a task of its own: the caller's cancellation must not cut off what still has to be recorded.
    task = TurnTask(drive(run), scope)
    try:
        await scope.until_stopped()
        if not task.done():
            await leave(task, scope.grace)
    except asyncio.CancelledError:
        # If the loop is being closed, nobody has decided that the turn should end.
        scope.request_cancel("shutdown" if detached or task.loop_ends else "caller")
        await leave(task, scope.grace)
        raise
    except GeneratorExit:  # The loop was closed, and the garbage collector ends what it has left.
        scope.cut = scope.cut or "shutdown"
        raise
    finally:
        _close(run)
    # A tool that cancelled this very task, not knowing whose it is, has made the turn `cancelled`: return it as such.
    if task.done() and not task.cancelled():  # Otherwise it was left behind.
        result_of(task)


def _close(run: Run) -> None:
    """Close the turn for good. What still runs of it was left behind and is recorded as cancelled, leaves first."""
    for path, state in sorted(run.journal.states.items(), key=lambda item: -len(item[0])):
        if state.status == "running" and (event := run.scope.event()):
            run.record_at(path, event) if path else run.end(event)
    run.scope.close()  # Last: nothing can be recorded afterwards.
