"""A thread that begins as another one was: compressed rows are copied as they are, what is large is shared."""

import secrets
import time

import msgspec
from msgspec import structs

from ..errors import ConfigError, CorruptSegment, ThreadConflict
from ..ports import Store
from ..state import Path, State
from . import format as codec, layout as names
from .layout import Head, RunRow
from .log import Log, check_owner, read_consistently, read_run, run_at, runs_at, state_at
from .store import put, stored_head, translate_errors, unknown


def fork(store: Store, thread_id: str, at: int | None, new_id: str) -> None:
    """Make the thread *new_id* from another one as it was at boundary *at*, or as it was last saved.

    Raises:
        UnknownThread: there is none of the name *thread_id*.
        ConfigError: there is no such boundary, or there is a thread *new_id*.
        CheckpointError: the thread cannot be read, or the store failed.
    """
    copied = read_consistently(store, thread_id, lambda log: _copied(log, at, new_id))
    if copied is None:
        raise unknown(thread_id)
    head, rows = copied
    try:
        put(store, new_id, None, msgspec.msgpack.encode(head), rows)
    except ThreadConflict:
        raise ConfigError(f"there is a thread {new_id!r} already; give the fork another id") from None


def _copied(log: Log, at: int | None, new_id: str) -> tuple[Head, dict[str, bytes]]:
    """The head and the rows of the new thread."""
    root, extent = (read_run(log, ())[0], log.head.number) if at is None else state_at(log, at)
    rows = _run_rows(log, (), extent, new_id)
    head = _head(log, root, extent, _last_base(rows, new_id, ()))
    for path in runs_at(log, extent):
        copied = _run_rows(log, path, extent, new_id)
        row = _row(log, path, extent, _last_base(copied, new_id, path))
        rows |= copied | {names.run_key(new_id, path): msgspec.msgpack.encode(row)}
    headers = [codec.read_header(data, key) for key, data in rows.items() if not key.startswith("run/")]
    head = structs.replace(head, raw=sum(header.raw for header in headers), stored=sum(map(len, rows.values())))
    for name in {name for header in headers for name in header.blobs}:
        rows |= names.use_rows(new_id, name) | {names.blob_key(name): _blob(log, name)}
    _check_unchanged(log)  # Last: all that is copied was there until now.
    return head, rows


def _check_unchanged(log: Log) -> None:
    """Make sure that what was read at several moments is what one moment would have shown: a log only grows, until
    it is cut or deleted.

    Raises:
        CorruptSegment: then it is read again.
    """
    now = stored_head(log.store, log.thread_id)
    head = None if now is None else names.read_head(log.thread_id, now)
    if head is None or (head.epoch, head.cut) != (log.head.epoch, log.head.cut):
        raise CorruptSegment(f"thread {log.thread_id!r} was cut or deleted meanwhile")


def _blob(log: Log, name: str) -> bytes:
    data = translate_errors(log.store.get, names.blob_key(name))
    if data is None:  # A row in its place would stand for it in every thread that names it.
        raise CorruptSegment(f"blob {name!r} is missing")
    return data


def _run_rows(log: Log, path: Path, extent: int, new_id: str) -> dict[str, bytes]:
    """The segments and bases of one run up to the event *extent*, for the new thread."""
    rows: dict[str, bytes] = {}
    prefix = names.log_prefix(log.thread_id, path)
    for key, data in translate_errors(log.store.rows, prefix, names.segments_from(log.thread_id, path, extent + 1)):
        part = codec.cut(data, key, extent, after=False) if codec.read_header(data, key).last > extent else data
        if part is not None:
            header = codec.read_header(part, key)
            check_owner(log, path, header, key)
            rows[names.segment_key(new_id, path, header.first, header.last)] = codec.moved(part, key, new_id)
    prefix = names.base_prefix(log.thread_id, path)
    for key, data in translate_errors(log.store.rows, prefix, names.base_key(log.thread_id, path, extent + 1)):
        check_owner(log, path, codec.read_header(data, key), key)
        rows[names.base_key(new_id, path, names.number_in(key))] = codec.moved(data, key, new_id)
    return rows


def _row(log: Log, path: Path, extent: int, base: int) -> RunRow:
    row, state = log.runs[path], run_at(log, path, extent)
    return structs.replace(
        row,
        status=state.status,
        last=state.number,
        steps=state.step,
        tokens=min(state.usage.total, 2**63),
        base=base,
        cost=state.cost,
        unknown=state.usage.unknown,
        unpriced=state.unpriced,
    )


def _last_base(rows: dict[str, bytes], thread_id: str, path: Path) -> int:
    """The newest base among *rows*: the store may have a newer one by now, which was not copied."""
    prefix = names.base_prefix(thread_id, path)
    return max((names.number_in(key) for key in rows if key.startswith(prefix)), default=0)


def _head(log: Log, root: State, extent: int, base: int) -> Head:
    return structs.replace(
        log.head,
        number=extent,
        epoch=secrets.token_bytes(8),
        append=secrets.token_bytes(8),
        last=root.number,
        format=codec.FORMAT,
        status=root.status,
        turn=root.turn,
        updated=time.time(),
        base=base,
    )
