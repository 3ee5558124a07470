"""The body of a request: each message and each tool is encoded as JSON once, and a request joins the bytes."""

from collections.abc import Callable, Iterable
from typing import Any, Concatenate, Generic, TypeVar

import msgspec
from msgspec import Struct

V = TypeVar("V")


class Part(Struct, frozen=True, gc=False):
    """Base class of what one message becomes in the words of an API."""

    parts: list[bytes]
    """JSON values, in order."""

    @property
    def size(self) -> int:
        """The length in bytes."""
        return sum(map(len, self.parts))


P = TypeVar("P", bound=Part)


class Encoded(Generic[V, P]):
    """Values in a provider's words, each encoded once: `Encoded(encode)(message)`.

    Values are looked up by identity, since messages and tools stay the same objects from step to step. Those that the
    latest requests used are kept, up to *limit* bytes; requests of up to half as many bytes find all of theirs again.
    """

    def __init__(self, encode: Callable[Concatenate[V, ...], P], limit: int = 64 * 2**20) -> None:
        self._encode = encode
        self._half = limit // 2
        self._size = 0
        # Two generations, of which the older one is dropped as a whole when the younger one is full.
        self._young: dict[int, tuple[V, P]] = {}
        self._old: dict[int, tuple[V, P]] = {}

    def __call__(self, value: V, *beside: Any) -> P:
        """Return *value* encoded. What stands *beside* it is given to `encode`, and must be the same at each call."""
        kept = self._young.get(id(value))
        return kept[1] if kept is not None else self._renew(value, *beside)

    def _renew(self, value: V, *beside: Any) -> P:
        # The value is kept as well: while it lives, no other object can have its id.
        kept = self._old.pop(id(value), None) or (value, self._encode(value, *beside))
        if self._size > self._half:
            self._old, self._young, self._size = self._young, {}, 0
        self._young[id(value)] = kept
        self._size += kept[1].size
        return kept[1]


def encode(value: Any) -> bytes:
    """Encode *value* as JSON; a lone surrogate, which no provider accepts, becomes `?`. NaN becomes null.

    Raises:
        TypeError: JSON cannot express it.
    """
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except UnicodeEncodeError:
        import json

        return json.dumps(value, ensure_ascii=False, default=_plain, separators=(",", ":")).encode("utf-8", "replace")


def array(parts: Iterable[bytes]) -> msgspec.Raw:
    """Join *parts*, each of which is a JSON value, to one JSON array."""
    return msgspec.Raw(b"[%b]" % b",".join(parts))


def _plain(value: Any) -> Any:
    """Return as plain data what `json` does not know: encoded parts, and Pydantic models, which the SDKs take too."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json", by_alias=True, exclude_unset=True)
    raise TypeError(f"JSON cannot express {value!r}")
