"""Todos: what may be written, what is protected, and who sees the list."""

import asyncio
import itertools
import json

import pytest
from hypothesis import given, strategies as st

from minideep import Agent, Limits, Reply, Subagent, Todo, ToolCall, ToolMessage, create_deep_agent, tool
from minideep.events import Noted, TodosWritten, UserSaid
from minideep.messages import AssistantMessage
from minideep.middleware import TodoListMiddleware
from minideep.middleware.todo_items import MAX_ITEMS, MAX_LENGTH
from minideep.models import ScriptedModel

PLAN = [("a", "completed"), ("b", "in_progress"), ("c", "pending")]
STATUSES = ("pending", "in_progress", "completed")


@tool
async def ping() -> str:
    """Answer."""
    return "pong"


def write(*items, id=None):
    """A call that writes items: pairs of content and status, or what a model may say instead."""
    todos = [
        dict(zip(("content", "status"), item, strict=False)) if isinstance(item, tuple) else item for item in items
    ]
    return ToolCall("write_todos", {"todos": todos}, id)


def planner(*script, nudge=False, **settings):
    return Agent(ScriptedModel(script), [ping], middleware=[TodoListMiddleware(nudge)], **settings)


def told(turn):
    return [message.text for message in turn.messages if isinstance(message, ToolMessage)]


def pairs(todos):
    return [(todo.content, todo.status) for todo in todos]


async def after(first, second, *, turns=1):
    """What a second write is told, and the list then; after so many turns."""
    script = [first, "ok", second, "ok"] if turns == 2 else [first, second, "ok"]
    agent = planner(*script)
    for _ in range(turns):
        turn = await agent.run("go", "t")
    message = [message for message in turn.messages if isinstance(message, ToolMessage)][-1]
    return message.text, message.is_error, pairs(agent.get_state("t").todos)


async def test_one_call_writes_the_list_and_the_next_replaces_it():
    agent = planner(write(*PLAN, id="c1"), write(("a", "completed"), ("d", "in_progress"), id="c2"), "ok")
    stream = agent.stream("go", "t")
    events = [event async for event in stream if isinstance(event, TodosWritten)]
    assert [pairs(event.todos) for event in events] == [PLAN, [("a", "completed"), ("d", "in_progress")]]
    assert agent.get_state("t").todos == [Todo("a", "completed"), Todo("d", "in_progress")]
    assert [message for message in stream.turn.messages if isinstance(message, ToolMessage)] == [
        ToolMessage("the list has 3 items, 1 of them completed", "c1", "write_todos"),
        ToolMessage("the list has 2 items, 1 of them completed", "c2", "write_todos"),
    ]


@pytest.mark.parametrize("status", ["failed", "cancelled", "blocked", "skipped", 1, ["pending"]])
async def test_an_unknown_status_is_an_error_that_names_the_known_ones_and_changes_nothing(status):
    said, is_error, todos = await after(write(*PLAN), write(("a", "completed"), ("b", status)))
    assert (said, is_error, todos) == (
        f"write_todos: todo 2 has status {status!r}; it must be one of pending, in_progress, completed; "
        "nothing was changed", True, PLAN,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        (
            [{"content": "x", "status": "pending", "owner": "me"}],
            "todo 1 has a field 'owner'; the fields are content and status",
        ),
        (
            [{"content": "x", "states": "pending"}],
            "todo 1 has a field 'states'; did you mean 'status'?",
        ),
        (
            [{"title": "x", "description": "all about x"}],
            "todo 1 has a field 'description'; the fields are content and status",
        ),
        ([["x"]], "todo 1 must be an object with content and status, not ['x']"),
        (
            [("x", "pending"), {"status": "pending"}],
            "todo 2 must have a content that says what to do, not None",
        ),
        ([(" \n", "pending")], r"todo 1 must have a content that says what to do, not ' \n'"),
        ([""], "todo 1 must have a content that says what to do, not None"),
        ([(7, "pending")], "todo 1 must have a content that says what to do, not 7"),
        ([("x", "pending"), (" x ", "completed")], "todo 2 repeats another one: 'x'; give each once"),
        ([("x" * (MAX_LENGTH + 1), "pending")], "todo 1 has 501 characters, more than 500; put details into a file"),
        (
            [(str(n), "pending") for n in range(MAX_ITEMS + 1)],
            "101 todos are more than 100; put details into a file",
        ),
    ],
)
async def test_an_invalid_todo_is_refused_in_one_line_and_changes_nothing(items, problem):
    said, is_error, todos = await after(write(*PLAN), write(*items))
    assert (said, is_error, todos) == (f"write_todos: {problem}; nothing was changed", True, PLAN)


