"""`Agent` and its verbs: run, stream, resume, and what reads a thread."""

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
from .runtime.spec import build_spec, check_prices
from .runtime.stream import Stream
from .runtime.sync import run_sync
from .runtime.turns import TurnConfig, Turns, checked_thread_id
from .state import BoundaryNumber, Decision, Limits, Path, State, ThreadId
from .tools import Tool
from .turn import Turn

if TYPE_CHECKING:
    from .checkpoint import Boundary, Difference, RunInfo, ThreadInfo

FIXED = ("model", "tools", "system_prompt", "middleware", "limits", "name", "version", "continues")
"""What an agent is made of: to set it afterwards would change nothing."""


@checked
class Agent:
    """A model, tools and middleware on the loop: the bare one, with nothing but what it is given.

    *model* is a string such as `anthropic:claude-sonnet-4-6`, or a `Model`. Without a *checkpointer* threads live as
    long as the agent; `agent.checkpointer` may be set at any time, it is read when a turn begins.

    *durability* says when a turn is saved besides at its two ends: `turn` not at all, `step` before each question to
    a model, `tool` after each reply and each result as well. It is the same events, earlier: what is saved is not done
    again after a crash. *redact* gives the event that is saved in the place of one that happened: of the same type,
    with the same ids. What it takes out of a call's arguments is missing when another process goes on with that call.

    A thread belongs to the agent of the *name* that began it. Others may go on with it if *continues* names that one,
    as after an agent was renamed. *version* is for you: `state.notes["agent"]` and the log say which one ran a turn.
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
        self._own = checkpoint.MemoryCheckpointer() if checkpointer is None else None
        self._threads = Turns()
        spec = build_spec(name, resolve(model), tools, system_prompt, tuple(middleware), limits or Limits())
        check_prices(spec, spec.limits, name)
        self.spec: AgentSpec = structs.replace(spec, about={"version": version}, continues=frozenset(continues))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED:
            raise ConfigError(f"agent.{name} cannot be changed, as an agent is put together once; make another agent")
        super().__setattr__(name, value)

    async def run(
        self, input: Input, thread_id: ThreadId | None = None, *, context: Any = None, wait: bool = False
    ) -> Turn:
        """Run one turn: from *input* to the boundary where the agent hands over.

        *context* is for tools (`ctx.context`) and never recorded. With *wait* a thread that is busy is waited for.
        Once the input is accepted a `Turn` always comes back, whatever happened; cancellation saves the thread and
        raises.

        Raises:
            ConfigError: the input or the thread's id is not usable.
            ThreadBusy: another run, in whatever process, has the thread; nothing was done.
            ThreadConflict: another writer was first; nothing was done.
            CheckpointError: the store cannot be asked, or the thread's log cannot be read; nothing was done.
        """
        return await self._threads.turn(self._terms(context, None, wait), input, thread_id)

    def run_sync(
        self, input: Input, thread_id: ThreadId | None = None, *, context: Any = None, wait: bool = False
    ) -> Turn:
        """`run` for scripts; also where an event loop runs already, which waits meanwhile."""
        return run_sync(self.run(input, thread_id, context=context, wait=wait))

    def stream(
        self, input: Input, thread_id: ThreadId | None = None, *, context: Any = None, wait: bool = False
    ) -> Stream:
        """`run`, telling what happens while it happens: `async for event in agent.stream(...)`."""
        return Stream(lambda emit: self._threads.turn(self._terms(context, emit, wait), input, thread_id))

    async def resume(
        self,
        thread_id: ThreadId,
        decisions: Mapping[str, Decision] | None = None,
        *,
        context: Any = None,
        wait: bool = False,
    ) -> Turn:
        """Go on with a thread: with *decisions* for any of its waiting calls, by call id (or `path/id` where two
        runs wait under one id); without them, with a turn that failed, was cancelled, exhausted or killed.

        A thread that ended or asks, or that waits while no decision is given, returns its last turn, without what that
        cost and wrote. A call that a person let run, and that was cut short, waits again.

        Raises:
            UnknownThread: there is none of this name.
            ConfigError: a decision is for no waiting call; nothing was done.
            ThreadBusy: another run has the thread; nothing was done.
            ThreadConflict, CheckpointError: the decisions could not be saved; nothing was done.
        """
        return await self._threads.resumed(self._terms(context, None, wait), thread_id, decisions or {})

    def resume_stream(
        self,
        thread_id: ThreadId,
        decisions: Mapping[str, Decision] | None = None,
        *,
        context: Any = None,
        wait: bool = False,
    ) -> Stream:
        """`resume`, telling what happens while it happens."""
        return Stream(lambda emit: self._threads.resumed(self._terms(context, emit, wait), thread_id, decisions or {}))

    async def save(self, thread_id: ThreadId) -> None:
        """Append what a failed save has left of a thread; nothing, if there is nothing.

        Raises:
            UnknownThread, ThreadBusy
            CheckpointError: it fails again, and is kept for the next time.
            ThreadConflict: another writer has gone on with the thread; what was left is dropped.
        """
        await self._threads.save(self._terms(None, None, False), thread_id)

    async def preload(self) -> None:
        """Import what the model needs, such as its SDK, now rather than at the first question: it may take a second."""
        preload = getattr(self.spec.model, "preload", None)
        if preload is not None:
            await preload()

    def _terms(self, context: Any, emit: Emit | None, wait: bool) -> TurnConfig:
        return TurnConfig(self.spec, self._store, self.durability, self.redact, context, emit, wait)

    # ---- what reads a thread

    def get_state(self, thread_id: ThreadId, *, subagents: bool = False, at: BoundaryNumber | None = None) -> State:
        """The thread's state as it was last saved, or at its boundary *at*; of a thread that runs in this process as it
        is now, unless the agent that runs it has a `redact`. With *subagents* the state of every run below it stands in
        `State.subagents`, by the id of its call, nested.

        Raises:
            UnknownThread, CheckpointError
            ConfigError: there is no boundary *at*.
            HistoryCut: there was, before retention removed it.
        """
        return checkpoint.get_state(self._store, thread_id, subagents=subagents, at=at)

    def history(self, thread_id: ThreadId, call_id: str | Path | None = None) -> "list[Boundary]":
        """The boundaries of a thread, or of the run below it that answers the call *call_id*; the first one first.

        Raises:
            UnknownThread, CheckpointError
            ConfigError: there is no such run.
        """
        return checkpoint.history(self._store, thread_id, call_id)

    def transcript(self, thread_id: ThreadId, call_id: str | Path | None = None) -> list[Message]:
        """All that was said in a thread, or in the run below it that answers the call *call_id*: the original
        messages, whatever was compacted since.

        Raises:
            UnknownThread, CheckpointError
            ConfigError: there is no such run.
        """
        return checkpoint.transcript(self._store, thread_id, call_id)

    def runs(self, thread_id: ThreadId) -> "list[RunInfo]":
        """Every run below the thread's main one, parents first: whose it was, how it ended, what it cost. Of a thread
        that runs in this process as they are now, as `get_state`.

        Raises:
            UnknownThread, CheckpointError
        """
        return checkpoint.runs(self._store, thread_id)

    def diff(self, thread_id: ThreadId, a: BoundaryNumber, b: BoundaryNumber) -> "Difference":
        """What changed from boundary *a* to the later boundary *b*.

        Raises:
            UnknownThread, CheckpointError, HistoryCut
            ConfigError: one of them is not there.
        """
        return checkpoint.diff(self._store, thread_id, a, b)

    def read_file(self, thread_id: ThreadId, file: str, *, at: BoundaryNumber | None = None) -> str | bytes | None:
        """What a file of the thread's state holds, now or at a boundary, wherever the store keeps it; None where a
        disk is the truth.

        Raises:
            ConfigError: there is no such file, or no such boundary.
            UnknownThread, CheckpointError, HistoryCut: as `get_state`.
        """
        return checkpoint.read_file(self._store, thread_id, file, at)

    def export(self, thread_id: ThreadId) -> list[str]:
        """Every message of a thread and of the runs below it, each as a line of JSON.

        A line has `path`, `agent` and `turn`, and the message as `{"type": "human" | "ai" | "tool", "content",
        "tool_calls": [{"id", "name", "args"}], "name", "tool_call_id"}`.

        Raises:
            UnknownThread, CheckpointError
        """
        return checkpoint.export(self._store, thread_id)

    def threads(self) -> "list[ThreadInfo]":
        """Every thread of the store with its size, the last used one first."""
        return checkpoint.threads(self._store)

    def fork(self, source: ThreadId, *, at: BoundaryNumber | None = None, thread_id: ThreadId | None = None) -> str:
        """Begin the thread *thread_id* (default: a new id, which is returned) as *source* was at boundary *at*, or as
        it was last saved. History, subagents and files come along; large files are shared, not copied.

        Raises:
            UnknownThread, CheckpointError, HistoryCut
            ConfigError: there is no boundary *at*, or there is a thread of that id.
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
            if not self._threads.forget(self._store, thread_id):  # Else nothing of it was ever saved.
                raise
        self._threads.forget(self._store, thread_id)

    @property
    def _store(self) -> CheckedStore:
        given = (self.checkpointer, self.durability, self.redact)
        if given != self._checked:  # They may be set at any time.
            check_fields(self)
            self._checked = given
            store = self.checkpointer
            if store is None:
                store = self._own = self._own or checkpoint.MemoryCheckpointer()
            self._opened = open_store(store)
        return self._opened
