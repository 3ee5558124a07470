"""Assertions about calls: in order, exactly, all, only, at most, never; by arguments; in the main run or those below."""

import pytest

from minideep import Agent, ConfigError, Subagent, ToolCall, create_deep_agent
from minideep.backends import StateBackend
from minideep.evals import (
    Call,
    ExpectedCall,
    Golden,
    calls_all,
    calls_at_most,
    calls_exactly,
    calls_in_order,
    calls_only,
    evaluate,
    never_calls,
)
from minideep.evals.calls import fits
from minideep.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from minideep.models import ScriptedModel


def read(path: str = "", lines: int = 0, about: dict | None = None) -> str:
    """Read."""
    if not path:
        raise ValueError("no path")
    return f"content of {path}"


def edit(path: str = "") -> str:
    """Edit."""
    return "done"


A, B = (
    ToolCall("read", {"path": "/a", "lines": 3, "about": {"why": "x", "who": "me"}}),
    ToolCall("read", {"path": "/b"}),
)
E = ToolCall("edit", {"path": "/a"})
READ_A = ExpectedCall("read", {"path": "/a"})


async def problem(assertion, *calls, agent=None):
    """What an assertion finds wrong with a turn that makes these calls, one a reply; an empty text if nothing."""
    agent = agent or Agent(ScriptedModel([*calls, "done"]), [read, edit])
    (case,) = (await evaluate(agent, [Golden("go", expected_status="ended")], [assertion])).cases
    assert case.status == "ended"
    return case.failures[0].problem if case.failures else ""


