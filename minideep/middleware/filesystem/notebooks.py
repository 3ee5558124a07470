"""Show a Jupyter notebook as a person sees it: its cells, and the results below them.

The format: https://nbformat.readthedocs.io/en/latest/format_description.html
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import Struct

from ...media import IMAGES, media_type
from ...messages import Image

MAX_OUTPUT = 2000
"""Characters shown of one result of a cell."""

_Lines = str | list[str]


class _Output(Struct):
    output_type: str
    text: _Lines = ""
    data: dict[str, Any] = {}
    traceback: list[str] = []


class _Cell(Struct):
    cell_type: str
    source: _Lines = ""
    outputs: list[_Output] = []


class _Notebook(Struct):
    cells: list[_Cell]


class Shown(Struct, frozen=True):
    """The lines of a notebook, and the images that stand at some of them, by the number of the line from 0 on."""

    lines: list[str]
    images: dict[int, Image]


def notebook(text: str) -> Shown | None:
    """Return the notebook in the JSON *text*; None if it is none, or one of before 2015."""
    try:
        found = msgspec.json.decode(text, type=_Notebook)
    except (msgspec.DecodeError, RecursionError):
        return None
    lines, images = list[str](), dict[int, Image]()
    for number, cell in enumerate(found.cells, 1):
        lines.append(f"--- cell {number}: {cell.cell_type} ---")
        lines += _text(cell.source).split("\n")
        for output in cell.outputs:
            lines.append("--- output ---")
            for part in _parts(output):
                if isinstance(part, Image):
                    images[len(lines)] = part
                    lines.append(f"[{part.media_type}, {len(part.data):,} bytes]")
                else:
                    lines += _shortened(part).split("\n")
    return Shown(lines, images)


def _parts(output: _Output) -> Iterator[str | Image]:
    """Yield an image or, of the forms that a result has, the one that is plain text."""
    found = (_image(output.data[kind]) for kind in IMAGES if kind in output.data)
    if image := next(filter(None, found), None):
        yield image
    elif "text/plain" in output.data:
        yield _text(output.data["text/plain"])
    elif output.data:
        yield f"[{', '.join(output.data)}]"
    elif output.traceback:
        yield re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(output.traceback))
    else:
        yield _text(output.text)


def _image(encoded: object) -> Image | None:
    try:
        data = b64decode(_text(encoded))
    except (binascii.Error, ValueError):
        return None
    kind = media_type(data)
    return Image(data, kind) if kind in IMAGES else None


def _text(lines: object) -> str:
    joined = "".join(map(str, cast(list[Any], lines))) if isinstance(lines, list) else str(lines)
    return joined.replace("\r\n", "\n").removesuffix("\n")


def _shortened(text: str) -> str:
    more = len(text) - MAX_OUTPUT
    return f"{text[:MAX_OUTPUT]}\n... {more:,} characters more" if more > 0 else text
