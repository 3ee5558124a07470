"""The fold: `decide` says what must happen next, and `apply` writes what has happened. Neither does any I/O."""

import pytest
from work import NO_LIMIT, counted, text

from minideep import Approve, AssistantMessage, Interrupt, ToolCall, UserMessage
from minideep.core import apply, decide
from minideep.events import (
    AnyEvent,
    CallStarted,
    Compacted,
    Decided,
    FileDeleted,
    FileEdited,
    FileWritten,
    ModelReplied,
    Noted,
    Resumed,
    TodosWritten,
    ToolReturned,
    ToolWaiting,
    TurnEnded,
    TurnPaused,
    UserSaid,
)
from minideep.state import State, Todo

CYCLES, ROUNDS = 1_000, 20
INPUT = UserSaid(UserMessage("go"), 1.0, NO_LIMIT)
CALLS = tuple(ToolCall("ping", {"text": "x"}, f"c{number}") for number in range(5))
RETURNED = [ToolReturned(call.id, "pong") for call in CALLS]
WAITS = ToolWaiting("c0", (Interrupt(CALLS[0]),))
PAUSED = [WAITS, TurnPaused(1.0)]
STARTED = [Resumed(1.0, NO_LIMIT), CallStarted("c0")]
SAID = UserSaid(UserMessage("and now?"), 1.0, by="reminder")


def replied(*calls: ToolCall) -> ModelReplied:
    return ModelReplied(AssistantMessage(calls or "done"))


def edited(old: str, new: str) -> FileEdited:
    return FileEdited("/a", old, new, False, 1_000, "", 1.0)


WRITTEN = FileWritten("/a", text(994) + " <old>", 1_000, "", 1.0)
CYCLE: dict[str, tuple[list[AnyEvent], list[AnyEvent]]] = {
    "a reply and its tool result": ([], [replied(CALLS[0]), RETURNED[0]]),
    "a reply and five tool results": ([], [replied(*CALLS), *RETURNED]),
    "input, reply, end of the turn": ([replied(), TurnEnded(1.0)], [INPUT, replied(), TurnEnded(1.0)]),
    "a call waits, is approved and starts": ([replied(CALLS[0])], [*PAUSED, Decided("c0", Approve()), *STARTED]),
    "a turn pauses and is resumed": ([replied(CALLS[0])], [*PAUSED, Resumed(1.0, NO_LIMIT, ("c0",))]),
    "a file of 1 KB is written": ([], [WRITTEN]),
    "a file of 1 KB is edited": ([WRITTEN], [edited("<old>", "<new>"), edited("<new>", "<old>")]),
    "a file is written and deleted": ([], [WRITTEN, FileDeleted("/a", 1.0)]),
    "todos are written": ([], [TodosWritten((Todo("read"), Todo("write")))]),
    "a note is replaced": ([], [Noted("library", "borrowed", "Emma")]),
    "a message, then a compaction": ([SAID], [SAID, Compacted(UserMessage("summary"), 2)]),
}


def after(*events: AnyEvent) -> State:
    state = State()
    for event in (INPUT, *events):
        apply(state, event)
    return state


def fold(state: State, events: list[AnyEvent]) -> None:
    for _ in range(CYCLES):
        for event in events:
            apply(state, event)


@pytest.mark.parametrize(("before", "events"), CYCLE.values(), ids=CYCLE)
def test_apply_by_event(measure, before, events):
    """`apply`, one event, by what happens again and again."""
    measure(lambda state: fold(state, events), setup=lambda: after(*before), rounds=ROUNDS, each=CYCLES * len(events))


def long(messages: int) -> State:
    return after(*[replied(CALLS[0]), RETURNED[0]] * (messages // 2))


LENGTHS = pytest.mark.parametrize("messages", [10, 1_000, 100_000], ids=counted("message"))


@LENGTHS
def test_apply_by_length(measure, messages):
    """`apply`, one event of a reply and its result, by the messages in context."""
    events = [replied(CALLS[0]), RETURNED[0]]
    measure(lambda state: fold(state, events), setup=lambda: long(messages), rounds=5, each=CYCLES * 2)


STATUSES: dict[str, list[AnyEvent]] = {
    "call the model": [],
    "call one tool": [replied(CALLS[0])],
    "call five tools": [replied(*CALLS)],
    "pause": [replied(CALLS[0]), WAITS],
    "finish": [replied()],
}


def decisions(state: State) -> None:
    for _ in range(CYCLES):
        decide(state)


@pytest.mark.parametrize("events", STATUSES.values(), ids=STATUSES)
def test_decide_by_effect(measure, events):
    """`decide`, by what must happen next."""
    state = after(*events)
    measure(lambda: decisions(state), rounds=ROUNDS, each=CYCLES)


@LENGTHS
def test_decide_by_length(measure, messages):
    """`decide`, by the messages in context."""
    state = long(messages)
    measure(lambda: decisions(state), rounds=ROUNDS, each=CYCLES)


COUNTS = pytest.mark.parametrize(
    "count", [10, 1_000, pytest.param(100_000, marks=pytest.mark.full)], ids=counted("event")
)


@COUNTS
def test_replay(measure, count):
    """Replaying a run, one event, by the number of its events."""
    events = [INPUT, *[replied(CALLS[0]), RETURNED[0]] * (count // 2)]
    measure(lambda: after(*events[1:]), rounds=ROUNDS, each=len(events))
