"""The media types of images, sound, films and documents, as their first bytes say them.

Labels are often wrong: a file was renamed, a server guessed. A provider that is sent a wrong one refuses the request,
and every later one of the thread, for they all repeat it.
"""

from typing import TypeVar

from msgspec import structs

from .messages import Audio, Document, Image, Text, Video

Media = Image | Audio | Video | Document
M = TypeVar("M", bound=Media)
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The types of images that every provider takes."""
RECORDED = (*IMAGES, "image/heic", "image/heif")
"""The types of images that any provider takes."""
_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"ID3\2", "audio/mpeg"),
    (b"ID3\3", "audio/mpeg"),
    (b"ID3\4", "audio/mpeg"),
    # The first frame of an MP3 without a tag: of MPEG 1, 2 or 2.5, with or without a checksum.
    *((bytes((0xFF, second)), "audio/mpeg") for second in (0xFB, 0xFA, 0xF3, 0xF2, 0xE3, 0xE2)),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_BRANDS = {
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), "image/heic"),
    **dict.fromkeys((b"mif1", b"msf1"), "image/heif"),
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"M4A ", b"M4B "), "audio/mp4"),
    b"qt  ": "video/quicktime",
}
"""Of files that are laid out as MP4 is; what has another brand is a film. The brands: https://mp4ra.org"""
_KNOWN = {kind for _, kind in _STARTS} | {*_RIFF.values(), *_BRANDS.values(), "image/bmp", "video/mp4", "video/webm"}
_BOTH = ("mp4", "webm", "ogg")
"""Formats of files that hold sound, or a film."""


def media_type(data: bytes) -> str:
    """Return the media type of *data*, or "" if its first bytes are of no known one.

    >>> media_type(b"GIF89a...")
    'image/gif'
    """
    head = bytes(data[:64])
    for start, kind in _STARTS:
        if head.startswith(start):
            return kind
    if head[4:8] == b"ftyp":
        return _iso_type(head)
    if head.startswith(b"RIFF"):
        return _RIFF.get(head[8:12], "")
    if head.startswith(b"BM") and head[6:10] == bytes(4):  # Two letters alone may begin a text.
        return "image/bmp"
    if head.startswith(b"\x1aE\xdf\xa3"):
        return "video/webm" if b"webm" in head else "video/x-matroska"
    return ""


def _iso_type(head: bytes) -> str:
    kind = _BRANDS.get(head[8:12], "video/mp4")
    # `mif1` says only that it is an image; the brands that follow say how it is encoded.
    further = (_BRANDS.get(head[at : at + 4], "") for at in range(16, len(head), 4))
    return next((one for one in further if one in ("image/avif", "image/heic")), kind) if kind == "image/heif" else kind


def type_of(block: Media) -> str:
    """Return the media type that the bytes of *block* have. If they are of no known type, return its label; or "", if
    it is labelled as a known one.
    """
    label = block.media_type
    if isinstance(block, Document) and label.startswith("text/"):
        return label
    found = media_type(block.data)
    family, _, form = found.partition("/")
    if isinstance(block, Audio | Video) and family != "image" and form in _BOTH:
        return f"{'audio' if isinstance(block, Audio) else 'video'}/{form}"
    return found or ("" if label in _KNOWN else label)


def labelled(block: M) -> M:
    """Return *block* with the media type that its bytes have, if they are of a known one."""
    kind = type_of(block)
    return structs.replace(block, media_type=kind) if kind not in ("", block.media_type) else block


def sendable(block: M, *taken: str) -> M | Text:
    """Return *block* with the media type that its bytes have; or, if that begins with none of *taken*, a text that
    tells the model what it does not see.
    """
    kind = type_of(block)
    if kind.startswith(taken):
        return labelled(block)
    what = type(block).__name__.lower()
    taken_here = ", ".join(taken) or f"no {what}"
    return Text(f"[{what} left out: {kind or f'not {block.media_type}'}; this model takes {taken_here}]")


def refusal(block: Media) -> str:
    """Return what is wrong with an image that no provider takes, and what to do; "" if one takes it."""
    if not isinstance(block, Image) or (kind := type_of(block)) in RECORDED:
        return ""
    found = f"of type {kind}" if kind else f"that begins with {block.data[:8]!r}, unlike {block.media_type}"
    return f"an image {found}; models take PNG, JPEG, GIF, WebP and HEIC: convert it to one of them"
