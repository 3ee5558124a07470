"""The ports of an agent: models, stores, file backends, and middleware with its hooks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from .checks import UserWritten, check_fields
from .context import ToolContext
from .documented import Struct
from .events import StreamEvent
from .kinds import Positive, Seconds, remedy
from .messages import (
    UNKNOWN,
    AssistantMessage,
    Message,
    StopReason,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from .state import Interrupt
from .tools import Tool

_PUBLIC = "Ask Backend Cache Emit FileInfo Lease Middleware Model Opened Range Reply Request Retention RunTool Store"
__all__ = _PUBLIC.split()  # pyright: ignore[reportUnsupportedDunderAll]
Emit = Callable[[StreamEvent], None]
StructuredOutput = Literal[False, True, "without tools"]


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


@remedy("write a string such as 'anthropic:claude-sonnet-4-6', or OpenAI(name, client=...) around a client")
class Model(Protocol):
    """Anything that answers requests: a provider behind an SDK, a script, or a plain function of the request.

    A model may also have the attribute `states_cost`, whose True promises that every `Reply.cost` is known. Under
    `Limits(cost=...)` a model without this promise is a `ConfigError`, and a turn in which a model breaks it is
    stopped.

    `structured_output` is True if its provider holds replies to `Request.schema`, and "without tools" if it does so
    only where a request has no tools. Other models are given a tool for an answer that must fit a schema.

    `url_types` are the beginnings of the media types of which it fetches a `MediaLink`; an input with another link is
    refused. A model without it is given any link.
    """

    name: str

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        """Answer *request*. If *emit* is given, stream: emit `TextDelta`, `ThinkingDelta` and `ArgsDelta`.

        Raises:
            ModelError: the API failed, after the SDK's own retries.
        """
        ...


class Retention(UserWritten, frozen=True):
    """The rules by which a store deletes old data; None keeps everything."""

    boundaries: Positive | None = None
    """The minimum number of boundaries of each thread that stay addressable; older ones are removed from time to time.
    """
    seconds: Seconds | None = None
    """The time that a thread may stay unused before it is deleted."""

    def __post_init__(self) -> None:
        check_fields(self)


class Range(Struct, frozen=True, gc=False):
    """The rows that one part of a `Store.read` asks for."""

    start: str
    """The first key."""
    stop: str | None = None
    """The key before which the range ends; None: the range is the one key *start*."""
    limit: int | None = None
    """The most rows to return; None returns all."""
    reverse: bool = False
    """True to return the last rows first; *limit* then counts from the end."""
    values: bool = True
    """False if only the keys are needed: the values may then be empty."""


class Lease(Protocol):
    """The right to run a thread, from `Store.open` until it is released or lost.

    It ends with its process, however that ends.
    """

    lost: bool
    """True once the store may have given the thread to somebody else. It never becomes False again."""

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call *callback* once when the lease is lost, on any OS thread; now, if it is lost already."""
        ...

    def release(self) -> None:
        """Release the thread. Never waits and never raises; does nothing if it was released or lost before."""
        ...


class Opened(Struct, frozen=True):
    """A thread that `Store.open` has taken."""

    head: bytes | None
    """Its head row as it was once the thread was taken; None if the thread is new."""
    lease: Lease


Purpose = Literal["turn", "maintenance"]
"""What a thread is opened for."""


@remedy("write DiskCheckpointer('folder') or MemoryCheckpointer()")
class Store(Protocol):
    """A place for rows. Its methods may be awaited on several event loops, also at the same time.

    Keys are ASCII text, at most about 2,000 characters, and values are bytes. Keys are ordered by their characters, as
    Python compares them and as PostgreSQL does with `COLLATE "C"`.

    A new kind of store is one small module. It need not understand its rows, except for two kinds of keys. An append
    compares the row under `head/...`. The store writes a row under `blob/NAME` once, never replaces it, and deletes it
    together with the last of the rows whose keys begin with `ref/NAME/`. Appends to two threads may put and drop such
    rows at the same moment, so a blob that one drops and the other takes must be locked by its name, or appends be
    done one after the other.

    No method may wait for ever: the store has one time limit for all of them, after which it raises `TimeoutError`.
    `minideep.checkpoint.threaded(store)` makes one of synchronous code. Two members are optional: `exchange`, and
    `immediate`, True if its coroutines never wait for the event loop when plain code drives them, and if no cancel cuts
    off its appends.

    Check your own store with `minideep.testing`.
    """

    retention: Retention

    async def open(self, thread: str, *, wait: float = 0.0, purpose: Purpose = "turn") -> Opened | None:
        """Take the thread for one holder, across all processes, and read its head, in one trip.

        Return None if somebody has the thread and still has it after *wait* seconds. Maintenance takes but a moment:
        a turn that finds it waits for its end whatever *wait* is. Of those who wait none is passed by one who came
        later in the same process. A process that ends, even by a kill, gives up what it holds.
        """
        ...

    async def read(self, *ranges: Range) -> list[list[tuple[str, bytes]]]:
        """Return the rows of each range, in order, all as of one moment, in one trip."""
        ...

    async def append(
        self,
        thread: str,
        expected: bytes | None,
        head: bytes | None,
        rows: Mapping[str, bytes],
        deletes: Iterable[str] = (),
        *,
        lease: Lease | None = None,
        release: bool = False,
    ) -> None:
        """Delete the keys *deletes*, put *rows* and replace the head (None: remove it), all in one transaction.

        This happens only if the head is still *expected*, every key of *deletes* exists, and *lease*, if one is given,
        still holds the thread: all three are checked in that transaction. No two appends have the same *head*, except
        those that leave it as it is: by the head it is found out whether an append landed whose report was lost. If
        *release* is True, the transaction also gives up *lease*, unless it fails.

        Raises:
            ThreadConflict: one of the three is not so; nothing was changed.
            TimeoutError: other writers held the store for too long; nothing was changed.
        """
        ...

    async def heads(self, after: str = "", limit: int = 100) -> list[tuple[str, bytes]]:
        """Return the keys and values of at most *limit* head rows whose keys come after *after*, in order."""
        ...

    async def held(self, thread: str) -> bool:
        """Return whether somebody, in any process, has the thread for a turn. It looks, and takes nothing: no `open`
        fails or waits because of it.
        """
        ...

    async def aclose(self) -> None:
        """Finish pending work, then close files and connections. The store opens again when it is used."""
        ...


class FileInfo(Struct, frozen=True):
    path: str
    is_dir: bool = False
    size: int = 0
    """Bytes."""
    modified: float = 0.0
    """Seconds since 1970."""
    sha256: str = ""
    """Of the content, in hex; empty if the backend would have to read the file."""


@remedy("write FilesystemBackend('folder') or StateBackend()")
class Backend(Protocol):
    """A place for files. Paths are absolute, with `/`. All methods are plain functions.

    Each raises `ToolError` for a file that is missing, forbidden or too large; its text tells the model what to do.
    Three members are optional: `about`, a sentence that tells the model what these files are; `in_state`, True if they
    are those of `State.files`, under the same paths; and `execute`, which runs commands: see
    `minideep.backends.ShellBackend`.
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


@remedy("derive a class from `Middleware`, and pass an instance")
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

    async def add_files(self, ctx: ToolContext, files: Mapping[str, str | bytes]) -> None:
        """Write and record *files*, which come with an input: all of them, or none and raise a `ToolError`.

        Only the first middleware of an agent that has this hook is asked, once the input is recorded and before it is
        saved: what is recorded here is saved with it. It is never inherited.
        """
