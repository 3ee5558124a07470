"""Images and documents in a request: whether they are what they are said to be."""

import base64
import binascii
from collections.abc import Iterator

# https://platform.claude.com/docs/en/build-with-claude/vision and
# https://developers.openai.com/api/docs/guides/images-vision name the same four.
IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def kind_of(data: bytes) -> str:
    """The media type of an image by its first bytes; empty if it is none of the four that the APIs accept."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in IMAGES.items() if data.startswith(start)), "")


def image_faults(media_type: str, encoded: str) -> Iterator[str]:
    # A wrong label is refused, and with it every later request of the thread:
    # https://github.com/anthropics/claude-code/issues/12009 and https://github.com/anthropics/claude-code/issues/3073
    data = decoded(encoded)
    if data is None:
        yield "the data of an image is not base64"
    elif not (kind := kind_of(data)):
        yield f"an image is none of PNG, JPEG, GIF and WebP; it begins with {data[:12]!r}"
    elif kind != media_type:
        yield f"an image that is {kind} is labelled {media_type}"


def decoded(encoded: str) -> bytes | None:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None


def link_faults(url: object) -> Iterator[str]:
    """The faults of an address that the API fetches."""
    # https://platform.claude.com/docs/en/build-with-claude/vision and
    # https://developers.openai.com/api/docs/guides/file-inputs
    if not isinstance(url, str) or not url.startswith(("https://", "http://")):
        yield f"what the API is to fetch needs an address with https://, found {str(url)[:60]!r}"


def url_faults(url: object) -> Iterator[str]:
    """The faults of an image's URL: `https:` or a data URL with base64."""
    if not isinstance(url, str) or not url.startswith(("https://", "http://", "data:")):
        yield f"an image needs a URL, found {str(url)[:60]!r}"
    elif url.startswith("data:"):
        head, comma, data = url.partition(",")
        if not comma or not head.endswith(";base64"):
            yield f"a data URL needs base64, found {head[:60]!r}"
        else:
            yield from image_faults(head.removeprefix("data:").removesuffix(";base64"), data)


def file_faults(data: object) -> Iterator[str]:
    """The faults of the `file_data` of a file: a data URL with its media type."""
    # https://developers.openai.com/api/docs/guides/pdf-files
    head, _, encoded = str(data).partition(",")
    if not head.startswith("data:") or "/" not in head or not head.endswith(";base64") or decoded(encoded) is None:
        yield f"file_data must be a data URL with base64, found {str(data)[:60]!r}"
