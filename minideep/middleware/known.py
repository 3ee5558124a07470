"""`Known`: what a middleware has found out about each run, kept from one turn of a thread to the next."""

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from ..context import ToolContext
from ..state import StateView

K = TypeVar("K")


class Known(Generic[K]):
    """Keeps what *make* returns for each run. It is called once a turn, with what it made for the turn before, or None.

    It is kept for as long as the run's state is in memory. A thread that another process has continued, that was
    forked or rolled back, or that was not used for long, is read from the store into a new state, of which nothing is
    known. So *make* need only find out what may have changed between two turns of one state.

    *make* returns a copy: work that an earlier turn left behind may still change what that turn knew.
    """

    def __init__(self, make: Callable[[K | None], K]) -> None:
        self._make = make
        self._by_run: WeakKeyDictionary[StateView, K] = WeakKeyDictionary()

    def of(self, ctx: ToolContext) -> K:
        """Return what is known of the run of *ctx*; the same object throughout a turn."""
        found: K | None = ctx.scratch.get(self)
        if found is None:
            found = ctx.scratch[self] = self._by_run[ctx.state] = self._make(self._by_run.get(ctx.state))
        return found
