"""What a tool, or a hook, may see and do while it runs."""

import asyncio
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any, Protocol

from .errors import ConfigError, ToolError
from .events import AnyEvent, Happened
from .state import Decision, OpenCall, Path, State
from .tools import Given
from .turn import Turn


class Running(Protocol):
    """The run that a context belongs to."""

    path: Path
    state: State
    context: Any

    @property
    def thread_id(self) -> str: ...
    def record(self, event: AnyEvent) -> None: ...
    def emit(self, event: Happened) -> None: ...


class ToolContext(Given):
    """What a tool, or a hook, may see and do. A tool's parameter of this type is filled in and is not in its schema.

    In a hook that is not about a call, `call_id` is empty. Once the call is answered the context is closed: `record`,
    `emit` and `run` raise.
    """

    __slots__ = ("_asked", "_child", "_closed", "_keys", "_loop", "_run", "call_id", "decision")

    def __init__(self, run: Running, child: Callable[..., Awaitable[Turn]], entry: OpenCall | None = None) -> None:
        self._run = run
        self._child = child
        self._asked = entry.asked if entry else 0
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._keys: set[str] = set()
        self.call_id = entry.call.id if entry else ""
        self.decision: Decision | None = entry.decision if entry else None
        """What a person decided about this call, if it waited."""

    @property
    def state(self) -> State:
        """The run's state, to read. `state.files` are the whole thread's."""
        return self._run.state

    @property
    def path(self) -> Path:
        """The run's place below the main agent."""
        return self._run.path

    @property
    def context(self) -> Any:
        """What the caller of `run` gave as `context`; never recorded."""
        return self._run.context

    @property
    def idempotency_key(self) -> str:
        """The same each time this call is run, and for no other call: thread, path, and the asking event's number."""
        return "/".join((self._run.thread_id, *self._run.path, self.call_id, str(self._asked)))

    def record(self, event: AnyEvent) -> None:
        """Apply *event* at once and save it with the turn. May be called from the tool's thread.

        Raises:
            IllegalEvent: it does not fit the state, or the call is over.
            SegmentTooLarge, TypeError: it cannot be saved; nothing was changed.
        """
        self._on_loop(self._run.record, event)

    def emit(self, event: Happened) -> None:
        """Tell the turn's listeners; nothing is saved."""
        self._on_loop(self._run.emit, event)

    async def run(self, agent: Any, input: Any, key: str | None = None) -> Turn:
        """Run *agent* as a child of this call, with fresh messages and a log of its own.

        The child is known by this call's id, and by *key* if one call runs several. A child that the log already
        holds is continued, a finished one is returned as it is. When a child waits for a person, so does this call:
        the tool is left by a `BaseException`, and started again from its first line once somebody decided. What it
        does before its `ctx.run` lines then happens again.

        Raises:
            ConfigError: a second run under the same key, or a key that the log knows with another agent or input.
        """
        self._check_open()
        if not self.call_id:
            raise ConfigError("a hook cannot run a child: only a tool's call can, for the child is known by it")
        if (key or "") in self._keys:
            raise ConfigError(f"call {self.call_id!r} already runs a child under key {key!r}; give each its own `key`")
        self._keys.add(key or "")
        return await self._child(self, self._run, agent, input, key)

    @property
    def closed(self) -> bool:
        """Whether the call is answered or left behind."""
        return self._closed

    def close(self) -> None:
        self._closed = True

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """From here on, calls from another thread are handed over to *loop*."""
        self._loop = loop

    def _check_open(self) -> None:
        if self._closed:
            raise ToolError(f"call {self.call_id!r} is over; its context is closed")

    def _on_loop(self, act: Callable[[Any], None], event: Any) -> None:
        self._check_open()
        if self._loop is None or _running_loop() is self._loop:
            return act(event)
        done: SimpleQueue[BaseException | None] = SimpleQueue()

        def there() -> None:
            try:
                self._check_open()
                act(event)
            except Exception as exc:  # noqa: BLE001 - Handed to the waiting thread, which raises it.
                done.put(exc)
            else:
                done.put(None)

        self._loop.call_soon_threadsafe(there)
        if (failed := done.get()) is not None:
            raise failed
        return None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