@pytest.mark.parametrize(
    ("assertion", "holds"),
    [
        (calls_in_order("read", "edit"), True),
        (calls_in_order(READ_A, ExpectedCall("read", {"path": "/b"}), "edit"), True),
        (calls_in_order("edit", "read"), False),
        (calls_in_order("read", "read", "read"), False),
        (calls_in_order(), True),
        (calls_exactly("read", "read", "edit"), True),
        (calls_exactly(READ_A, "read", "edit"), True),
        (calls_exactly("read", "edit"), False),
        (calls_exactly("read", "read", "edit", "edit"), False),
        (calls_exactly("read", READ_A, "edit"), False),
        (calls_all("edit", "read"), True),
        (calls_all("read", READ_A), True),
        (calls_all(READ_A, READ_A), False),
        (calls_all("write"), False),
        (calls_only("read", "edit", "write"), True),
        (calls_only("read"), False),
        (calls_only(READ_A, "edit"), False),
        (calls_at_most(2, "read"), True),
        (calls_at_most(1, "read"), False),
        (calls_at_most(1, READ_A), True),
        (calls_at_most(3), True),
        (calls_at_most(2), False),
        (calls_at_most(1, READ_A, "edit"), False),
        (never_calls("write"), True),
        (never_calls("write", READ_A), False),
        (never_calls(ExpectedCall("edit", {"path": "/b"})), True),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_calls_are_compared_with_those_that_are_expected(assertion, holds):
    assert (await problem(assertion, A, B, E) == "") == holds


@pytest.mark.parametrize(
    ("args", "holds"),
    [
        ({"path": "/a", "lines": 3}, True),
        ({"about": {"why": "x"}}, True),
        ({"about": {"why": "x", "when": 1}}, False),
        ({"about": "x"}, False),
        ({"depth": None}, False),
        ({"path": lambda path: path.startswith("/")}, True),
        ({"path": str.isdigit}, False),
    ],
)
async def test_arguments_are_matched_in_part(args, holds):
    assert (await problem(calls_all(ExpectedCall("read", args)), A) == "") == holds


def test_a_number_is_no_truth_value():
    assert not fits({"count": 1}, {"count": True})
    assert fits({"count": 1}, {"count": 1.0})


async def test_a_problem_says_what_was_expected_and_what_was_called():
    calls = "; calls: read(path='/a', lines=3, about={'why': 'x', 'who': 'me'}), read(path='/b'), edit(path='/a')"
    for assertion, said in (
        (calls_in_order("edit", READ_A), f"no read(path='/a') after edit{calls}"),
        (calls_exactly("read", "edit"), f"call 2 is read(path='/b') instead of edit{calls}"),
        (calls_only("read"), f"it also makes edit(path='/a'){calls}"),
        (calls_at_most(0, "edit"), "expected at most 0, found 1: edit(path='/a')"),
        (never_calls("edit"), "found edit(path='/a')"),
    ):
        assert await problem(assertion, A, B, E) == said
    assert (await problem(calls_at_most(0), *[B] * 5)).endswith("found 5: read(path='/b') ×5")


async def test_a_turn_without_calls_makes_none():
    assert await problem(calls_exactly()) == ""
    assert await problem(calls_in_order("read")) == "no read; calls: none"


# ---- runs below


def team(*replies):
    """A main agent that delegates to two readers, whose replies come from one script, one after the other."""
    reader = Subagent(name="reader", description="reads", tools=[read, edit], model=ScriptedModel([*replies]))
    ask = {"description": "go", "subagent_type": "reader"}
    main = ScriptedModel([ToolCall("task", ask), ToolCall("task", ask), "done"])
    return create_deep_agent(model=main, subagents=[reader])


@pytest.mark.parametrize(
    ("assertion", "holds"),
    [
        (calls_in_order("task", "task"), True),
        (calls_in_order("task", "read"), False),
        (calls_in_order("read", "edit", agent="reader"), True),
        (calls_exactly("read", "edit", agent="reader"), True),
        (calls_exactly("read", "read", "edit", agent="reader"), False),
        (calls_exactly("read", "edit", agent="*"), True),
        (calls_only("task"), True),
        (calls_only("task", agent="reader"), False),
        (calls_only("read", agent="reader"), True),
        (calls_at_most(2, "read"), True),
        (calls_at_most(1, "read"), False),
        (calls_at_most(0, "read", agent=None), True),
        (never_calls("edit"), False),
        (never_calls("edit", agent=None), True),
        (never_calls("task", agent="reader"), True),
        (calls_in_order("read", agent="writer"), False),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_an_assertion_is_about_the_main_run_one_of_an_agent_or_all(assertion, holds):
    agent = team(ToolCall("read", {"path": "/a"}), "one", ToolCall("read", {"path": "/b"}), E, "two")
    assert (await problem(assertion, agent=agent) == "") == holds


async def test_calls_of_a_run_below_follow_the_call_that_began_it():
    seen = []
    agent = team(ToolCall("read", {}), ToolCall("read", {"path": "/a"}), "one", "two")
    await evaluate(agent, [Golden("go")], [seen.append])
    (one,) = seen
    assert [(call.name, call.agent, call.step, call.is_error) for call in one.calls] == [
        ("task", "main", 1, False), ("read", "reader", 1, True), ("read", "reader", 2, False), ("task", "main", 2, False),
    ]  # fmt: skip
    assert [call.result for call in one.calls][1:3] == ["read failed: ValueError: no path", "content of /a"]
    assert [(path == (), name) for path, name in one.runs.items()] == [
        (True, "main"),
        (False, "reader"),
        (False, "reader"),
    ]
    assert one.calls[1].path in one.runs


async def test_a_run_of_an_agent_that_calls_nothing_is_a_run():
    agent = team("one", "two")
    assert await problem(calls_exactly(agent="reader"), agent=agent) == ""
    assert (
        await problem(calls_in_order("x", agent="critic"), agent=team("one", "two"))
        == "there is no run of agent 'critic'"
    )


async def test_a_call_that_waits_for_a_person_has_no_result():
    agent = Agent(ScriptedModel([E]), [edit], middleware=[HumanInTheLoopMiddleware({"edit": True})])
    seen = []
    await evaluate(agent, [Golden("go", expected_status="paused")], [seen.append, calls_exactly("edit")])
    assert seen[0].calls == (Call("edit", {"path": "/a"}, "main", (), 1),)


async def test_calls_of_earlier_turns_are_not_counted():
    agent = Agent(ScriptedModel([B, "one", E, "two"]), [read, edit])
    report = await evaluate(agent, [Golden("go", earlier=("first",))], [calls_exactly("edit")])
    assert report.passed, report.table()


def test_what_is_not_a_call_is_refused_when_the_assertion_is_made():
    with pytest.raises(ConfigError, match=r"calls_in_order: calls\[1\] must be .*, not 5"):
        calls_in_order("read", 5)
    with pytest.raises(ConfigError, match="never_calls: name at least one call"):
        never_calls()
    with pytest.raises(ConfigError, match="count must be a whole number of 0 or more, not -1"):
        calls_at_most(-1)


async def test_calls_that_a_compaction_took_out_of_context_are_there():
    def page(number: int) -> str:
        """Read a page."""
        return "word " * 2_000

    model = ScriptedModel([*(ToolCall("page", {"number": number}) for number in range(6)), "done"], window=4_000)
    summary = SummarizationMiddleware(
        model, StateBackend(), summarizer=ScriptedModel(lambda request: "short"), trigger=6_000, keep=2
    )
    seen = []
    report = await evaluate(Agent(model, [page], middleware=[summary]), [Golden("go")], [seen.append, calls_at_most(6)])
    assert report.passed, report.table()
    assert len([message for message in seen[0].state.messages if message.role == "tool"]) < 6
    assert [call.args["number"] for call in seen[0].calls] == [0, 1, 2, 3, 4, 5]
