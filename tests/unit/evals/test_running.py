"""Running a golden set: each case has a thread of its own, and a failure stays with its case."""

import asyncio
import time

import pytest
from harness.blueprints import asked, plan, research
from harness.evaluations import CAPITAL, PLAN, each, failures, script

from minideep import (
    Agent,
    ConfigError,
    Costs,
    DiskCheckpointer,
    MemoryCheckpointer,
    Reply,
    ToolCall,
    ToolContext,
    Usage,
    __version__,
    create_deep_agent,
)
from minideep.blueprint import ASSERTIONS, Blueprint
from minideep.errors import RateLimited
from minideep.evals import Failure, Golden, evaluate
from minideep.messages import AssistantMessage
from minideep.models import ScriptedModel


async def test_a_case_is_a_whole_turn_on_a_thread_of_its_own_in_the_store_of_the_evaluation(store):
    model = script()
    report = await evaluate(Blueprint(model), [CAPITAL], repeat=2, store=store)
    assert report.passed, report.table()
    threads, blueprint = [case.thread_id for case in report.cases], Blueprint(model, checkpointer=store)
    assert sorted(threads) == sorted(one.thread_id for one in blueprint.threads())
    assert [blueprint.artifact(thread, "facts.md") for thread in threads] == ["Paris,  it is."] * 2
    assert len(model.requests) == 6


async def test_the_agents_own_store_is_not_touched(tmp_path):
    blueprint = Blueprint(script(), checkpointer=DiskCheckpointer(tmp_path / "mine"))
    report = await evaluate(blueprint, [CAPITAL])
    assert report.passed, report.table()
    assert [*tmp_path.iterdir()] == []


async def test_an_assertion_sees_golden_agent_turn_state_calls_and_every_request_by_agent():
    seen = []
    blueprint = Blueprint(script(each("a.md", "facts.md")))
    await evaluate(blueprint, [CAPITAL], [seen.append])
    (one,) = seen
    assert [agent for agent, _ in one.requests] == ["planner", *["research-specialist"] * 2, "reflection"]
    assert (one.golden, one.turn.text) == (CAPITAL, "It is Paris,  it is.")
    assert one.agent.board(one.turn.thread_id).step == 2
    assert sorted(run.agent for run in one.state.subagents.values()) == sorted(agent for agent, _ in one.requests)
    assert one.artifacts["facts.md"] == one.artifacts["research-specialist_2_facts.md"] == "done"
    assert [call.name for call in one.calls] == ["planner", "subagent_dispatcher", "reflection", "cleanup"]


async def test_concurrency_bounds_the_running_cases_and_each_has_its_own_requests():
    running, most, seen = set(), [], []

    async def role(request):
        running.add(id(request))
        most.append(len(running))
        await asyncio.sleep(0.005)
        running.discard(id(request))
        return asked(request)

    model = script(lambda request: plan(research(task=asked(request).split("\n")[1])), role=role)
    goals = [f"goal {place}" for place in range(5)]
    report = await evaluate(Blueprint(model), map(Golden, goals), [*ASSERTIONS, seen.append], concurrency=2)
    assert report.passed, report.table()
    assert max(most) == 2
    assert [case.golden.goal for case in report.cases] == goals
    assert [{goal for goal in goals if goal in str(one.requests)} for one in seen] == [
        {one.golden.goal} for one in seen
    ]


async def test_a_case_that_raises_fails_and_the_others_run():
    report = await evaluate(Blueprint(script()), [Golden("long " * 20_000), CAPITAL])
    assert [case.status for case in report.cases] == ["raised", "ended"]
    assert [(one.assertion, one.problem[:35]) for one in report.cases[0].failures] == [
        ("turn", "ConfigError: the goal has 100,000 b"),
    ]  # fmt: skip
    assert report.cases[1].passed


async def test_a_case_that_takes_too_long_fails_with_what_it_had_spent_and_its_thread_can_be_read():
    store = MemoryCheckpointer()
    planner = Reply(AssistantMessage(PLAN), Usage(90, 10), cost=0.25)
    blueprint = Blueprint(script(lambda _: planner, role=lambda _: asyncio.sleep(60)))
    (case,) = (await evaluate(blueprint, [CAPITAL], timeout=1, store=store)).cases
    assert (case.status, case.failures) == ("raised", (Failure("turn", "TimeoutError: it took longer than 1 s"),))
    assert (case.steps, case.tokens, case.cost) == (1, 100, 0.25)
    assert Blueprint(script(), checkpointer=store).get_state(case.thread_id).status == "cancelled"


