"""Taking a thread that is not free: after all those who wait for it, or after maintenance; and for maintenance."""

import asyncio
import random
import time
from weakref import WeakValueDictionary

from ..ports import Purpose
from .sync_store import Locking, Space
from .waiting import may_block

QUEUE_PAUSE = 0.005
"""Seconds between two attempts to be the next one who waits for a thread."""
MAINTENANCE = 60.0
"""Seconds that a turn waits for the end of maintenance, which takes but a moment."""
_queues: WeakValueDictionary[tuple[int, int, str], asyncio.Lock] = WeakValueDictionary()
"""The runs of each event loop that wait for a thread of a store."""


async def take(store: Locking, thread: str, wait: float, purpose: Purpose) -> tuple[Space, ...] | None:
    """Lock *thread* and return the locks to release; None if somebody has it for longer than *wait* seconds."""
    if purpose == "maintenance":
        return await _take_for_maintenance(store, thread, wait)
    taken = await (_wait_for(store, thread, wait) if wait else _take(store, thread))
    return ("turns",) if taken else None


async def _take(store: Locking, thread: str) -> bool:
    """Take the thread now, or after maintenance; return False if another run has it or waits for it."""
    until, pause = time.monotonic() + MAINTENANCE, 0.001
    while not await store.take_now(thread):
        maintained = await store.is_held("maintenance", thread)
        if not maintained or time.monotonic() > until:
            return await store.take_now(thread)  # It may have been released between the two questions.
        await _sleep(pause)
        pause = min(2 * pause, 0.05)
    return True


async def _take_for_maintenance(store: Locking, thread: str, wait: float) -> tuple[Space, ...] | None:
    # The mark before the thread: a turn that finds the thread held must see that waiting is worth it.
    if not await _poll(store, "maintenance", thread, time.monotonic() + max(wait, MAINTENANCE), 0.001, 0.001):
        return None
    taken = False
    try:
        taken = await _poll(store, "turns", thread, time.monotonic() + wait, 0.001, 0.002)
    finally:
        if not taken:
            store.give_up(thread, "maintenance")
    return ("turns", "maintenance") if taken else None


async def _wait_for(store: Locking, thread: str, wait: float) -> bool:
    """Take the thread as soon as those who came before have had it; return False after *wait* seconds.

    One waiter at a time has the lock of the waiters, and nobody who comes later can take the thread meanwhile. The
    others queue: on one event loop in the order of their coming. The first of each loop and process has the same
    chance as any other, however long it has waited, since all try equally often.
    """
    until = time.monotonic() + wait
    if may_block():
        return await _next_one(store, thread, until)
    key = (id(asyncio.get_running_loop()), id(store), thread)  # Both live as long as anybody waits.
    # Only the first of a queue polls: a thousand pollers would keep the store from those who work.
    queue = _queues.get(key)
    if queue is None:
        queue = _queues[key] = asyncio.Lock()
    try:
        async with asyncio.timeout(wait if wait < 1e9 else None):
            await queue.acquire()
    except TimeoutError:
        return False
    try:
        return await _next_one(store, thread, until)
    finally:
        queue.release()


async def _next_one(store: Locking, thread: str, until: float) -> bool:
    if not await _poll(store, "waiters", thread, until, QUEUE_PAUSE, QUEUE_PAUSE):
        return False
    try:
        return await _poll(store, "turns", thread, until, 0.001, 0.002)  # Meanwhile nobody else can get the thread.
    finally:
        store.give_up(thread, "waiters")


async def _poll(store: Locking, space: Space, thread: str, until: float, pause: float, max_pause: float) -> bool:
    """Take a lock once it is free, trying about every *pause* seconds, then less often, up to every *max_pause*."""
    while not await store.hold(space, thread):
        if time.monotonic() >= until:
            return False
        # Not all at the same time, or the same process could win every time.
        await _sleep(random.uniform(0.5, 1.5) * pause)
        pause = min(2 * pause, max_pause)
    return True


async def _sleep(seconds: float) -> None:
    if may_block():
        time.sleep(seconds)  # noqa: ASYNC251 - No event loop drives this code, or its caller waits anyway.
    else:
        await asyncio.sleep(seconds)