async def test_the_error_for_anything_but_a_list_says_what_is_wanted():
    agent = planner(ToolCall("write_todos", {"todos": "none"}), ToolCall("write_todos"), "ok")
    first, second = told(await agent.run("go"))
    assert first.startswith('write_todos: todos must be [{"content": string, "status": ')
    assert second.startswith("write_todos: 'todos' is missing; it takes todos (array)")


async def test_the_largest_list_fits_and_an_item_is_one_line():
    items = [(f"{n:03}" + "x" * (MAX_LENGTH - 3), "pending") for n in range(MAX_ITEMS)]
    assert (await after(write(), write(*items)))[2] == items
    assert (await after(write(), write((" look\n\tup ", "pending"))))[2] == [("look up", "pending")]


async def test_an_item_without_a_status_is_pending():
    assert (await after(write(), write({"content": "x"})))[2] == [("x", "pending")]


@pytest.mark.parametrize(
    ("items", "what"),
    [
        ([("b", "in_progress"), ("c", "pending")], "it is gone"),
        ([("a", "pending"), ("b", "in_progress"), ("c", "pending")], "it is pending again"),
        ([("a", "in_progress"), ("b", "completed")], "it is begun again"),
        ([("a1", "completed"), ("b", "completed")], "it says something else"),
    ],
)
async def test_completed_todos_cannot_be_changed(items, what):
    assert await after(write(*PLAN), write(*items)) == (
        "write_todos: completed todos must stay unchanged: 'a'; or clear the list with [] first; "
        "nothing was changed", True, PLAN,
    ), what  # fmt: skip


@pytest.mark.parametrize(
    "items",
    [
        [("a", "completed")],
        [("x", "pending"), ("c", "in_progress"), ("a", "completed"), ("b", "pending")],
        [("a", "completed"), ("b", "completed"), ("c", "completed")],
        [],
    ],
)
async def test_other_todos_can_be_revised_and_an_empty_list_clears_all(items):
    assert (await after(write(*PLAN), write(*items)))[1:] == (False, items)


async def test_a_cleared_list_can_be_started_again():
    agent = planner(write(*PLAN), write(), write(("a", "pending")), "ok")
    assert told(await agent.run("go", "t"))[1:] == [
        "the list is cleared",
        "the list has 1 items, 0 of them completed; none is in_progress: mark the one that you begin",
    ]
    assert pairs(agent.get_state("t").todos) == [("a", "pending")]


async def test_a_list_that_an_earlier_turn_completed_can_be_replaced():
    done, new = write(("a", "completed"), ("b", "completed")), [("x", "in_progress"), ("y", "pending")]
    assert (await after(done, write(*new), turns=2))[1:] == (False, new)
    assert (await after(done, write(*new)))[1:] == (True, [("a", "completed"), ("b", "completed")])


async def test_an_unfinished_list_of_an_earlier_turn_is_protected_until_it_is_cleared():
    new = write(("x", "pending"))
    assert (await after(write(*PLAN), new, turns=2))[1:] == (True, PLAN)
    assert (await after(write(("a", "completed")), write(("a", "pending")), turns=2))[1:] == (
        True,
        [("a", "completed")],
    )
    assert (await after(write(*PLAN), write(), turns=2))[1:] == (False, [])


async def test_a_refused_write_does_not_count_as_writing_the_list_in_this_turn():
    done, wrong = write(("a", "completed")), write(("x", "later"))
    agent = planner(done, "ok", wrong, write(("x", "pending")), "ok")
    for _ in range(2):
        await agent.run("go", "t")
    assert pairs(agent.get_state("t").todos) == [("x", "pending")]


