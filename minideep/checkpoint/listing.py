"""Listing the threads of a store, by their head rows alone."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from ..documented import Struct
from ..errors import CheckpointError, CorruptSegment
from ..state import Status
from . import layout
from .store import CheckedStore


class ThreadInfo(Struct, frozen=True):
    """A thread of a store: an item of `Agent.threads()`."""

    thread_id: str
    agent: str
    status: Status | Literal["damaged"]
    """`damaged` if the thread's head row cannot be read: then *problem* says why, and the other fields are empty."""
    turns: int
    title: str
    created: float
    updated: float
    """Seconds since 1970."""
    bytes_raw: int
    bytes_stored: int
    problem: str = ""
    tags: Mapping[str, str] = MappingProxyType({})
    """Those of the last turn that had any: see `Agent.with_options`."""


def threads(
    store: CheckedStore,
    prefix: str = "",
    limit: int | None = None,
    status: Status | Literal["damaged"] | None = None,
    tags: Mapping[str, str] | None = None,
) -> list[ThreadInfo]:
    """Return the threads of the store whose ids begin with *prefix*, and that have this *status* and these *tags*, if
    any are given: at most *limit*, the last used one first; at the end those whose head row is damaged.
    """
    found = [_thread(key, data) for key, data in store.all_heads(layout.head_key(prefix))]
    if status is not None:
        found = [info for info in found if info.status == status]
    if tags:
        found = [info for info in found if tags.items() <= info.tags.items()]
    return sorted(found, key=lambda info: -info.updated)[:limit]


def _thread(key: str, data: bytes) -> ThreadInfo:
    thread_id = layout.thread_of(key)
    try:
        # Another spelling of an id would list its thread twice.
        if key != layout.head_key(thread_id):
            raise CorruptSegment(f"row {key!r} is not named as the head of a thread is")
        head = layout.read_head(thread_id, data)
    except CheckpointError as exc:  # A thread that cannot be read must not hide the others.
        return ThreadInfo(thread_id, "", "damaged", 0, "", 0.0, 0.0, 0, 0, str(exc))
    times, sizes = (head.created, head.updated), (head.bytes_raw, head.bytes_stored)
    return ThreadInfo(thread_id, head.agent, head.status, head.turn, head.title, *times, *sizes, tags=head.tags)
