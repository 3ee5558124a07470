"""What a tool, or a hook, may see and do while it runs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol

from .checks import checked
from .costs import Spent
from .errors import ConfigError, IllegalEvent, ToolError
from .events import FILE_EVENTS, AnyEvent, Compacted, Noted, StreamEvent, TodosWritten, TurnEscalated
from .kinds import Rule, having
from .loops import call_on
from .messages import Input, clean
from .state import Decision, Interrupt, OpenCall, Path, State
from .tools import Injected
from .turn import Turn

OFFERED = (Noted, TodosWritten, *FILE_EVENTS, Compacted, TurnEscalated)
"""What tools and hooks may record."""


class RunView(Protocol):
    """The run that a context belongs to."""

    path: Path
    state: State
    context: Any
    scratch: dict[object, Any]

    loop: asyncio.AbstractEventLoop | None
    """The event loop that the run is on, to which other threads hand over."""

    @property
    def thread_id(self) -> str: ...
    @property
    def spent(self) -> Spent: ...
    def content_of(self, file: str) -> str | bytes | None: ...
    def recall(self, file: str, sha256: str) -> str | bytes | None: ...
    def record(self, event: AnyEvent) -> object: ...
    def emit(self, event: StreamEvent) -> None: ...


class ToolContext(Injected):
    """What a tool, or a hook, may see and do. A tool's parameter of this type is filled in and is not in its schema.

    In a hook that is not about a call, `call_id` is empty. Once the call is answered the context is closed: `record`,
    `emit` and `run` raise.
    """

    __slots__ = ("_asked", "_child", "_children", "_closed", "_loop", "_run", "call_id", "decision", "paused")

    def __init__(self, run: RunView, child: Callable[..., Awaitable[Turn]], entry: OpenCall | None = None) -> None:
        self._run = run
        self._child = child
        self._asked = entry.asked if entry else 0
        self._closed = False
        self._loop = run.loop
        self._children: dict[str, asyncio.Future[None]] | None = None
        self.paused: tuple[Interrupt, ...] = ()
        """What children of this call wait for."""
        self.call_id = entry.call.id if entry else ""
        self.decision: Decision | None = entry.decision if entry else None
        """What a person decided about this call, if it waited."""

    @property
    def state(self) -> State:
        """The run's state, to read. `state.files` are the whole thread's."""
        return self._run.state

    @property
    def thread_id(self) -> str:
        return self._run.thread_id

    @property
    def path(self) -> Path:
        """The run's place below the main agent."""
        return self._run.path

    @property
    def scratch(self) -> dict[object, Any]:
        """What hooks keep in memory while this run is driven, each under itself: what they could find out anew. It is
        never recorded: after a pause, a restart, or with the next turn it is empty.
        """
        return self._run.scratch

    @property
    def context(self) -> Any:
        """What the caller of `run` gave as `context`; never recorded."""
        return self._run.context

    @property
    def spent(self) -> Spent:
        """What the run and all below it have spent since its input was accepted, this moment."""
        return self._run.spent

    @property
    def idempotency_key(self) -> str:
        """The same each time that this call, once its request is saved, is run: thread, path, its id, and the number
        of the event that asked for it. A call that was never saved is asked for anew after a crash, as another one.
        """
        return "/".join((self._run.thread_id, *self._run.path, self.call_id, str(self._asked)))

    def record(self, event: AnyEvent) -> None:
        """Apply *event* at once and save it with the turn. May be called from any thread.

        It is `Noted`, `TodosWritten`, a file event or `Compacted`; or `TurnEscalated`, which ends the turn with a
        question once the calls of this reply are answered.

        Raises:
            IllegalEvent: it does not fit the state, is another event, or cannot be saved; nothing was changed.
            SegmentTooLarge: it is over 16 MiB.
            ToolError: the call is over.
        """
        if not isinstance(event, OFFERED):
            raise IllegalEvent(f"event: {type(event).__name__} is for the loop to record, not for a tool or a hook")
        self._on_loop(self._run.record, event)

    @checked
    def content_of(self, file: str) -> str | bytes | None:
        """What a file of the thread's state holds, read from the store if it is only named in `state.files`; None
        where the disk is the truth.

        Raises:
            KeyError: there is no such file.
            CheckpointError: the store has lost it.
        """
        return self._run.content_of(file)

    @checked
    def recall(
        self, file: str, sha256: Annotated[str, Rule(str.isascii, "a SHA-256 in hex digits")]
    ) -> str | bytes | None:
        """What a file held when its hash was *sha256*, though it was changed or deleted since; None if no event that
        is kept says it.

        Raises:
            CheckpointError: the log cannot be read.
        """
        return self._run.recall(file, sha256)

    def emit(self, event: StreamEvent) -> None:
        """Tell the turn's listeners; nothing is saved. May be called from any thread.

        Raises:
            IllegalEvent: it is no event, or its text is no `str`.
            ToolError: the call is over.
        """
        if not isinstance(event, StreamEvent) or not isinstance(getattr(event, "text", ""), str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise IllegalEvent(f"emit takes an event such as TextDelta('…'), not {event!r:.200}")
        self._on_loop(self._run.emit, event)

    @checked
    async def run(
        self, agent: Annotated[Any, having("spec", "an `Agent`")], input: Input, key: str | None = None
    ) -> Turn:
        """Run *agent* as a child of this call, with fresh messages and a log of its own.

        The child is known by this call's id, and by *key* if one call runs several. A child that the log already
        holds is continued, a finished one is returned as it is. When a child waits for a person, so does this call:
        the tool is left by a `BaseException`, and started again from its first line once somebody decided. What it
        does before its `ctx.run` lines then happens again.

        Raises:
            ToolError: it would be more, or deeper, than the `Limits` of this run or of one above it allow.
            ConfigError: a second run under the same key, or a key that the log knows with another agent or input;
                or a budget of money holds here, and nobody says what *agent* costs (`states_cost`).
        """
        self._check_open()
        name, known = key or "", self._children if self._children is not None else {}
        if not self.call_id:
            raise ConfigError("a hook cannot run a child: only a tool's call can, for the child is known by it")
        if name in known:
            raise ConfigError(f"call {self.call_id!r} already runs a child under key {key!r}; give each its own `key`")
        if clean(name) != name:
            raise ConfigError(f"key {key!r} holds what UTF-8 cannot say; give another one")
        self._children = known
        known[name] = over = asyncio.get_running_loop().create_future()
        try:
            return await self._child(self, self._run, agent, input, key)
        finally:
            over.set_result(None)

    async def children_over(self) -> None:
        """Wait for children that still run though their tool has ended, as under a `gather` that one of them left."""
        running = [over for over in (self._children or {}).values() if not over.done()]
        if running:
            await asyncio.wait(running)

    @property
    def closed(self) -> bool:
        """Whether the call is answered or left behind."""
        return self._closed

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise ToolError(f"call {self.call_id!r} is over; its context is closed")

    def _on_loop(self, act: Callable[[Any], object], event: Any) -> None:
        self._check_open()
        if self._loop is None or _running_loop() is self._loop:
            act(event)
            return

        def there() -> None:
            self._check_open()
            act(event)

        call_on(self._loop, there)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
