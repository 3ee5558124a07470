"""The row of each input that was accepted under a key."""

from collections.abc import Iterable
from hashlib import sha256

import msgspec

from ..events import UserSaid
from ..messages import UserMessage
from .batch import Pending
from .format import decode_recorded
from .layout import KeyRow, input_key


def key_rows(thread_id: str, epoch: bytes, pending: Iterable[Pending]) -> dict[str, bytes]:
    """Return the rows of the keys among *pending*, by their key in the store. *epoch* is that of the thread's head."""
    rows: dict[str, bytes] = {}
    for path, data, _ in pending:
        recorded = decode_recorded(data)
        event = recorded.event
        if not path and isinstance(event, UserSaid) and event.key:
            row = KeyRow(recorded.number, digest(event.message), epoch)
            rows[input_key(thread_id, event.key)] = msgspec.msgpack.encode(row)
    return rows


def digest(message: UserMessage) -> bytes:
    """Return what an input is known by: of the message as it is saved, without what `redact` took out."""
    return sha256(msgspec.msgpack.encode(message)).digest()[:16]
