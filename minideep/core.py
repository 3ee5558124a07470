"""The step machine: what must happen next, and what a fact does to the state.

Rule 1: every change of a `State` is made in this file. A file's content may be fetched and let go of elsewhere.
Rule 2: nothing here awaits, reads a clock, or knows a provider.
Rule 3: an event that does not fit raises `IllegalEvent` and changes nothing.

    status        last thing                        effect        event
    ----------    ------------------------------    -----------   ---------------------------------------
    ready         -                                 -             UserSaid
    running       user, or all calls answered       CallModel     ModelReplied | TurnExhausted(budget)
    running       reply, some calls ready           CallTools     ToolReturned / ToolWaiting, one a call;
                                                                  CallStarted before, where a person decided
    running       reply, every open call waits      Pause         TurnPaused
    running       reply, no calls                   Finish        TurnEnded(reason) | UserSaid
    running       a limit is reached                Stop          TurnExhausted(limit)
    running       -                                 -             TurnFailed / TurnEscalated
    running, or a child that waits for nobody now   -             TurnCancelled
    running       -                                 -             Noted, todos, files, Compacted
    escalated     calls that run beside the one that asked        ToolReturned / ToolWaiting / TurnFailed
    paused        -                                 -             Decided, one a call, then Resumed / UserSaid
    ended, escalated                                -             UserSaid
    failed, cancelled, exhausted,
    or running after a crash                        -             Resumed / UserSaid
"""

from collections.abc import Callable
from typing import Any, Literal