@pytest.mark.parametrize("count", [2, 3])
async def test_several_writes_in_one_reply_all_fail_and_change_nothing(count):
    agent = planner(write(*PLAN), [*(write((str(n), "pending")) for n in range(count)), ToolCall("ping")], "ok")
    _, *refused, pong = told(await agent.run("go", "t"))
    several = "write_todos: this reply has several write_todos calls, and none was carried out; make one call"
    assert refused == [f"{several}; nothing was changed"] * count
    assert pong == "pong"
    assert pairs(agent.get_state("t").todos) == PLAN


async def test_one_write_beside_other_calls_succeeds():
    agent = planner([ToolCall("ping"), write(*PLAN), ToolCall("ping")], "ok")
    assert told(await agent.run("go")) == ["pong", "the list has 3 items, 1 of them completed", "pong"]


@pytest.mark.parametrize(
    ("items", "hint"),
    [
        ([("a", "completed"), ("b", "pending")], True),
        ([("a", "pending"), ("b", "in_progress"), ("c", "in_progress")], False),
        ([("a", "completed")], False),
    ],
)
async def test_a_list_without_an_item_in_progress_is_accepted_with_a_hint(items, hint):
    said, is_error, _ = await after(write(), write(*items))
    assert (is_error, "none is in_progress" in said) == (False, hint)


TODO = st.fixed_dictionaries({"content": st.sampled_from("abcd"), "status": st.sampled_from(STATUSES)})
ANYTHING = st.one_of(
    TODO, st.none(), st.integers(), st.text(max_size=3), st.dictionaries(st.text(max_size=3), st.text())
)


@given(st.lists(st.one_of(st.lists(TODO, max_size=4), st.lists(st.one_of(TODO, ANYTHING), max_size=3)), max_size=5))
def test_any_input_either_becomes_the_list_or_changes_nothing_and_completed_todos_survive(lists):
    """The law of the list, over any sequence of writes."""
    agent = planner(*(ToolCall("write_todos", {"todos": todos}) for todos in lists), "ok")
    turn, written = asyncio.run(seen_to_the_end(agent))
    results = [message for message in turn.messages if isinstance(message, ToolMessage)]
    assert [message.is_error for message in results].count(False) == len(written)
    for message in results:
        assert "\n" not in message.text
        assert len(message.text) < 500
    for before, after in itertools.pairwise([[], *written]):
        assert len({content for content, _ in after}) == len(after)
        assert not after or {item for item in before if item[1] == "completed"} <= {*after}
    assert pairs(agent.get_state("t").todos) == [[], *written][-1]


async def seen_to_the_end(agent):
    stream = agent.stream("go", "t")
    written = [pairs(event.todos) async for event in stream if isinstance(event, TodosWritten)]
    return stream.turn, written


# ---- what models write


@pytest.mark.parametrize(
    ("todos", "meant"),
    [
        (["look", "write"], [("look", "pending"), ("write", "pending")]),
        ('[{"content": "look", "status": "pending"}]', [("look", "pending")]),
        ("[{'content': 'look', 'status': 'done'}]", [("look", "completed")]),
        ({"content": "look", "status": "pending"}, [("look", "pending")]),
        ({"todos": [{"content": "look"}]}, [("look", "pending")]),
        ('{"todos": [{"content": "look"}, "write"]}', [("look", "pending"), ("write", "pending")]),
        (['{"content": "look", "status": "doing"}'], [("look", "in_progress")]),
        (
            [{"content": "look", "activeForm": "Looking", "id": "1", "priority": "high", "status": "in_progress"}],
            [("look", "in_progress")],
        ),
        ([{"id": 1, "active_form": "Looking", "title": "look", "notes": None}], [("look", "pending")]),
        ([{"task": "look", "status": "Done"}], [("look", "completed")]),
        ([{"content": "look", "status": "in progress"}], [("look", "in_progress")]),
        ([{"content": "look", "status": "IN-PROGRESS"}], [("look", "in_progress")]),
        ([{"content": "look", "status": "todo"}], [("look", "pending")]),
        ([{"content": "look", "status": None}, {"content": "write", "status": ""}], [("look", "pending"), ("write", "pending")]),
        ([{"content": "look", "status": "pending"}] * 2, [("look", "pending")]),
        ("[]", []),
    ],
)  # fmt: skip
async def test_the_forms_in_which_models_write_a_list_are_taken(todos, meant):
    assert (await after(write(), ToolCall("write_todos", {"todos": todos})))[1:] == (False, meant)


