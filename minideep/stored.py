"""The methods of `Agent` that read the threads of its store, copy them and delete them. None runs anything."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from . import checkpoint
from .checks import checked
from .errors import UnknownThread
from .messages import Message
from .ports import Model
from .runtime import Turns, checked_thread_id
from .state import BoundaryNumber, Path, State, Status, ThreadId, ThreadPrefix

if TYPE_CHECKING:  # Loaded when they are used.
    from .checkpoint import Boundary, CheckedStore, Difference, RunInfo, ThreadInfo
    from .replay import Replay


@checked
class StoredThreads:
    """The part of `Agent` that reads threads as they are saved."""

    _turns: Turns

    def get_state(
        self, thread_id: ThreadId, *, subagents: bool = False, at: BoundaryNumber | None = None,
        after: Annotated[int, Meta(ge=1)] | None = None,
    ) -> State:  # fmt: skip
        """Return the thread's state as it was last saved, at its boundary *at*, or after the event of number *after*,
        which may be in the middle of a turn.

        A thread with a turn running in this process is shown as it is now, unless the agent that runs it has a
        `redact`. If *subagents* is True, `State.subagents` holds the state of every run below, nested, under that run's
        key.

        Raises:
            UnknownThread, CheckpointError
            ConfigError: the boundary or the event does not exist.
            HistoryCut: retention has removed it.
        """
        return checkpoint.get_state(self._store, thread_id, subagents=subagents, at=at, after=after)

    def history(self, thread_id: ThreadId, call_id: str | Path | None = None) -> "list[Boundary]":
        """Return the boundaries of the thread's main run, oldest first; with *call_id*, those of the subagent run that
        this call began.

        Raises:
            UnknownThread, CheckpointError
            ConfigError: *call_id* names no run, or several.
        """
        return checkpoint.history(self._store, thread_id, call_id)

    def transcript(self, thread_id: ThreadId, call_id: str | Path | None = None) -> list[Message]:
        """Return every message of the thread's main run or, with *call_id*, of the subagent run that this call began,
        as originally recorded, even if it has since been compacted.

        Raises:
            UnknownThread, CheckpointError
            ConfigError: *call_id* names no run, or several.
        """
        return checkpoint.transcript(self._store, thread_id, call_id)

    def runs(self, thread_id: ThreadId) -> "list[RunInfo]":
        """Return every run below the thread's main one, parents first: its agent, its status, its cost. A thread with a
        turn running in this process is shown as it is now, as in `get_state`.

        Raises:
            UnknownThread, CheckpointError
        """
        return checkpoint.runs(self._store, thread_id)

    def diff(self, thread_id: ThreadId, a: BoundaryNumber, b: BoundaryNumber) -> "Difference":
        """Return what changed from boundary *a* to the later boundary *b*.

        Raises:
            UnknownThread, CheckpointError, HistoryCut
            ConfigError: one of them does not exist.
        """
        return checkpoint.diff(self._store, thread_id, a, b)

    def read_file(self, thread_id: ThreadId, file: str, *, at: BoundaryNumber | None = None) -> str | bytes | None:
        """Return the content of a file in the thread's state, now or at a boundary. Return None if the content is only
        on the disk.

        Raises:
            ConfigError: the file or the boundary does not exist.
            UnknownThread, CheckpointError, HistoryCut: as `get_state`.
        """
        return checkpoint.read_file(self._store, thread_id, file, at)

    def export(self, thread_id: ThreadId) -> list[str]:
        """Return every message of a thread and of the runs below it, each as a line of JSON.

        Each line is one flat object: `path`, `agent`, `turn`, and the fields of the message, `{"type": "human" | "ai" |
        "tool", "content", "tool_calls": [{"id", "name", "args"}], "name", "tool_call_id"}`.

        Raises:
            UnknownThread, CheckpointError
        """
        return checkpoint.export(self._store, thread_id)

    def threads(
        self, *, prefix: ThreadPrefix = "", limit: Annotated[int, Meta(ge=0)] | None = None,
        status: Status | Literal["damaged"] | None = None, tags: Mapping[str, str] | None = None,
    ) -> "list[ThreadInfo]":  # fmt: skip
        """Return the threads of the store with their sizes, most recently used first.

        *prefix* is the beginning of their ids; *status* and *tags* those of the last turn (see `with_options`); *limit*
        the most that are returned.
        """
        return checkpoint.threads(self._store, prefix, limit, status, tags)

    def fork(
        self, source: ThreadId, *, at: BoundaryNumber | None = None, thread_id: ThreadId | None = None,
        after: Annotated[int, Meta(ge=1)] | None = None,
    ) -> str:  # fmt: skip
        """Create the thread *thread_id* (default: a new id) as a copy of *source* and return its id: as last saved, at
        boundary *at*, or after the event of number *after* (`event.number`). The copy includes history, subagents and
        files; large files are shared, not copied.

        After an event in the middle of a turn, the copy is a turn that was cut short there: `resume` goes on with it.

        Raises:
            UnknownThread, CheckpointError, HistoryCut
            ConfigError: the boundary or the event does not exist, or a thread of that id exists.
        """
        new_id = checked_thread_id(thread_id)
        checkpoint.fork(self._store, source, at, new_id, after)
        return new_id

    async def replay(
        self, thread_id: ThreadId, *, at: BoundaryNumber | None = None, model: str | Model | None = None,
        system_prompt: str | None = None, others: Literal["refuse", "run"] = "refuse", context: Any = None,
    ) -> "Replay":  # fmt: skip
        """Run the messages of a thread again, on a thread of its own in memory, and return both runs side by side.

        *at* leaves out what came after that boundary. *model* stands in place of all models of this agent, and
        *system_prompt* in place of its own; without them, its own are asked. A call that was made before with the same
        tool and arguments gets its recorded result; *others* get an error result that says so, or run if it is "run".
        Tools that change nothing but the thread, such as `write_todos`, and those that run other agents, run again.
        A call that waits for a person gets the decision that was made about the same call, or is rejected. *context* is
        what tools and hooks get as `ctx.context`.

        The recorded thread is only read, and unless others run, no file on a disk of `FilesystemBackend` is changed.

        Raises:
            UnknownThread, CheckpointError
            HistoryCut: retention has removed the beginning of the thread.
            ConfigError: boundary number *at* does not exist, *model* is not a model, or an input was refused.
        """
        from .replay import replay

        return await replay(self, self._store, thread_id, at, model, system_prompt, others, context)

    def delete(self, thread_id: ThreadId) -> None:
        """Remove a thread, with every run below it and the files that only it refers to.

        Raises:
            UnknownThread
            ThreadBusy: a turn of it is running, here or in another process.
            CheckpointError: the store failed; nothing was removed.
        """
        try:
            checkpoint.delete(self._store, thread_id)
        except UnknownThread:
            if not self._turns.forget(self._store, thread_id):  # Otherwise nothing of it was ever saved.
                raise
        self._turns.forget(self._store, thread_id)

    if TYPE_CHECKING:

        @property
        def _store(self) -> "CheckedStore": ...
