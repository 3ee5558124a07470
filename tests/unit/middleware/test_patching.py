"""Patching: calls and results stay in pairs, whatever other hooks do to the messages."""

import pytest
from hypothesis import example, given, strategies as st
from msgspec import structs

from minideep import Agent, AssistantMessage, ToolCall, ToolMessage, UserMessage, tool
from minideep.middleware import Middleware, PatchToolCallsMiddleware
from minideep.middleware.patching import Patches
from minideep.models import ScriptedModel
from minideep.ports import Messages

LOST = "this call did not complete: the turn went on without its result"


@tool
def ls(path: str) -> str:
    """List a folder."""
    return f"in {path}"


def asked(*ids):
    return AssistantMessage(tuple(ToolCall("ls", {}, id) for id in ids))


def result(id, said="done"):
    return ToolMessage(said, id, "ls")


def lost(id):
    return ToolMessage(LOST, id, "ls", is_error=True)


SAY, REPLY = UserMessage("go"), AssistantMessage("yes")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ([SAY, asked("a", "b"), result("b")], [SAY, asked("a", "b"), lost("a"), result("b")]),
        ([SAY, asked("a"), SAY, REPLY], [SAY, asked("a"), lost("a"), SAY, REPLY]),
        ([result("a"), SAY, REPLY, result("b"), SAY], [SAY, REPLY, SAY]),
        ([SAY, asked("a"), result("a", "1"), result("a", "2")], [SAY, asked("a"), result("a", "1")]),
        ([SAY, asked("a", "b"), result("b"), result("a")], [SAY, asked("a", "b"), result("a"), result("b")]),
        ([SAY, asked("a"), SAY, result("a")], [SAY, asked("a"), result("a"), SAY]),
        (
            [SAY, asked("a"), asked("b"), result("a"), result("b")],
            [SAY, asked("a"), lost("a"), asked("b"), result("b")],
        ),
        ([result("a")], []),
    ],
    ids=["missing", "unanswered", "no call", "second", "order", "not behind", "too late", "nothing left"],
)
def test_every_call_has_one_result_directly_after_its_reply(given, shown):
    assert list(Patches().applied(given)) == shown


def test_a_call_with_invalid_arguments_is_answered_like_any_other():
    call = AssistantMessage((ToolCall("ls", b'"{\\"path\\": "', "a"),))
    assert Patches().applied([SAY, call]) == [SAY, call, lost("a")]


# ---- what holds for all messages

ids = st.sampled_from("abcd")
replies = st.lists(ids, unique=True, max_size=3).map(lambda ids: asked(*ids) if ids else REPLY)
anything = st.lists(st.one_of(st.just(SAY), replies, ids.map(result)), max_size=20)


def is_valid(messages):
    waiting = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not waiting or waiting.pop(0) != message.call_id:
                return False
        elif waiting:
            return False
        elif isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.calls]
    return not waiting


@given(anything)
def test_any_messages_become_valid_and_valid_ones_stay_the_same_object(messages):
    shown = Patches().applied(messages)
    assert is_valid(shown)
    assert (shown is messages) == is_valid(messages)
    assert Patches().applied(shown) is shown
    kept = [message for message in messages if not isinstance(message, ToolMessage)]
    assert [message for message in shown if not isinstance(message, ToolMessage)] == kept


@given(anything, st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), max_size=8))
def test_step_by_step_repair_equals_repair_at_once(messages, steps):
    """A run's messages grow, in the list of another hook or in new ones, with reminders behind them or without."""
    patched, source, at = Patches(), [], 0
    for more, view, reminded in steps:
        source += messages[at : at + more]
        at += more
        given = Messages(source) if view else [*source, *([UserMessage("remember")] if reminded else [])]
        assert list(patched.applied(given)) == list(Patches().applied(list(given)))


@given(anything, anything)
@example([asked("a"), REPLY], [asked("a"), result("a")])
def test_replaced_messages_are_looked_at_again(before, after):
    patched = Patches()
    patched.applied(before)
    assert list(patched.applied(after)) == list(Patches().applied(after))


def test_unchanged_messages_are_not_looked_at_again():
    source, seen, patched = [SAY], [], Patches()
    for n in range(50):
        source += [asked(str(n)), result(str(n))]
        given = Sliced(source, seen)
        assert patched.applied(given) is given
    assert max(seen) <= 4


class Sliced(list):
    """Tells how many messages are taken from its end."""

    def __init__(self, messages, seen):
        super().__init__(messages)
        self._seen = seen

    def __getitem__(self, index):
        if isinstance(index, slice) and index.stop is None:
            self._seen.append(len(self) - (index.start or 0))
        return super().__getitem__(index)


# ---- in a run


class Hide(Middleware):
    """Shows no results, and some that nobody asked for."""

    async def before_model(self, ctx, request):
        shown = [message for message in request.messages if not isinstance(message, ToolMessage)]
        return structs.replace(request, messages=[result("nobody"), *shown])


async def test_pairs_that_other_hooks_break_are_repaired_and_the_thread_is_unchanged():
    model = ScriptedModel([ToolCall("ls", {"path": "/a"}, "a"), ToolCall("ls", {"path": "/b"}, "b"), "done"])
    turn = await Agent(model, [ls], middleware=[Hide(), PatchToolCallsMiddleware()]).run("go")
    roles = [[message.text or message.role for message in request.messages] for request in model.requests]
    assert roles == [["go"], ["go", "assistant", LOST], ["go", "assistant", LOST, "assistant", LOST]]
    assert [message.text for message in turn.messages] == ["go", "", "in /a", "", "in /b", "done"]


async def test_a_restart_shows_the_model_the_same(store):
    stack = [Hide(), PatchToolCallsMiddleware()]

    def script():
        return ScriptedModel([ToolCall("ls", {"path": "/"}, "a"), "one"])

    second = ScriptedModel(["two"])
    await Agent(script(), [ls], middleware=stack, checkpointer=store).run("go", "t")
    await Agent(second, [ls], middleware=stack, checkpointer=store).run("on", "t")
    shown = [message.text for message in second.requests[0].messages]
    assert shown == ["go", "", LOST, "one", "on"]


async def test_messages_that_no_hook_changed_pass_as_the_same_object():
    passed = []

    class Look(Middleware):
        async def before_model(self, ctx, request):
            passed.append(request)
            return request

    class LookAgain(Look):
        pass

    model = ScriptedModel([ToolCall("ls", {"path": "/"}), "done"])
    await Agent(model, [ls], middleware=[Look(), PatchToolCallsMiddleware(), LookAgain()]).run("go")
    assert [a is b for a, b in zip(passed[::2], passed[1::2], strict=True)] == [True, True]
