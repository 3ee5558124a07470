"""The ports of an agent: models, stores, file backends, and middleware with its hooks."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Literal, Protocol

from msgspec import Struct

from .checks import check_fields
from .context import ToolContext
from .events import StreamEvent
from .kinds import Positive, Seconds
from .messages import UNKNOWN, AssistantMessage, Message, StopReason, ToolCall, ToolResult, Usage, UserMessage
from .state import Interrupt, Limits
from .tools import Tool

Emit = Callable[[StreamEvent], None]
ABOUT = "agent"
"""The owner under which notes about the agent that runs a thread are kept: `state.notes["agent"]`."""


class Cache(Struct, frozen=True, gc=False):
    """Settings that ask a provider to cache the part that the requests of a run have in common at their start."""

    ttl: Literal["5m", "1h"] = "5m"
    """The time to keep it after its last use, if the provider offers a choice."""
    key: str = ""
    """A name for the run, of at most 64 characters, for providers that group requests by name."""
    stable_prefix: int | None = None
    """The number of messages that the next request repeats; those after them are sent only once. None: all."""


class Request(Struct, frozen=True, gc=False):
    """One request to a model, in the same form for all providers."""

    system: str
    messages: Sequence[Message]
    tools: tuple[Tool, ...] = ()
    schema: dict[str, Any] | None = None
    """A JSON Schema that the text of the reply must fit. An adapter sends it if the provider has a mode for structured
    output. Otherwise the model never sees it, so the prompt must ask for JSON as well.

    Providers refuse a schema in which an object lacks `additionalProperties: false` or leaves a property out of
    `required` (allow null for one that may be missing). Some also refuse bounds on numbers, lengths or counts:
    https://platform.claude.com/docs/en/build-with-claude/structured-outputs and
    https://developers.openai.com/api/docs/guides/structured-outputs
    """
    stable: int | None = None
    """The number of characters at the start of *system* that never change for this agent; memory follows. None: all."""
    cache: Cache | None = None
    """The request to the provider's cache; None leaves it to the provider and to the model's own settings."""


class Reply(Struct, frozen=True):
    """The answer of a model."""

    message: AssistantMessage
    usage: Usage = UNKNOWN
    stop: StopReason = "done"
    cost: float | None = None
    """US dollars, as stated by the provider or else by its price list; None if unknown."""
    model: str = ""
    """The model that answered, if it is not the one that was asked."""


class Model(Protocol):
    """Anything that answers requests: a provider behind an SDK, a script, or a plain function of the request.

    A model may also have the attribute `states_cost`, whose True promises that every `Reply.cost` is known. Under
    `Limits(cost=...)` a model without this promise is a `ConfigError`, and a turn in which a model breaks it is
    stopped.
    """

    name: str

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request*. If *emit* is given, stream: emit `TextDelta`, `ThinkingDelta` and `ArgsDelta`.

        Raises:
            ModelError: the API failed, after the SDK's own retries.
        """
        ...


class Retention(Struct, frozen=True):
    """The rules by which a store deletes old data; None keeps everything."""

    boundaries: Positive | None = None
    """The minimum number of boundaries of each thread that stay addressable; older ones are removed from time to time.
    """
    seconds: Seconds | None = None
    """The time that a thread may stay unused before it is deleted."""

    def __post_init__(self) -> None:
        check_fields(self)


