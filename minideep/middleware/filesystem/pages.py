"""Pages: limit how much of a file or a list a model is shown at once."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from ...backends import GLOB_SECONDS, GREP_SECONDS, Decoded, Found, Hit, Hits, decode, escaped, quoted
from ...errors import ToolError
from ...media import IMAGES, media_type
from ...messages import Document, Image, Text
from ...tools import MAX_RESULT
from ..room import fitting

MAX_PAGE = 80_000
"""The most characters of a result."""
MAX_ENTRIES = 1000
"""The most entries of a list."""
OutputMode = Literal["files_with_matches", "content", "count"]

_BODY = MAX_PAGE - 500  # Leaves room for a header, or for the lines about what was left out.
_SUFFIXES = {
    **dict.fromkeys(IMAGES, (".png", ".jpg", ".jpeg", ".gif", ".webp")),
    "application/pdf": (".pdf",),
}
_REGEX = r"\.[*+]|\\[\w.()\[\]|]|\[[^\]]+\][*+]?|\(.*\)|\w\|\w|\A\^|\$\Z"


def render_file(path: str, data: bytes, offset: int, limit: int) -> str | tuple[Text, Image | Document]:
    """Return *limit* lines of a text file from line *offset* (counted from 0) on; or an image, or a document.

    Raises:
        ToolError: *offset* is past the end, or the file is binary, or too large to be shown.
    """
    if kind := _media(path, data):
        return _media_view(path, data, kind)
    decoded = decode(data)
    if decoded is None:
        found = f"{quoted(path)} is binary ({len(data):,} bytes)"
        raise ToolError(f"{found} and cannot be shown; only text, PDFs, and PNG, JPEG, GIF and WebP images can")
    return _page(path, decoded, offset, limit) if decoded.text else f"{quoted(path)} exists and is empty"


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
    if len(data) + len(header) > MAX_RESULT:
        raise ToolError(f"{header}, more than the {MAX_RESULT:,} that can be shown; make a smaller one")
    if kind == "application/pdf":
        return Text(header), Document(data, kind, escaped(path.rpartition("/")[2]))
    return Text(header), Image(data, kind)


def _page(path: str, decoded: Decoded, offset: int, limit: int) -> str:
    lines = decoded.text.replace("\r\n", "\n").removesuffix("\n").split("\n")
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
    encoding = "" if decoded.encoding.startswith("utf-8") else f"not UTF-8: read as {decoded.encoding}"
    further = f"next offset {end}" if end < total else ""
    fields = (f"lines {offset + 1}-{end} of {total}", encoding, cut, further)
    return f"@@ {' | '.join(filter(None, fields))} @@\n" + "\n".join(page)


def _fitting(lines: Sequence[str]) -> list[str]:
    return list(lines[: fitting((len(line) + 1 for line in lines), _BODY)])
