"""Paths as a model may write them: their one normal form, and what it is told when one does not serve."""

import re
from collections.abc import Sequence

from ..errors import ToolError
from .names import named, quoted

MAX_LENGTH, MAX_PARTS = 4096, 256
"""Characters of a path, and names in it."""
MAX_FILE = 10_000_000
"""Bytes of the largest file that is read."""
RESULTS = "large_tool_results"
CONVERSATION = "conversation_history"
"""The folders of what the harness itself puts into files, under names that the model is told."""
VENDORED = frozenset({"node_modules", "__pycache__", RESULTS, CONVERSATION})
"""Folders that no search enters from above; of what was searched before, and what was said, each would find more."""

_REFUSED = (
    (re.compile(r"\0"), "it holds a NUL"),
    (re.compile(r"[\ud800-\udc7f\udd00-\udfff]"), "it holds what UTF-8 cannot say"),
    (re.compile(r"(?:\A|/)\.\.(?:/|\Z)"), "'..' is not followed"),
    (re.compile(r"\A~"), "'~' is not expanded"),
    (re.compile(r"\A[A-Za-z]:[\\/]"), "there are no drives"),
)


class Missing(ToolError):
    """There is nothing at *path*. A backend raises this, so that a tool can say what is *near* it instead."""

    def __init__(self, path: str, near: Sequence[str] = ()) -> None:
        hint = f"did you mean {' or '.join(map(quoted, near))}? Else " if near else ""
        super().__init__(f"{quoted(path)} does not exist; {hint}find it with ls or glob")
        self.path = path


def normal(path: str, home: str = "/") -> str:
    """*path* from the root, without `//`, `./` or a final `/`; a relative one starts at *home*.

    Raises:
        ToolError: it has a `..` component, begins with `~` or a drive, holds a NUL or a lone surrogate that stands for
            no byte, or is longer than `MAX_LENGTH` or `MAX_PARTS`.
    """
    _check_length(path, len(path))
    for pattern, problem in _REFUSED:
        if pattern.search(path):
            raise _refused(path, problem)
    start = "" if path.startswith("/") else home
    parts = [part for part in f"{start}/{path}".split("/") if part not in ("", ".")]
    if len(parts) > MAX_PARTS:
        raise _refused(path, f"it has {len(parts):,} parts, more than {MAX_PARTS}")
    full = _with_one_spelling("/" + "/".join(parts))
    _check_length(path, len(full))  # With what it starts at.
    return full


def typed(path: str, home: str = "/") -> str:
    """`normal` of a path as a model or a person writes it, who may have been shown it with escapes.

    Raises:
        ToolError: as `normal`.
    """
    return normal(named(path), home)


def _check_length(path: str, length: int) -> None:
    if length > MAX_LENGTH:
        raise _refused(path, f"it has {length:,} characters, more than {MAX_LENGTH:,}")


def _refused(path: str, problem: str) -> ToolError:
    return ToolError(f"path {quoted(path[:200])} is refused: {problem}; write it from the root, as in '/src/main.py'")


def _with_one_spelling(path: str) -> str:
    """Surrogates stand for bytes that are no text; those that together are text could be written either way."""
    return path if path.isascii() else path.encode(errors="surrogateescape").decode(errors="surrogateescape")


def below(folder: str, name: str = "") -> str:
    """The path of *name* in *folder*; without a name, what every path below *folder* begins with."""
    return f"{folder.rstrip('/')}/{name}"


def within(path: str, folder: str) -> bool:
    """Whether *path* is *folder* or stands below it."""
    return path == folder or path.startswith(below(folder))


def entered(name: str) -> bool:
    """Whether a walk enters a folder of this name: hidden and vendored ones are left out."""
    return not name.startswith(".") and name not in VENDORED


def a_folder(path: str) -> ToolError:
    return ToolError(f"{quoted(path)} is a folder, not a file; list it with ls, or give the path of a file")


def a_file(path: str) -> ToolError:
    return ToolError(f"{quoted(path)} is a file, not a folder; read it with read_file")


def changed(path: str) -> ToolError:
    return ToolError(
        f"{quoted(path)} changed since you read it; read it again, then decide whether to repeat the change"
    )


def the_root(path: str) -> ToolError:
    return ToolError(f"{quoted(path)} is or holds the root, which cannot be deleted; delete what is in it by name")
