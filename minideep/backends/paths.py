"""Paths as a model may write them: their normal form, and the errors that say what to do instead."""

import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from ..errors import ConfigError, ToolError
from .names import quoted, unescaped

MAX_LENGTH, MAX_PARTS = 4096, 256
"""The maximum length of a path, in characters and in components."""
MAX_FILE = 10_000_000
"""The largest file that is read, in bytes."""
RESULTS = "large_tool_results"
CONVERSATION = "conversation_history"
"""The folders for files that the runtime itself writes. The model sees these names."""
VENDORED = frozenset({"node_modules", "__pycache__", RESULTS, CONVERSATION})
"""Folders that a search skips unless it starts inside. Files of the runtime repeat what was found and said before, so
each search would find its own earlier results again."""

_REFUSED = (
    (r"\0", "it contains a NUL"),
    # Lone surrogates from 0xDC80 to 0xDCFF stand for undecodable bytes of a real file name. Others stand for nothing.
    (r"[\ud800-\udc7f\udd00-\udfff]", "it contains a character that UTF-8 cannot encode"),
    (r"(?:\A|/)\.\.(?:/|\Z)", "'..' is not allowed"),
    (r"\A~", "'~' is not expanded"),
    (r"\A[A-Za-z]:[\\/]", "drive letters are not supported"),
)
_MARKS = ("\0", "..", "~", ":")
"""What only a path that is not plain contains, if it is ASCII: the patterns above need one of them."""


_read_only: ContextVar[str] = ContextVar("read_only", default="")
"""Who lets no backend change a disk here; empty if nobody does."""


@contextmanager
def read_only(who: str) -> Generator[None]:
    """Let no backend of minideep change a disk in the turns that begin inside; *who* is named in the errors."""
    token = _read_only.set(who)
    try:
        yield
    finally:
        _read_only.reset(token)


def check_writable(path: str) -> None:
    """Check that files on a disk may be changed here.

    Raises:
        ToolError: they may not.
    """
    if who := _read_only.get():
        raise ToolError(f"{quoted(path)} was not changed: {who} changes no files on a disk")


class Missing(ToolError):
    """Nothing exists at *path*. Backends raise this, and the file tools add the names that are *near* it."""

    def __init__(self, path: str, near: Sequence[str] = ()) -> None:
        hint = f"did you mean {' or '.join(map(quoted, near))}? Else " if near else ""
        super().__init__(f"{quoted(path)} does not exist; {hint}find it with ls or glob")
        self.path = path


def normalized(path: str, home: str = "/") -> str:
    """Return *path* as an absolute path without `//`, `./` or a final `/`. A relative path starts at *home*.

    Raises:
        ToolError: *path* has a `..` component, begins with `~` or a drive letter, contains a NUL or a lone surrogate
            that stands for no byte, or is longer than `MAX_LENGTH` or `MAX_PARTS`.
    """
    _check_length(path, len(path))
    if not path.isascii() or any(mark in path for mark in _MARKS):  # Of 10,000 files that are searched, hardly one.
        for pattern, problem in _REFUSED:
            if re.search(pattern, path):
                raise _refused(path, problem)
    start = "" if path.startswith("/") else home
    parts = [part for part in f"{start}/{path}".split("/") if part not in ("", ".")]
    if len(parts) > MAX_PARTS:
        raise _refused(path, f"it has {len(parts):,} parts, more than {MAX_PARTS}")
    full = _with_one_spelling("/" + "/".join(parts))
    _check_length(path, len(full))  # *home* counts too.
    return full


def parsed(path: str, home: str = "/") -> str:
    """Return the normal form of a path that a model or a person typed, perhaps copied from an escaped listing.

    Raises:
        ToolError: as `normalized`.
    """
    return normalized(unescaped(path), home)


def configured(paths: Iterable[str], home: str, owner: str) -> list[str]:
    """Return the normal form of paths from an agent's configuration; *owner* names the argument in errors.

    Raises:
        ConfigError: one of them is not a path.
    """
    try:
        return [normalized(path, home) for path in paths]
    except ToolError as exc:
        raise ConfigError(f"{owner}: {exc}") from None


def _check_length(path: str, length: int) -> None:
    if length > MAX_LENGTH:
        raise _refused(path, f"it has {length:,} characters, more than {MAX_LENGTH:,}")


def _refused(path: str, problem: str) -> ToolError:
    return ToolError(f"path {quoted(path[:200])} is refused: {problem}; write it from the root, as in '/src/main.py'")


def _with_one_spelling(path: str) -> str:
    """Decode surrogates that together form valid UTF-8, so that one file never has two different paths."""
    return path if path.isascii() else path.encode(errors="surrogateescape").decode(errors="surrogateescape")


def join(folder: str, name: str = "") -> str:
    """Return the path of *name* in *folder*; without a name, the prefix that all paths below *folder* share."""
    return f"{folder.rstrip('/')}/{name}"


def is_within(path: str, folder: str) -> bool:
    """Return whether *path* is *folder* or below it."""
    return path == folder or path.startswith(join(folder))


def walk_order(path: str) -> tuple[list[str], str]:
    """Return what files sort by in a walk: those of a folder come before those in its folders."""
    folder, _, name = path.rpartition("/")
    return folder.split("/"), name


def is_searched(name: str) -> bool:
    """Return whether a walk enters a folder of this name: hidden and vendored folders are skipped."""
    return not name.startswith(".") and name not in VENDORED


def not_a_file(path: str) -> ToolError:
    return ToolError(f"{quoted(path)} is a folder, not a file; list it with ls, or give the path of a file")


def not_a_folder(path: str) -> ToolError:
    return ToolError(f"{quoted(path)} is a file, not a folder; read it with read_file")


def changed(path: str) -> ToolError:
    return ToolError(
        f"{quoted(path)} changed since you read it; read it again, then decide whether to repeat the change"
    )


def undeletable(path: str) -> ToolError:
    return ToolError(f"{quoted(path)} is or contains the root, which cannot be deleted; delete its entries by name")