async def test_a_case_that_blocks_the_event_loop_is_late_all_the_same():
    agent = Agent(ScriptedModel(lambda request: time.sleep(0.1) or "yes"))
    (case,) = (await evaluate(agent, [Golden("a")], timeout=0.05)).cases
    assert case.failures == (Failure("turn", "TimeoutError: it took longer than 0.05 s, and blocked the event loop"),)


async def test_a_timeout_of_the_agents_own_keeps_its_text():
    class Late(Agent):
        async def run(self, *args, **options):
            raise TimeoutError("the proxy gave up")

    assert await failures(Late(ScriptedModel([]))) == {"turn": "TimeoutError: the proxy gave up"}


async def test_a_turn_that_cannot_be_saved_fails_its_case():
    class Full(MemoryCheckpointer):
        async def append(self, *args, **options):
            raise OSError("no space left")

    found = await failures(Blueprint(script()), store=Full())
    assert "no space left" in found.pop("turn")
    assert found == {}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"goldens": []}, "there are no goldens"),
        ({"concurrency": 0}, "concurrency must be a whole number above 0, not 0"),
        ({"concurrency": True}, "concurrency must be a whole number above 0, not True"),
        ({"timeout": 0}, "timeout must be a number above 0, or None, not 0"),
        ({"assertions": ["x"]}, r"assertions\[0\] must be a function, not 'x'"),
        ({"repeat": 0}, "repeat must be a whole number above 0 and of at most 1,000, not 0"),
        ({"budget": 0}, "budget must be a number above 0, or None, not 0"),
        ({"goldens": [CAPITAL, CAPITAL]}, "2 goldens are named 'What is the capital of France.'; give each an id, or"),
    ],
)
async def test_unusable_arguments_are_refused_before_any_model_is_asked(given, problem):
    model = script()
    with pytest.raises(ConfigError, match=problem):
        await evaluate(Blueprint(model), **{"goldens": [CAPITAL]} | given)
    assert model.requests == []


async def test_a_plain_agent_passes_the_stock_assertions():
    async def look(ctx: ToolContext) -> str:
        return "nothing"

    model = ScriptedModel([ToolCall("look"), "Paris"])
    seen = []
    agent = Agent(model, [look])
    report = await evaluate(agent, [Golden("Where?", "paris")], [*ASSERTIONS, seen.append])
    assert report.passed, report.table()
    assert list(seen[0].requests) == [("main", request) for request in model.requests]
    assert agent.spec.model is model


# ---- assertions of one's own


async def test_a_users_assertion_fails_by_what_it_returns_or_raises():
    def says(_):
        return "too dull"

    def asserts(trajectory):
        assert trajectory.turn.text == "x"  # pytest rewrites this one

    def asserts_nothing(trajectory):
        raise AssertionError

    def breaks(trajectory):
        return trajectory.nothing

    def predicate(_):
        return True

    def denies(_):
        return False

    def strange(_):
        return 7

    def holds(_):
        return None

    asserted = [says, asserts, asserts_nothing, breaks, predicate, denies, strange, holds]
    found = await failures(Blueprint(script()), assertions=asserted)
    assert found.pop("asserts").startswith("AssertionError: assert 'It is Paris,")
    assert found == {
        "says": "too dull",
        "asserts_nothing": "AssertionError: raise AssertionError",
        "breaks": "AttributeError: 'Trajectory' object has no attribute 'nothing'",
        "denies": "it returned False",
        "strange": "it returned 7; return None, what is wrong, or a score from 0 to 1",
    }


def exits(trajectory):
    raise SystemExit(3)


def fails(trajectory):
    pytest.fail("it is too long")


async def awaits_what_was_cancelled(trajectory):
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task


@pytest.mark.parametrize(
    ("assertion", "problem"),
    [
        (exits, "SystemExit: 3"),
        (fails, "Failed: it is too long"),
        (awaits_what_was_cancelled, "CancelledError"),
    ],
)
async def test_an_assertion_that_exits_fails_its_case_only(assertion, problem):
    report = await evaluate(Agent(ScriptedModel(lambda request: "yes")), [Golden("a"), Golden("b")], [assertion])
    assert [(case.status, [str(failure) for failure in case.failures]) for case in report.cases] == [
        ("ended", [f"{assertion.__name__}: {problem}"])
    ] * 2


# ---- a fresh agent, several runs, several turns, a budget


def priced(text, cost):
    return Reply(AssistantMessage(text), Usage(9, 1), cost=cost)


async def test_a_function_makes_a_fresh_agent_for_each_case():
    made = []

    def fresh(golden):
        made.append(golden.name)
        return Agent(ScriptedModel([f"It is {golden.metadata['place']}."]), name=f"agent-{golden.id}")

    goldens = [Golden("Where?", "here", id="a", metadata={"place": "here"}), Golden("x", metadata={"place": "there"})]
    report = await evaluate(fresh, goldens, repeat=2)
    assert report.passed, report.table()
    assert sorted(made) == ["a", "a", "x", "x"]
    assert report.about["agents"] == ["agent-", "agent-a"]