class Store(Protocol):
    """A place for rows. Synchronous and thread-safe. Keys are ASCII text, values are bytes, and rows are ordered by
    key.

    A new kind of store is one small module. It need not understand its rows, except for two kinds of keys. An append
    compares the row under `head/...`. The store writes a row under `blob/NAME` once, never replaces it, and deletes it
    together with the last of the rows whose keys begin with `ref/NAME/`.

    Check your own store with `minideep.testing`.
    """

    inline: int
    """The maximum number of bytes that an append may write on the OS thread of an event loop; a larger one goes to
    `executor`.
    """
    retention: Retention

    @property
    def executor(self) -> Executor:
        """One OS thread for large appends and for maintenance after a turn. `close` waits until its work is done."""
        ...

    def head(self, thread: str) -> bytes | None:
        """Return the thread's head row, which is under `head_key(thread)`, or None."""
        ...

    def get(self, key: str) -> bytes | None:
        """Return the row under *key*, or None."""
        ...

    def rows(self, start: str, stop: str) -> list[tuple[str, bytes]]:
        """Return the rows from *start* up to but not including *stop*, in order, as of one moment."""
        ...

    def keys(self, start: str, stop: str) -> list[str]:
        """Return the keys of `rows`, without reading the values."""
        ...

    def append(
        self,
        thread: str,
        expected: bytes | None,
        head: bytes | None,
        rows: Mapping[str, bytes],
        deletes: Iterable[str] = (),
        *,
        timeout: float = 0.0,
    ) -> None:
        """Delete the keys *deletes*, put *rows* and replace the head (None: remove it), all in one transaction.

        This happens only if the head is still *expected* and every key of *deletes* exists. If *timeout* is 0, the
        caller is an event loop: do not wait for other writers.

        Raises:
            ThreadConflict: the head is not *expected*, or a key of *deletes* is missing; nothing was changed.
            TimeoutError: other writers held the store for longer than *timeout* seconds; nothing was changed.
        """
        ...

    def hold(self, thread: str) -> bool:
        """Hold the thread for one runner, across all processes. Return False, without waiting, if it is held already.

        A process that ends, even by a kill, releases what it holds.
        """
        ...

    def release(self, thread: str) -> None:
        """Release a thread that is held."""
        ...

    def size(self) -> int:
        """Return the bytes that the store takes up, on disk or in memory."""
        ...

    def close(self) -> None:
        """Finish pending work, then close files and end OS threads. The store opens again when it is used."""
        ...


class FileInfo(Struct, frozen=True):
    path: str
    is_dir: bool = False
    size: int = 0
    """Bytes."""
    modified: float = 0.0
    """Seconds since 1970."""


class Backend(Protocol):
    """A place for files. Paths are absolute, with `/`. All methods are plain functions.

    Each raises `ToolError` for a file that is missing, forbidden or too large; its text tells the model what to do.
    """

    blocking: bool
    """True if the methods wait for a disk or a network. They are then called on a worker thread."""
    home: str
    """The folder at which relative paths start."""

    def ls(self, ctx: ToolContext, path: str) -> list[FileInfo]:
        """Return the files and folders directly inside a folder, sorted."""
        ...

    def walk(self, ctx: ToolContext, path: str) -> Iterator[FileInfo]:
        """Yield every file below *path*, sorted by folder, or *path* itself if it is a file; leave out hidden and
        vendored ones.
        """
        ...

    def read(self, ctx: ToolContext, path: str) -> bytes:
        """Return the content of a file."""
        ...

    def write(self, ctx: ToolContext, path: str, data: bytes, expect: str | None = None) -> bool:
        """Create or replace a file, whole or not at all; if *expect* is given, only if the file's SHA-256 is still
        *expect*.

        Return True if the state keeps the content; the recorded event then carries it.
        """
        ...

    def delete(self, ctx: ToolContext, path: str) -> list[str]:
        """Remove a file, or a folder with everything in it. Return the paths of the removed files."""
        ...


class Ask(Protocol):
    """Asks the model, from inside `wrap_model`."""

    async def __call__(self, request: Request, model: Model | None = None) -> Reply:
        """Ask *model*, by default the agent's, and return its reply.

        Raises:
            ModelError: the model failed; if `wrap_model` does not catch the error, the turn fails with it.
            ConfigError: a cost budget applies here and *model* does not state its cost.
        """
        ...


class RunTool(Protocol):
    """Runs a call, from inside `wrap_tool`."""

    async def __call__(self, call: ToolCall) -> ToolResult:
        """Run *call* and return its result. A tool that fails returns an error result; it does not raise."""
        ...


