"""Convert a file's bytes to text and back, keeping its encoding and its byte order mark."""

import codecs
from typing import Literal

from msgspec import Struct

from ..errors import ToolError
from .names import quoted

Encoding = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"]
_MARKED: dict[Encoding, bytes] = {
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
"""The encodings that a byte order mark tells, with the mark. Programs on Windows write them."""


class Decoded(Struct, frozen=True):
    """The text of a file, and the encoding in which to write it back."""

    text: str
    encoding: Encoding
    """`utf-8-sig` and the two of UTF-16 stand behind a byte order mark, which is not in *text*."""


def decode(data: bytes) -> Decoded | None:
    """Decode *data* without loss. Return None for binary data: a NUL in the first 8 KiB of what is not UTF-16, or what
    begins as UTF-16 and is none.
    """
    encoding = _marked(data)
    wide = encoding in ("utf-16-le", "utf-16-be")
    if b"\0" in data[:8192] and not wide:
        return None
    try:
        text = data[len(_MARKED.get(encoding, b"")) :].decode(encoding.removesuffix("-sig"))
    except UnicodeDecodeError:
        # Latin-1 maps every byte to one character, so an edit puts the bytes that it does not touch back unchanged.
        return None if wide else Decoded(data.decode("latin-1"), "latin-1")
    return None if wide and "\0" in text else Decoded(text, encoding)  # UTF-32 begins as UTF-16 does.


def _marked(data: bytes) -> Encoding:
    for encoding, mark in _MARKED.items():
        if data.startswith(mark):
            return encoding
    return "utf-8"


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
        return _MARKED.get(encoding, b"") + text.encode(encoding.removesuffix("-sig"))
    except UnicodeEncodeError as exc:
        problem = f"{quoted(path)} is {encoding}, which cannot encode {text[exc.start : exc.end][:20]!r}"
        raise ToolError(f"{problem}; write it another way") from None
