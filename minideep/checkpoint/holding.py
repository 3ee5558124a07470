"""Holding a thread for a turn."""

import contextlib
import math
from collections.abc import AsyncGenerator

from ..errors import ThreadBusy
from ..ports import Opened
from . import pace
from .store import CheckedStore


@contextlib.asynccontextmanager
async def hold_thread(store: CheckedStore, thread_id: str, wait: bool) -> AsyncGenerator[Opened]:
    """Hold a thread for a turn: from before its first effect until its boundary is saved. With *wait*, wait for it.

    Raises:
        ThreadBusy: another run, in this or another process, has it.
    """
    await pace.wait()  # 10,000 turns that begin at once would otherwise stop the loop for seconds.
    opened = await store.open(thread_id, wait=math.inf if wait else 0.0)
    if opened is None:
        raise ThreadBusy(f"thread {thread_id!r} is being run; wait for it with `wait=True`, or use another thread")
    try:
        yield opened
    finally:
        opened.lease.release()
