"""The door to a store: it may be anybody's, so what it raises becomes ours, and what it fails to say is asked for."""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from ..errors import CheckpointError, MinideepError, ThreadConflict, UnknownThread
from ..ports import Store

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds that an append waits for other writers where no event loop waits for it."""
UPKEEP_PATIENCE = 1.0
"""The same for what is done after a turn and can be left to the next one: appends wait behind it."""
logger = logging.getLogger("minideep")


def translate_errors(act: Callable[..., T], *args: Any) -> T:
    """What the store gives.

    Raises:
        CheckpointError: the store failed, however it did.
    """
    try:
        return act(*args)
    except Exception as exc:  # The store door: whatever a store raises, its caller must be able to go on.
        raise as_checkpoint_error(exc) from exc


def as_checkpoint_error(exc: Exception) -> MinideepError:
    if isinstance(exc, MinideepError):
        return exc
    if isinstance(exc, TimeoutError) and str(exc):
        return CheckpointError(str(exc))  # The store's own word that others have it.
    return CheckpointError(f"the store failed: {type(exc).__name__}: {exc}")


def stored_head(store: Store, thread_id: str) -> bytes | None:
    """The head row as it is stored, whatever it says.

    Raises:
        CheckpointError: the store failed.
    """
    return translate_errors(store.head, thread_id)


def put(
    store: Store,
    thread_id: str,
    expected: bytes | None,
    head: bytes | None,
    rows: Mapping[str, bytes],
    deletes: Iterable[str] = (),
) -> None:
    """Append patiently; one that landed is done, even if the report of it was lost. *head* is a new one, or None.

    Raises:
        ThreadConflict: the store holds something else than was expected; nothing was changed.
        CheckpointError: the store failed.
    """
    try:
        translate_errors(partial(store.append, timeout=PATIENCE), thread_id, expected, head, rows, deletes)
    except ThreadConflict:
        raise
    except CheckpointError:
        if stored_head(store, thread_id) != head:
            raise


def release_quietly(store: Store, name: str) -> None:
    """Release what was held. What it was held for is done, so a store that fails at that is only told of."""
    try:
        translate_errors(store.release, name)
    except CheckpointError as exc:
        logger.warning("%r could not be let go of", name.rstrip("~"), exc_info=exc)


def unknown(thread_id: str) -> UnknownThread:
    return UnknownThread(f"there is no thread {thread_id!r}; `threads()` lists those that are")
