"""What a file's bytes say as text, and the bytes of a changed text: encoding and byte order mark stay as they were."""

import codecs
from typing import Literal

from msgspec import Struct

from ..errors import ToolError
from .names import quoted

Encoding = Literal["utf-8", "utf-8-sig", "latin-1"]


class Decoded(Struct, frozen=True):
    text: str
    encoding: Encoding
    """`utf-8-sig` is UTF-8 behind a byte order mark, which is not in *text*."""


def decode(data: bytes) -> Decoded | None:
    """*data* as text, losing nothing; None for binary: a NUL in the first 8 KiB, or UTF-16."""
    if b"\0" in data[:8192] or data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return None
    encoding: Encoding = "utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8"
    try:
        return Decoded(data.decode(encoding), encoding)
    except UnicodeDecodeError:
        return Decoded(data.decode("latin-1"), "latin-1")


def encode(path: str, text: str, encoding: Encoding = "utf-8") -> bytes:
    """The bytes of *text*.

    Raises:
        ToolError: *encoding* cannot say it.
    """
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as exc:
        found = f"{quoted(path)} is {encoding}, which cannot hold {text[exc.start : exc.end][:20]!r}"
        raise ToolError(f"{found}; write that in another way") from None
