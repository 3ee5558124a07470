"""The ports of an agent: models, stores, file backends, and middleware with its hooks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
"""Owner of the notes on the agent that runs a thread: `state.notes["agent"]`."""


class Cache(Struct, frozen=True, gc=False):
    """How long a provider is asked to cache what the requests of a run have in common, and how it finds it again."""

    ttl: Literal["5m", "1h"] = "5m"
    """How long it is kept after its last use, where the provider lets one choose."""
    key: str = ""
    """Names the run, in at most 64 characters, to a provider that keeps requests of one name together."""
    stable_prefix: int | None = None
    """How many of the request's messages the next one has as well; those after them are said this once. None: all."""


class Request(Struct, frozen=True, gc=False):
    """One question to a model, in no provider's dialect."""

    system: str
    messages: Sequence[Message]
    tools: tuple[Tool, ...] = ()
    schema: dict[str, Any] | None = None
    """A JSON Schema that the text of the reply must fit. An adapter whose provider has a mode for that uses it; to
    other models it says nothing, so the prompt must ask for JSON as well.

    Providers refuse one in which an object does not say `additionalProperties: false` or leaves a property out of
    `required` (what may be missing is null instead), some also one that bounds numbers, lengths or counts:
    https://platform.claude.com/docs/en/build-with-claude/structured-outputs and
    https://developers.openai.com/api/docs/guides/structured-outputs
    """
    stable: int | None = None
    """How many characters of *system* never change for this agent; what follows them is memory. None: all of them."""
    cache: Cache | None = None
    """What the provider is asked to cache; None leaves it to the provider and to the model's own settings."""


class Reply(Struct, frozen=True):
    """What a model answered."""

    message: AssistantMessage
    usage: Usage = UNKNOWN
    stop: StopReason = "done"
    cost: float | None = None
    """US dollars: what the provider says, else by its list of prices; None where it is not known."""
    model: str = ""
    """Who answered, where that is not the model that was asked."""


class Model(Protocol):
    """Who answers: a provider behind an SDK, a script, or a plain function of the request (a policy).

    A model may also have the attribute `states_cost`: True says that each `Reply.cost` is known. `Limits(cost=...)`
    refuses a model that does not say so, and stops a turn in which one breaks its word.
    """

    name: str

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request*. With *emit* somebody listens: stream, and emit `TextDelta`, `ThinkingDelta`, `ArgsDelta`.

        Raises:
            ModelError: the API failed, after the SDK's own retries.
        """
        ...


class Retention(Struct, frozen=True):
    """What a store lets go of by itself; None keeps it for ever."""

    boundaries: Positive | None = None
    """Boundaries of each thread that stay addressable, at least; older ones are cut off now and then."""
    seconds: Seconds | None = None
    """How long a thread may lie unused before it is deleted."""

    def __post_init__(self) -> None:
        check_fields(self)


class Store(Protocol):
    """Where rows are kept. Synchronous and thread-safe; keys are ASCII text, values bytes, order is that of the keys.

    A new kind of store is one small module: it needs no knowledge of what the rows say, but for two kinds of keys.
    `head/...` is what an append compares. A row under `blob/NAME` is written once and never replaced, and goes with
    the last of the rows whose keys begin with `ref/NAME/`.
    """

    inline: int
    """An append of up to so many bytes may be made on an event loop's own thread; a larger one goes to `executor`."""
    retention: Retention

    @property
    def executor(self) -> Executor:
        """One thread for large appends and for what is done after a turn; `close` waits until it has done all."""
        ...

    def head(self, thread: str) -> bytes | None:
        """The thread's head row, `head_key(thread)`, or None."""
        ...

    def get(self, key: str) -> bytes | None:
        """One row, or None."""
        ...

    def rows(self, start: str, stop: str) -> list[tuple[str, bytes]]:
        """The rows from *start* up to, not including, *stop*, in order, as of one moment."""
        ...

    def keys(self, start: str, stop: str) -> list[str]:
        """The keys of `rows`, without reading the values."""
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
        """Delete *deletes*, put *rows* and replace the head (None: remove it), all in one transaction; but only if the
        head is still *expected* and every one of *deletes* is there.

        Without *timeout* it is called by an event loop and waits for nobody.

        Raises:
            ThreadConflict: they are not; nothing was changed.
            TimeoutError: other writers held the store for longer than *timeout* seconds; nothing was changed.
        """
        ...

    def hold(self, thread: str) -> bool:
        """Take the thread for one runner, over all processes; False if somebody has it. Never waits.

        A process that ends, however it ends, lets go of what it holds.
        """
        ...

    def release(self, thread: str) -> None:
        """Let go of a thread that is held."""
        ...

    def size(self) -> int:
        """Bytes that the store takes up, on disk or in memory."""
        ...

    def close(self) -> None:
        """Finish what is under way and let go of files and threads; the store opens again when it is used."""
        ...


