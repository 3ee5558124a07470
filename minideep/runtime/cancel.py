"""Cancellation: one scope a turn says whether it may go on, and work that must end gets a grace period."""

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, Literal, TypeVar

from ..errors import ThreadConflict
from ..events import TurnCancelled

T = TypeVar("T")
Cut = Literal["", "caller", "agent", "shutdown"]
GRACE = 5.0
"""Seconds that cancelled work has to end before it is left behind."""


class TurnScope:
    """The status of a turn, shared by its main run and all runs below it.

    * `open`: it may go on.
    * `cancelling`: its caller has cancelled it; tools have *grace* seconds to end.
    * `lost`: another writer has gone on with the thread, so nothing more can be saved.
    * `closed`: it is over; what still runs of it was left behind and must change nothing.

    A turn that is cancelled says by whom: *cut* is `caller`, `agent` (`Agent.cancel`, with a *reason*) or `shutdown`.
    """

    __slots__ = ("_stopped", "conflict", "cut", "grace", "reason", "status")

    def __init__(self, grace: float = GRACE) -> None:
        self.status: Literal["open", "cancelling", "lost", "closed"] = "open"
        self.conflict: ThreadConflict | None = None
        self.grace: float = grace
        self.cut: Cut = ""
        self.reason: str = ""
        self._stopped: asyncio.Future[None] | None = None

    def request_cancel(self, cut: "Cut" = "caller", reason: str = "") -> None:
        """Cancel the turn. The first who does so says why it was cut."""
        if not self.cut:
            self.cut, self.reason = cut, reason
        if self.status == "open" and self._stopped is not None:  # A lost turn stays lost.
            self.status = "cancelling"
        self.stop_waiting()

    async def until_stopped(self) -> None:
        """Wait until the task that drives the turn is over, or until `request_cancel` is called."""
        self._stopped = stopped = asyncio.get_running_loop().create_future()
        if self.cut:  # It was cancelled while its input was being saved.
            self.request_cancel()
        await stopped

    def stop_waiting(self, *_: object) -> None:
        """Wake `until_stopped`, unless its loop is gone."""
        stopped = self._stopped
        if stopped is not None and not stopped.done() and not stopped.get_loop().is_closed():
            stopped.set_result(None)

    def event(self) -> TurnCancelled | None:
        """Return the event that ends a cancelled run. None if the turn is cut short by a shutdown: it can be resumed,
        as after a crash, and nobody has decided that it should end.
        """
        return None if self.cut == "shutdown" else TurnCancelled(time.time(), self.reason)

    def lose(self, conflict: ThreadConflict) -> None:
        # Kept beside the status: a turn that is closed must still say why it was not saved.
        self.conflict = conflict
        if self.status != "closed":
            self.status = "lost"

    def close(self) -> None:
        self.status = "closed"

    def cancel_requested(self) -> bool:
        """Return whether somebody asked this task to end; a `CancelledError` that nobody asked for is a bug."""
        task = asyncio.current_task()
        return self.status == "cancelling" or (task is not None and task.cancelling() > 0)

    def check(self, task: "asyncio.Task[Any] | None" = None) -> None:
        """Raise what ends the turn, even if a tool, a hook or a model has swallowed it. *task* is the current one.

        Raises:
            ThreadConflict: the thread is lost.
            CancelledError: the turn is cancelled or closed.
        """
        # Before a cancellation, which would promise a thread that was saved and can be resumed.
        if self.conflict is not None:
            raise self.conflict
        if self.status != "open":
            raise asyncio.CancelledError
        task = task or asyncio.current_task()
        # A `TaskGroup` that failed in a tool, a hook or a model has cancelled this task, and Python 3.11 does not take
        # that back: the next `await` would end a turn that nobody cancelled.
        while task is not None and task.cancelling():
            task.uncancel()


