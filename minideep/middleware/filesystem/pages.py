"""Pages: limit how much of a file or a list a model is shown at once."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from ...backends import GLOB_SECONDS, GREP_SECONDS, Found, Hit, Hits, decode, escaped, quoted
from ...errors import ToolError
from ...media import IMAGES, media_type
from ...messages import AnyBlock, Document, Image, Text
from ..room import fitting

if TYPE_CHECKING:
    from .notebooks import Shown

MAX_PAGE = 80_000
"""The most characters of a result."""
MAX_ENTRIES = 1000
"""The most entries of a list."""
MAX_SHOWN = 3_900_000
"""The most bytes of an image or a PDF. In base64 they become 5.2 million, and a provider refuses an image of more than
5,242,880: https://github.com/earendil-works/pi/pull/424
"""
OutputMode = Literal["files_with_matches", "content", "count"]

_BODY = MAX_PAGE - 500  # Leaves room for a header, or for the lines about what was left out.
_SUFFIXES = {
    **dict.fromkeys(IMAGES, (".png", ".jpg", ".jpeg", ".gif", ".webp")),
    "application/pdf": (".pdf",),
}
_REGEX = r"\.[*+]|\\[\w.()\[\]|]|\[[^\]]+\][*+]?|\(.*\)|\w\|\w|\A\^|\$\Z"


def render_file(path: str, data: bytes, offset: int, limit: int) -> str | tuple[AnyBlock, ...]:
    """Return *limit* lines of a text file or notebook from line *offset* (counted from 0) on; or an image, or a PDF.

    Raises:
        ToolError: *offset* is past the end, or the file is binary, or too large to be shown.
    """
    if kind := _media(path, data):
        return _media_view(path, data, kind)
    decoded = decode(data)
    if decoded is None:
        found = f"{quoted(path)} is binary ({len(data):,} bytes)"
        raise ToolError(f"{found} and cannot be shown; only text, PDFs, and PNG, JPEG, GIF and WebP images can")
    if not decoded.text:
        return f"{quoted(path)} exists and is empty"
    if path.lower().endswith(".ipynb") and (shown := _notebook(decoded.text)):
        page, end = _page(path, shown.lines, offset, limit, "cells of a notebook; grep shows its JSON")
        images = (image for at, image in shown.images.items() if offset <= at < end)
        return (Text(page), *_fitting_images(images)) if shown.images else page
    lines = decoded.text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    encoding = "" if decoded.encoding.startswith("utf-8") else f"not UTF-8: read as {decoded.encoding}"
    return _page(path, lines, offset, limit, encoding)[0]


def render_list(lines: Sequence[str], most: int = MAX_ENTRIES) -> str:
    """Return the first *most* of *lines*, as far as they fit, and the number of the others."""
    first = _fitting(lines[:most])
    more = [f"... {len(lines) - len(first):,} more; narrow the request to see them"] if len(first) < len(lines) else []
    return "\n".join(first + more)


def render_found(found: Found, pattern: str, path: str) -> str:
    """Return the files that match *pattern*, or a line that says that none does, and what was left out."""
    hint = "hidden names, node_modules and __pycache__ are found only if the pattern or path begins with them"
    none = f"no file below {quoted(path)} matches {quoted(pattern)}; {hint}"
    lines = render_list([escaped(path) for path in found.paths]) or none
    late = f"\n... stopped after {GLOB_SECONDS:.0f} seconds; narrow pattern or path to see the rest"
    return lines + late if found.late else lines


def render_hits(found: Hits, mode: OutputMode, most: int) -> str:
    """Return the hits of a search in one of three forms, and what was left out."""
    match mode:
        case "content":
            lines = list(_with_gaps(found.hits))
        case "count":
            lines = [f"{escaped(path)}: {count}" for path, count in Counter(hit.path for hit in found.hits).items()]
        case "files_with_matches":
            lines = [escaped(hit.path) for hit in found.hits]
    notes = [
        f"... stopped at {most:,} matches; narrow pattern, path or glob to see others" if found.full else "",
        f"... stopped after {GREP_SECONDS:.0f} seconds; narrow path or glob to search the rest" if found.late else "",
        f"... files skipped as too large or unreadable: {found.skipped:,}" if found.skipped else "",
    ]
    return "\n".join(filter(None, (render_list(lines, len(lines)), *notes)))


def explain_no_hits(found: Hits, pattern: str, path: str, *, glob: str, regex: bool) -> str:
    """Say that nothing was found, with a hint if the pattern looks like one of the other kind."""
    missed, hint = not (glob or found.late or found.skipped), ""
    if regex and r"\n" in pattern:
        hint = "; each line is matched by itself, so no pattern finds a line break"
    elif missed and not regex and re.search(_REGEX, pattern):
        hint = "; the pattern is literal text, and a regular expression only with regex=true"
    return f"no line below {quoted(path)} {'matches' if regex else 'contains'} {pattern!r}{hint}"


def _with_gaps(hits: Sequence[Hit]) -> Iterator[str]:
    """Yield lines as `path:line: text`, and those near a match as `path-line- text`, with `--` where lines are left out
    between them.
    """
    gaps = any(hit.near for hit in hits)
    for before, hit in pairwise([None, *hits]):
        assert hit
        if gaps and before and (before.path, before.line) != (hit.path, hit.line - 1):
            yield "--"
        mark = "-" if hit.near else ":"
        yield f"{escaped(hit.path)}{mark}{hit.line}{mark} {hit.text}"


def _media(path: str, data: bytes) -> str:
    """Return the media type if name and content agree. One false image makes a provider refuse the whole thread."""
    kind = media_type(data)
    return kind if path.lower().endswith(_SUFFIXES.get(kind, ())) else ""


def _media_view(path: str, data: bytes, kind: str) -> tuple[Text, Image | Document]:
    header = f"{escaped(path)}: {kind}, {len(data):,} bytes"
    if len(data) > MAX_SHOWN:
        raise ToolError(f"{header}, more than the {MAX_SHOWN:,} that can be shown; make a smaller one")
    if kind == "application/pdf":
        return Text(header), Document(data, kind, escaped(path.rpartition("/")[2]))
    return Text(header), Image(data, kind)


def _notebook(text: str) -> "Shown | None":
    from .notebooks import notebook  # Few files are one.

    return notebook(text)


def _fitting_images(images: Iterable[Image]) -> list[Image]:
    """Return the first *images*, as many as a model can be shown at once. The page names the others, too."""
    found = [image for image in images if len(image.data) <= MAX_SHOWN]
    return found[: fitting((len(image.data) for image in found), MAX_SHOWN)]


def _page(path: str, lines: Sequence[str], offset: int, limit: int, about: str) -> tuple[str, int]:
    """Return a page of *lines*, and the number of the line after it. The header says what they are *about*."""
    total = len(lines)
    if offset >= total:
        raise ToolError(f"{quoted(path)} has {total} lines, so offset must be from 0 to {total - 1}, not {offset}")
    wanted = lines[offset : offset + limit]
    page = _fitting(wanted)
    cut = f"cut at {MAX_PAGE:,} characters" if len(page) < len(wanted) else ""
    if not page:
        cut = f"line cut: {_BODY:,} of its {len(wanted[0]):,} characters"
        page = [wanted[0][:_BODY]]
    end = offset + len(page)
    further = f"next offset {end}" if end < total else ""
    fields = (f"lines {offset + 1}-{end} of {total}", about, cut, further)
    return f"@@ {' | '.join(filter(None, fields))} @@\n" + "\n".join(page), end


def _fitting(lines: Sequence[str]) -> list[str]:
    return list(lines[: fitting((len(line) + 1 for line in lines), _BODY)])
