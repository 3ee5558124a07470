"""Files as tools: the seven tools, exact replacement in a text, and how much of a file is shown at once."""

from .edits import edited
from .tools import FilesystemMiddleware

__all__ = ["FilesystemMiddleware", "edited"]
