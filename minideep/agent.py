"""`Agent` and its verbs: run, stream, resume, and those that read a thread."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from . import checkpoint
from .checkpoint import CheckedStore, Durability, Redact, open_store
from .checks import check_fields, checked
from .errors import ConfigError, UnknownThread
from .messages import Input, Message
from .models import resolve
from .ports import AgentSpec, Emit, Middleware, Model, Store
from .runtime import TurnConfig, Turns, build_spec, check_prices, checked_thread_id
from .state import BoundaryNumber, Decision, Limits, Path, State, ThreadId
from .tools import Tool
from .turn import Turn

if TYPE_CHECKING:  # Loaded when they are used.
    from .checkpoint import Boundary, Difference, RunInfo, ThreadInfo
    from .runtime import Stream

FIXED = ("model", "tools", "system_prompt", "middleware", "limits", "name", "version", "continues")
"""The parts of an agent. It is put together once, so setting one afterwards would change nothing."""


@checked
class Agent:
    """A model, tools and middleware on the loop, with nothing built in.

    *model* is a string such as `anthropic:claude-sonnet-4-6`, or a `Model`. Without a *checkpointer* threads live as
    long as the agent. `agent.checkpointer` may be set at any time; it is read when a turn begins.

    *durability* says when a turn is saved besides at its two ends: `turn` not at all, `step` before each model call,
    `tool` after each reply and each result as well. The events are the same, only earlier: what is saved is not done
    again after a crash. *redact* returns the event to save in place of one that happened, of the same type and with the
    same ids. What it removes from a call's arguments is missing when another process continues with that call.

    A thread belongs to the agent whose *name* began it. *continues* names other agents whose threads this one may
    continue, such as itself before it was renamed. *version* is for you: the log says which version ran each turn, and
    so does `state.notes["agent"]`.
    """

    checkpointer: Store | None
    durability: Durability
    redact: Redact | None
    _checked: Any = None
    _opened: Any = None

    def __init__(
        self,
        model: str | Model,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        system_prompt: str = "",
        middleware: Iterable[Middleware] = (),
        *,
        checkpointer: Store | None = None,
        durability: Durability = "turn",
        limits: Limits | None = None,
        name: str = "main",
        version: str = "",
        continues: Iterable[str] = (),
        redact: Redact | None = None,
    ) -> None:
        self.checkpointer, self.durability, self.redact = checkpointer, durability, redact
        self._own: Store | None = None
        self._turns = Turns()
        spec = build_spec(name, resolve(model), tools, system_prompt, tuple(middleware), limits or Limits())
        check_prices(spec, spec.limits, name)
        self.spec: AgentSpec = structs.replace(spec, about={"version": version}, continues=frozenset(continues))

    def __copy__(self) -> "Agent":
        _ = self._store  # Made now, if there is none yet: a copy has the same threads.
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED:
            raise ConfigError(f"agent.{name} cannot be changed, as an agent is put together once; make another agent")
        super().__setattr__(name, value)

    async def run(
        self, input: Input, thread_id: ThreadId | None = None, *, context: Any = None, wait: bool = False
    ) -> Turn:
        """Run one turn: from *input* to the boundary where the agent hands over.

        Tools get *context* as `ctx.context`; it is never recorded. With *wait* a busy thread is waited for. Once the
        input is accepted a `Turn` is returned even if the turn fails; a cancellation saves the thread and is raised.

        Raises:
            ConfigError: the input or the thread's id is not usable.
            ThreadBusy: another run, in any process, holds the thread; nothing was done.
            ThreadConflict: another writer was first; nothing was done.
            CheckpointError: the store cannot be read, or the thread's log cannot; nothing was done.
        """
        return await self._turns.run(self._config(context, None, wait), input, thread_id)

    def run_sync(
        self, input: Input, thread_id: ThreadId | None = None, *, context: Any = None, wait: bool = False
    ) -> Turn:
        """Run one turn from plain code, as `run` does. A loop that runs on this thread is blocked meanwhile."""
        from .runtime import run_sync

        return run_sync(self.run(input, thread_id, context=context, wait=wait))

    def stream(
        self, input: Input, thread_id: ThreadId | None = None, *, context: Any = None, wait: bool = False
    ) -> "Stream":
        """Run one turn, as `run` does, and stream its events: `async for event in agent.stream(...)`."""
        from .runtime import Stream

        return Stream(lambda emit: self._turns.run(self._config(context, emit, wait), input, thread_id))

    async def resume(
        self,
        thread_id: ThreadId,
        decisions: Mapping[str, Decision] | None = None,
        *,
        context: Any = None,
        wait: bool = False,
    ) -> Turn:
        """Resume a paused, failed, cancelled or interrupted turn.

        *decisions* are for any of the waiting calls, by call id, or by `path/id` where two runs wait under one id. An
        approved call that was cut short waits again. If the turn ended or escalated, or if it is paused and no decision
        is given, the last turn is returned, with empty costs.

        Raises:
            UnknownThread: the store has no such thread.
            ConfigError: a decision is for no waiting call; nothing was done.
            ThreadBusy: another run holds the thread; nothing was done.
            ThreadConflict, CheckpointError: the decisions could not be saved; nothing was done.
        """
        return await self._turns.resume(self._config(context, None, wait), thread_id, decisions or {})

    def resume_stream(
        self,
        thread_id: ThreadId,
        decisions: Mapping[str, Decision] | None = None,
        *,
        context: Any = None,
        wait: bool = False,
    ) -> "Stream":
        """Resume a turn, as `resume` does, and stream its events."""
        from .runtime import Stream

        return Stream(lambda emit: self._turns.resume(self._config(context, emit, wait), thread_id, decisions or {}))

    async def save(self, thread_id: ThreadId) -> None:
        """Append the events of a thread that an earlier save could not append, if there are any.

        Raises:
            UnknownThread, ThreadBusy
            CheckpointError: it failed again; the events are kept for the next time.
            ThreadConflict: another writer has gone on with the thread; the events are dropped.
        """
        await self._turns.save(self._config(None, None, False), thread_id)

    async def preload(self) -> None:
        """Import what the model needs, such as its SDK, before the first call. That may take a second."""
        preload = getattr(self.spec.model, "preload", None)
        if preload is not None:
            await preload()

    def _config(self, context: Any, emit: Emit | None, wait: bool) -> TurnConfig:
        return TurnConfig(self.spec, self._store, self.durability, self.redact, context, emit, wait)

    # ---- reading a thread

    def get_state(self, thread_id: ThreadId, *, subagents: bool = False, at: BoundaryNumber | None = None) -> State:
        """Return the thread's state as it was last saved, or at its boundary *at*.

        A thread that runs in this process is shown as it is now, unless the agent that runs it has a `redact`. With
        *subagents* every run below stands in `State.subagents`, by the key of its call, nested.

        Raises:
            UnknownThread, CheckpointError
            ConfigError: there is no boundary *at*.
            HistoryCut: retention has removed it.
        """
        return checkpoint.get_state(self._store, thread_id, subagents=subagents, at=at)

    def history(self, thread_id: ThreadId, call_id: str | Path | None = None) -> "list[Boundary]":
        """Return the boundaries of a thread, or of the run below it that answers the call *call_id*; first to last.

        Raises:
            UnknownThread, CheckpointError
            ConfigError: there is no such run.
        """
        return checkpoint.history(self._store, thread_id, call_id)

    def transcript(self, thread_id: ThreadId, call_id: str | Path | None = None) -> list[Message]:
        """Return every message of a thread, or of the run below it that answers the call *call_id*: the originals,
        whatever was compacted since.

        Raises:
            UnknownThread, CheckpointError
            ConfigError: there is no such run.
        """
        return checkpoint.transcript(self._store, thread_id, call_id)

    def runs(self, thread_id: ThreadId) -> "list[RunInfo]":
        """Return every run below the thread's main one, parents first: its agent, its status, its cost. A thread that
        runs in this process is shown as it is now, as in `get_state`.

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
        """Return the content of a file of the thread's state, now or at a boundary, wherever the store keeps it; None
        where only the disk has it.

        Raises:
            ConfigError: there is no such file, or no such boundary.
            UnknownThread, CheckpointError, HistoryCut: as `get_state`.
        """
        return checkpoint.read_file(self._store, thread_id, file, at)

    def export(self, thread_id: ThreadId) -> list[str]:
        """Return every message of a thread and of the runs below it, each as a line of JSON.

        A line has `path`, `agent` and `turn`, and the message as `{"type": "human" | "ai" | "tool", "content",
        "tool_calls": [{"id", "name", "args"}], "name", "tool_call_id"}`.

        Raises:
            UnknownThread, CheckpointError
        """
        return checkpoint.export(self._store, thread_id)

    def threads(self) -> "list[ThreadInfo]":
        """Return every thread of the store with its size, the last used one first."""
        return checkpoint.threads(self._store)

    def fork(self, source: ThreadId, *, at: BoundaryNumber | None = None, thread_id: ThreadId | None = None) -> str:
        """Begin the thread *thread_id* (default: a new id) as *source* was at boundary *at*, or as it was last saved;
        return its id. History, subagents and files come along; large files are shared, not copied.

        Raises:
            UnknownThread, CheckpointError, HistoryCut
            ConfigError: there is no boundary *at*, or a thread of that id exists.
        """
        new_id = checked_thread_id(thread_id)
        checkpoint.fork(self._store, source, at, new_id)
        return new_id

    def delete(self, thread_id: ThreadId) -> None:
        """Remove a thread, with every run below it and the files that only it refers to.

        Raises:
            UnknownThread
            ThreadBusy: it is being run.
            CheckpointError: the store failed; nothing was removed.
        """
        try:
            checkpoint.delete(self._store, thread_id)
        except UnknownThread:
            if not self._turns.forget(self._store, thread_id):  # Otherwise nothing of it was ever saved.
                raise
        self._turns.forget(self._store, thread_id)

    @property
    def _store(self) -> CheckedStore:
        given = (self.checkpointer, self.durability, self.redact)
        if given != self._checked:  # They may be set at any time.
            check_fields(self)
            self._opened = open_store(self.checkpointer if self.checkpointer is not None else self._own_store())
            self._checked = given
        return self._opened

    def _own_store(self) -> Store:
        """Return the store of an agent that was given none: its threads live as long as it does."""
        self._own = self._own or checkpoint.MemoryCheckpointer()
        return self._own
