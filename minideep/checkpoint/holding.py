"""Holding a thread for a turn."""

import math

from ..errors import ThreadBusy
from ..ports import Opened
from . import pace
from .store import CheckedStore


class HeldThread:
    """Holds a thread, from before the first effect of a turn until its boundary is saved: `async with HeldThread(...)`.
    With *wait*, waits for it.

    Raises:
        ThreadBusy: another run, in this or another process, has it.
    """

    # A class, as a generator function would cost each turn five times as much.
    __slots__ = ("_opened", "_store", "_thread_id", "_wait")

    def __init__(self, store: CheckedStore, thread_id: str, wait: bool) -> None:
        self._store, self._thread_id, self._wait = store, thread_id, wait

    async def __aenter__(self) -> Opened:
        await pace.wait()  # 10,000 turns that begin at once would otherwise stop the loop for seconds.
        opened = await self._store.open(self._thread_id, wait=math.inf if self._wait else 0.0)
        if opened is None:
            how = "wait for it with `wait=True`, or use another thread"
            raise ThreadBusy(f"thread {self._thread_id!r} is being run; {how}")
        self._opened = opened
        return opened

    async def __aexit__(self, *exc: object) -> None:
        self._opened.lease.release()
