"""File backends: where an agent's files live, and how all of them treat paths, names and contents.

Code outside this package imports from here. Only the names in `__all__` are a promise to users.
"""

# ruff: noqa: F401
# pyright: reportUnusedImport=false

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import lazy_names
from ..ports import FileInfo
from .contents import GREP_SECONDS, Hit, Hits, InMemory, grep
from .given import write_given
from .globs import Glob
from .guarded import Guard, PermittedBackend, hold
from .names import encodable, escaped, quoted, unescaped
from .paths import (
    CONVERSATION,
    MAX_FILE,
    RESULTS,
    Missing,
    changed,
    configured,
    is_within,
    join,
    normalized,
    parsed,
    read_only,
)
from .search import GLOB_SECONDS, Found, find, similar, status
from .state import StateBackend
from .text import Decoded, as_content, decode, encode

if TYPE_CHECKING:
    from .bubblewrap import BubblewrapBackend
    from .commands import Executed, ShellBackend
    from .composite import CompositeBackend
    from .docker import DockerSandbox
    from .filesystem import FilesystemBackend
    from .sandbox import Sandbox, SandboxBackend
    from .shell import LocalShellBackend
    from .store import StoreBackend

__all__ = [
    "BubblewrapBackend",
    "CompositeBackend",
    "DockerSandbox",
    "Executed",
    "FileInfo",
    "FilesystemBackend",
    "LocalShellBackend",
    "Missing",
    "PermittedBackend",
    "Sandbox",
    "SandboxBackend",
    "ShellBackend",
    "StateBackend",
    "StoreBackend",
]
# Loaded when they are first asked for: most agents keep their files in the state.
__getattr__: Callable[[str], Any] = lazy_names(
    __name__,
    {
        "bubblewrap": "BubblewrapBackend",
        "commands": "Executed ShellBackend",
        "composite": "CompositeBackend",
        "docker": "DockerSandbox",
        "filesystem": "FilesystemBackend",
        "sandbox": "Sandbox SandboxBackend",
        "shell": "LocalShellBackend",
        "store": "StoreBackend",
    },
)
