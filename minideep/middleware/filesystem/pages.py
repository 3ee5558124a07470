"""How much of a file, or of a list, a model is shown at once."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from ...backends.names import quoted, shown
from ...backends.search import GLOB_SECONDS, GREP_SECONDS, Found, Hits
from ...backends.text import Decoded, decode
from ...errors import ToolError
from ...messages import Document, Image, Text
from ...tools import MAX_RESULT

MAX_PAGE = 80_000
"""Characters of an answer."""
MAX_ENTRIES = 1000
"""Entries of a list."""
OutputMode = Literal["files_with_matches", "content", "count"]

_BODY = MAX_PAGE - 500  # Room for a header, or for the lines that say what is left out.
_MEDIA = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_REGEX = re.compile(r"\.[*+]|\\[\w.()\[\]|]|\[[^\]]+\][*+]?|\(.*\)|\w\|\w|\A\^|\$\Z")


def view(path: str, data: bytes, offset: int, limit: int) -> str | tuple[Text, Image | Document]:
    """A file as a model is shown it: *limit* lines of text from line *offset* (from 0) on, an image, or a document.

    Raises:
        ToolError: *offset* is past the end, or the file is none of these, or too large to be shown.
    """
    if kind := _media(path, data):
        return _media_view(path, data, kind)
    decoded = decode(data)
    if decoded is None:
        found = f"{quoted(path)} is binary ({len(data):,} bytes)"
        raise ToolError(f"{found} and cannot be shown; only text, images and PDFs can")
    return _page(path, decoded, offset, limit) if decoded.text else f"{quoted(path)} exists and is empty"


def listed(lines: Sequence[str], most: int = MAX_ENTRIES) -> str:
    """The first *most* of *lines*, as far as they fit, and how many more there are."""
    first = _fitting(lines[:most])
    more = [f"... {len(lines) - len(first):,} more; narrow the request to see them"] if len(first) < len(lines) else []
    return "\n".join(first + more)


def files_listed(found: Found, pattern: str, path: str) -> str:
    """The files that fit a pattern, or that there are none, and what was left out."""
    hint = "what is hidden, in node_modules or in __pycache__ is found only if named from the start"
    none = f"no file below {quoted(path)} matches {quoted(pattern)}; {hint}"
    lines = listed([shown(path) for path in found.paths]) or none
    late = f"\n... stopped after {GLOB_SECONDS:.0f} seconds; narrow pattern or path to see the rest"
    return lines + late if found.late else lines


def hits_listed(found: Hits, mode: OutputMode, most: int) -> str:
    """What a search found, in one of three ways, and what it left out."""
    match mode:
        case "content":
            lines = [f"{shown(hit.path)}:{hit.line}: {hit.text}" for hit in found.hits]
        case "count":
            lines = [f"{shown(path)}: {count}" for path, count in Counter(hit.path for hit in found.hits).items()]
        case "files_with_matches":
            lines = [shown(hit.path) for hit in found.hits]
    notes = [
        f"... stopped at {most:,} matches; narrow pattern, path or glob to see others" if found.full else "",
        f"... stopped after {GREP_SECONDS:.0f} seconds; narrow path or glob to search the rest" if found.late else "",
        f"... files too large or not readable, which were skipped: {found.skipped:,}" if found.skipped else "",
    ]
    return "\n".join(filter(None, (listed(lines, len(lines)), *notes)))


def no_hits(found: Hits, pattern: str, path: str, glob: str) -> str:
    """That nothing was found, with a hint where a regular expression may have been meant."""
    missed = not (glob or found.late or found.skipped)
    hint = "; the pattern is searched for as it is, not as a regular expression"
    return f"no line below {quoted(path)} holds {pattern!r}{hint if missed and _REGEX.search(pattern) else ''}"


def _media(path: str, data: bytes) -> str:
    """The media type, if both name and content say so: a provider refuses a thread with an image that is none."""
    if path.lower().endswith(_SUFFIXES):
        return next((kind for start, kind in _MEDIA.items() if data.startswith(start)), "")
    return "application/pdf" if path.lower().endswith(".pdf") and data.startswith(b"%PDF-") else ""


def _media_view(path: str, data: bytes, kind: str) -> tuple[Text, Image | Document]:
    header = f"{shown(path)}: {kind}, {len(data):,} bytes"
    if len(data) + len(header) > MAX_RESULT:
        raise ToolError(f"{header}, more than the {MAX_RESULT:,} that can be shown; make a smaller one")
    if kind == "application/pdf":
        return Text(header), Document(data, kind, shown(path.rpartition("/")[2]))
    return Text(header), Image(data, kind)


def _page(path: str, decoded: Decoded, offset: int, limit: int) -> str:
    lines = decoded.text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    total = len(lines)
    if offset >= total:
        raise ToolError(f"{quoted(path)} has {total} lines, so offset must be from 0 to {total - 1}, not {offset}")
    asked = lines[offset : offset + limit]
    page = _fitting(asked)
    cut = f"cut at {MAX_PAGE:,} characters" if len(page) < len(asked) else ""
    if not page:
        cut = f"line cut: {_BODY:,} of its {len(asked[0]):,} characters"
        page = [asked[0][:_BODY]]
    end = offset + len(page)
    encoding = "not UTF-8: read as latin-1" if decoded.encoding == "latin-1" else ""
    further = f"next offset {end}" if end < total else ""
    fields = (f"lines {offset + 1}-{end} of {total}", encoding, cut, further)
    return f"@@ {' | '.join(filter(None, fields))} @@\n" + "\n".join(page)


def _fitting(lines: Sequence[str]) -> list[str]:
    """The first of *lines* that fit."""
    room = _BODY
    for at, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return list(lines[:at])
    return list(lines)