async def test_the_list_may_have_another_name_or_stand_in_the_arguments_once_more():
    items = [{"content": "look", "status": "pending"}]
    for args in ({"items": items}, {"tasks": items}, {"arguments": {"todos": items}}, {"todos": json.dumps(items)}):
        call = ToolCall("write_todos", args)
        assert (await after(write(), call))[1:] == (False, [("look", "pending")])


DONE = [("Run the tests", "completed"), ("Write part 1", "completed"), ("Fix", "in_progress")]


@pytest.mark.parametrize(
    "said",
    ["Run the tests (12 passed)", "run the tests.", "Run tests", "Run all of the tests", "  Run  THE tests"],
)
async def test_a_completed_item_that_is_said_in_more_or_fewer_words_keeps_its_first_ones(said):
    told, is_error, todos = await after(write(*DONE), write((said, "completed"), *DONE[1:]))
    assert (is_error, todos) == (False, DONE)
    assert told == "the list has 3 items, 2 of them completed; completed ones keep their first words"


@pytest.mark.parametrize(
    ("items", "what"),
    [
        ([DONE[0], ("Write part 2", "completed"), DONE[2]], "another word"),
        ([("Ran linters", "completed"), *DONE[1:]], "other words"),
        ([("tests the Run", "completed"), *DONE[1:]], "another order"),
        ([("Run", "completed"), *DONE[1:]], "one word says too little"),
        ([("Run the tests again", "pending"), *DONE[1:]], "not completed any more"),
        ([DONE[1], ("Run the tests (ok)", "completed"), DONE[2]], "another place"),
        ([DONE[1], DONE[2]], "it is gone"),
    ],
)
async def test_no_other_completed_item_is_taken_for_one_that_is_gone(items, what):
    assert (await after(write(*DONE), write(*items)))[1:] == (True, DONE), what


# ---- what the model is told


def test_the_rules_are_said_and_cost_little_room():
    middleware = TodoListMiddleware()
    (write_todos,) = middleware.tools
    for words in (
        "The list you give replaces the old one",
        "tasks of three or more steps",
        "Write 3 to 6 items",
        "not for one or two simple steps or plain questions",
        "in_progress before you begin it, and completed right after",
        "Completed means that it worked",
        "failed, is half done or was not checked stays in_progress",
        "add, change or drop items, but keep completed ones as they are",
        "An empty list clears it",
        "One call a reply",
    ):
        assert words in write_todos.description
    told = [write_todos.name, write_todos.description, write_todos.schema, middleware.prompt]
    assert len(json.dumps(told, separators=(",", ":"))) <= 1600
    todo = write_todos.schema["properties"]["todos"]["items"]
    assert (todo["required"], todo["properties"]["status"]["enum"]) == (["content", "status"], list(STATUSES))


# ---- who sees it


async def test_the_json_of_a_todo_is_its_content_and_its_status(store):
    agent = Agent(ScriptedModel([write(("a", "pending")), "ok"]), middleware=[TodoListMiddleware()], checkpointer=store)
    heard = [event async for event in agent.stream("go", "t") if isinstance(event, TodosWritten)]
    assert json.loads(heard[0].json())["todos"] == [{"content": "a", "status": "pending"}]
    assert agent.get_state("t").todos[0].__struct_fields__ == ("content", "status")


def task(description, id):
    return ToolCall("task", {"description": description, "subagent_type": "critic"}, id)


