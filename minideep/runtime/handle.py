"""Turns that outlive their callers: `Agent.start` and the handle that it returns."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic

from ..checks import word_of_others
from ..errors import ThreadBusy
from ..tools import R
from ..turn import Turn
from .live import LiveTurn

Begin = Callable[[Callable[[LiveTurn], None]], Coroutine[Any, Any, Turn[R]]]
"""Runs a turn; what it is given is called before the input is recorded."""


class Handle(Generic[R]):
    """A turn that was started: `turn = await handle`. Dropping the handle, or cancelling who awaits it, changes
    nothing: the turn goes on. `Agent.cancel` ends it.
    """

    def __init__(self, live: LiveTurn, task: "asyncio.Task[Turn[R]]") -> None:
        self.thread_id: str = live.journal.thread_id
        self.number: int = live.number
        """The number of the last event before the turn: `follow(thread_id, after=handle.number)` yields this turn."""
        self._task = task

    if not TYPE_CHECKING:
        __getattr__ = word_of_others

    def __await__(self) -> Generator[Any, None, Turn[R]]:
        return asyncio.shield(self._task).__await__()

    def __repr__(self) -> str:
        return f"<Handle of {self.thread_id!r}: {'over' if self._task.done() else 'running'}>"


async def start(begin: Begin[R], tasks: "set[asyncio.Task[Turn]]") -> Handle[R]:
    """Begin a turn in a task of its own, which stands in *tasks* while it runs. Return once its input is saved, or kept
    for the next append; raise what refused it.
    """
    starting = _Starting()
    task = asyncio.ensure_future(begin(starting.begun))
    tasks.add(task)  # The event loop itself keeps no task alive.
    task.add_done_callback(tasks.discard)
    task.add_done_callback(_retrieve)
    try:
        await asyncio.wait([task, starting.accepted], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        if starting.live is None:  # It still waits for its thread. Otherwise its input may be saved, and it goes on.
            task.cancel()
        raise
    if starting.live is None or not starting.live.accepted:
        if task.cancelled():  # Not by the caller, who would take a `CancelledError` for its own.
            raise ThreadBusy("the agent was closed while this turn waited for its thread; nothing was done")
        task.result()  # Raises why it was refused.
    assert starting.live is not None
    return Handle(starting.live, task)


class _Starting:
    """Waits until a turn has accepted its input."""

    def __init__(self) -> None:
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.live: LiveTurn | None = None

    def begun(self, live: LiveTurn) -> None:
        self.live, live.accepting = live, self.accepted
        live.feed()  # From the beginning: a text under way must come whole to whoever follows.


def _retrieve(task: "asyncio.Task[Turn]") -> None:
    if not task.cancelled():
        task.exception()  # Or asyncio warns of it when nobody awaits the handle.
