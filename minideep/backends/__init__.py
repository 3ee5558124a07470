"""File backends: where an agent's files live, and how all of them treat paths, names and contents.

Code outside this package imports from here. Only the names in `__all__` are a promise to users.
"""

# ruff: noqa: F401
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING, Any

from ..ports import FileInfo
from .contents import GREP_SECONDS, Hit, Hits, InMemory, grep
from .given import write_given
from .names import encodable, escaped, quoted, unescaped
from .paths import CONVERSATION, MAX_FILE, RESULTS, Missing, changed, configured, is_within, join, parsed, read_only
from .search import GLOB_SECONDS, Found, find, similar, status
from .state import StateBackend
from .text import Decoded, as_content, decode, encode

if TYPE_CHECKING:
    from .filesystem import FilesystemBackend

__all__ = ["FileInfo", "FilesystemBackend", "Missing", "StateBackend"]


def __getattr__(name: str) -> Any:
    """Load the code that works on a disk when it is first asked for: most agents keep files in their state."""
    if name != "FilesystemBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .filesystem import FilesystemBackend

    return FilesystemBackend
