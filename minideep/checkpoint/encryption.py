"""`EncryptedCheckpointer`: the values of any store's rows, sealed before they reach it. `AESGCM` seals them.

A sealed row is three bytes that no other row begins with, and what the cipher made of its value. The key of the row is
sealed with it, so that no row can take the place of another.
"""

import asyncio
import hmac
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from ..checks import checked
from ..errors import CheckpointError, ConfigError, CorruptSegment, ThreadConflict
from ..exchange import Exchange
from ..kinds import remedy
from ..ports import Lease, Opened, Purpose, Range, Retention, Store
from . import pace
from .atfork import AtRest
from .layout import ENCRYPTED, head_key
from .store import finish_work, open_store
from .waiting import may_block, wait_for

if TYPE_CHECKING:
    from .verify import Damage

T = TypeVar("T")
UNREADABLE = b"\xc1" * 64
"""Given instead of a row that does not open, among others that do: no decoder takes it, whatever the kind of row."""
INLINE = 2**16
"""The most bytes that are sealed or opened on the OS thread of an event loop, as with the appends of a disk."""
REMEMBERED = 10_000
"""Heads that are kept as they are sealed; a thread that is not among them costs its append one trip more."""
TAG, NONCE = 4, 12
"""Bytes: of what tells one key from another, and of what makes each sealing differ."""
logger: logging.Logger = logging.getLogger("minideep")


@remedy("write AESGCM(key), with a key of 32 random bytes")
class Cipher(Protocol):
    """Seals the values of rows, and opens them. Its methods are called on any OS thread, that of an event loop too, and
    at the same time: a cipher that fetches keys keeps them.
    """

    def seal(self, key: str, value: bytes) -> bytes:
        """Return *value* encrypted, and authenticated together with *key*, the key of its row."""
        ...

    def open(self, key: str, sealed: bytes) -> bytes:
        """Return the value that `seal` made *sealed* of, under the same *key*.

        Raises:
            CorruptSegment: *sealed* was changed, or is of another row. Any other exception says that the cipher failed.
        """
        ...


