"""The media types of images, sound, films and documents, as their first bytes say them.

Labels are often wrong: a file was renamed, a server guessed. A provider that is sent a wrong one refuses the request,
and every later one of the thread, for they all repeat it.
"""

import mimetypes
import os
import re
import stat
from base64 import b64decode
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import structs

from .checks import checked
from .errors import ConfigError
from .kinds import Pathname
from .messages import Audio, Document, Image, MediaLink, Text, Video

Media = Image | Audio | Video | Document
M = TypeVar("M", bound=Media | MediaLink)
MAX_MEDIA = 10_000_000
"""The most bytes of a file that is loaded, and of the media in one result of a tool."""
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The types of images that every provider takes."""
DOCUMENTS = "application/pdf", "text/", "application/json", "application/rtf", "application/msword", "application/vnd."
"""The beginnings of the types of documents that any provider takes:
https://developers.openai.com/api/docs/guides/file-inputs
"""
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
_OFFICE = "application/vnd.openxmlformats-officedocument"
_SUFFIXES = {
    ".docx": f"{_OFFICE}.wordprocessingml.document",
    ".pptx": f"{_OFFICE}.presentationml.presentation",
    ".xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    ".rtf": "application/rtf",
    ".md": "text/markdown",
    ".webp": "image/webp",
    ".weba": "audio/webm",
}
"""What not every Python, or every system, knows."""
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
    if isinstance(block, MediaLink):
        return block
    kind = type_of(block)
    return structs.replace(block, media_type=kind) if kind not in ("", block.media_type) else block


def sendable(block: M, *taken: str) -> M | Text:
    """Return *block* with the media type that its bytes have; or, if that begins with none of *taken*, a text that
    tells the model what it does not see.
    """
    if isinstance(block, MediaLink):
        return block if block.media_type.startswith(taken) else Text(f"[not shown: {block.media_type} at {block.url}]")
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


# ---- by path and by address


@checked
def load_media(path: Pathname) -> Image | Audio | Video | Document:
    """Return the image, sound, film or document in a file of this machine, of the type that its bytes have.

    It may have 10 MB. A document is a PDF, text, or a file whose name says that it is one, such as `plan.docx`.

    Raises:
        ConfigError: there is no such file, it cannot be read, is empty or too large, is of another type, or holds a
            text though it is named as an image, sound, a film or a PDF.
    """
    file = Path(os.fsdecode(path)).expanduser()
    what = f"load_media: {str(file)!r}"
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):  # To open a pipe would wait for its writer.
            found = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise ConfigError(f"{what} is {found}; give the path of a file")
        if status.st_size > MAX_MEDIA:
            found = f"{what} has {status.st_size:,} bytes, more than the {MAX_MEDIA:,} that a message may hold"
            raise ConfigError(f"{found}; give a smaller one")
        with file.open("rb") as opened:
            data = opened.read(MAX_MEDIA)  # Bounded again: the file may grow.
    except OSError as exc:
        raise ConfigError(f"{what} cannot be read: {exc.strerror}; check the path") from None
    return _loaded(data, _type_of_name(file.name), file.name, what)


def _type_of_name(name: str) -> str:
    """Return the media type that the suffix of a name stands for; "" if it stands for none."""
    suffix = PurePosixPath(name).suffix.lower()
    return _SUFFIXES.get(suffix) or mimetypes.guess_type(f"name{suffix}")[0] or ""


def _loaded(data: bytes, label: str, name: str, what: str) -> Media:
    """Return *data* as a block of the type that it has, or that its *label* says.

    Raises:
        ConfigError: no provider takes that type.
    """
    kind = media_type(data)
    family, _, form = kind.partition("/")
    if family == "audio" or (form in _BOTH and label.startswith("audio/")):
        return labelled(Audio(data, kind))
    if family == "video":
        return labelled(Video(data, kind))
    if family == "image":
        block = Image(data, kind)
        if problem := refusal(block):
            raise ConfigError(f"{what} holds {problem}")
        return block
    if not data:  # Providers refuse it, and with it every later request of the thread.
        raise ConfigError(f"{what} is empty; give what it should hold")
    # Such as a pointer of Git LFS, or a page that says "not found".
    if label in _KNOWN and not kind and _is_text(data):
        raise ConfigError(f"{what} is called {label} but holds a text, {data[:30]!r}; get the file itself")
    if not kind and not _is_text(data):  # Bytes that say nothing, so the name must.
        kind = label if label.startswith(DOCUMENTS) and not label.startswith("text/") else ""
    elif not kind:
        kind = label if label.startswith(("text/", "application/json")) else "text/plain"
    if not kind:
        problem = f"{what} begins with {data[:8]!r}, which is no known type"
        raise ConfigError(f"{problem}; models take images, PDFs, sound, films, texts and office documents")
    return Document(data, kind, name)


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def resolved(link: MediaLink) -> MediaLink | Media:
    """Return *link* with its media type; or, if it is a `data:` URL, the block that it holds.

    Raises:
        ValueError: no provider takes it; the text says what is wrong, and what to do.
    """
    if link.url[:5].lower() == "data:":
        return _of_data_url(link)
    if re.match(r"[^/?#]*//[^/?#]*@", link.url):  # It would stand in the log, in every export and in these errors.
        raise ValueError("a link with a user name or a password in its address; fetch it and give its bytes")
    try:
        parts = urlsplit(link.url)
        _ = parts.port  # Looked at only when it is asked for.
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"[\s\x00-\x1f]", link.url):
        problem = f"a link to {link.url[:200]!r}; give an address that begins with https://"
        raise ValueError(f"{problem}, or load the file: load_media(path)")
    kind = link.media_type or _type_of_name(parts.path)
    if kind in IMAGES or kind.startswith(DOCUMENTS):
        return structs.replace(link, media_type=kind)
    what = f"a link of type {kind}" if kind else "a link whose address does not say its type"
    remedy = "fetch it and give its bytes" if kind else 'say it: MediaLink(url, "image/png")'
    raise ValueError(f"{what}, {link.url[:200]!r}; providers fetch images and documents only: {remedy}")


def _of_data_url(link: MediaLink) -> Media:
    head, comma, body = link.url[5:].partition(",")
    label, *options = head.split(";")
    try:
        data = b64decode(body, validate=True) if "base64" in options else unquote_to_bytes(body)
    except ValueError:
        data, comma = b"", ""
    if not comma:
        raise ValueError(f"a data URL that cannot be decoded: {link.url[:60]!r}; give the bytes: Image(data)")
    if len(data) > MAX_MEDIA:
        raise ValueError(f"a data URL of {len(data):,} bytes, more than the {MAX_MEDIA:,} that fit; give a smaller one")
    try:
        return _loaded(data, link.media_type or label, "", "a data URL that")
    except ConfigError as exc:
        raise ValueError(str(exc)) from None
