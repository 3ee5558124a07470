"""Several attempts at one reply: the next one is made when an attempt fails in a way that may pass."""

import math
from collections.abc import Awaitable, Callable, Sequence

from ..events import Restarted, StreamEvent
from ..ports import Emit, Reply

Attempt = Callable[[Emit | None], Awaitable[Reply]]


async def first_reply(
    attempts: Sequence[Attempt], emit: Emit | None, *retried: type[Exception], patience: float = math.inf
) -> Reply:
    """Return the reply of the first attempt that succeeds.

    The next attempt is made after one of the *retried* exceptions, unless its `transient` is False or its `retry_after`
    is longer than *patience* seconds. What listeners received of the failed attempt is withdrawn with `Restarted`. The
    exception of the last attempt is raised.
    """
    deltas = _Deltas(emit) if emit else None
    for attempt in attempts[:-1]:
        try:
            return await attempt(deltas)
        except retried as exc:
            if not getattr(exc, "transient", True) or (getattr(exc, "retry_after", None) or 0) > patience:
                raise
            if deltas:
                deltas.withdraw()
    return await attempts[-1](emit)


class _Deltas:
    """Passes events on to *emit* and remembers whether there is something to withdraw."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._received = False

    def __call__(self, event: StreamEvent) -> None:
        # An attempt that itself has restarted has withdrawn its deltas already.
        self._received = not isinstance(event, Restarted)
        self._emit(event)

    def withdraw(self) -> None:
        if self._received:
            self(Restarted())
