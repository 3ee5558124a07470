"""What a call of a tool reaches: files, commands, subagents. A tool says it of its own calls; guards read it."""

from typing import Any

from .checks import UserWritten, check_fields


class Access(UserWritten, frozen=True):
    """One thing that a call reaches: `Access("write", "/src/a.py")`."""

    operation: str
    """`read` or `write` for files, `execute` for a command, `task` for a subagent, or a word of your own."""
    subject: str = ""
    """The absolute path, the command, the name of the subagent."""
    below: bool = False
    """True if everything below the path is reached too."""

    def __post_init__(self) -> None:
        check_fields(self)


def no_access(args: dict[str, Any]) -> tuple[Access, ...]:
    """The *access* of a tool that reaches nothing outside of its run."""
    return ()