class AESGCM:
    """AES-GCM from the package `cryptography`. *key* is 16, 24 or 32 random bytes, or a list of such keys: the first
    seals, and all of them open, so that a new key is put in front of the old ones.

    Each row takes 35 bytes more. Keep a key for at most 2^32 rows: its nonces are 96 random bits.

    Raises:
        ConfigError: a key has another length, or `cryptography` is not installed.
    """

    @checked
    def __init__(self, key: bytes | Sequence[bytes]) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers import aead  # Imported when one is made.
        except ModuleNotFoundError as exc:
            raise ConfigError(f"AESGCM needs the package {exc.name!r}: pip install 'minideep[encryption]'") from None
        keys = [key] if isinstance(key, bytes) else list(key)
        if not keys or any(len(one) not in (16, 24, 32) for one in keys):
            sizes = ", ".join(str(len(one)) for one in keys) or "none"
            raise ConfigError(f"AESGCM: a key has 16, 24 or 32 bytes, not {sizes}; make one with `os.urandom(32)`")
        self._sealers = {_tag(one): aead.AESGCM(one) for one in keys}
        self._first = _tag(keys[0])

    def __repr__(self) -> str:  # Which must not show a key.
        return f"AESGCM({len(self._sealers)} key{'s' * (len(self._sealers) > 1)})"

    def seal(self, key: str, value: bytes) -> bytes:
        nonce = os.urandom(NONCE)
        return self._first + nonce + self._sealers[self._first].encrypt(nonce, value, key.encode())

    def open(self, key: str, sealed: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        sealer = self._sealers.get(sealed[:TAG])
        if sealer is None:
            raise CheckpointError(
                f"row {key!r} was sealed with a key that the cipher does not have; give it that key, too"
            )
        try:
            return sealer.decrypt(sealed[TAG : TAG + NONCE], sealed[TAG + NONCE :], key.encode())
        except (InvalidTag, ValueError):  # The latter: too short.
            raise CorruptSegment(f"row {key!r} does not open: it was damaged or changed, or is another row's") from None


def _tag(key: bytes) -> bytes:
    """Return what names a key and says nothing about it."""
    return hmac.digest(key, b"minideep", "sha256")[:TAG]


class EncryptedCheckpointer:
    """Keeps threads in *store*, any other store, and no value of a row reaches it before *cipher* has sealed it:
    messages, states, files, results, costs, titles. The files of a `StoreBackend` over it are sealed as well.

    Whoever reads the store still sees the keys of its rows (ids of threads, of calls and of inputs, names of files in
    a `StoreBackend`, SHA-256 sums of large contents), their number, their sizes, and when they change. A row that was
    changed, or put in the place of another, is refused; one that was put back as it was earlier, or deleted, may not
    be noticed. Questions to running turns (`exchange`) and files on a disk are not sealed.

    Every reader and writer of the store needs the cipher. `close`, or `with`, closes the store inside.

    Raises:
        ConfigError: *store* is no store, or *cipher* no `Cipher`.
    """

    @checked
    def __init__(self, store: Store, cipher: Cipher) -> None:
        self.inner: Store = store
        self.retention: Retention = store.retention
        self.immediate: bool = getattr(store, "immediate", False)
        self._cipher = cipher
        self._heads = _Heads()

    def __repr__(self) -> str:
        return f"EncryptedCheckpointer({self.inner!r}, {self._cipher!r})"

    def __enter__(self) -> "EncryptedCheckpointer":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def exchange(self) -> Exchange | None:
        """That of the store inside, if it has one: questions and answers stay on this machine, and are not sealed."""
        return getattr(self.inner, "exchange", None)

    async def open(self, thread: str, *, wait: float = 0.0, purpose: Purpose = "turn") -> Opened | None:
        opened = await self.inner.open(thread, wait=wait, purpose=purpose)
        if opened is None or opened.head is None:
            return opened
        try:
            return Opened(self._open_head(head_key(thread), opened.head), opened.lease)
        except BaseException:
            opened.lease.release()
            raise

    async def read(self, *ranges: Range) -> list[list[tuple[str, bytes]]]:
        found = await self.inner.read(*ranges)
        size = sum(len(value) for rows in found for _, value in rows)
        return await _worked(size, lambda: list(map(self._opened, ranges, found)))

    async def append(
        self,
        thread: str,
        expected: bytes | None,
        head: bytes | None,
        rows: Mapping[str, bytes],
        deletes: Iterable[str] = (),
        *,
        lease: Lease | None = None,
        release: bool = False,
    ) -> None:
        key, deletes, size = head_key(thread), list(deletes), sum(map(len, rows.values()))
        sealed = await _worked(size, lambda: {name: self._seal(name, value) for name, value in rows.items()})

        async def put(before: bytes | None) -> None:
            # A head that stays is not sealed anew: whoever remembers it would no longer know it.
            after = before if head == expected else None if head is None else self._seal(key, head)
            await self.inner.append(thread, before, after, sealed, deletes, lease=lease, release=release)
            if head is not None and after is not None:
                self._heads.keep(key, head, after)

        tried = None if expected is None else self._heads.find(key, expected)
        if expected is None or tried is not None:
            try:
                return await put(tried)
            except ThreadConflict:
                if tried is None:
                    raise
        # Of the many ways to seal the same head, another process may have used one that is not known here.
        (found,) = await self.inner.read(Range(key))
        if not found or found[0][1] == tried or self._open(*found[0]) != expected:
            raise ThreadConflict(f"thread {thread!r} was changed by another writer; run it again")
        return await put(found[0][1])

    async def heads(self, after: str = "", limit: int = 100) -> list[tuple[str, bytes]]:
        found, failed = await self.inner.heads(after, limit), None
        opened: list[tuple[str, bytes]] = []
        for key, value in found:
            try:
                opened.append((key, self._open(key, value)))
            except CheckpointError as exc:
                failed = failed or exc
                opened.append((key, UNREADABLE))
        if failed is not None:
            # Where nothing opens it is the cipher that is wrong, and not a thread.
            if not isinstance(failed, CorruptSegment) and all(value is UNREADABLE for _, value in opened):
                raise failed
            logger.warning("a thread cannot be read: %s", failed)
        return opened

    async def held(self, thread: str) -> bool:
        return await self.inner.held(thread)

    async def aclose(self) -> None:
        if may_block():
            finish_work(self)
        else:
            await asyncio.to_thread(finish_work, self)
        await self.inner.aclose()

    def close(self) -> None:
        """Finish pending work, then close the store inside, which opens again when it is used."""
        finish_work(self)
        wait_for(self.inner, self.inner.aclose)

    def verify(self) -> "list[Damage]":
        """Open and read every row and fold every run; return the damage, or an empty list.

        Raises:
            CheckpointError: the store cannot be read, or the cipher is not the one that sealed it.
        """
        from .verify import verify  # Seldom needed.

        return verify(open_store(self))

    # ---- one row

    def _seal(self, key: str, value: bytes) -> bytes:
        return ENCRYPTED + self._cipher.seal(key, value)

    def _open(self, key: str, sealed: bytes) -> bytes:
        if not sealed.startswith(ENCRYPTED):
            raise CheckpointError(
                f"row {key!r} is not encrypted: this store was written without EncryptedCheckpointer; read it without"
            )
        return self._cipher.open(key, sealed[len(ENCRYPTED) :])

    def _open_head(self, key: str, sealed: bytes) -> bytes:
        """Open a head that an append may be about to expect."""
        head = self._open(key, sealed)
        self._heads.keep(key, head, sealed)
        return head

    def _opened(self, one: Range, rows: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        if not one.values:
            return [(key, b"") for key, _ in rows]
        if one.stop is None:
            opened = self._open_head if one.start.startswith("head/") else self._open
            return [(key, opened(key, value)) for key, value in rows]
        return [(key, self._open_among(key, value)) for key, value in rows]

    def _open_among(self, key: str, sealed: bytes) -> bytes:
        """Open a row of a range. Not all of its reader's rows must be lost with one: it may need others only."""
        try:
            return self._open(key, sealed)
        except CorruptSegment as exc:
            logger.warning("a row cannot be read: %s", exc)
            return UNREADABLE


class _Heads(AtRest):
    """The heads that were seen last: each as it is, and as it is sealed in the store, which compares it by that."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, tuple[bytes, bytes]] = {}

    def find(self, key: str, head: bytes) -> bytes | None:
        with self.lock:
            seen, sealed = self._seen.get(key, (None, None))
        return sealed if seen == head else None

    def keep(self, key: str, head: bytes, sealed: bytes) -> None:
        with self.lock:
            self._seen.pop(key, None)
            self._seen[key] = head, sealed
            if len(self._seen) > REMEMBERED:
                del self._seen[next(iter(self._seen))]


async def _worked(size: int, act: Callable[[], T]) -> T:
    """Call *act*: on another OS thread if it is about so many bytes that an event loop would wait."""
    if size <= INLINE or may_block():
        return act()
    working = asyncio.get_running_loop().run_in_executor(None, act)
    await pace.through(working)  # As everything that an append does: a cancel comes after.
    return working.result()
