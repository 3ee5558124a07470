"""Where files are kept."""

from typing import TYPE_CHECKING, Any

from .state import StateBackend

if TYPE_CHECKING:
    from .filesystem import FilesystemBackend

__all__ = ["FilesystemBackend", "StateBackend"]


def __getattr__(name: str) -> Any:
    """Load what works on a disk when it is first asked for: most agents keep files in their state."""
    if name != "FilesystemBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .filesystem import FilesystemBackend

    return FilesystemBackend