class FileInfo(Struct, frozen=True):
    path: str
    is_dir: bool = False
    size: int = 0
    """Bytes."""
    modified: float = 0.0
    """Seconds since 1970."""


class Backend(Protocol):
    """Where files are kept. Paths are absolute, with `/`. Methods are plain functions; a slow backend says so.

    Each raises `ToolError`, with the next move in its text, for what is missing, forbidden or too large.
    """

    blocking: bool
    """Whether the methods wait for a disk or a network; they are then called on a thread."""
    home: str
    """Where relative paths start."""

    def ls(self, ctx: ToolContext, path: str) -> list[FileInfo]:
        """What stands directly in a folder, sorted."""
        ...

    def walk(self, ctx: ToolContext, path: str) -> Iterator[FileInfo]:
        """Every file below a folder, or the file itself, sorted by folder; hidden and vendored ones are left out."""
        ...

    def read(self, ctx: ToolContext, path: str) -> bytes:
        """A file's bytes."""
        ...

    def write(self, ctx: ToolContext, path: str, data: bytes, expect: str | None = None) -> bool:
        """Create or replace a file at once or not at all; with *expect*, only if its SHA-256 is still that one.

        Returns whether the state keeps the content: the recorded event then carries it.
        """
        ...

    def delete(self, ctx: ToolContext, path: str) -> list[str]:
        """Remove a file, or a folder with all that is in it. Returns the paths of the files that are gone."""
        ...


class Ask(Protocol):
    """Asks the model, from inside `wrap_model`."""

    async def __call__(self, request: Request, model: Model | None = None) -> Reply:
        """Ask *model*, by default the agent's, and return its reply.

        Raises:
            ModelError: it failed; if `wrap_model` does not catch this, the turn fails with it.
            ConfigError: a budget of money holds here and *model* does not state its cost.
        """
        ...


class RunTool(Protocol):
    """Runs a call, from inside `wrap_tool`."""

    async def __call__(self, call: ToolCall) -> ToolResult:
        """Run *call* and return its result. A tool that fails returns an error result; it does not raise."""
        ...


class Middleware:
    """Something an agent can do: a prompt, tools, and hooks round the loop. Override what you need.

    `before_*` run in list order, `after_tool` in reverse; of the wraps the first in the list is the outermost. A hook
    that raises fails the turn, and the error names it. A hook that nobody overrides costs nothing.

    No wrap can keep a pause, a cancellation or a `ThreadConflict` from ending the turn, even if it catches everything.
    """

    prompt: str = ""
    """Added to the system prompt, once, when the agent is built."""
    tools: Sequence[Tool] = ()
    inherit: bool | None = None
    """Which hooks also hold in the runs below its agent, whatever agent runs there. None: `before_tool`, `wrap_tool`
    and `after_tool`, because a guard must not end where the agent delegates. True: everything. False: nothing.
    """
    models: Sequence[Model] = ()
    """Models that it asks besides the agent's, such as a summarizer; the budgets of the agent hold for them too."""

    @property
    def name(self) -> str:
        return type(self).__name__

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        """Change what the model is shown. To remember something differently, record an event instead.

        Tools may be left out of `request.tools`: calls of those are then refused. Only tools that the agent has can be
        shown.
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

        An answer passes the `after_tool` of the middleware before this one. After a decision every `before_tool` runs
        again, with `ctx.decision`, so it must not act.
        """
        return call

    async def wrap_tool(self, ctx: ToolContext, call: ToolCall, run: RunTool) -> ToolResult:
        """Return the result of *call*: `await run(call)`, once, several times, or not at all.

        Each further `run` begins fresh children: those of the first one are not continued.
        """
        return await run(call)

    async def after_tool(self, ctx: ToolContext, call: ToolCall, result: ToolResult) -> ToolResult:
        """Change what the model reads of the result."""
        return result

    async def before_finish(self, ctx: ToolContext) -> UserMessage | None:
        """Return one more message for the model, or None to let the turn end."""
        return None


class ToolHook(Struct, frozen=True, eq=False):
    """A middleware that overrides at least one of `before_tool`, `wrap_tool` and `after_tool`."""

    middleware: Middleware
    before: bool
    wrap: bool
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
    """From the outermost to the innermost."""
    before_finish: tuple[Middleware, ...] = ()
    tool_list: tuple[Tool, ...] = ()
    inherited: tuple[Middleware, ...] = ()
    """The middleware that also holds in the runs below this agent."""
    share: tuple[str, ...] = ()
    """Owners of the parent's notes that a child run of this agent begins with a copy of."""
    about: Mapping[str, Any] = {}
    """Plain data on the agent, such as its version. An item that changes is noted under `ABOUT` with the next input."""
    continues: frozenset[str] = frozenset()
    """Names of other agents whose threads this one may continue."""
    other_models: tuple[Model, ...] = ()
    """The models that the middleware asks besides `model`."""


class Runnable(Protocol):
    """Something that can be run: an `Agent`."""

    @property
    def spec(self) -> AgentSpec: ...
