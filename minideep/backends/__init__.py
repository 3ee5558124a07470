"""File backends: where an agent's files live, and how all of them treat paths, names and contents.

Code outside this package imports from here. Only the names in `__all__` are a promise to users.
"""

# ruff: noqa: F401
# pyright: reportUnusedImport=false

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import lazy_names
from ..ports import FileInfo
from .given import write_given
from .names import encodable, escaped, quoted, unescaped
from .paths import CONVERSATION, MAX_FILE, RESULTS, Missing, changed, configured, is_within, join, parsed, read_only
from .search import GLOB_SECONDS, GREP_SECONDS, Found, Hits, find, grep, similar, status
from .state import StateBackend
from .text import Decoded, as_content, decode, encode

if TYPE_CHECKING:
    from .composite import CompositeBackend
    from .filesystem import FilesystemBackend
    from .store import StoreBackend

__all__ = ["CompositeBackend", "FileInfo", "FilesystemBackend", "Missing", "StateBackend", "StoreBackend"]
# Loaded when they are first asked for: most agents keep their files in the state.
__getattr__: Callable[[str], Any] = lazy_names(
    __name__, {"composite": "CompositeBackend", "filesystem": "FilesystemBackend", "store": "StoreBackend"}
)
