"""The step machine: `decide` says what must happen next, `apply` changes the state as an event demands.

Rule 1: every change of a `State` is made in this file.
Rule 2: nothing here awaits, reads a clock, or knows a provider.
Rule 3: an event that does not fit raises `IllegalEvent` and changes nothing.

    status, last thing                                     effect      events that follow
    ---------------------------------------------------    ---------   -----------------------------------------
    running, a message, or all calls answered              CallModel   ModelReplied, TurnExhausted
    running, a reply with calls that are ready             CallTools   ToolReturned or ToolWaiting, one a call;
                                                                       before it CallStarted, if a person let it run
    running, a reply whose unanswered calls all wait       Pause       TurnPaused
    running, a reply without calls, or a call that ends    Finish      TurnEnded, UserSaid by a middleware
    running, a limit reached                               Stop        TurnExhausted

After any effect: TurnFailed, TurnCancelled, or TurnEscalated by a tool or a hook. `TABLE`, at the end, says in which
statuses each event is legal.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import structs

from .effects import CallModel, CallTools, Effect, Finish, Pause, Stop
from .errors import IllegalEvent
from .events import (
    AnyEvent,
    CallStarted,
    Compacted,
    Decided,
    FileDeleted,
    FileEdited,
    FileWritten,
    MessagesReplaced,
    ModelReplied,
    Noted,
    Resumed,
    TodosWritten,
    ToolReturned,
    ToolWaiting,
    TurnCancelled,
    TurnEnded,
    TurnEscalated,
    TurnExhausted,
    TurnFailed,
    TurnPaused,
    UserSaid,
)
from .messages import AssistantMessage, Message, ToolCall, ToolMessage, ToolResult, fit_together
from .state import FileEntry, OpenCall, State, Status, TurnStart

CALL_MODEL = CallModel()
# A fold writes it into messages, and `verify` compares those with snapshots of earlier versions: it stays as it is.
NOT_COMPLETED = ToolResult("this call did not complete: the turn went on without its result", is_error=True)


def decide(state: State) -> Effect:
    """Return what must happen next in a running turn. Only reads *state*."""
    if state.status != "running":
        raise _illegal(state, "nothing to decide: no turn is running")
    if state.open:
        # A call that waits for a person, perhaps for days, does not keep the others from running.
        ready: list[ToolCall] = []
        for entry in state.open.values():
            if entry.result is None and not entry.waits:
                ready.append(entry.call)
        if ready and state.limits.tool_calls is not None:
            return _within_limit(state, ready, state.limits.tool_calls)
        return CallTools(tuple(ready)) if ready else Pause()
    last = state.messages[-1] if state.messages else None
    # A provider that cut its own turn short (`continue`) is asked to go on: that is no answer yet.
    if state.ends or (isinstance(last, AssistantMessage) and state.stop != "continue"):
        return Finish(_reason(state))
    # After the calls: a provider refuses a conversation in which a call has no result.
    if state.limits.steps is not None and state.step >= state.limits.steps:
        return Stop("steps")
    return CALL_MODEL


def _within_limit(state: State, ready: list[ToolCall], most: int) -> Effect:
    # As many as the limit leaves, or one reply with a hundred calls would overshoot it.
    ready = ready[: max(0, most - state.tool_calls)]
    return CallTools(tuple(ready)) if ready else Stop("tool_calls")


def _reason(state: State) -> Literal["done", "truncated", "refused"]:
    return state.stop if not state.ends and state.stop in ("truncated", "refused") else "done"


def apply(state: State, event: AnyEvent, number: int | None = None) -> None:
    """Change *state* as *event* demands. *number* is the event's number in its thread; by default the next one.

    Raises:
        IllegalEvent: *event* does not fit; nothing was changed.
    """
    number = state.number + 1 if number is None else number
    # Gaps are legal: a thread numbers the events of all its runs together.
    if number <= state.number:
        raise _illegal(state, f"event {number} cannot follow event {state.number}")
    statuses, change = TABLE[type(event)]
    if state.status not in statuses:
        raise _illegal(state, f"{type(event).__name__} needs a turn that is {' or '.join(statuses)}")
    change(state, event, number)
    # Last: an event that is refused takes no number.
    state.number = number


def keep_content(state: State, file: str, entry: FileEntry) -> None:
    """Replace the entry of *file* by one that says the same, with its content fetched from the store or dropped."""
    state.files[file] = entry


def share_files(state: State, root: State) -> None:
    """Give a run the files of its thread: one dict, that of the main run."""
    state.files = root.files


def attach_subagent(state: State, key: str, child: State) -> None:
    """Show *child* below *state*, for readers."""
    state.subagents[key] = child


# ---- inputs


def _user_said(state: State, event: UserSaid, number: int) -> None:
    _expect(not event.by or state.status == "running", state, f"{event.by!r} speaks, but no turn is running")
    # A provider refuses a message that follows a call without a result.
    for entry in state.open.values():
        entry.result = entry.result or NOT_COMPLETED
    if not event.by:
        state.agent, state.said, state.key = event.agent, event.message, event.key
        _begin_turn(state, event, number)
    _close_calls(state)
    if not event.by:
        state.began = len(state.messages)
    # Or the new message would end the turn unanswered, as the last one did.
    state.ends, state.stop = False, ""
    state.messages.append(event.message)


def _resumed(state: State, event: Resumed, number: int) -> None:
    # All are checked before the first is changed: an event that does not fit must leave no trace.
    for call_id in event.calls:
        _expect(call_id in state.open and state.open[call_id].result is None, state, f"call {call_id!r} is not open")
    for call_id in event.calls:
        state.open[call_id].waits = ()
    if state.status == "running":  # It was cut short: the same turn goes on, with what is left of its limits.
        state.start = structs.replace(state.start, at=event.at, seconds=event.seconds)
        return
    unseen = 1 if _replied(state.messages) and not state.open else 0  # A final reply that nobody received is new.
    state.began = len(state.messages) - unseen
    _begin_turn(state, event, number)


def _begin_turn(state: State, event: UserSaid | Resumed, number: int) -> None:
    """Count from zero for an accepted input. A message to a turn that a crash cut short keeps the turn's number."""
    if state.status != "running" or not state.turn:
        state.turn += 1
    state.status = "running"
    # A turn that a limit has stopped could otherwise never be resumed.
    state.step = state.tool_calls = 0
    state.reason, state.detail, state.failure, state.costs = "", "", None, None
    state.limits = event.limits or state.limits
    state.start = TurnStart(number, event.at, 0.0, state.usage, state.cost, state.unpriced)


