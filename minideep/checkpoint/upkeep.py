"""What is done to a thread once its turn is over and the answer is out: joining, and what retention asks for."""

import logging
from collections.abc import Callable
from typing import Any

from . import retention
from .joining import join
from .journal import Journal

logger = logging.getLogger("minideep")
OVER = ("ended", "failed", "exhausted", "escalated")


def note_what_is_due(journal: Journal) -> None:
    """Find what is to be done now that a turn is saved, while its runs are at hand."""
    store, thread_id, bytes_reclaimed = journal.store, journal.thread_id, journal.bytes_reclaimed
    jobs: list[Callable[[], Any]] = []
    for path, tail in journal.tails.items():
        over = bool(path) and path in journal.states and journal.states[path].status in OVER
        for group in tail.take(over=over):
            keys = [piece.key for piece in group]
            jobs.append(lambda keys=keys: bytes_reclaimed.append(join(store, thread_id, keys)))
    if retention.is_due(store, journal.head):
        jobs.append(lambda: retention.cut(store, thread_id))
    if store.retention.seconds is not None:
        jobs.append(lambda: retention.expire_now_and_then(store))
    journal.due = [*journal.due, *jobs]


def hand_over(journal: Journal) -> None:
    """Have the store's thread do what is due, one after the other. No turn may hold the thread any more."""
    jobs, journal.due = journal.due, ()
    for act in jobs:
        try:
            journal.store.executor.submit(_guarded, journal.thread_id, act)
        except RuntimeError as exc:  # The store is closing, or the program ends: the next one does it.
            logger.warning("upkeep of thread %s is left to whoever is next", journal.thread_id, exc_info=exc)


def _guarded(thread_id: str, act: Callable[[], Any]) -> None:
    try:
        act()
    except Exception as exc:  # The store door: the turn is saved and over; the next one tries again.
        logger.warning("upkeep of thread %s failed", thread_id, exc_info=exc)
