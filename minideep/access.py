"""What a call of a tool reaches: files, commands, subagents. A tool says it of its own calls; guards read it."""

from typing import Any

from .checks import UserWritten, check_fields
from .errors import ConfigError

OPERATIONS = ("read", "write", "execute", "task")
"""What the built-in tools do, and rules are written about."""


class Access(UserWritten, frozen=True):
    """One thing that a call reaches: `Access("write", "/src/a.py")`.

    Raises:
        ConfigError: *operation* is a misspelt one of those that rules are about, which would then hold nothing.
    """

    operation: str
    """`read` or `write` for files, `execute` for a command, `task` for a subagent, or a word of your own."""
    subject: str = ""
    """The absolute path, the command, the name of the subagent."""
    below: bool = False
    """True if everything below the path is reached too."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.operation not in OPERATIONS:
            from difflib import get_close_matches

            if meant := get_close_matches(self.operation.casefold(), OPERATIONS, 1, 0.85):
                raise ConfigError(f"Access: rules do not know the operation {self.operation!r}; write {meant[0]!r}")


def no_access(args: dict[str, Any]) -> tuple[Access, ...]:
    """The *access* of a tool that reaches nothing outside of its run."""
    return ()
