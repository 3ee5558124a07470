"""`Agent` and its methods: run, stream and resume. Those for live threads and for stored ones are in its two bases."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from msgspec import structs

from . import checkpoint
from .checkpoint import CheckedStore, Durability, Redact, open_store
from .checks import check_fields, checked, word_of_others
from .errors import ConfigError
from .live import LiveThreads
from .messages import Input
from .models import resolve
from .ports import Middleware, Model, Store
from .runtime import TurnConfig, Turns, build_spec, check_prices, overridden
from .spec import AgentSpec
from .state import Decision, InputKey, Limits, TagText, ThreadId, UnattendedDecision
from .stored_async import AsyncStoredThreads
from .tools import R, Tool
from .turn import Turn

if TYPE_CHECKING:  # Loaded when they are used.
    from .middleware import ResponseFormat
    from .runtime import Stream

FIXED = ("model", "tools", "system_prompt", "middleware", "limits", "name", "version", "continues")
"""The parts of an agent. An agent is built once, so setting a part afterwards would have no effect."""


@checked
class Agent(LiveThreads[R], AsyncStoredThreads):
    """A model, tools and middleware, driven by minideep's loop, without built-in tools or middleware.

    *model* is a string such as `anthropic:claude-sonnet-4-6`, or a `Model`. *checkpointer* is the store in which
    threads are kept. Without one, threads live as long as the agent. `agent.checkpointer` may be set at any time; it is
    read when a turn begins.

    A turn is always saved when its input is accepted and at its boundary. *durability* adds points in between: `turn`
    adds none, `step` saves before each model call, and `tool` also saves after each reply and each result. After a
    crash, saved work is not repeated. *redact* is a function that takes an event and returns the event to save in its
    place, which must have the same type and the same ids. If it removes something from a call's arguments, another
    process that continues with the call does not have it.

    A thread belongs to the agent that began it, which is identified by *name*. *continues* lists other agent names
    whose threads this agent may continue, such as its own former name. *version* is free text for your own use. The log
    records which version ran each turn; `state.notes["agent"]` holds the latest.

    *response_format* is the type of `Turn.output`: a Struct, a dataclass, a TypedDict, a Pydantic model, `list[...]`,
    an enum, a JSON Schema, or a `ResponseFormat` of one of these. A reply that is not of it is asked for again.
    """

    checkpointer: Store | None
    durability: Durability
    redact: Redact | None
    _unattended: UnattendedDecision | None = None
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
        response_format: "type[R] | ResponseFormat[R] | Mapping[str, Any] | None" = None,
    ) -> None:
        self.checkpointer, self.durability, self.redact = checkpointer, durability, redact
        self._own: Store | None = None
        self._turns: Turns = Turns()
        self._middleware = tuple(middleware)
        if response_format is not None:
            from .middleware import as_response_format

            self._middleware += (as_response_format(response_format),)
        spec = build_spec(name, resolve(model), tools, system_prompt, self._middleware, limits or Limits())
        check_prices(spec, spec.limits, name)
        self.spec: AgentSpec = structs.replace(spec, about={"version": version}, continues=frozenset(continues))

    if not TYPE_CHECKING:
        __getattr__ = word_of_others

    def __repr__(self) -> str:
        parts = {
            "tools": self.spec.tools,
            "middleware": [part.name for part in self._middleware],
            "subagents": [name for part in self._middleware for name in getattr(part, "subagents", ())],
        }
        lists = "".join(f", {what}: {' '.join(names)}" for what, names in parts.items() if names)
        store = f", store: {self.checkpointer!r}" if self.checkpointer is not None else ""
        return f"<{type(self).__name__} {self.spec.name!r}, model: {self.spec.model.name}{lists}{store}>"

    def __copy__(self) -> "Agent[R]":
        _ = self._store  # Made now, if there is none yet: a copy has the same threads.
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED:
            raise ConfigError(f"agent.{name} cannot be changed, as an agent is put together once; make another agent")
        super().__setattr__(name, value)

    async def run(
        self,
        input: Input,
        thread_id: ThreadId | None = None,
        *,
        key: InputKey | None = None,
        files: Mapping[str, str | bytes] | None = None,
        context: Any = None,
        wait: bool = False,
    ) -> Turn[R]:
        """Run one turn: from *input* to the boundary at which the agent returns control to its caller.

        Tools get *context* as `ctx.context`; it is never recorded. If *wait* is True, wait for a busy thread instead of
        raising `ThreadBusy`. Once the input is accepted a `Turn` is returned even if the turn fails; if the caller
        cancels the turn, the thread is saved and `CancelledError` is raised.

        *input* is text, a message or its blocks; or, to begin a thread, a history that ends with the user's message:
        messages, or mappings such as `{"role": "user", "content": "hi"}`. *files* are written to the agent's backend
        before its first step, all or none, and replace files of their names: texts or bytes by path, at most 10 MB
        each and 50 MB in all. They are among the turn's artifacts.

        With a *key* of up to 200 characters the input is accepted once, in whatever process and however often it is
        sent: while its turn runs, the thread is busy; a turn that a crash cut short goes on; and once it has reached a
        boundary, it is returned with its costs. Use it wherever a caller may retry, such as a queue or a web hook.

        Raises:
            ConfigError: the input, a file or the thread's id is not usable; the agent has no files; a history is given
                for a thread that has begun; or *key* is given without *thread_id*, or was accepted with another input.
            ThreadBusy: another run, in any process, holds the thread; nothing was done.
            ThreadConflict: another writer was first; nothing was done.
            CheckpointError: the store cannot be read, or the thread's log cannot; nothing was done.
        """
        return await self._turns.run(self._config(context, wait), input, thread_id, key, files)

    def run_sync(
        self,
        input: Input,
        thread_id: ThreadId | None = None,
        *,
        key: InputKey | None = None,
        files: Mapping[str, str | bytes] | None = None,
        context: Any = None,
        wait: bool = False,
    ) -> Turn[R]:
        """Run one turn, as `run` does, from synchronous code. An event loop that is running on the calling OS thread is
        blocked meanwhile.
        """
        from .runtime import run_sync

        return run_sync(self.run(input, thread_id, key=key, files=files, context=context, wait=wait))

    def stream(
        self,
        input: Input,
        thread_id: ThreadId | None = None,
        *,
        key: InputKey | None = None,
        files: Mapping[str, str | bytes] | None = None,
        context: Any = None,
        wait: bool = False,
    ) -> "Stream[R]":
        """Run one turn, as `run` does, and stream its events: `async for event in agent.stream(...)`."""
        from .runtime import Stream

        return Stream(lambda begun: self._turns.run(self._config(context, wait, begun), input, thread_id, key, files))

    async def resume(
        self,
        thread_id: ThreadId,
        decisions: Mapping[str, Decision] | None = None,
        *,
        context: Any = None,
        wait: bool = False,
    ) -> Turn[R]:
        """Resume a turn that is paused, failed, cancelled or exhausted, or that a crash cut short.

        *decisions* maps any of the waiting calls to decisions. A key is the id of a call, or `interrupt.key` if calls
        of two runs have the same id. An approved call that began but did not finish waits for a person again. If the
        turn has ended or escalated, or is paused and no decision is given, nothing runs and that turn is returned,
        costs included.

        Raises:
            UnknownThread: the store has no such thread.
            ConfigError: a decision does not match exactly one waiting call, or calls wait in a turn that is not paused;
                nothing was done.
            ThreadBusy: another run holds the thread; nothing was done.
            ThreadConflict, CheckpointError: the decisions could not be saved; nothing was done.
        """
        return await self._turns.resume(self._config(context, wait), thread_id, decisions or {})

    def resume_sync(
        self,
        thread_id: ThreadId,
        decisions: Mapping[str, Decision] | None = None,
        *,
        context: Any = None,
        wait: bool = False,
    ) -> Turn[R]:
        """Resume a turn, as `resume` does, from synchronous code. See `run_sync`."""
        from .runtime import run_sync

        return run_sync(self.resume(thread_id, decisions, context=context, wait=wait))

    def resume_stream(
        self,
        thread_id: ThreadId,
        decisions: Mapping[str, Decision] | None = None,
        *,
        context: Any = None,
        wait: bool = False,
    ) -> "Stream[R]":
        """Resume a turn, as `resume` does, and stream its events."""
        from .runtime import Stream

        return Stream(lambda begun: self._turns.resume(self._config(context, wait, begun), thread_id, decisions or {}))

    async def save(self, thread_id: ThreadId) -> None:
        """Append the events, if any, that an earlier save of this thread failed to append.

        Raises:
            UnknownThread, ThreadBusy
            CheckpointError: it failed again; the events are kept for the next time.
            ThreadConflict: another writer has gone on with the thread; the events are dropped.
        """
        await self._turns.save(self._config(None, False), thread_id)

    def with_options(
        self,
        *,
        limits: Limits | None = None,
        model: str | Model | None = None,
        tags: Mapping[TagText, TagText] | None = None,
        unattended: UnattendedDecision | None = None,
    ) -> Self:
        """Return this agent with other settings for its turns: `agent.with_options(tags={"user": "ann"}).run("hi")`.

        It has the same threads. *limits* and *model* take the place of its own; subagents keep theirs. *tags* are noted
        with each turn, and `threads(tags=...)` finds those of the last one. *unattended* is the decision about each
        call that would wait for a person, in all runs of the turn, if it may be given about that call. A call that was
        cut short, and may have taken effect, waits all the same.

        Raises:
            ConfigError: *model* is not a model, lacks what the agent's tools need, or does not state its cost although
                there is a budget of it; or it would have no effect, as this agent computes its replies (a blueprint).
        """
        from .runtime import with_options

        options = copy(self)
        options.spec = with_options(self.spec, limits, None if model is None else resolve(model), tags)
        options._unattended = unattended or self._unattended
        return options

    async def preload(self) -> None:
        """Import what the model needs, such as its SDK, before the first call. That may take a second."""
        preload = getattr(overridden(self.spec).model, "preload", None)
        if preload is not None:
            await preload()

    async def __aenter__(self) -> Self:
        """Begin to import the SDKs of the models in the background: a first question waits for the rest of that only.

        Leaving the block is `aclose`; if several are open on one agent, leaving the last of them.
        """
        from .models import begin_imports

        begin_imports(*self._models())
        self._turns.blocks += 1
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._turns.blocks -= 1
        if not self._turns.blocks:  # What runs may be of another block.
            await self.aclose()

    def _models(self) -> tuple[Model, ...]:
        """Return the models that a turn may ask."""
        spec = overridden(self.spec)
        return (spec.model,) if spec.override else (spec.model, *spec.other_models)

    @contextmanager
    def override(self, *, model: str | Model) -> Generator[None, None, None]:
        """Let *model* answer instead of all models of this agent, in the turns that begin inside: `with
        agent.override(model=ScriptedModel(["42"])):`.

        Every request of such a turn goes to *model*: those of the main run and of all runs below it, whichever model
        they were given, of a summarizer, and of an `ask` with a model of its own. If an agent below has an override of
        its own, that one wins. Prompts, tools and the point of compaction stay those of the agent's own models.

        Overrides nest. In a coroutine, one holds for the task and for what begins in it (`contextvars`). In plain code,
        such as a fixture, it holds in the whole process.

        Raises:
            ConfigError: *model* is not a model, or does not state its cost although the agent has a budget of it.
        """
        from .runtime import override

        with override(self.spec, resolve(model)):
            yield

    def _config(self, context: Any, wait: bool, begun: Any = None, *, detached: bool = False) -> TurnConfig:
        about = (self.durability, self.redact, context, wait, begun, detached, self._unattended)
        return TurnConfig(overridden(self.spec), self._store, *about)

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
