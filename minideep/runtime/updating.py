"""`Agent.update_state`: a person's change of a thread between two turns, recorded as events."""

import time
from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from ..backends import encodable, parsed
from ..errors import ConfigError, IllegalEvent, ToolError
from ..events import FileDeleted, MessagesReplaced
from ..messages import Message, clean_content
from .inputs import add_files
from .run import Run
from .turns import Accepted


async def update(
    messages: Iterable[Message] | None, files: Mapping[str, str | bytes | None] | None, run: Run
) -> Accepted:
    """Record what changes when the messages in context are *messages*, and *files* are written, or deleted if None.

    Raises:
        ConfigError: the turn was cut short, the messages do not fit together, or a file is refused.
    """
    if run.state.status == "running":
        found = f"thread {run.journal.thread_id!r} was cut short in the middle of a turn"
        raise ConfigError(f"{found}; `resume` it first")
    if messages is not None:
        _replace(run, [structs.replace(one, content=clean_content(one.content)) for one in messages])
    given = files or {}
    _delete(run, [name for name, content in given.items() if content is None])
    if written := {name: content for name, content in given.items() if content is not None}:
        await add_files(run, written)
    return Accepted(must_save=True)


def _replace(run: Run, new: Sequence[Message]) -> None:
    """Record the part in which *new* differs from the messages in context: the event is as large as the change."""
    old = run.state.messages
    most = min(len(old), len(new))
    start = next((place for place in range(most) if old[place] != new[place]), most)
    same = next((back for back in range(most - start) if old[-1 - back] != new[-1 - back]), most - start)
    if start == len(old) == len(new):
        return
    try:
        run.record(MessagesReplaced(start, len(old) - same, tuple(new[start : len(new) - same]), time.time()))
    except IllegalEvent as exc:
        raise ConfigError(f"messages: {exc}") from None


def _delete(run: Run, names: Iterable[str]) -> None:
    for name in names:
        try:
            path = encodable(parsed(name, "/"))
        except ToolError as exc:
            raise ConfigError(f"files: {exc}") from None
        entry = run.state.files.get(path)
        if entry is None:
            raise ConfigError(f"files: thread {run.journal.thread_id!r} has no file {path!r} to delete")
        if entry.content is None and not entry.blob:
            raise ConfigError(f"files: {path!r} is not kept in the thread; delete it where it is")
        run.record(FileDeleted(path, time.time()))