from .errors import IllegalEvent
from .events import (
    AnyEvent,
    CallModel,
    CallStarted,
    CallTools,
    Compacted,
    Decided,
    Effect,
    FileDeleted,
    FileEdited,
    FileWritten,
    Finish,
    ModelReplied,
    Noted,
    Pause,
    Resumed,
    Stop,
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
from .messages import AssistantMessage, ToolMessage, ToolResult
from .state import FileEntry, OpenCall, State

CALL_MODEL = CallModel()
NOT_COMPLETED = ToolResult("this call did not complete: the turn went on without its result", is_error=True)


def decide(state: State) -> Effect:
    """Say what must happen next in a running turn. Reads *state*, changes nothing."""
    if state.status != "running":
        raise _illegal(state, "there is nothing to decide")
    if state.open:
        return _decide_calls(state)
    if state.ends or (_replied(state) and state.stop != "continue"):
        return Finish(_reason(state))
    if state.limits.steps is not None and state.step >= state.limits.steps:
        return Stop("steps")
    return CALL_MODEL


def _decide_calls(state: State) -> Effect:
    ready = [entry.call for entry in state.open.values() if entry.result is None and not entry.waits]
    if not ready:
        return Pause()
    if state.limits.tool_calls is not None:
        ready = ready[: max(0, state.limits.tool_calls - state.tool_calls)]
    return CallTools(tuple(ready)) if ready else Stop("tool_calls")


def _reason(state: State) -> Literal["done", "truncated", "refused"]:
    return state.stop if not state.ends and state.stop in ("truncated", "refused") else "done"


def apply(state: State, event: AnyEvent, number: int | None = None) -> None:
    """Change *state* as *event* demands. *number* is the event's number in its thread; the next one by default.

    Raises:
        IllegalEvent: *event* does not fit; *state* is as it was.
    """
    number = state.number + 1 if number is None else number
    if number <= state.number:
        raise _illegal(state, f"event {number} comes after event {state.number}")
    _APPLY[type(event)](state, event, number)
    state.number = number


def _user_said(state: State, event: UserSaid, number: int) -> None:
    _expect(not event.by or state.status == "running", state, f"{event.by!r} has something to say")
    for entry in state.open.values():
        entry.result = entry.result or NOT_COMPLETED
    if not event.by:
        state.agent, state.said = event.agent, event.message
        _begin(state, event)
    _close(state)
    if not event.by:
        state.began = len(state.messages)
    state.ends, state.stop = False, ""
    state.messages.append(event.message)


def _resumed(state: State, event: Resumed, number: int) -> None:
    _expect(state.status not in ("ready", "ended", "escalated"), state, "nothing is there to resume")
    for call_id in event.calls:
        _expect(call_id in state.open and state.open[call_id].result is None, state, f"call {call_id!r} is not open")
    for call_id in event.calls:
        state.open[call_id].waits = ()
    if state.status != "running":  # A turn that a crash cut short is still the same; a reply that nobody got is new.
        state.began = len(state.messages) - (_replied(state) and not state.open)
    _begin(state, event)


def _begin(state: State, event: UserSaid | Resumed) -> None:
    """Start the counters of an accepted input; a turn that a crash cut short goes on under its number."""
    state.turn += state.status != "running" or not state.turn
    state.status = "running"
    state.step = state.tool_calls = 0
    state.reason, state.detail, state.failure = "", "", None
    state.limits = event.limits or state.limits


def _model_replied(state: State, event: ModelReplied, number: int) -> None:
    expected = state.messages and not state.open and not state.ends
    if state.status != "running" or not expected or (_replied(state) and state.stop != "continue"):
        raise _illegal(state, "no reply was asked for")
    calls = event.message.calls
    opened = {call.id: OpenCall(call, number) for call in calls}
    if len(opened) != len(calls) or "" in opened:
        raise _illegal(state, "the calls of a reply need ids of their own")
    state.messages.append(event.message)
    state.open = opened
    state.stop = event.stop
    state.step += 1
    _count(state, event)


def _count(state: State, event: ModelReplied | Compacted) -> None:
    state.usage += event.usage
    state.cost = state.cost if event.cost is None else (state.cost or 0.0) + event.cost
    state.unpriced += event.cost is None and event.asked


def _tool_returned(state: State, event: ToolReturned, number: int) -> None:
    entry = _open_call(state, event.call_id, "running", "escalated")
    entry.result = ToolResult(event.content, event.is_error)
    entry.waits = ()
    state.tool_calls += 1
    state.ends = state.ends or event.ends
    for other in state.open.values():
        if other.result is None:
            return
    _close(state)


def _tool_waiting(state: State, event: ToolWaiting, number: int) -> None:
    entry = _open_call(state, event.call_id, "running", "escalated")
    _expect(bool(event.interrupts), state, f"call {event.call_id!r} waits for nothing")
    entry.waits, entry.started = tuple(event.interrupts), False
    if any(wait.call_id == event.call_id for wait in event.interrupts):
        entry.decision = None  # Else it was let run, and its children ask.


def _open_call(state: State, call_id: str, *statuses: str) -> OpenCall:
    entry = state.open.get(call_id)
    if state.status not in statuses or entry is None or entry.result is not None or entry.waits:
        raise _illegal(state, f"call {call_id!r} is not being run")
    return entry


def _decided(state: State, event: Decided, number: int) -> None:
    entry = state.open.get(event.call_id)
    waits = entry is not None and any(wait.call_id == event.call_id for wait in entry.waits)
    if state.status != "paused" or entry is None or not waits:
        raise _illegal(state, f"call {event.call_id!r} does not wait for a decision")
    entry.waits, entry.decision = (), event.decision


def _call_started(state: State, event: CallStarted, number: int) -> None:
    entry = _open_call(state, event.call_id, "running")
    _expect(entry.decision is not None, state, f"nobody decided about call {event.call_id!r}")
    entry.started = True


def _paused(state: State, event: TurnPaused, number: int) -> None:
    _running(state)
    waiting = [entry for entry in state.open.values() if entry.result is None]
    _expect(bool(waiting) and all(entry.waits for entry in waiting), state, "not every open call waits")
    state.status = "paused"


def _ended(state: State, event: TurnEnded, number: int) -> None:
    _running(state)
    _expect(not state.open and (state.ends or _replied(state)), state, "the turn is not over")
    state.status, state.reason, state.ends = "ended", event.reason, False


def _escalated(state: State, event: TurnEscalated, number: int) -> None:
    _running(state)
    state.status, state.reason, state.detail = "escalated", "question", event.question


def _failed(state: State, event: TurnFailed, number: int) -> None:
    _expect(state.status in ("running", "escalated"), state, "no turn is running")
    state.status, state.reason, state.detail, state.failure = "failed", event.kind, event.text, event.failure


def _cancelled(state: State, event: TurnCancelled, number: int) -> None:
    _expect(state.status in ("running", "paused"), state, "no turn is running or paused")
    state.status, state.reason = "cancelled", "cancelled"


def _exhausted(state: State, event: TurnExhausted, number: int) -> None:
    _running(state)
    state.status, state.reason, state.detail = "exhausted", event.limit, event.text


def _todos_written(state: State, event: TodosWritten, number: int) -> None:
    _running(state)
    state.todos = list(event.todos)


def _file_written(state: State, event: FileWritten, number: int) -> None:
    _running(state)
    _expect(isinstance(event.content, str | bytes | None), state, f"{event.file!r} is neither text nor bytes")
    state.files[event.file] = FileEntry(event.content, event.size, event.sha256, event.at, event.by, event.blob)


def _file_edited(state: State, event: FileEdited, number: int) -> None:
    _running(state)
    entry = state.files.get(event.file)
    text = entry.content if entry else None
    if not isinstance(text, str):
        raise _illegal(state, f"{event.file!r} is no text file of the state")
    found = text.count(event.old) if event.old else 0
    _expect(found >= 1 and (found == 1 or event.all), state, f"{event.file!r} holds the old text {found} times")
    content = text.replace(event.old, event.new)
    state.files[event.file] = FileEntry(content, event.size, event.sha256, event.at, event.by)


def _file_deleted(state: State, event: FileDeleted, number: int) -> None:
    _running(state)
    state.files.pop(event.file, None)  # On a disk, a file may go that no event ever named.


def _compacted(state: State, event: Compacted, number: int) -> None:
    _running(state)
    kept = state.messages[event.kept :]
    _expect(0 < event.kept <= len(state.messages), state, f"there are {len(state.messages)} messages, not {event.kept}")
    _expect(not (isinstance(kept[0], ToolMessage) if kept else state.open), state, "a call would lose its result")
    state.messages = [event.summary, *kept]
    _count(state, event)
    state.began = max(1, state.began - event.kept + 1)


def _noted(state: State, event: Noted, number: int) -> None:
    _running(state)
    notes = state.notes.setdefault(event.owner, {})
    if event.rule == "append":
        present: Any = notes.setdefault(event.key, [])
        _expect(isinstance(present, list), state, f"{event.owner!r} keeps no list under {event.key!r}")
        present.append(event.value)
    elif event.rule == "replace":
        notes[event.key] = event.value
    else:
        notes.pop(event.key, None)


def _close(state: State) -> None:
    """Turn the answers into messages, in the order of the calls."""
    for entry in state.open.values():
        result = entry.result or NOT_COMPLETED
        state.messages.append(ToolMessage(result.content, entry.call.id, entry.call.name, result.is_error))
    state.open = {}


def _replied(state: State) -> bool:
    return bool(state.messages) and isinstance(state.messages[-1], AssistantMessage)


def _running(state: State) -> None:
    _expect(state.status == "running", state, "no turn is running")


def _expect(fits: object, state: State, found: str) -> None:
    if not fits:
        raise _illegal(state, found)


def _illegal(state: State, found: str) -> IllegalEvent:
    seen = f"status {state.status!r}, {len(state.messages)} messages, {len(state.open)} open calls"
    return IllegalEvent(f"{found} ({seen})")


_APPLY: dict[type, Callable[[State, Any, int], None]] = {
    UserSaid: _user_said,
    ModelReplied: _model_replied,
    ToolReturned: _tool_returned,
    ToolWaiting: _tool_waiting,
    Decided: _decided,
    Resumed: _resumed,
    CallStarted: _call_started,
    TurnPaused: _paused,
    TurnEnded: _ended,
    TurnEscalated: _escalated,
    TurnFailed: _failed,
    TurnCancelled: _cancelled,
    TurnExhausted: _exhausted,
    TodosWritten: _todos_written,
    FileWritten: _file_written,
    FileEdited: _file_edited,
    FileDeleted: _file_deleted,
    Compacted: _compacted,
    Noted: _noted,
}
