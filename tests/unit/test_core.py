"""The step machine as a table: no loop, no clock, no model."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from minideep.core import NOT_COMPLETED, TABLE, apply, decide
from minideep.effects import CallModel, CallTools, Finish, Pause, Stop
from minideep.errors import IllegalEvent
from minideep.events import (
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
from minideep.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult, Usage, UserMessage
from minideep.state import Approve, FileEntry, Interrupt, Limits, OpenCall, State, Todo

LS, RM = ToolCall("ls", {}, "c1"), ToolCall("rm", {"path": "a"}, "c2")
GO = UserSaid(UserMessage("go"), 1.0, Limits(), agent="main")
BOTH = ModelReplied(AssistantMessage((LS, RM)))
ANSWER = ModelReplied(AssistantMessage("done"), usage=Usage(10, 2))
LS_DONE, RM_DONE = ToolReturned("c1", "a.md"), ToolReturned("c2", "gone")
RM_WAITS = ToolWaiting("c2", (Interrupt(RM, "sure?"),))
CHILD_WAITS = ToolWaiting("c2", (Interrupt(ToolCall("pay", {}, "x"), "sure?", ("c2",)),))
PAUSED = TurnPaused(2.0)


def state(*events: AnyEvent) -> State:
    made = State()
    for event in events:
        apply(made, event)
    return made


@pytest.mark.parametrize(
    ("events", "effect"),
    [
        ([GO], CallModel()),
        ([GO, BOTH], CallTools((LS, RM))),
        ([GO, BOTH, LS_DONE], CallTools((RM,))),
        ([GO, BOTH, RM_DONE, LS_DONE], CallModel()),
        ([GO, BOTH, RM_WAITS], CallTools((LS,))),
        ([GO, BOTH, RM_WAITS, LS_DONE], Pause()),
        ([GO, BOTH, LS_DONE, RM_WAITS, PAUSED, Decided("c2", Approve()), Resumed(3.0)], CallTools((RM,))),
        ([GO, BOTH, LS_DONE, CHILD_WAITS, PAUSED, Resumed(3.0, calls=("c2",))], CallTools((RM,))),
        ([GO, BOTH, LS_DONE, RM_WAITS, PAUSED, Resumed(3.0)], Pause()),
        ([GO, ANSWER], Finish("done")),
        ([GO, ModelReplied(AssistantMessage("do"), "truncated")], Finish("truncated")),
        ([GO, ModelReplied(AssistantMessage("no"), "refused")], Finish("refused")),
        ([GO, ModelReplied(AssistantMessage("wait"), "continue")], CallModel()),
        ([GO, ANSWER, UserSaid(UserMessage("and the tests?"), 2.0, by="Rubric")], CallModel()),
        ([GO, BOTH, LS_DONE, ToolReturned("c2", "report", ends=True)], Finish("done")),
        ([GO, BOTH, ToolReturned("c1", "report", ends=True), UserSaid(UserMessage("wait"), 2.0)], CallModel()),
        ([GO, BOTH, TurnCancelled(2.0), Resumed(3.0)], CallTools((LS, RM))),
        ([GO, BOTH, LS_DONE, Resumed(3.0)], CallTools((RM,))),
        ([GO, TurnFailed(2.0, "Overloaded", "busy"), Resumed(3.0)], CallModel()),
    ],
)
def test_decide_follows_the_table(events, effect):
    assert decide(state(*events)) == effect


@pytest.mark.parametrize(
    ("limits", "events", "effect"),
    [
        (Limits(steps=1), [BOTH], CallTools((LS, RM))),
        (Limits(steps=1), [BOTH, LS_DONE, RM_DONE], Stop("steps")),
        (Limits(steps=1), [ANSWER], Finish("done")),
        (Limits(steps=None), [BOTH, LS_DONE, RM_DONE], CallModel()),
        (Limits(tool_calls=1), [BOTH], CallTools((LS,))),
        (Limits(tool_calls=1), [BOTH, LS_DONE], Stop("tool_calls")),
        (Limits(tool_calls=2), [BOTH, LS_DONE, RM_DONE], CallModel()),
        (Limits(tool_calls=1), [BOTH, LS_DONE, TurnExhausted(2.0, "tool_calls"), Resumed(3.0)], CallTools((RM,))),
        (Limits(steps=1), [BOTH, LS_DONE, RM_DONE, TurnExhausted(2.0, "steps"), Resumed(3.0)], CallModel()),
    ],
)
def test_a_limit_is_exact_and_a_resumed_turn_counts_from_zero(limits, events, effect):
    assert decide(state(UserSaid(UserMessage("go"), 1.0, limits), *events)) == effect


def test_a_message_to_a_turn_that_was_cut_short_keeps_its_number_and_the_next_input_has_another():
    assert state(GO, BOTH, GO).turn == state(GO, BOTH, Resumed(2.0)).turn == 1
    assert state(GO, ANSWER, TurnEnded(2.0, "done"), GO).turn == 2


def test_after_a_compaction_the_messages_of_the_turn_still_begin_with_its_input():
    """The summary comes before them, and is the first if the input is in it."""
    before = [GO, ANSWER, TurnEnded(2.0, "done"), GO, BOTH, LS_DONE, RM_DONE]
    for kept, began in ((1, 2), (2, 1), (3, 1), (6, 1)):
        compacted = state(*before, Compacted(UserMessage("so far"), kept))
        assert compacted.began == began
        assert compacted.messages[began:] == state(*before).messages[max(2, kept) :]


def test_there_is_nothing_to_decide_without_a_running_turn():
    with pytest.raises(IllegalEvent, match="nothing to decide"):
        decide(State())


def test_results_stand_in_the_order_of_their_calls_whichever_comes_first():
    assert state(GO, BOTH, RM_DONE, LS_DONE).messages[2:] == [
        ToolMessage("a.md", "c1", "ls"),
        ToolMessage("gone", "c2", "rm"),
    ]


def test_a_message_of_the_user_answers_the_open_calls():
    made = state(GO, BOTH, RM_DONE, TurnCancelled(2.0), UserSaid(UserMessage("never mind"), 3.0))
    assert made.messages[2:] == [
        ToolMessage(NOT_COMPLETED.content, "c1", "ls", True),
        ToolMessage("gone", "c2", "rm"),
        UserMessage("never mind"),
    ]
    assert made.open == {}
    assert decide(made) == CallModel()


def test_an_input_begins_a_new_turn_and_a_crashed_turn_keeps_its_number():
    assert state(GO, ANSWER, TurnEnded(2.0), GO).turn == 2
    assert state(GO, Resumed(2.0)).turn == 1
    assert state(GO, TurnFailed(2.0, "ModelError", "x"), Resumed(3.0)).turn == 2


def test_a_message_of_a_middleware_keeps_turn_and_limits():
    made = state(UserSaid(UserMessage("go"), 1.0, Limits(7)), ANSWER, UserSaid(UserMessage("more"), 2.0, by="Todos"))
    assert (made.turn, made.step, made.limits, made.said) == (1, 1, Limits(7), UserMessage("go"))


def test_events_that_tools_record_are_in_the_state():
    made = state(
        GO,
        TodosWritten((Todo("a"), Todo("b", "completed"))),
        FileWritten("/a", "one two", 7, "s1", 1.0, ("c1",)),
        FileEdited("/a", "two", "three", False, 9, "s2", 2.0),
        FileWritten("/b", None, 3, "s3", 3.0),
        FileDeleted("/b", 4.0),
        Noted("me", "k", [1]),
        Noted("me", "k", 2, "append"),
        Noted("me", "gone", 1),
        Noted("me", "gone", rule="delete"),
    )
    assert made.todos == [Todo("a"), Todo("b", "completed")]
    assert made.files == {"/a": FileEntry("one three", 9, "s2", 2.0)}
    assert made.notes == {"me": {"k": [1, 2]}}


def test_a_compaction_makes_a_new_list_and_leaves_the_old_one_alone():
    made = state(GO, BOTH, LS_DONE, RM_DONE, ANSWER)
    before = made.messages
    apply(made, Compacted(UserMessage("so far: listed, removed"), 4))
    assert made.messages == [UserMessage("so far: listed, removed"), AssistantMessage("done")]
    assert len(before) == 5


@pytest.mark.parametrize(
    ("events", "illegal"),
    [
        ([], ANSWER),
        ([], TurnEnded(1.0)),
        ([], Resumed(1.0)),
        ([], Noted("me", "k", 1)),
        ([GO], LS_DONE),
        ([GO], PAUSED),
        ([GO], TurnEnded(1.0)),
        ([GO], Decided("c1", Approve())),
        ([GO, ANSWER, TurnEnded(2.0)], TurnCancelled(3.0)),
        ([GO, BOTH], ANSWER),
        ([GO, BOTH], ToolReturned("c9", "")),
        ([GO, BOTH], ToolWaiting("c1", ())),
        ([GO, BOTH, LS_DONE], LS_DONE),
        ([GO, BOTH, LS_DONE], PAUSED),
        ([GO, BOTH, RM_WAITS], RM_DONE),
        ([GO, BOTH, LS_DONE, RM_WAITS, PAUSED], RM_DONE),
        ([GO, BOTH, LS_DONE, CHILD_WAITS, PAUSED], Decided("c2", Approve())),
        ([GO, BOTH, LS_DONE, RM_WAITS, PAUSED], Resumed(2.0, calls=("c1",))),
        ([GO, ANSWER], ANSWER),
        ([GO, ANSWER, TurnEnded(2.0)], Resumed(3.0)),
        ([GO, ANSWER, TurnEscalated(2.0, "which?")], Resumed(3.0)),
        ([GO, ANSWER, TurnEnded(2.0)], UserSaid(UserMessage("more"), 3.0, by="Todos")),
        ([GO], ModelReplied(AssistantMessage((LS, LS)))),
        ([GO], ModelReplied(AssistantMessage((ToolCall("ls"),)))),
        ([GO, BOTH], Compacted(UserMessage("s"), 2)),
        ([GO, BOTH, LS_DONE, RM_DONE], Compacted(UserMessage("s"), 3)),
        ([GO], Compacted(UserMessage("s"), 2)),
        ([GO], FileEdited("/a", "x", "y", False, 1, "s", 1.0)),
        ([GO, FileWritten("/a", "xx", 2, "s", 1.0)], FileEdited("/a", "x", "y", False, 1, "s", 1.0)),
        ([GO, FileWritten("/a", b"\xff", 1, "s", 1.0)], FileEdited("/a", "x", "y", False, 1, "s", 1.0)),
        ([GO], FileWritten("/a", 5, 2, "s", 1.0)),
        ([GO, Noted("me", "k", 1)], Noted("me", "k", 2, "append")),
    ],
)
def test_an_illegal_event_is_refused_and_changes_nothing(events, illegal):
    made = state(*events)
    before = msgspec.msgpack.encode(made)
    with pytest.raises(IllegalEvent):
        apply(made, illegal)
    assert msgspec.msgpack.encode(made) == before


def test_an_event_must_come_after_the_last_one():
    made = state(GO)
    with pytest.raises(IllegalEvent, match="event 1 cannot follow event 1"):
        apply(made, ANSWER, 1)


def test_a_state_has_the_declared_fields_and_no_others():
    with pytest.raises(TypeError):
        State(unknown=1)
    with pytest.raises(AttributeError):
        State().unknown = 1


CALLS = st.lists(st.sampled_from(["c1", "c2", "c3", ""]), max_size=3)
EVENTS = st.one_of(
    st.builds(UserSaid, st.just(UserMessage("go")), st.just(1.0), st.none(), st.sampled_from(["", "Todos"])),
    CALLS.map(lambda ids: ModelReplied(AssistantMessage(tuple(ToolCall("ls", {}, id) for id in ids) or "done"))),
    st.builds(ToolReturned, st.sampled_from(["c1", "c2", "c3"]), st.text(max_size=3), st.booleans(), st.booleans()),
    st.sampled_from(["c1", "c2"]).map(lambda id: ToolWaiting(id, (Interrupt(ToolCall("ls", {}, id)),))),
    st.builds(Decided, st.sampled_from(["c1", "c2"]), st.just(Approve())),
    st.builds(Resumed, st.just(1.0), st.none(), st.sampled_from([(), ("c1",)])),
    st.sampled_from([PAUSED, TurnEnded(1.0), TurnCancelled(1.0), TurnFailed(1.0, "ModelError", "")]),
    st.builds(Compacted, st.just(UserMessage("so far")), st.integers(0, 4)),
    st.builds(
        MessagesReplaced,
        st.integers(-1, 4),
        st.integers(-1, 4),
        st.sampled_from(
            [(), (UserMessage("u"),), (AssistantMessage("a"), UserMessage("u")), (ToolMessage("r", "c1", "ls"),)]
        ),
        st.just(1.0),
    ),
    st.builds(
        Noted,
        st.just("me"),
        st.sampled_from("kl"),
        st.integers(-9, 9),
        st.sampled_from(["replace", "append", "delete"]),
    ),
)


@given(st.lists(EVENTS, max_size=30))
def test_whatever_happens_every_call_gets_one_result_and_refusals_change_nothing(events):
    made = State()
    for event in events:
        before = msgspec.msgpack.encode(made)
        try:
            apply(made, event)
        except IllegalEvent:
            assert msgspec.msgpack.encode(made) == before
    expected: list[str] = []
    for message in made.messages:
        if isinstance(message, AssistantMessage):
            assert expected == []
            expected = [call.id for call in message.calls]
        elif isinstance(message, ToolMessage):
            assert message.call_id == expected.pop(0)
        else:
            assert expected == []
    assert expected == list(made.open)


# ---- the table of statuses, cell by cell

STATUSES = ("ready", "running", "paused", "ended", "escalated", "failed", "cancelled", "exhausted")
LEGAL = {
    "UserSaid": "ready running paused ended escalated failed cancelled exhausted",
    "Resumed": "running paused failed cancelled exhausted",
    "ModelReplied": "running",
    "ToolReturned": "running escalated",
    "ToolWaiting": "running escalated",
    "CallStarted": "running",
    "Decided": "paused running",
    "TurnPaused": "running",
    "TurnEnded": "running",
    "TurnEscalated": "running",
    "TurnFailed": "running escalated",
    "TurnCancelled": "running paused",
    "TurnExhausted": "running",
    "TodosWritten": "running",
    "FileWritten": "running paused ended escalated failed cancelled exhausted",
    "FileEdited": "running",
    "FileDeleted": "running paused ended escalated failed cancelled exhausted",
    "Compacted": "running",
    "MessagesReplaced": "paused ended escalated failed cancelled exhausted",
    "Noted": "running paused ended escalated failed cancelled exhausted",
}
CALL = ToolCall("pay", {"amount": 1}, "p")
ASKS = Interrupt(CALL)
FITTING = {
    "UserSaid": (UserSaid(UserMessage("go"), 1.0), None),
    "Resumed": (Resumed(1.0), None),
    "ModelReplied": (ModelReplied(AssistantMessage("ok")), None),
    "ToolReturned": (ToolReturned("p", "paid"), OpenCall(CALL, 2)),
    "ToolWaiting": (ToolWaiting("p", (ASKS,)), OpenCall(CALL, 2)),
    "CallStarted": (CallStarted("p"), OpenCall(CALL, 2, decision=Approve())),
    "Decided": (Decided("p", Approve()), OpenCall(CALL, 2, waits=(ASKS,))),
    "TurnPaused": (TurnPaused(1.0), OpenCall(CALL, 2, waits=(ASKS,))),
    "TurnEnded": (TurnEnded(1.0), "ends"),
    "TurnEscalated": (TurnEscalated(1.0, "which?"), None),
    "TurnFailed": (TurnFailed(1.0, "ModelError", "no"), None),
    "TurnCancelled": (TurnCancelled(1.0), None),
    "TurnExhausted": (TurnExhausted(1.0, "steps"), None),
    "TodosWritten": (TodosWritten(()), None),
    "FileWritten": (FileWritten("/f", "text", 4, "", 1.0), None),
    "FileEdited": (FileEdited("/f", "text", "more", False, 4, "", 1.0), "file"),
    "FileDeleted": (FileDeleted("/f", 1.0), None),
    "Compacted": (Compacted(UserMessage("so far"), 1), None),
    "MessagesReplaced": (MessagesReplaced(0, 1, (), 1.0), None),
    "Noted": (Noted("me", "key", 1), None),
}
"""An event of each kind, and what else of the state lets it fit."""


def fitted(status, needs):
    made = State(status=status, messages=[UserMessage("go")])
    if isinstance(needs, OpenCall):
        made.open = {"p": structs.replace(needs)}
    made.ends = needs == "ends"
    if needs == "file":
        made.files["/f"] = FileEntry("text", 4, "", 1.0)
    return made


def test_the_table_has_every_event_and_this_test_too():
    assert {kind.__name__ for kind in TABLE} == set(LEGAL) == set(FITTING)
    assert {kind.__name__ for kind in get_args(AnyEvent)} == set(LEGAL)


@pytest.mark.parametrize("kind", LEGAL)
@pytest.mark.parametrize("status", STATUSES)
def test_an_event_is_legal_in_the_statuses_of_the_table_only_and_else_changes_nothing(kind, status):
    event, needs = FITTING[kind]
    made = fitted(status, needs)
    before = msgspec.msgpack.encode(made)
    if status in LEGAL[kind].split():
        apply(made, event)
        assert made.number == 1
    else:
        with pytest.raises(IllegalEvent):
            apply(made, event)
        assert msgspec.msgpack.encode(made) == before


@pytest.mark.parametrize(
    ("entry", "phase"),
    [
        (OpenCall(CALL, 2), "ready"),
        (OpenCall(CALL, 2, waits=(ASKS,)), "waiting"),
        (OpenCall(CALL, 2, decision=Approve()), "decided"),
        (OpenCall(CALL, 2, decision=Approve(), started=True), "started"),
        (OpenCall(CALL, 2, decision=Approve(), waits=(Interrupt(ToolCall("x", {}, "c"), path=("p",)),)), "waiting"),
        (OpenCall(CALL, 2, result=ToolResult("paid")), "answered"),
    ],
)
def test_an_open_call_says_where_it_stands(entry, phase):
    assert entry.phase == phase
