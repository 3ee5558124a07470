"""`ToolContext`: what a tool or a hook can see and do while it runs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Annotated, Any, Protocol, TypeVar

from msgspec import structs

from .checks import checked
from .errors import ConfigError, IllegalEvent, ToolError
from .events import FILE_EVENTS, AnyEvent, Compacted, Noted, StreamEvent, TodosWritten, TurnEscalated
from .kinds import Check, Injected, having
from .ledger import Spent
from .messages import Input
from .state import Interrupt, OpenCall, Path, RecordedDecision, StateView
from .turn import Turn

M = TypeVar("M")
OFFERED = (Noted, TodosWritten, *FILE_EVENTS, Compacted, TurnEscalated)
"""The events that tools and hooks may record."""


class ThreadFiles(Protocol):
    """The files of a thread, with the earlier versions that its log still holds."""

    thread_id: str

    @property
    def epoch(self) -> bytes: ...
    def content_of(self, file: str) -> str | bytes | None: ...
    def recall(self, file: str, sha256: str) -> str | bytes | None: ...


class CallPaused(BaseException):
    """Raised through a tool that waits: for a person, for a child that does, or for a new budget of a run above.

    Not an `Exception`: many tools catch those.
    """


class RunView(Protocol):
    """The run that a context belongs to."""

    path: Path
    view: StateView
    context: Any
    scratch: dict[object, Any]
    spec: Any
    """The `AgentSpec`, which is a layer above."""
    loop: asyncio.AbstractEventLoop
    """The event loop that the run is on. Other OS threads pass their calls to it."""
    run_child: Callable[..., Awaitable[Turn]]

    @property
    def journal(self) -> ThreadFiles: ...
    @property
    def spent(self) -> Spent: ...
    def model_for(self, model: Any) -> Any: ...
    def record(self, event: AnyEvent) -> object: ...
    def emit(self, event: StreamEvent) -> None: ...


DRIVEN: ContextVar[Any] = ContextVar("driven", default=None)
"""The `Run` that is driven here, for a model that answers by where it is asked: a `Request` does not say who asks."""


class CallView(Protocol):
    """The call that a context belongs to."""

    entry: OpenCall
    over: bool
    asked: int
    paused: tuple[Interrupt, ...]

    @property
    def run(self) -> RunView: ...
    def answer_to(self, question: str) -> str | None: ...


class ToolContext(Injected):
    """Access to the run, the thread and the call that a tool or a hook belongs to.

    A tool gets it through a parameter of this type, which is not in the tool's schema. In a hook that is not about a
    call, `call_id` is empty. Once the call is answered, `record`, `emit` and `run` raise.
    """

    __slots__ = ("_attempt", "_call", "_run", "call_id", "decision", "scratch", "state")

    def __init__(self, run: RunView, call: CallView | None = None, attempt: int = 1) -> None:
        self._run = run
        self._call = call
        self._attempt = attempt
        self.state: StateView = run.view
        """The run's state, read-only. `state.files` are those of the whole thread."""
        self.call_id: str = call.entry.call.id if call else ""
        self.decision: RecordedDecision | None = call.entry.decision if call else None
        """The decision of a person about this call, if it waited for one."""
        self.scratch: dict[object, Any] = run.scratch
        """A dict for values that hooks can recompute. Each middleware uses itself as the key.

        It lives while this run is driven and is never recorded: after a pause, after a restart, and in the next turn it
        is empty.
        """

    @property
    def thread_id(self) -> str:
        return self._run.journal.thread_id

    @property
    def path(self) -> Path:
        """The run's place below the main agent."""
        return self._run.path

    @property
    def context(self) -> Any:
        """The `context` that the caller of `run` passed; never recorded."""
        return self._run.context

    @property
    def model(self) -> Any:
        """The model that answers the requests of this run, unless a hook asks another one."""
        return self._run.spec.model

    @property
    def tools(self) -> Mapping[str, Any]:
        """The tools of the run, by name, those of middleware among them; read-only."""
        return MappingProxyType(self._run.spec.tools)

    @property
    def spent(self) -> Spent:
        """The spending of the run and everything below it since its input was accepted."""
        return self._run.spent

    @property
    def idempotency_key(self) -> str:
        """A key that is the same each time this call runs, provided that the reply that asked for the call was saved.

        It is made of the thread, the path, the call's id, the number of the event that asked for the call, and random
        bytes of the thread: a thread that is deleted and begun again has other keys. If that reply was never saved, the
        model is asked again after a crash, and the new call has another key.
        """
        requested_by = self._call.entry.requested_by if self._call else 0
        epoch = self._run.journal.epoch.hex()
        return "/".join((self.thread_id, *self.path, self.call_id, str(requested_by), epoch))

    def record(self, event: AnyEvent) -> None:
        """Apply *event* at once and save it with the turn. May be called from any OS thread.

        *event* is `Noted`, `TodosWritten`, a file event or `Compacted`; or `TurnEscalated`, which ends the turn with a
        question once the calls of this reply are answered.

        Raises:
            IllegalEvent: it does not fit the state, is of another kind, or cannot be saved; nothing was changed.
            SegmentTooLarge: it is over 16 MiB.
            ToolError: the call is over.
        """
        if not isinstance(event, OFFERED):
            raise IllegalEvent(f"event: {type(event).__name__} is for the loop to record, not for a tool or a hook")
        if isinstance(event, FILE_EVENTS) and self.call_id:
            event = structs.replace(event, call_id=self.call_id)
        self._on_loop(self._run.record, event)

    @checked
    def content_of(self, file: str) -> str | bytes | None:
        """Return the content of a file of the thread's state, read from the store if necessary; None if it is only on
        the disk.

        Raises:
            KeyError: the state has no such file.
            CheckpointError: the store has lost it.
        """
        return self._run.journal.content_of(file)

    @checked
    def recall(
        self, file: str, sha256: Annotated[str, Check(str.isascii, "a SHA-256 in hex digits")]
    ) -> str | bytes | None:
        """Return the content that a file had when its hash was *sha256*, even if the file has since been changed or
        deleted. Return None if no event in the log holds that content.

        Raises:
            CheckpointError: the log cannot be read.
        """
        return self._run.journal.recall(file, sha256)

    def model_for(self, model: M) -> M:
        """Return the model to ask in place of *model*: *model* itself, or the one of `Agent.override`.

        For middleware that asks a model of its own in another way than by `ask`, such as a summarizer.
        """
        return self._run.model_for(model)

    def emit(self, event: StreamEvent) -> None:
        """Send *event* to the turn's listeners; nothing is saved. May be called from any OS thread.

        Raises:
            IllegalEvent: it is not an event, or its text is not a `str`.
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

        The child is identified by this call's id and, if one call runs several children, by *key*. A child that is
        already in the log is continued; if it has finished, its `Turn` is returned and it does not run again. If a
        child waits for a person, this call waits too: a `BaseException` is raised out of the tool, and after the
        person's decision the tool starts again from its first line. Anything it does before a `ctx.run` line is then
        repeated. The same happens if a budget of a run above stops the child: once the turn is resumed, with new
        counters, the child goes on. A child that reaches a limit of its own, or fails, is over: look at its `status`.

        Raises:
            ToolError: the `Limits` of this run, or of a run above it, do not allow another child or a child at this
                depth.
            ConfigError: this call already runs a child under *key*; the log has *key* with another agent or input; or a
                cost budget applies here and a model of *agent* does not state its cost (`states_cost`).
        """
        self._check_open()
        if self._call is None:
            raise ConfigError("a hook cannot run a child: only a call can, for the child is known by its id")
        return await self._run.run_child(self._call, agent, input, key, self._attempt)

    @checked
    def interrupt(self, question: str) -> str:
        """Ask a person *question*, and return the answer.

        The turn pauses: a `BaseException` is raised out of the tool, and once `Agent.resume` brings
        `Respond("the answer")` the tool starts again from its first line. Anything it does before this line is then
        repeated; earlier questions, in the same words, return the answers that they got. May be called from any OS
        thread.

        Raises:
            ConfigError: a hook asks, and not a tool.
            ToolError: the call is over.
        """
        self._check_open()
        if (call := self._call) is None:
            raise ConfigError("a hook cannot ask a question: only a call can, for the answer is given to it")
        answers: list[str | None] = []
        self._on_loop(lambda text: answers.append(call.answer_to(text)), question)
        if (answer := answers[0]) is None:
            raise CallPaused
        return answer

    def _check_open(self) -> None:
        if self._call is not None and self._call.over:
            raise ToolError(f"call {self.call_id!r} is over; its context is closed")

    def _on_loop(self, act: Callable[[Any], object], event: Any) -> None:
        self._check_open()
        loop = self._run.loop
        if _running_loop() is loop:
            act(event)
            return

        def there() -> None:
            self._check_open()
            act(event)

        from .loops import call_on  # Only threads need it.

        call_on(loop, there)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