# ---- replies and calls


def _model_replied(state: State, event: ModelReplied, number: int) -> None:
    last = state.messages[-1] if state.messages else None
    if last is None or state.open or state.ends or (isinstance(last, AssistantMessage) and state.stop != "continue"):
        raise _illegal(state, "no reply was asked for")
    content, opened = event.message.content, dict[str, OpenCall]()
    for block in () if isinstance(content, str) else content:
        if isinstance(block, ToolCall):
            # A result finds its call by the id: with two of one id, question B could be given answer A.
            if block.id in opened or not block.id:
                raise _illegal(state, "the calls of a reply need ids of their own")
            opened[block.id] = OpenCall(block, number)
    state.messages.append(event.message)
    state.open = opened
    state.stop = event.stop
    state.step += 1
    _count(state, event)


def _count(state: State, event: ModelReplied | Compacted) -> None:
    state.usage += event.usage
    state.cost = state.cost if event.cost is None else (state.cost or 0.0) + event.cost
    # Unknown is counted, never taken for 0: a budget could otherwise be spent without end.
    state.unpriced += event.cost is None and event.asked


def _tool_returned(state: State, event: ToolReturned, number: int) -> None:
    entry = _open_call(state, event.call_id)
    entry.result = ToolResult(event.content, event.is_error)
    entry.waits = ()
    state.tool_calls += 1
    state.ends = state.ends or event.ends
    # Results become messages together, in the order of the calls, whichever tool ends first.
    for other in state.open.values():
        if other.result is None:
            return
    _close_calls(state)


