"""What is done to a thread once its turn is over and the answer is out: joining, and what retention asks for."""

import logging
from collections.abc import Callable
from typing import Any

from . import retention
from .joining import join
from .journal import Journal

logger = logging.getLogger("minideep")
OVER = ("ended", "failed", "exhausted", "escalated")


def after_turn(journal: Journal) -> None:
    """Hand over to the store's thread what is due, if anything is."""
    store, thread_id = journal.store, journal.thread_id
    for path, tail in journal.tails.items():
        over = bool(path) and path in journal.states and journal.states[path].status in OVER
        for group in tail.take(over=over):
            keys, gained = [piece.key for piece in group], journal.gained
            _later(journal, lambda keys=keys, gained=gained: gained.append(join(store, thread_id, keys)))
    if retention.is_due(store, journal.head):
        _later(journal, lambda: retention.cut(store, thread_id))
    if store.retention.seconds is not None:
        _later(journal, lambda: retention.expire(store))


def _later(journal: Journal, act: Callable[[], Any]) -> None:
    def guarded() -> None:
        try:
            act()
        except Exception as exc:  # The store door: the turn is saved and over; the next one tries again.
            logger.warning("upkeep of thread %s failed", journal.thread_id, exc_info=exc)

    try:
        journal.store.executor.submit(guarded)
    except RuntimeError as exc:  # The store is closing, or the program ends: the next one does it.
        logger.warning("upkeep of thread %s is left to whoever is next", journal.thread_id, exc_info=exc)
