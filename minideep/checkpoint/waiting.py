"""Taking a thread for a turn: now or not at all, or after all those who wait for it already."""

import asyncio
import random
import time
from weakref import WeakValueDictionary

from ..errors import ThreadBusy
from ..ports import Store
from .retention import in_upkeep
from .store import PATIENCE, release_quietly, translate_errors

_queues: "WeakValueDictionary[tuple[int, int, str], asyncio.Lock]" = WeakValueDictionary()
"""Those on one event loop who wait for a thread."""
QUEUE_PAUSE = 0.005
"""Seconds between two tries to be the next one who waits for a thread."""


async def take(store: Store, thread_id: str) -> None:
    """Hold the thread now, or once it is tidied up, for that takes no time.

    Raises:
        ThreadBusy: another run, in whatever process, has it or waits for it.
    """
    until, pause = time.monotonic() + PATIENCE, 0.001
    while not _is_free(store, thread_id):
        if not in_upkeep(store, thread_id) or time.monotonic() > until:
            if _is_free(store, thread_id):
                return  # What held it is over now.
            raise ThreadBusy(f"thread {thread_id!r} is being run; wait for it with `wait=True`, or use another thread")
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.05)


def _is_free(store: Store, thread_id: str) -> bool:
    """Hold the thread, unless somebody has it or waits for it; return whether that was so."""
    if not translate_errors(store.hold, _turnstile(thread_id)):
        return False
    try:
        return translate_errors(store.hold, thread_id)
    finally:
        release_quietly(store, _turnstile(thread_id))


async def wait_for(store: Store, thread_id: str) -> None:
    """Hold the thread as soon as those have had it who came before.

    One waiter at a time stands in the turnstile, and nobody who comes later takes the thread meanwhile. Those behind it
    stand in line: on one event loop in the order in which they came, and the first of each loop and process has the
    same chance as any other, for it tries as often, however long it has been waiting.
    """
    key = (id(asyncio.get_running_loop()), id(store), thread_id)  # Both live as long as anybody waits here.
    queue = _queues.get(key)
    if queue is None:
        queue = _queues[key] = asyncio.Lock()
    async with queue:
        await _poll(store, _turnstile(thread_id), QUEUE_PAUSE, QUEUE_PAUSE)
        try:
            await _poll(store, thread_id, 0.001, 0.002)  # While it waits nobody else can have the thread.
        finally:
            release_quietly(store, _turnstile(thread_id))


async def _poll(store: Store, name: str, pause: float, longest: float) -> None:
    """Hold *name* once it is free; asks after about *pause* seconds, then less and less often, down to *longest*."""
    while not translate_errors(store.hold, name):
        await asyncio.sleep(random.uniform(0.5, 1.5) * pause)
        pause = min(2 * pause, longest)


def _turnstile(thread_id: str) -> str:
    """A name to hold that no thread has, nor what says that one is being tidied up."""
    return thread_id + 502 * "~"