def _tool_waiting(state: State, event: ToolWaiting, number: int) -> None:
    entry = _open_call(state, event.call_id)
    _expect(event.interrupts, state, f"call {event.call_id!r} waits for nothing")
    entry.waits, entry.started = tuple(event.interrupts), False
    if any(wait.call_id == event.call_id for wait in event.interrupts):
        entry.decision = None  # Otherwise its children ask, and the decision to run it stands.


def _call_started(state: State, event: CallStarted, number: int) -> None:
    entry = _open_call(state, event.call_id)
    _expect(entry.decision is not None, state, f"nobody decided about call {event.call_id!r}")
    entry.started = True


def _open_call(state: State, call_id: str) -> OpenCall:
    entry = state.open.get(call_id)
    if entry is None or entry.result is not None or entry.waits:
        raise _illegal(state, f"call {call_id!r} is not being run")
    return entry


def _decided(state: State, event: Decided, number: int) -> None:
    entry = state.open.get(event.call_id)
    if entry is None or not any(wait.call_id == event.call_id for wait in entry.waits):
        raise _illegal(state, f"call {event.call_id!r} does not wait for a decision")
    entry.waits, entry.decision = (), event.decision


def _close_calls(state: State) -> None:
    """Turn the answers into messages, in the order of the calls."""
    for entry in state.open.values():
        result = entry.result or NOT_COMPLETED
        state.messages.append(ToolMessage(result.content, entry.call.id, entry.call.name, result.is_error))
    state.open = {}


# ---- boundaries


def _paused(state: State, event: TurnPaused, number: int) -> None:
    phases = {entry.phase for entry in state.open.values()} - {"answered"}
    _expect(phases == {"waiting"}, state, "not every open call waits")
    state.status, state.costs = "paused", event.costs


def _ended(state: State, event: TurnEnded, number: int) -> None:
    _expect(not state.open and (state.ends or _replied(state.messages)), state, "the turn is not over")
    state.status, state.reason, state.ends, state.costs = "ended", event.reason, False, event.costs


def _escalated(state: State, event: TurnEscalated, number: int) -> None:
    state.status, state.reason, state.detail = "escalated", "question", event.question
    state.costs = event.costs


def _failed(state: State, event: TurnFailed, number: int) -> None:
    state.status, state.reason, state.detail, state.failure = "failed", event.kind, event.text, event.failure
    state.costs = event.costs


def _cancelled(state: State, event: TurnCancelled, number: int) -> None:
    state.status, state.reason, state.detail, state.costs = "cancelled", "cancelled", event.reason, event.costs


def _exhausted(state: State, event: TurnExhausted, number: int) -> None:
    state.status, state.reason, state.detail, state.costs = "exhausted", event.limit, event.text, event.costs


# ---- changes by tools and middleware


def _todos_written(state: State, event: TodosWritten, number: int) -> None:
    state.todos = list(event.todos)


def _file_written(state: State, event: FileWritten, number: int) -> None:
    _expect(isinstance(event.content, str | bytes | None), state, f"{event.file!r} is neither text nor bytes")
    state.files[event.file] = FileEntry(event.content, event.size, event.sha256, event.at, event.by, event.blob)


def _file_edited(state: State, event: FileEdited, number: int) -> None:
    entry = state.files.get(event.file)
    text = entry.content if entry else None
    if not isinstance(text, str):
        raise _illegal(state, f"{event.file!r} is not a text file of the state")
    # An empty text would be found between any two characters.
    found = text.count(event.old) if event.old else 0
    _expect(found >= 1 and (found == 1 or event.all), state, f"{event.file!r} holds the old text {found} times")
    content = text.replace(event.old, event.new)
    state.files[event.file] = FileEntry(content, event.size, event.sha256, event.at, event.by)


def _file_deleted(state: State, event: FileDeleted, number: int) -> None:
    state.files.pop(event.file, None)  # A disk may lose a file that no event ever named.