async def test_a_function_that_fails_or_returns_no_agent_fails_its_case_only():
    def make(golden):
        if golden.goal == "breaks":
            raise OSError("no folder")
        return Agent(ScriptedModel(["yes"])) if golden.goal == "go" else "agent"

    report = await evaluate(make, map(Golden, ["breaks", "none", "go"]))
    assert [case.status for case in report.cases] == ["raised", "raised", "ended"]
    assert [str(failure) for case in report.failed for failure in case.failures] == [
        "turn: OSError: no folder",
        "turn: ConfigError: evaluate: what the function of an agent returns must be an `Agent`, not 'agent'",
    ]


async def test_each_golden_runs_several_times_and_the_report_has_mean_and_spread():
    replies = iter([priced("yes", 0.1), priced("no", 0.3), priced("yes", 0.2), priced("yes", 0.2)])
    agent = Agent(ScriptedModel(lambda request: next(replies)))
    report = await evaluate(agent, [Golden("a", "yes"), Golden("b")], [lambda t: len(t.turn.text) / 4], repeat=2)
    assert [(case.golden.goal, case.run) for case in report.cases] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert report.cost == pytest.approx(0.8)
    first, second = report.results
    # The first runs of all goldens come first.
    assert [case.answer for case in first.cases] == ["yes", "yes"]
    assert [case.answer for case in second.cases] == ["no", "yes"]
    assert (first.pass_rate, second.passed, second.scores["<lambda>"].mean) == (1.0, 2, 0.625)
    assert second.scores["<lambda>"].deviation == pytest.approx(0.1768, abs=1e-4)
    assert second.spread("cost").mean == pytest.approx(0.25)


async def test_a_conversation_is_run_turn_by_turn_and_the_last_one_is_checked():
    model = ScriptedModel([priced("Hello.", 0.1), priced("Austen.", 0.2)])
    seen = []
    golden = Golden("Who wrote Emma?", "austen", earlier=("Hi",))
    report = await evaluate(Agent(model), [golden], [seen.append])
    assert report.passed, report.table()
    assert [message.text for message in seen[0].state.messages] == ["Hi", "Hello.", "Who wrote Emma?", "Austen."]
    assert [message.text for message in seen[0].turn.messages] == ["Who wrote Emma?", "Austen."]
    assert (len(seen[0].requests), report.steps, report.tokens) == (1, 2, 20)
    assert report.cost == pytest.approx(0.3)


async def test_an_earlier_turn_that_fails_fails_the_case():
    agent = Agent(ScriptedModel([RateLimited("wait"), "x"]))
    (case,) = (await evaluate(agent, [Golden("b", earlier=("a",))])).cases
    assert [str(failure) for failure in case.failures] == ["turn: RateLimited: wait"]


async def test_a_spent_budget_leaves_cases_out_and_they_have_not_passed():
    agent = Agent(ScriptedModel(lambda request: priced("yes", 0.4)))
    report = await evaluate(agent, map(Golden, "abc"), repeat=2, budget=1)
    assert [case.status for case in report.cases] == ["ended", "not run"] * 3
    assert (report.passed, len(report.failed), len(report.not_run)) == (False, 0, 3)
    assert str(report.not_run[0].failures[0]) == "budget: $1 are spent"
    assert [result.pass_rate for result in report.results] == [1.0] * 3
    assert "3 of 3 passed, 3 not run" in report.table()
    assert 'skipped="3"' in report.junit()


async def test_what_assertions_spend_is_taken_from_the_budget_too():
    async def costly(trajectory):
        trajectory.judging.add(Costs(money=1.0))

    report = await evaluate(Agent(ScriptedModel(lambda request: "yes")), map(Golden, "ab"), [costly], budget=1)
    assert [case.status for case in report.cases] == ["ended", "not run"]
    assert (report.cost, report.judging) == (0.0, 1.0)
    assert report.table().endswith("$0; judging: $1.0000")


async def test_a_budget_stops_at_the_first_cost_that_is_unknown():
    class Silent:
        name = "silent"

        async def complete(self, request, emit):
            return Reply(AssistantMessage("yes"), Usage(1, 1))

    report = await evaluate(Agent(Silent()), map(Golden, "ab"), budget=100)
    assert [case.status for case in report.cases] == ["ended", "not run"]
    assert report.not_run[0].failures[0].problem == "the cost of 1 replies is unknown, so the budget cannot be kept"
    assert report.table().splitlines()[1].split()[7] == "?"
    assert report.table().endswith("cost unknown")
    assert (await evaluate(Agent(Silent()), [Golden("a")])).passed


