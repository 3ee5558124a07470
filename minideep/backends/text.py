"""Convert a file's bytes to text and back, keeping its encoding and its byte order mark."""

import codecs
from typing import Literal

from msgspec import Struct

from ..errors import ToolError
from .names import quoted

Encoding = Literal["utf-8", "utf-8-sig", "latin-1"]


class Decoded(Struct, frozen=True):
    """The text of a file, and the encoding in which to write it back."""

    text: str
    encoding: Encoding
    """`utf-8-sig` is UTF-8 after a byte order mark, which is not in *text*."""


def decode(data: bytes) -> Decoded | None:
    """Decode *data* without loss. Return None for binary data: a NUL in the first 8 KiB, or UTF-16."""
    if b"\0" in data[:8192] or data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return None
    encoding: Encoding = "utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8"
    try:
        return Decoded(data.decode(encoding), encoding)
    except UnicodeDecodeError:
        # Latin-1 maps every byte to one character, so an edit puts the bytes that it does not touch back unchanged.
        return Decoded(data.decode("latin-1"), "latin-1")


def as_content(data: bytes) -> str | bytes:
    """Return a file's bytes as the state keeps them: as text if they are UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def encode(path: str, text: str, encoding: Encoding = "utf-8") -> bytes:
    """Encode *text*, the new content of *path*.

    Raises:
        ToolError: *text* has a character that *encoding* cannot represent.
    """
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as exc:
        problem = f"{quoted(path)} is {encoding}, which cannot encode {text[exc.start : exc.end][:20]!r}"
        raise ToolError(f"{problem}; write it another way") from None