def _compacted(state: State, event: Compacted, number: int) -> None:
    kept = state.messages[event.kept :]
    _expect(0 < event.kept <= len(state.messages), state, f"there are {len(state.messages)} messages, not {event.kept}")
    _expect(not (isinstance(kept[0], ToolMessage) if kept else state.open), state, "a call would lose its result")
    state.messages = [event.summary, *kept]  # A new list: views of the old one stay as they are.
    _count(state, event)  # A summary costs tokens of the run as any other reply does.
    state.began = max(1, state.began - event.kept + 1)  # The summary is no message of this turn.


def _messages_replaced(state: State, event: MessagesReplaced, number: int) -> None:
    before, (start, stop) = state.messages, (event.start, event.stop)
    # The reply whose calls wait stays the last message: their results follow it.
    _expect(0 <= start <= stop <= len(before) - bool(state.open), state, f"there are no messages {start} to {stop}")
    messages = [*before[:start], *event.messages, *before[stop:]]
    _expect(fit_together(messages, state.open), state, "a call would lose its result, or a result its call")
    state.messages = messages  # A new list: views of the old one stay as they are.
    grown = len(event.messages) - (stop - start)
    state.began = state.began + grown if stop <= state.began else min(state.began, start)


def _noted(state: State, event: Noted, number: int) -> None:
    notes = state.notes.setdefault(event.owner, {})
    if event.rule == "append":
        present: Any = notes.setdefault(event.key, [])
        _expect(isinstance(present, list), state, f"{event.owner!r} keeps no list under {event.key!r}")
        present.append(event.value)
    elif event.rule == "replace":
        notes[event.key] = event.value
    else:
        notes.pop(event.key, None)


# ---- questions


def _replied(messages: Sequence[Message]) -> bool:
    return bool(messages) and isinstance(messages[-1], AssistantMessage)


def _expect(fits: object, state: State, found: str) -> None:
    if not fits:
        raise _illegal(state, found)


def _illegal(state: State, found: str) -> IllegalEvent:
    seen = f"status {state.status!r}, {len(state.messages)} messages, {len(state.open)} open calls"
    return IllegalEvent(f"{found} ({seen})")


RUNNING: tuple[Status, ...] = ("running",)
ANSWERING: tuple[Status, ...] = ("running", "escalated")
"""Calls beside the one that escalated may still be running."""
ALWAYS: tuple[Status, ...] = (
    "ready", "running", "paused", "ended", "escalated", "failed", "cancelled", "exhausted",
)  # fmt: skip
"""A message always goes through, so that nothing can wedge a thread."""
SETTLED: tuple[Status, ...] = ("paused", "ended", "escalated", "failed", "cancelled", "exhausted")
"""Between two turns a person may change a thread."""
BEGUN: tuple[Status, ...] = ("running", *SETTLED)

TABLE: dict[type, tuple[tuple[Status, ...], Callable[[State, Any, int], None]]] = {
    UserSaid: (ALWAYS, _user_said),
    Resumed: (("running", "paused", "failed", "cancelled", "exhausted"), _resumed),  # `running`: a crash cut it short.
    ModelReplied: (RUNNING, _model_replied),
    ToolReturned: (ANSWERING, _tool_returned),
    ToolWaiting: (ANSWERING, _tool_waiting),
    CallStarted: (RUNNING, _call_started),
    Decided: (("paused", "running"), _decided),  # `running`: it was made beforehand, as nobody attends.
    TurnPaused: (RUNNING, _paused),
    TurnEnded: (RUNNING, _ended),
    TurnEscalated: (RUNNING, _escalated),
    TurnFailed: (ANSWERING, _failed),
    TurnCancelled: (("running", "paused"), _cancelled),  # `paused`: a new message answered the call above it.
    TurnExhausted: (RUNNING, _exhausted),
    TodosWritten: (RUNNING, _todos_written),
    FileWritten: (BEGUN, _file_written),
    FileEdited: (RUNNING, _file_edited),
    FileDeleted: (BEGUN, _file_deleted),
    Compacted: (RUNNING, _compacted),
    MessagesReplaced: (SETTLED, _messages_replaced),
    Noted: (BEGUN, _noted),
}
"""The statuses in which each event is legal, and the change that it makes."""