async def test_the_report_says_what_was_run_and_with_what():
    report = await evaluate(Agent(ScriptedModel(["yes"])), [Golden("a")], timeout=60)
    assert report.cases[0].models == ("scripted",)
    assert {**report.about, "at": 0} == {
        "agents": ["main"], "minideep": __version__, "at": 0,
        "repeat": 1, "concurrency": 1, "timeout": 60, "budget": None, "kept": False,
    }  # fmt: skip


async def test_an_assertion_that_takes_too_long_fails_its_case():
    async def endless(_):
        await asyncio.sleep(60)

    (case,) = (await evaluate(Agent(ScriptedModel(["yes"])), [Golden("a")], [endless], timeout=0.5)).cases
    assert [str(failure) for failure in case.failures] == ["endless: TimeoutError: it took longer than 0.5 s"]


async def test_a_case_keeps_what_is_needed_to_understand_it_without_its_thread():
    async def look(where: str) -> str:
        """Look."""
        return "nothing"

    agent = Agent(ScriptedModel([ToolCall("look", {"where": "x" * 500}), "y" * 5_000]), [look])
    (case,) = (await evaluate(agent, [Golden("a")])).cases
    assert (case.answer, case.calls) == ("y" * 2_000, (f"look(where='{'x' * 188}",))


async def test_each_case_is_shown_when_it_is_over():
    shown = []
    report = await evaluate(
        Agent(ScriptedModel(lambda request: "yes")), map(Golden, "ab"), repeat=2, on_case=shown.append
    )
    assert sorted(shown, key=report.cases.index) == [*report.cases]
    assert [case.golden.goal for case in shown] == ["a", "b", "a", "b"]


async def test_files_of_a_golden_are_there_from_the_first_message_on_and_stay_as_the_agent_leaves_them():
    read = ToolCall("read_file", {"file_path": "/notes.md"})
    edit = ToolCall("edit_file", {"file_path": "/notes.md", "old_string": "milk", "new_string": "tea"})
    replies = iter([read, edit, "Hello.", read, None])
    model = ScriptedModel(lambda request: next(replies) or request.messages[-1].text)
    golden = Golden("What do my notes say?", "buy tea", files={"/notes.md": "buy milk"}, earlier=("Tea, not milk.",))
    report = await evaluate(create_deep_agent(model=model), [golden])
    assert report.passed, report.table()


async def test_a_file_that_the_agent_is_given_is_delivered_only_if_it_changes_it():
    golden = Golden("go", expected_artifact_set=("notes.md",), files={"/notes.md": "x"})
    (case,) = (await evaluate(create_deep_agent(model=ScriptedModel(["done"])), [golden])).cases
    assert [failure.assertion for failure in case.failures] == ["delivers_the_artifacts"]
    edit = ToolCall("edit_file", {"file_path": "/notes.md", "old_string": "x", "new_string": "y"})
    model = ScriptedModel([ToolCall("read_file", {"file_path": "/notes.md"}), edit, "done"])
    report = await evaluate(create_deep_agent(model=model), [golden])
    assert report.passed, report.table()


async def test_an_override_of_the_model_holds_in_an_evaluation():
    agent = Agent(ScriptedModel([]))
    with agent.override(model=ScriptedModel(["42"])):
        report = await evaluate(agent, [Golden("What is it?", "42")])
    assert report.passed, report.table()


async def test_an_evaluation_that_is_cancelled_ends_its_cases():
    began = asyncio.Event()

    async def wait(request):
        began.set()
        await asyncio.sleep(60)

    store = MemoryCheckpointer()
    work = asyncio.create_task(evaluate(Agent(ScriptedModel(wait)), [Golden("a")], store=store))
    await began.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert [one.status for one in Agent("offline:", checkpointer=store).threads()] == ["cancelled"]


async def test_a_run_that_broke_counts_as_a_run_and_its_error_is_no_answer():
    replies = iter(["yes", RateLimited("Error generating the report")])

    def say(request):
        if isinstance(reply := next(replies), Exception):
            raise reply
        return reply

    report = await evaluate(Agent(ScriptedModel(say)), [Golden("a")], [lambda t: 1.0 if t.turn.text else 0.0], repeat=2)
    (result,) = report.results
    assert (result.pass_rate, [case.answer for case in result.cases]) == (0.5, ["yes", ""])
    assert result.scores["<lambda>"].mean == 0.5
    assert [str(failure) for failure in result.cases[1].failures] == [
        "ends_as_expected: expected the turn to be ended, but it is failed (RateLimited: Error generating the report)",
        "<lambda>: 0, expected at least 0.5",
    ]
