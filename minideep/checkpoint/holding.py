"""Holding a thread: for a turn, now or after all those who wait for it; or for a moment, for maintenance."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator

from ..errors import ThreadBusy
from . import pace
from .layout import lock_name
from .store import WRITE_TIMEOUT, CheckedStore

QUEUE_PAUSE = 0.005
"""Seconds between two attempts to be the next one who waits for a thread."""


@contextlib.asynccontextmanager
async def hold_thread(store: CheckedStore, thread_id: str, wait: bool) -> AsyncGenerator[None]:
    """Hold a thread for a turn: from before its first effect until its boundary is saved. With *wait*, wait for it.

    Raises:
        ThreadBusy: another run, in this or another process, has it.
    """
    await pace.wait()  # 10,000 turns that begin at once would otherwise stop the loop for seconds.
    await (_wait_for if wait else _take)(store, thread_id)
    try:
        yield
    finally:
        store.release_quietly(thread_id)


async def _take(store: CheckedStore, thread_id: str) -> None:
    """Hold the thread now, or after maintenance, which takes but a moment.

    Raises:
        ThreadBusy: another run has it or waits for it.
    """
    until, pause = time.monotonic() + WRITE_TIMEOUT, 0.001
    while not _is_free(store, thread_id):
        if not _in_maintenance(store, thread_id) or time.monotonic() > until:
            if _is_free(store, thread_id):
                return  # It was released between the two questions.
            raise ThreadBusy(f"thread {thread_id!r} is being run; wait for it with `wait=True`, or use another thread")
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.05)


def _is_free(store: CheckedStore, thread_id: str) -> bool:
    """Hold the thread unless somebody has it or waits for it; return whether that was so."""
    turnstile = lock_name(thread_id, "turnstile")
    if not store.hold(turnstile):  # Taking the thread now would pass those who wait.
        return False
    try:
        return store.hold(thread_id)
    finally:
        store.release_quietly(turnstile)


async def _wait_for(store: CheckedStore, thread_id: str) -> None:
    """Hold the thread as soon as those who came before have had it.

    One waiter at a time stands in the turnstile, and nobody who comes later can take the thread meanwhile. The others
    queue: on one event loop in the order of their coming. The first of each loop and process has the same chance as
    any other, however long it has waited, since all try equally often.
    """
    key = (id(asyncio.get_running_loop()), thread_id)  # The loop lives as long as anybody waits on it.
    # Only the first of a queue polls: a thousand pollers would keep the store from those who work.
    queue = store.queues.get(key)
    if queue is None:
        queue = store.queues[key] = asyncio.Lock()
    turnstile = lock_name(thread_id, "turnstile")
    async with queue:
        await _poll(store, turnstile, QUEUE_PAUSE, QUEUE_PAUSE)
        try:
            await _poll(store, thread_id, 0.001, 0.002)  # Meanwhile nobody else can get the thread.
        finally:
            store.release_quietly(turnstile)


async def _poll(store: CheckedStore, name: str, pause: float, max_pause: float) -> None:
    """Hold *name* once it is free, trying about every *pause* seconds, then less often, up to every *max_pause*."""
    while not store.hold(name):
        # Not all at the same time, or the same process could win every time.
        await asyncio.sleep(random.uniform(0.5, 1.5) * pause)
        pause = min(2 * pause, max_pause)


def _in_maintenance(store: CheckedStore, thread_id: str) -> bool:
    """Return whether a thread that is held is so for maintenance, and not by a turn."""
    mark = lock_name(thread_id, "maintenance")
    if not store.hold(mark):
        return True
    store.release_quietly(mark)
    return False
