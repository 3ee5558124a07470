"""`tool_context`: a context in which a tool or a hook can be called by a test, without a loop and without a model."""

import time
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, cast

from msgspec import structs

from ..checks import checked
from ..context import RunView, ToolContext
from ..errors import ConfigError
from ..events import (
    AnyEvent,
    Decided,
    FileWritten,
    ModelReplied,
    Noted,
    Resumed,
    StreamEvent,
    TodosWritten,
    ToolReturned,
    ToolWaiting,
    TurnEnded,
    TurnPaused,
    UserSaid,
)
from ..messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from ..runtime import LoneCall, LoneRun
from ..state import Decision, Interrupt, Path, ThreadId, Todo

GO = UserMessage("go")
"""What the user said if a test does not tell."""


class RecordingContext(ToolContext):
    """A `ToolContext` whose run nobody drives. What is recorded is applied to `state`, and refused, as in any run."""

    __slots__ = ("emitted", "recorded")

    def __init__(self, run: LoneRun, call: LoneCall | None = None) -> None:
        super().__init__(cast(RunView, run), call)  # Some of its attributes are computed, which no caller can tell.
        self.recorded: list[AnyEvent] = run.events
        """The events that were recorded so far."""
        self.emitted: list[StreamEvent] = run.emitted
        """The events that were emitted so far."""


@checked
def tool_context(
    *,
    call: ToolCall | None = None,
    call_id: str = "",
    thread_id: ThreadId = "test",
    files: Mapping[str, str | bytes] | None = None,
    notes: Mapping[str, Mapping[str, Any]] | None = None,
    todos: Iterable[Todo] = (),
    messages: Iterable[str | Message] = (),
    context: Any = None,
    decision: Decision | None = None,
    path: Path = (),
) -> RecordingContext:
    """Return a context for a test of a tool or a hook, to call it with: `shout("hi", ctx)`.

    Its `state` is a real one, in a turn that runs, made by recording what is given here: *messages* (a str is one of
    the user; by default the user has said "go"), *files* by absolute path, *notes* by owner and key, and *todos*.
    `ctx.recorded` and `ctx.emitted` list what the tool or the hook records and emits; what does not fit the state
    raises `IllegalEvent`, as in a run.

    With *call*, or with a *call_id* alone, it is the context of that call, of which a person has made *decision* if one
    is given. Then `ctx.run(agent, ...)` works: the agent runs for real, in memory, with its own model or the one of
    `agent.override`. Without either it is the context of a hook that is not about a call.

    *context* is what the caller of `run` passed, and *path* the place of the run below the main agent.

    Raises:
        ConfigError: *decision* is given without a call, or a path of *files* does not begin with `/`.
        IllegalEvent: *messages* are in an order that no conversation has.
    """
    run = LoneRun(thread_id, tuple(path), context)
    if path:
        run.journal.record((), UserSaid(GO, time.time()))  # Files are recorded in the main run.
    for message in [*messages] or [GO]:
        _say(run, UserMessage(message) if isinstance(message, str) else message)
    _fill(run, files or {}, notes or {}, [*todos])
    opened = _open(run, call, call_id) if call or call_id else ""
    if decision is not None:
        _decide(run, opened, decision)
    run.events.clear()
    return RecordingContext(run, LoneCall(run, opened) if opened else None)


def _say(run: LoneRun, message: Message) -> None:
    """Record *message* as the event of a run that adds it."""
    state, now = run.state, time.time()
    if isinstance(message, AssistantMessage):
        run.record(ModelReplied(message))
    elif isinstance(message, ToolMessage):
        run.record(ToolReturned(message.call_id, message.content, message.is_error))
    else:
        if state.messages and isinstance(state.messages[-1], AssistantMessage) and not state.open:
            run.record(TurnEnded(now))  # The user speaks again, so the turn before is over.
        run.record(UserSaid(message, now, agent="main"))


def _fill(
    run: LoneRun, files: Mapping[str, str | bytes], notes: Mapping[str, Mapping[str, Any]], todos: list[Todo]
) -> None:
    for file, content in files.items():
        if not file.startswith("/"):
            raise ConfigError(f"tool_context: files has the path {file!r}, which must begin with `/`")
        data = content.encode() if isinstance(content, str) else content
        run.record(FileWritten(file, content, len(data), sha256(data).hexdigest(), time.time()))
    for owner, noted in notes.items():
        for key, value in noted.items():
            run.record(Noted(owner, key, value))
    if todos:
        run.record(TodosWritten(tuple(todos)))


def _open(run: LoneRun, call: ToolCall | None, call_id: str) -> str:
    """Make sure that the last reply holds the call; return its id."""
    call = call or run_call(run, call_id)
    call = structs.replace(call, id=call_id or call.id or "call_1")
    if call.id not in run.state.open:
        run.record(ModelReplied(AssistantMessage((call,))))
    return call.id


def run_call(run: LoneRun, call_id: str) -> ToolCall:
    """Return the open call of *call_id*, or one of a tool that nobody names."""
    return run.state.open[call_id].call if call_id in run.state.open else ToolCall("tool", {}, call_id)


def _decide(run: LoneRun, call_id: str, decision: Decision) -> None:
    """Let the call have waited for a person, who has decided."""
    if not call_id:
        raise ConfigError("tool_context: decision is about a call; give `call` or `call_id` as well")
    entry, now = run.state.open[call_id], time.time()
    run.record(ToolWaiting(call_id, (Interrupt(entry.call, path=run.path),)))
    run.record(TurnPaused(now))
    run.record(Decided(call_id, decision))
    run.record(Resumed(now, calls=(call_id,)))