async def test_a_subagent_and_its_parent_do_not_share_todos():
    child = ScriptedModel([write(("child's secret", "in_progress")), "judged"])
    parent = ScriptedModel([write(("parent's secret", "in_progress")), task("judge", "t1"), "ok"])
    agent = create_deep_agent(parent, subagents=[Subagent(name="critic", description="", model=child)])
    await agent.run("go", "t")
    assert "parent's secret" not in repr(child.requests)
    assert "child's secret" not in repr(parent.requests)
    state = agent.get_state("t", subagents=True)
    assert pairs(state.todos) == [("parent's secret", "in_progress")]
    assert pairs(state.subagents["t1"].todos) == [("child's secret", "in_progress")]


async def test_parallel_subagents_have_lists_of_their_own_and_the_stream_names_their_owners():
    def say(request):
        return write((request.messages[0].text, "in_progress")) if len(request.messages) == 1 else "judged"

    script = [write(("main", "in_progress")), [task("one", "t1"), task("two", "t2")], "ok"]
    about = Subagent(name="critic", description="", model=ScriptedModel(say))
    events = create_deep_agent(ScriptedModel(script), subagents=[about]).stream("go", "t")
    lists = {event.path: pairs(event.todos) async for event in events if isinstance(event, TodosWritten)}
    assert lists == {
        (): [("main", "in_progress")],
        ("t1",): [("one", "in_progress")],
        ("t2",): [("two", "in_progress")],
    }


async def test_after_a_restart_the_list_is_there_and_as_protected_as_before(store):
    await planner(write(*PLAN), "ok", checkpointer=store).run("go", "t")
    agent = planner(write(("b", "completed")), "ok", checkpointer=store)
    assert pairs(agent.get_state("t").todos) == PLAN
    assert "must stay unchanged" in told(await agent.run("on", "t"))[0]
    assert pairs(agent.get_state("t").todos) == PLAN


# ---- what is left at the end


def nudges(turn):
    return [message.text for message in turn.messages[1:] if message.role == "user"]


async def test_with_nudge_unfinished_todos_are_asked_about_once():
    agent = planner(write(*PLAN), "done", "b and c are for you", nudge=True)
    turn = await agent.run("go", "t")
    assert (turn.status, turn.text) == ("ended", "b and c are for you")
    remedy = "Go on with it, or bring it up to date and say what is left and why."
    assert nudges(turn) == [f"The todo list is not done yet: 'b', 'c'. {remedy}"]


async def test_by_default_a_turn_may_end_with_unfinished_todos():
    turn = await planner(write(*PLAN), "done").run("go")
    assert (turn.text, nudges(turn)) == ("done", [])


@pytest.mark.parametrize(
    ("script", "settings"),
    [
        ([write(("a", "completed")), "done"], {}),
        (["done"], {}),
        ([write(*PLAN), "done"], {"limits": Limits(steps=2)}),
        ([write(*PLAN), Reply(AssistantMessage("I will not"), stop="refused")], {}),
        ([write(*PLAN), Reply(AssistantMessage("and so"), stop="truncated")], {}),
    ],
)
async def test_no_reminder_comes_if_nothing_is_left_or_nothing_can_be_done(script, settings):
    turn = await planner(*script, nudge=True, **settings).run("go")
    assert (turn.status, nudges(turn)) == ("ended", [])


async def test_no_reminder_comes_for_a_list_of_an_earlier_turn():
    agent = planner(write(*PLAN), "done", "left", "it is noon", nudge=True)
    await agent.run("go", "t")
    assert nudges(await agent.run("what time is it?", "t")) == []


async def test_a_restart_after_the_reminder_does_not_repeat_it(store):
    first = planner(write(*PLAN), "done", RuntimeError("down"), nudge=True, checkpointer=store, durability="step")
    assert (await first.run("go", "t")).status == "failed"
    events = []
    second = planner("the rest is for you", nudge=True, checkpointer=store)
    async for event in second.resume_stream("t"):
        events.append(event)
    assert not [event for event in events if isinstance(event, UserSaid | Noted)]
    assert second.get_state("t").text == "the rest is for you"
