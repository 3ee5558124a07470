"""Records what comes with an input besides its message: a history before it, and files."""

import time
from collections.abc import Mapping, Sequence
from types import NoneType

from ..context import ToolContext
from ..errors import ConfigError, MiddlewareError, ToolError
from ..history import events_of
from ..messages import Message
from .hooks import call_hook
from .run import Run


def begin_with_history(run: Run, earlier: Sequence[Message]) -> None:
    """Record the *earlier* messages of a thread.

    Raises:
        ConfigError: the thread has begun.
    """
    if run.state.status != "ready":
        found = f"thread {run.journal.thread_id!r} has begun, and a history begins a thread"
        raise ConfigError(f"{found}; give the new message alone, or another thread_id")
    record_history(run, earlier)
    run.live.number = run.journal.number  # Who follows this turn begins behind the history.


def record_history(run: Run, earlier: Sequence[Message]) -> None:
    """Record the *earlier* messages of a run that begins."""
    for event in events_of(earlier, run.spec.name, time.time()):
        run.record(event)


async def add_files(run: Run, files: Mapping[str, str | bytes]) -> None:
    """Have *files*, which come with the message that was just recorded, written and recorded.

    Raises:
        ConfigError: the agent has no files, or one is refused; none was written.
        MiddlewareError: the hook has failed otherwise.
    """
    if not run.spec.add_files:
        problem = f"agent {run.spec.name!r} has no files, so none can be given to it"
        raise ConfigError(f"{problem}; add FilesystemMiddleware(StateBackend()), or use create_deep_agent")
    try:
        await call_hook(run.spec.add_files[0], "add_files", (NoneType,), ToolContext(run), dict(files))
    except MiddlewareError as exc:
        if isinstance(exc.__cause__, ToolError):
            raise ConfigError(f"files: {exc.__cause__}") from None
        raise