class Middleware:
    """Something an agent can do: a prompt, tools, and hooks round the loop. Override what you need.

    `before_*` run in list order, `after_tool` in reverse; the first wrap in the list is the outermost. If a hook
    raises, the turn fails and the error names the hook. A hook that is not overridden costs nothing.

    No wrap can keep a pause, a cancellation or a `ThreadConflict` from ending the turn, even if it catches everything.
    """

    prompt: str = ""
    """Added to the system prompt, once, when the agent is built."""
    tools: Sequence[Tool] = ()
    inherit: bool | None = None
    """The hooks that also apply to the runs below its agent, of whichever agent. None: `before_tool`, `wrap_tool`
    and `after_tool`, because a guard must not end where the agent delegates. True: everything. False: nothing.
    """
    models: Sequence[Model] = ()
    """Models that it asks besides the agent's, such as a summarizer; the agent's budgets apply to them too."""

    @property
    def name(self) -> str:
        return type(self).__name__

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        """Change the request that the model is shown. The change is not recorded; to change the state of the run,
        record an event instead.

        Tools may be left out of `request.tools`: calls to those tools are then refused. Only tools that the agent has
        can be shown.
        """
        return request

    async def wrap_model(self, ctx: ToolContext, request: Request, ask: Ask) -> Reply:
        """Return the reply to *request*: `await ask(request)`, once, several times, or not at all.

        `await ask(request, model=other)` asks another model. The recorded reply carries the tokens and the cost of
        every `ask`; a reply made without asking costs nothing.
        """
        return await ask(request)

    async def before_tool(self, ctx: ToolContext, call: ToolCall) -> ToolCall | ToolResult | Interrupt:
        """Let the call through (perhaps changed), answer it, or make it wait for a person.

        A result that is returned here goes through the `after_tool` of the middleware before this one in the list.
        After `Approve` and `Edit` every `before_tool` runs again, with `ctx.decision`, so it must have no side effects.
        """
        return call

    async def wrap_tool(self, ctx: ToolContext, call: ToolCall, run: RunTool) -> ToolResult:
        """Return the result of *call*: `await run(call)`, once, several times, or not at all.

        Each further `run` begins fresh children: those of the first one are not continued.
        """
        return await run(call)

    async def after_tool(self, ctx: ToolContext, call: ToolCall, result: ToolResult) -> ToolResult:
        """Change the result before the model reads it."""
        return result

    async def before_finish(self, ctx: ToolContext) -> UserMessage | None:
        """Return one more message for the model, or None to let the turn end."""
        return None


class ToolHook(Struct, frozen=True, eq=False):
    """A middleware that overrides `before_tool`, `after_tool` or both."""

    middleware: Middleware
    before: bool
    after: bool


class AgentSpec(Struct, frozen=True, eq=False):
    """An agent as the loop sees it: values only, put together once."""

    name: str
    model: Model
    system: str
    tools: dict[str, Tool]
    limits: Limits
    before_model: tuple[Middleware, ...] = ()
    wrap_model: tuple[Middleware, ...] = ()
    tool_hooks: tuple[ToolHook, ...] = ()
    wrap_tool: tuple[Middleware, ...] = ()
    """Of all hooks the outermost stand first."""
    before_finish: tuple[Middleware, ...] = ()
    tool_list: tuple[Tool, ...] = ()
    inherited: tuple[Middleware, ...] = ()
    """The middleware that also applies to the runs below this agent."""
    share: tuple[str, ...] = ()
    """Owners of notes. When this agent runs as a child, it begins with a copy of its parent's notes of these owners."""
    about: Mapping[str, Any] = {}
    """Plain data about the agent, such as its version. An item that changes is noted under `ABOUT` with the next input.
    """
    continues: frozenset[str] = frozenset()
    """Names of other agents whose threads this one may continue."""
    other_models: tuple[Model, ...] = ()
    """The models that the middleware asks besides `model`."""


class Runnable(Protocol):
    """Something that can be run: an `Agent`."""

    @property
    def spec(self) -> AgentSpec: ...


Answer = Callable[[bytes], AsyncIterator[bytes]]
"""Answers one question, as an async generator does. It may be closed before its last answer."""


class Answers(Protocol):
    """The answers to one question, in order."""

    def __aiter__(self) -> "Answers": ...
    async def __anext__(self) -> bytes:
        """Return the next answer. A call that was cancelled can be repeated; no answer is lost.

        Raises:
            ConnectionError: the runner failed to finish, was killed, or its event loop ended.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection, which ends the runner's work on the question. Do so if you may break out early."""
        ...


class Exchange(Protocol):
    """Asks the process that runs a turn, from any other on the same store, which has it as `exchange`, or None there.

    Questions have at most 1 MiB, answers 32 MiB.
    """

    def announce(self, thread: str, answer: Answer) -> None:
        """Let questions about *thread* be answered on the running event loop. Never waits.

        Only who holds the thread may announce it. A failure is logged: the turn must go on.
        """
        ...

    def withdraw(self, thread: str) -> None:
        """End what `announce` began, if it did, before the thread is released. Answers under way go on to their end."""
        ...

    def ask(self, thread: str, question: bytes) -> Answers | None:
        """Ask the process that runs a turn of *thread*. Return None, without waiting, if nobody has announced it.

        If the turn ends before the runner has read the question, no answer comes. Answers are only worked out as they
        are read.

        Raises:
            ValueError: *question* is too long.
            OSError: this process has no file descriptors left.
        """
        ...
