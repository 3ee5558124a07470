"""`Agent` and its verbs: run, stream, resume, and what reads a thread."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import perf_counter
from typing import Any

from . import loop
from .calls import abandon
from .checkpoint import log
from .checkpoint.log import Journal
from .checkpoint.memory import MemoryCheckpointer
from .checkpoint.rows import ThreadInfo
from .decisions import match, resumption
from .errors import CheckpointError, ConfigError, IllegalEvent, ThreadConflict, UnknownThread
from .events import UserSaid
from .messages import Input, as_message, clean
from .models import resolve
from .ports import AgentSpec, Emit, Middleware, Model, Store
from .run import Run
from .state import Decision, Limits, State
from .stream import Stream
from .sync import run_sync
from .tools import Tool, as_tool
from .turn import Turn

KEPT = 16
"""Threads whose state an agent keeps in memory after a turn."""


class Agent:
    """A model, tools and middleware on the loop: the bare one, with nothing but what it is given.

    *model* is a string such as `anthropic:claude-sonnet-4-6`, or a `Model`. Without a *checkpointer* threads live as
    long as the agent; `agent.checkpointer` may be set at any time, it is read when a turn begins.
    """

    def __init__(
        self,
        model: str | Model,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        system_prompt: str = "",
        middleware: Iterable[Middleware] = (),
        *,
        checkpointer: Store | None = None,
        limits: Limits | None = None,
        name: str = "main",
    ) -> None:
        self.checkpointer = checkpointer
        self._own = MemoryCheckpointer()
        self._kept: dict[str, Journal] = {}
        self.spec: AgentSpec = build_spec(
            name, resolve(model), tools, system_prompt, tuple(middleware), limits or Limits()
        )

    async def run(self, input: Input, thread_id: str | None = None, *, context: Any = None) -> Turn:
        """Run one turn: from *input* to the boundary where the agent hands over.

        *context* is for tools (`ctx.context`) and never recorded. Once the input is accepted a `Turn` always comes
        back, whatever happened; cancellation saves the thread and raises.

        Raises:
            ConfigError: the input or the thread's id is not usable.
            ThreadConflict: another writer was first; nothing was done.
            CheckpointError: the thread's log cannot be read.
        """
        return await self._turn(input, thread_id, context, None)

    def run_sync(self, input: Input, thread_id: str | None = None, *, context: Any = None) -> Turn:
        """`run` for scripts; also where an event loop runs already, which waits meanwhile."""
        return run_sync(self.run(input, thread_id, context=context))

    def stream(self, input: Input, thread_id: str | None = None, *, context: Any = None) -> Stream:
        """`run`, telling what happens while it happens: `async for event in agent.stream(...)`."""
        return Stream(lambda emit: self._turn(input, thread_id, context, emit))

    async def resume(
        self, thread_id: str, decisions: Mapping[str, Decision] | None = None, *, context: Any = None
    ) -> Turn:
        """Go on with a thread: with *decisions* for any of its waiting calls, by call id (or `path/id` where two
        runs wait under one id); without them, with a turn that failed, was cancelled, exhausted or killed.

        A thread that ended or asks, or that waits while no decision is given, returns its last turn.

        Raises:
            UnknownThread: there is none of this name.
            ConfigError: a decision is for no waiting call; nothing was done.
            ThreadConflict, CheckpointError: the decisions could not be saved; nothing was done.
        """
        return await self._resumed(thread_id, decisions or {}, context, None)

    def resume_stream(
        self, thread_id: str, decisions: Mapping[str, Decision] | None = None, *, context: Any = None
    ) -> Stream:
        """`resume`, telling what happens while it happens."""
        return Stream(lambda emit: self._resumed(thread_id, decisions or {}, context, emit))

    def get_state(self, thread_id: str, *, subagents: bool = False) -> State:
        """The thread's state as it was last saved. With *subagents* the state of every run below it stands in
        `State.subagents`, by the id of its call, nested.

        Raises:
            UnknownThread, CheckpointError
        """
        journal = log.open_thread(self._store, thread_id, subagents=subagents)
        if journal is None:
            raise _unknown(thread_id)
        return journal.root

    def threads(self) -> list[ThreadInfo]:
        """Every thread of the store, the last used one first."""
        return log.list_threads(self._store)

    async def warm(self) -> None:
        """Import what the model needs, such as its SDK, now rather than at the first question: it may take a second."""
        warm = getattr(self.spec.model, "warm", None)
        if warm is not None:
            await warm()

    @property
    def _store(self) -> Store:
        return self.checkpointer if self.checkpointer is not None else self._own

    async def _turn(self, input: Input, thread_id: str | None, context: Any, emit: Emit | None) -> Turn:
        message = as_message(input)
        thread_id, store = checked_thread_id(thread_id), self._store
        journal = await self._open(store, thread_id) or Journal(thread_id, store)

        async def accept(run: Run) -> CheckpointError | None:
            run.close_children()
            try:
                run.record(UserSaid(message, time.time(), self.spec.limits, agent=self.spec.name))
            except IllegalEvent as exc:
                raise ConfigError(f"the input cannot be kept: {exc}") from None
            return await _append(run)

        run = Run(self.spec, journal, listener=emit, context=context)
        return await self._accepted(run, await self._or_as_before(run, accept))

    async def _resumed(
        self, thread_id: str, decisions: Mapping[str, Decision], context: Any, emit: Emit | None
    ) -> Turn:
        store = self._store
        journal = await self._open(store, checked_thread_id(thread_id))
        if journal is None:
            raise _unknown(thread_id)
        run = Run(self.spec, journal, listener=emit, context=context)
        over = not decisions and run.state.status in ("ended", "escalated", "paused")

        async def accept(run: Run) -> CheckpointError | None:
            decided = match(run.state, decisions)
            for path, event in () if over else resumption(decided, self.spec.limits):
                run.record_at(path, event)
            failed = await _append(run)
            if failed and decided:
                raise failed
            return failed

        failed = await self._or_as_before(run, accept)
        return self._handed_back(run, failed) if over else await self._accepted(run, failed)

    async def _or_as_before(
        self, run: Run, accept: Callable[[Run], Awaitable[CheckpointError | None]]
    ) -> CheckpointError | None:
        """Accept an input; if that raises, what earlier turns left unsaved is kept as it was."""
        journal, unsaved = run.journal, list(run.journal.pending)
        try:
            return await accept(run)
        except ThreadConflict:  # What was not saved can never be: another writer has gone on.
            raise
        except BaseException:
            kept = journal
            if len(journal.pending) > len(unsaved):
                with contextlib.suppress(CheckpointError):  # A store that cannot even be read: better too much kept.
                    kept = await log.off_loop(journal.store, lambda: log.rewound(journal, unsaved))
            if unsaved:
                self._keep(kept)
            raise

    async def _accepted(self, run: Run, failed: CheckpointError | None) -> Turn:
        """Drive a turn whose input is accepted, and save its boundary; the answer comes back even if that fails."""
        try:
            await _driven(run)
        finally:
            try:
                failed = await _append(run)
            except ThreadConflict as exc:
                failed = exc
            turn = self._handed_back(run, failed)
        return turn

    def _handed_back(self, run: Run, failed: CheckpointError | None) -> Turn:
        turn = run.turn()
        turn.saved = failed is None
        turn.error = turn.error or failed
        if not isinstance(failed, ThreadConflict):
            self._keep(run.journal)
        return turn

    async def _open(self, store: Store, thread_id: str) -> Journal | None:
        """The thread as this agent left it, while the store still has it so; else as the store has it."""
        kept = self._kept.pop(thread_id, None)
        if kept is not None and kept.store is store and kept.pending:
            return kept

        def read() -> Journal | None:
            if kept is not None and kept.store is store and log.read_stored_head(store, thread_id) == kept.stored:
                return kept
            return log.open_thread(store, thread_id)

        return await log.off_loop(store, read)

    def _keep(self, journal: Journal) -> None:
        """Remember a thread: always if something of it is not saved yet, else among the last few."""
        journal.close_turn()
        self._kept[journal.thread_id] = journal
        saved = [thread_id for thread_id, kept in list(self._kept.items()) if not kept.pending]
        for thread_id in saved[: max(0, len(saved) - KEPT)]:
            self._kept.pop(thread_id, None)


async def _driven(run: Run) -> None:
    """Drive the main run to its boundary. When cancelled, tools get 5 seconds to end, and are then left behind."""
    task = asyncio.ensure_future(loop.drive(run))
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        run.journal.cancelled = True
        await abandon(task)
        raise
    finally:
        run.cancel()
    if not task.cancelled():  # Else a tool has cancelled its own task: the turn is `cancelled`, and comes back so.
        task.result()


async def _append(run: Run) -> CheckpointError | None:
    """Append what is pending. A failure is returned, not raised, unless another writer was first.

    An append is never cut short: a cancel that comes meanwhile is delivered once it is through.
    """
    started, cancels = perf_counter(), 0
    task = asyncio.ensure_future(log.append(run.journal))
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancels += 1
    me = asyncio.current_task()
    if cancels and me is not None:
        me.uncancel()
        me.cancel()
    try:
        saved = task.result()
    except ThreadConflict:
        raise
    except CheckpointError as exc:
        return exc
    finally:
        run.waited_for_store(started)
    run.saved(saved)
    return None


def build_spec(
    name: str,
    model: Model,
    tools: Iterable[Tool | Callable[..., Any]],
    system_prompt: str,
    middleware: tuple[Middleware, ...],
    limits: Limits,
) -> AgentSpec:
    """Everything that the loop needs, put together once: prompts joined, tools by name, hooks that are overridden.

    Raises:
        ConfigError: two tools have one name.
    """
    by_name: dict[str, Tool] = {}
    for tool in map(as_tool, [*(tool for part in middleware for tool in part.tools), *tools]):
        if tool.name in by_name:
            raise ConfigError(f"two tools are named {tool.name!r}; give one of them another name")
        by_name[tool.name] = tool
    prompts = [system_prompt, *(part.prompt for part in middleware)]
    return AgentSpec(
        name,
        model,
        "\n\n".join(prompt.strip() for prompt in prompts if prompt.strip()),
        by_name,
        limits,
        _overriding("before_model", middleware),
        _overriding("before_tool", middleware),
        _overriding("after_tool", middleware)[::-1],
        _overriding("before_finish", middleware),
        tuple(by_name.values()),
    )


def _overriding(hook: str, middleware: tuple[Middleware, ...]) -> tuple[Middleware, ...]:
    return tuple(part for part in middleware if getattr(type(part), hook) is not getattr(Middleware, hook))


def checked_thread_id(given: str | None) -> str:
    """*given*, or a new id.

    Raises:
        ConfigError: it is no text of 1 to 500 characters.
    """
    if given is None:
        return uuid.uuid4().hex
    if not isinstance(given, str) or not given.strip() or len(given) > 500 or clean(given) != given:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"a thread's id is text of 1 to 500 characters, not {given!r}")
    return given


def _unknown(thread_id: str) -> UnknownThread:
    return UnknownThread(f"there is no thread {thread_id!r}; `threads()` lists those that are")
