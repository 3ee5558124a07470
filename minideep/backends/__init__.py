"""Where files are kept."""

from .filesystem import FilesystemBackend
from .state import StateBackend

__all__ = ["FilesystemBackend", "StateBackend"]
