"""File backends: where an agent's files live, and how all of them treat paths, names and contents.

Code outside this package imports from here. Only the names in `__all__` are a promise to users.
"""

# ruff: noqa: F401
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from .. import lazy_names
from ..ports import FileInfo
from .given import write_given
from .names import encodable, escaped, quoted, unescaped
from .paths import CONVERSATION, MAX_FILE, RESULTS, Missing, changed, configured, is_within, join, parsed, read_only
from .search import GLOB_SECONDS, GREP_SECONDS, Found, Hits, find, grep, similar, status
from .state import StateBackend
from .text import Decoded, as_content, decode, encode

if TYPE_CHECKING:
    from .bubblewrap import BubblewrapBackend
    from .commands import Executed, ShellBackend
    from .docker import DockerSandbox
    from .filesystem import FilesystemBackend
    from .sandbox import Sandbox, SandboxBackend
    from .shell import LocalShellBackend

__all__ = [
    "BubblewrapBackend",
    "DockerSandbox",
    "Executed",
    "FileInfo",
    "FilesystemBackend",
    "LocalShellBackend",
    "Missing",
    "Sandbox",
    "SandboxBackend",
    "ShellBackend",
    "StateBackend",
]
# Most agents keep files in their state: the code for a disk is loaded when it is first asked for.
__getattr__ = lazy_names(
    __name__,
    {
        "bubblewrap": "BubblewrapBackend",
        "commands": "Executed ShellBackend",
        "docker": "DockerSandbox",
        "filesystem": "FilesystemBackend",
        "sandbox": "Sandbox SandboxBackend",
        "shell": "LocalShellBackend",
    },
)
