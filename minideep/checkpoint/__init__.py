"""Shim."""

import contextlib

from ..ports import Store as CheckedStore
from .batch import off_loop
from .journal import Durability, Journal, open_thread
from .memory import MemoryCheckpointer
from .redaction import Redact
from .store import release_quietly, stored_head, unknown as unknown_thread


def exists(store, thread_id):
    return stored_head(store, thread_id) is not None


def open_store(store):
    return store


@contextlib.asynccontextmanager
async def hold_thread(store, thread_id, wait):
    from . import pace
    from .waiting import take, wait_for

    await pace.wait()
    await (wait_for if wait else take)(store, thread_id)
    try:
        yield
    finally:
        release_quietly(store, thread_id)


import importlib as _il


def _m(n):
    return _il.import_module("minideep.checkpoint." + n)


class _Face:
    pass


def _read(store, thread_id, read):
    found = _m("log").read_consistently(store, thread_id, lambda l: (read(l),))
    if found is None:
        raise unknown_thread(thread_id)
    return found[0]


def get_state(store, thread_id, *, subagents=False, at=None):
    live = _m("live")
    log = _m("log")
    if at is None and (events := live.pending(store, thread_id)):
        return _read(store, thread_id, lambda l: live.read_state(l, events, subagents))
    return _read(store, thread_id, lambda l: log.read_state(l, at, subagents))


def boundaries(store, thread_id, call_id=None):
    h = _m("history")
    return _read(store, thread_id, lambda l: list(h.boundaries(l, h.find_run(l, call_id))))


def transcript(store, thread_id, call_id=None):
    h = _m("history")
    return _read(store, thread_id, lambda l: [m for _, m in h.said(l, h.find_run(l, call_id))])


def runs(store, thread_id):
    live = _m("live")
    h = _m("history")
    events = live.pending(store, thread_id)
    return _read(store, thread_id, lambda l: live.runs(l, events) if events else h.runs(l))


def diff(store, thread_id, a, b):
    h = _m("history")
    return _read(store, thread_id, lambda l: h.difference(l, a, b))


def read_file(store, thread_id, file, at=None):
    h = _m("history")
    return _read(store, thread_id, lambda l: h.content(l, file, at))


def export(store, thread_id):
    h = _m("history")
    return _read(store, thread_id, lambda l: list(h.lines(l)))


def threads(store):
    return _m("history").threads(store)


def fork_thread(store, a, b, c):
    return _m("fork").fork(store, a, b, c)


def delete(store, t):
    return _m("retention").delete(store, t)


def __getattr__(name):
    if name in ("Boundary", "Difference"):
        return getattr(_m("history"), name)
    if name in ("RunInfo", "ThreadInfo"):
        return getattr(_m("layout"), name)
    raise AttributeError(name)