class TurnTask(asyncio.Task[None]):
    """The task that drives a turn. It tells the end of its event loop from every other cancellation."""

    def __init__(self, work: Coroutine[Any, Any, None], scope: TurnScope) -> None:
        self._scope = scope
        self.loop_ends: bool = False
        """True once it was cancelled while the loop did not run: as `asyncio.run` does with all that is left. A count
        of cancellations does not tell: anyio, and so the SDKs, cancel a task for a moment whenever a timeout or one of
        several connections is over.
        """
        super().__init__(_driven(work, scope))

    def cancel(self, msg: Any | None = None) -> bool:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.loop_ends = True
        if not self.done():  # A task that is cancelled before it begins runs nothing of its work.
            self.add_done_callback(self._scope.stop_waiting)
        return super().cancel(msg)


async def _driven(work: Coroutine[Any, Any, None], scope: TurnScope) -> None:
    try:
        await carried(work)
    finally:
        scope.stop_waiting()  # A callback of the task would do it one round of the loop later.


class Carried(Exception):
    """Holds a `SystemExit` or `KeyboardInterrupt` of a task of ours. Raised by the task itself, it would stop the event
    loop before the turn is saved; `result_of` raises it where the task is awaited.
    """


async def carried(work: Awaitable[T]) -> T:
    """Await *work*. This is the body of a task of its own.

    Raises:
        Carried: it raised `SystemExit` or `KeyboardInterrupt`.
    """
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as exc:
        raise Carried(exc) from None


def result_of(task: "asyncio.Future[T]") -> T:
    """Return the result of a task or a thread, or raise whatever it raised."""
    try:
        return task.result()
    except Carried as exc:
        raise exc.args[0] from None


async def side_by_side(work: Iterable[Coroutine[Any, Any, None]], scope: TurnScope) -> None:
    """Run calls, each in a task of its own, and wait for all; then raise what the first of them raised.

    Once the thread is lost nothing that they do can be saved, so the others are cancelled.
    """
    loop = asyncio.get_running_loop()

    async def carry(call: Coroutine[Any, Any, None]) -> None:
        try:
            await carried(call)
        finally:
            if scope.status == "lost":
                for task in tasks:
                    task.cancel()

    # Not a `TaskGroup`: when one call fails it cancels the others, and their finished work would be lost.
    tasks = [loop.create_task(carry(call)) for call in work]
    try:
        # One after the other, as most are over with the first: a callback for each would cost more than its task.
        for task in tasks:
            if not task.done():
                await asyncio.wait([task])
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        # Each has its grace period, and records its result if it ends within it.
        await asyncio.wait(tasks)
        raise
    failed = [task for task in tasks if not task.cancelled() and task.exception()]
    if failed:
        result_of(failed[0])


async def leave(work: "asyncio.Future[Any]", grace: float, *, cancel: bool = True) -> None:
    """Give *work* up to *grace* seconds to end, cancelled or not, and leave it behind if it does not."""
    begun: bool | None = getattr(work, "begun", None)  # Of a `ThreadCall`; a task has none.
    # A call that still waits for a thread has done nothing yet, so nothing of it is lost.
    if cancel or begun is False:
        work.cancel()
    await asyncio.wait([work], timeout=grace)
    if begun is not None:
        work.cancel()  # A thread that was left behind no longer counts against the bound of the process.
    work.add_done_callback(_retrieve)


async def within(seconds: float, work: Awaitable[object], grace: float) -> bool:
    """Await *work*, but cancel it after *seconds*. Return whether it ended without an error.

    Once cancelled it has *grace* seconds to end, and what it raises then is dropped.
    """
    task = asyncio.ensure_future(carried(work))
    try:
        await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        await leave(task, grace)
        raise
    if task.done():
        result_of(task)
        return True
    await leave(task, grace)
    return task.done() and not task.cancelled() and task.exception() is None


def _retrieve(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled():
        task.exception()  # Or asyncio warns of the exception of work that was left behind.
