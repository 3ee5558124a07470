"""The pool at work: requests of subagents, the order of waves, and subtasks that fail."""

import asyncio
import json
import re

import msgspec
import pytest
from harness.blueprints import (
    CODE,
    GO_ON,
    SOON,
    Parts,
    ask,
    asked,
    blueprint,
    end,
    entries,
    is_planner,
    one_turn,
    outcomes,
    plan,
    refusal,
    replan,
    research,
    said_by_role,
    whole_task,
)

from minideep import (
    AssistantMessage,
    ConfigError,
    Limits,
    MemoryCheckpointer,
    RateLimited,
    ThreadBusy,
    ToolCall,
    ToolContext,
    UserMessage,
)
from minideep.backends import StateBackend
from minideep.blueprint import RESEARCH_SPECIALIST, STOCK_ROLES, Blueprint, Board, Role
from minideep.events import TurnEscalated
from minideep.messages import Text, Usage
from minideep.middleware import FilesystemMiddleware
from minideep.models import ScriptedModel
from minideep.ports import Reply, Request

WORKER = Role("worker", "You are a worker.")

pytestmark = pytest.mark.filterwarnings("ignore:a pool usually has")


# ---- a subagent's request


def test_a_subagent_sees_its_roles_prompt_its_files_and_its_task_and_nothing_else():
    plans = [plan(research(), ("critic", "judge it", "defects.md", ["facts.md"]))]
    parts = Parts(plans)
    one_turn(parts)
    facts, judge = parts.delegated
    assert facts == Request(STOCK_ROLES[0].prompt, [UserMessage("## Task\nfind out")])
    assert judge == Request(STOCK_ROLES[2].prompt, [UserMessage(whole_task("judge it", ("facts.md", "Paris. [1]")))])


def test_a_roles_prompt_is_sent_to_the_letter():
    prompt = "  You are odd. {roles_list}\n\n"
    parts = Parts([plan(("odd", "i", "a.md"))])
    one_turn(parts, roles=[*STOCK_ROLES, Role("odd", prompt)])
    assert parts.delegated[0].system == prompt


def inherits(request, role):
    """Return whether a subagent's request has another system prompt than its role."""
    return request.system != role.prompt or any(message.role == "system" for message in request.messages)


def test_a_role_that_is_appended_to_the_planners_prompt_would_be_noticed():
    parts = Parts([plan(research())])
    one_turn(parts)
    (recorded,), planner = parts.delegated, parts.planned[0].system
    assert not inherits(recorded, RESEARCH_SPECIALIST)
    for appended in (f"{planner}\n\n{recorded.system}", f"{recorded.system}\n{planner}"):
        assert inherits(msgspec.structs.replace(recorded, system=appended), RESEARCH_SPECIALIST)


def like_a_model(request):
    """Reply as a model would that follows its prompt."""
    if is_planner(request) or "Split the user's goal" in asked(request):
        return "I decompose this into a subtask."
    return "Paris. [1]"


def test_a_research_specialist_asked_for_a_capital_does_not_plan():
    parts = Parts([plan(research(task="What is the capital of France?"))], [end("{{facts.md}}")], like_a_model)
    _, turn = one_turn(parts)
    said = turn.text.lower()
    assert ("paris" in said, "decompose" in said, "subtask" in said) == (True, False, False)
    assert like_a_model(parts.planned[0]) == "I decompose this into a subtask."


def test_every_subagents_recorded_request_begins_with_its_roles_prefix_on_every_try_and_turn():
    def role(request):
        return "no code" if "code writer" in request.system and len(asked(request)) < 40 else said_by_role(request)

    work = [research(), ("code-writer", "write", "a.py"), ("critic", "judge", "c.md", ["a.py"])]
    parts = Parts([plan(*work)] * 3, [replan(), end(), end()], role)
    bp, _ = one_turn(parts)
    bp.run_sync("again", "t")
    prefixes = [request.system[:24] for request in parts.delegated]
    assert len(prefixes) == 12
    assert all(
        prefix.startswith(("You are a research speci", "You are a code writer.", "You are a critic."))
        for prefix in prefixes
    )
    assert not any(is_planner(one) or "planner" in one.system + asked(one) for one in parts.delegated)


@pytest.mark.parametrize("name", ["facts.md", "research-specialist_1_facts.md"])
def test_files_are_named_in_the_plan_and_read_when_the_subtask_is_dispatched(name):
    plans = [plan(research(task="one")), plan(research("b.md", name, task="two"))]
    parts = Parts(plans, [replan(), end()], lambda request: f"said of {asked(request)[-3:]}")
    one_turn(parts)
    assert asked(parts.delegated[1]) == whole_task("two", (name, "said of one"))


def test_a_role_has_its_own_tools_and_no_others():
    async def dig() -> str:
        """Dig."""
        return "earth"

    async def fly() -> str:
        """Fly."""
        return "air"

    roles = [Role("digger", "You dig.", tools=[dig]), Role("bird", "You fly.", tools=[fly, dig]), WORKER]
    parts = Parts([plan(*[(role.name, "go", f"{role.name}.md") for role in roles])])
    one_turn(parts, roles=roles)
    found = {request.system: [tool.name for tool in request.tools] for request in parts.delegated}
    assert found == {"You dig.": ["dig"], "You fly.": ["fly", "dig"], "You are a worker.": []}


def test_each_part_and_role_may_have_a_model_and_limits_of_its_own():
    planner, reflection, own = Parts([plan(("a", "i", "a.md"), ("b", "i", "b.md"))]), Parts([], [end()]), Parts([])
    roles = [Role("a", "You are a."), Role("b", "You are b.", model=own, limits=Limits(steps=2))]
    shared = Parts([])
    bp = Blueprint(
        shared, roles, planner_model=planner, reflection_model=reflection, limits=Limits(steps=7, tool_calls=3)
    )
    turn = bp.run_sync("g", "t")
    assert (turn.status, [len(parts.requests) for parts in (planner, shared, own, reflection)]) == ("ended", [1] * 4)
    assert own.requests[0].system == "You are b."
    assert {name: agent.spec.limits for name, agent in bp.pool.agents.items()} == {
        "a": Limits(7, 3),
        "b": Limits(steps=2),
    }


# ---- replies


@pytest.mark.parametrize(
    ("said", "name", "content", "status"),
    [
        ("Paris.", "facts.md", "Paris.", "done"),
        (["Par", "is."], "facts.md", "Paris.", "done"),
        ('{"artifact_name": "facts.md", "content": "Paris.", "status": "done"}', "facts.md", "Paris.", "done"),
        ('{"artifact_name": "facts.md", "content": "Par", "status": "active"}', "facts.md", "Par", "active"),
        ('{"artifact_name": "other.md", "content": "Paris.", "status": "done"}', "other.md", "Paris.", "done"),
        ("\ud800 Ünicode 報告 \U0001f600", "facts.md", "\\ud800 Ünicode 報告 \U0001f600", "done"),
    ],
)
def test_a_reply_becomes_an_artifact_with_name_content_and_status(said, name, content, status, store):
    bp, _ = one_turn(Parts([plan(research())] * 9, [ask()], lambda _: said), checkpointer=store)
    (entry,) = bp.board("t").files.values()
    assert (entry.name, entry.content, entry.status, entry.bytes) == (name, content, status, len(content.encode()))
    assert bp.artifact("t", name) == content


def test_an_artifact_under_another_name_is_kept_and_the_planned_one_is_missing():
    said = '{"artifact_name": "other.md", "content": "Paris.", "status": "done"}'
    plans = [plan(research(), ("critic", "judge", "c.md", ["facts.md"]))]
    parts = Parts(plans, [ask()], lambda _: said)
    bp, _ = one_turn(parts)
    assert outcomes(bp) == [("other.md", "done", "delivered instead of facts.md")]
    assert '{"missing":["c.md","facts.md"],"unexpected":["other.md"],"failed":["facts.md"]}' in asked(
        parts.reflected[0]
    )
    assert bp.artifact("t", "other.md") == "Paris."


@pytest.mark.parametrize("name", ["../up.py", "/etc/x", "a/b"])
def test_whatever_name_a_subagent_gives_its_artifact_the_file_is_in_its_place(name):
    said = json.dumps({"artifact_name": name, "content": CODE, "status": "done"})
    _, turn = one_turn(Parts([plan(("code-writer", "write", "a.py"))], [ask()], lambda _: said))
    (path,) = turn.artifacts
    assert re.fullmatch(r"/code-writer_1_[a-z-]+\.\w\w", path)


@pytest.mark.parametrize("said", [f"Here you are:\n\n{CODE}\n\nIt prints 1.", CODE, f"\n{CODE}\n"])
def test_the_artifact_of_a_code_writer_is_its_block_without_the_prose_round_it(said):
    _, turn = one_turn(Parts([plan(("code-writer", "write", "a.py"))], [end("{{a.py}}")], lambda _: said))
    assert turn.text == CODE


def test_a_role_may_refuse_a_reply_in_which_there_is_nothing_to_take():
    def quoted(content):
        return content.split('"')[1]

    said = iter(["no quotes", 'It is "Paris".'])
    worker = Role("worker", "You work.", extract=quoted, validate=lambda content: content == "Paris")
    parts = Parts([plan(("worker", "w", "a.md"))], [end("{{a.md}}")], lambda _: next(said))
    _, turn = one_turn(parts, roles=[worker])
    assert (turn.text, refusal(parts.delegated[1])) == ("Paris", ("no quotes", "list index out of range"))


@pytest.mark.parametrize(
    "refused",
    ["", " \n", "I would first ask the planner", f"{CODE}\n{CODE}", "```python\nprint(\n```"],
)
def test_a_refused_reply_goes_back_to_the_subagent_once_with_the_reason_and_never_becomes_a_file(refused):
    replies = iter([refused, CODE])
    parts = Parts([plan(("code-writer", "write", "a.py"))], role=lambda _: next(replies))
    bp, turn = one_turn(parts)
    first, second = parts.delegated
    assert second.messages[0] == first.messages[0]
    reply, told = refusal(second)
    assert (reply, bool(told)) == (refused, True)
    assert [run.agent for run in bp.runs("t")].count("code-writer") == 1
    assert (turn.status, [entry.content for entry in bp.board("t").files.values()]) == ("ended", [CODE])


def test_a_subagent_that_reports_instead_of_delivering_fails_and_leaves_no_file():
    trace = "user: write it\nassistant: I call a tool\ntool: done\nassistant: here is print(1)"
    parts = Parts(
        [plan(("code-writer", "write", "a.py"), research())], [ask()], lambda r: trace if "code" in r.system else "x"
    )
    bp, turn = one_turn(parts)
    assert (turn.status, len(parts.delegated)) == ("escalated", 3)
    assert outcomes(bp) == [
        ("a.py", "failed", "its reply was refused 2 times (ArtifactViolation)"),
        ("facts.md", "done", ""),
    ]
    assert [entry.name for entry in bp.board("t").files.values()] == ["facts.md"]
    assert "a.py: its reply was refused 2 times (ArtifactViolation)" in asked(parts.reflected[0])


class Odd(Exception):
    """An exception whose text cannot be read."""

    def __str__(self):
        raise RuntimeError("not even this")


def validated(raised, *, times=9):
    """A worker whose validator raises or returns *raised*, so many times."""
    left = [times]

    def validate(content):
        left[0] -= 1
        if left[0] < 0:
            return None
        if isinstance(raised, BaseException):
            raise raised
        return raised

    return Role("worker", "You are a worker.", validate=validate)


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (ValueError("too short"), "too short"),
        (AssertionError(), "AssertionError"),
        (KeyError("a"), "'a'"),
        (RecursionError(), "RecursionError"),
        (StopIteration(), "StopIteration"),
        (MemoryError(), "MemoryError"),
        (False, "it is not what a worker must deliver"),
    ],
)
def test_the_subagent_reads_whatever_its_validator_raises(verdict, told):
    parts = Parts([plan(("worker", "work", "a.md"))], role=lambda _: "text")
    bp, turn = one_turn(parts, roles=[validated(verdict, times=1)])
    assert refusal(parts.delegated[1]) == ("text", told)
    assert (turn.status, outcomes(bp)) == ("ended", [("a.md", "done", "")])


@pytest.mark.parametrize("verdict", [None, True, 0, "", "fine", []])
def test_a_validator_that_returns_anything_but_false_accepts(verdict):
    parts = Parts([plan(("worker", "work", "a.md"))], role=lambda _: "text")
    bp, _ = one_turn(parts, roles=[validated(verdict)])
    assert (len(parts.delegated), outcomes(bp)) == (1, [("a.md", "done", "")])


def test_a_validator_whose_error_cannot_be_encoded_fails_its_subtask_only():
    parts = Parts([plan(("worker", "work", "a.md"))], [ask()], lambda _: "text")
    _, turn = one_turn(parts, roles=[validated(ValueError("\udcff"), times=99)], limits=SOON)
    assert (turn.status, turn.question, len(parts.delegated)) == ("escalated", "which one?", 2)


@pytest.mark.parametrize("verdict", [Odd(), asyncio.CancelledError()])
async def test_a_validator_that_breaks_fails_its_subtask_only(verdict):
    parts = Parts([plan(("worker", "work", "a.md"))], [ask()], lambda _: "text")
    bp = Blueprint(parts, [validated(verdict, times=1)], limits=SOON)
    turn = await bp.run("g", "t")
    assert (turn.status, turn.question, len(parts.delegated)) == ("escalated", "which one?", 1)
    assert outcomes(bp)[0][1] == "failed"


async def test_a_validator_that_exits_fails_its_subtask_only():
    bp = Blueprint(Parts([plan(("worker", "work", "a.md"))], [ask()], lambda _: "text"), [validated(SystemExit(3))])
    turn = await bp.run("g", "t")
    assert (turn.status, turn.question) == ("escalated", "which one?")


def test_a_subagent_reads_only_the_beginning_of_a_refusal_of_five_megabytes():
    parts = Parts([plan(("worker", "work", "a.md"))], [ask()], lambda _: "x" * 5_000_000)
    one_turn(parts, roles=[validated(ValueError("y" * 5_000_000))])
    assert len(refusal(parts.delegated[1])[1]) < 50_000


@pytest.mark.parametrize("stop", ["truncated", "refused"])
def test_a_reply_that_was_truncated_or_refused_by_the_model_is_not_an_artifact(stop):
    parts = Parts([plan(research())], [ask()], lambda _: Reply(AssistantMessage("Half of"), stop=stop))
    bp, _ = one_turn(parts)
    assert outcomes(bp)[0][:2] == ("facts.md", "failed")


def test_a_turn_cannot_end_with_an_artifact_that_is_not_done():
    said = iter(["active", "done"])
    parts = Parts(
        [plan(research()), plan(research())],
        [end("too soon"), end("now")],
        lambda _: json.dumps({"artifact_name": "facts.md", "content": "x", "status": next(said)}),
    )
    bp, turn = one_turn(parts)
    assert (turn.text, [entry["status"] for entry in entries(bp)]) == ("now", ["active", "done"])
    assert asked(parts.planned[1]).endswith("the answer was refused: no artifact is done yet")


# ---- waves


async def test_subtasks_that_wait_for_nothing_run_side_by_side():
    meeting = asyncio.Barrier(8)

    async def role(request):
        await asyncio.wait_for(meeting.wait(), 2)  # Nobody goes on before all eight are there.
        return "met"

    bp = blueprint([plan(*[research(f"{n}.md") for n in range(8)])], role=role)
    turn = await bp.run("g", "t")
    assert (turn.status, len(turn.artifacts)) == ("ended", 8)


async def test_a_subtask_waits_for_what_it_reads_and_sees_all_of_it():
    going, seen = set(), []

    async def role(request):
        task = asked(request).rpartition("\n")[2]
        going.add(task)
        await asyncio.sleep(0)
        seen.append((task, frozenset(going)))
        going.discard(task)
        return f"by {task}"

    plans = [
        plan(
            research("c.md", "b.md", "a.md", task="c"),
            research("a.md", task="a"),
            research("b.md", "a.md", task="b"),
            research("d.md", task="d"),
        )
    ]
    bp = blueprint(plans, role=role)
    assert (await bp.run("g", "t")).status == "ended"
    assert seen == [("a", {"a", "d"}), ("d", {"d"}), ("b", {"b"}), ("c", {"c"})]
    parts = bp.planner.agent.spec.model
    assert asked(parts.delegated[-1]) == whole_task("c", ("b.md", "by b"), ("a.md", "by a"))
    assert len(parts.reflected) == 1


def test_reflection_is_asked_after_a_wave_with_an_error_and_after_the_last_one_only():
    def role(request):
        if "fail" in asked(request):
            raise ValueError("no")
        return "fine"

    clean = [research("a.md"), research("b.md", "a.md"), research("c.md", "b.md")]
    parts = Parts([plan(*clean)], role=role)
    one_turn(parts)
    assert len(parts.reflected) == 1
    parts = Parts([plan(*clean, research("x.md", task="fail"))], [GO_ON, end()], role)
    bp, turn = one_turn(parts)
    order = [entry["node"] for entry in bp.board("t").ledger]
    assert (turn.status, order[:4]) == ("ended", ["planner", "subagent", "subagent", "reflection"])
    assert [name for name, _, _ in outcomes(bp)] == ["a.md", "x.md", "b.md", "c.md"]
    assert (len(parts.planned), len(parts.reflected)) == (1, 2)


async def test_results_are_recorded_in_the_order_of_the_plan_whoever_finishes_first(store):
    names = [f"{n}.md" for n in range(5)]
    ended, over = [], [asyncio.Event() for _ in range(6)]
    over[5].set()

    async def role(request):
        place = int(asked(request)[-1])
        await asyncio.wait_for(over[place + 1].wait(), 10)  # The last one ends first.
        ended.append(place)
        over[place].set()
        return f"by {place}"

    bp = blueprint([plan(*[research(name, task=name[0]) for name in names])], role=role, checkpointer=store)
    turn = await bp.run("g", "t")
    board = bp.board("t")
    assert ended == [4, 3, 2, 1, 0]
    assert [entry["artifact"] for entry in entries(bp)] == [entry.name for entry in board.files.values()] == names
    assert list(turn.artifacts) == [f"/research-specialist_{n + 1}_{n}.md" for n in range(5)]
    assert [entry.content for entry in board.files.values()] == [f"by {n}" for n in range(5)]


def test_a_hundred_subtasks_are_one_wave():
    bp = blueprint([plan(*[research(f"{n}.md") for n in range(100)])])
    turn = bp.run_sync("g", "t")
    assert (turn.status, len(turn.artifacts), bp.board("t").step) == ("ended", 100, 100)
    assert [entry["step"] for entry in entries(bp)] == list(range(1, 101))


def test_steps_count_subtasks_over_waves_plans_and_turns():
    two, chain = plan(research("a.md"), research("b.md")), plan(research("c.md"), research("d.md", "c.md"))
    bp = blueprint([two, chain, two], [replan(), end(), end()])
    bp.run_sync("g", "t")
    assert bp.board("t").step == 4
    bp.run_sync("h", "t")
    assert ([entry["step"] for entry in entries(bp)], bp.board("t").step) == ([1, 2, 3, 4, 5, 6], 6)


def test_two_subagents_that_deliver_one_name_in_one_round_both_keep_what_they_wrote(store):
    plans = [
        plan(
            research(task="1"),
            ("critic", "2", "facts.md"),
            research(task="3"),
            research("sum.md", "facts.md", task="4"),
        )
    ]

    def role(request):
        return "[]" if "critic" in request.system else f"version {asked(request)[-1]}"

    parts = Parts(plans, role=role)
    bp, _turn = one_turn(parts, checkpointer=store)
    assert {path: entry.content for path, entry in bp.board("t").files.items()} == {
        "/research-specialist_1_facts.md": "version 1",
        "/critic_2_facts.md": "[]",
        "/research-specialist_3_facts.md": "version 3",
        "/research-specialist_4_sum.md": "version 4",
    }
    assert asked(parts.delegated[3]) == whole_task("4", ("facts.md", "version 3"))
    assert (bp.artifact("t", "facts.md"), bp.artifact("t", "critic_2_facts.md")) == ("version 3", "[]")


def test_a_subtask_reads_the_version_that_it_waited_for():
    plans = [plan(research("x.md", task="1"), research("out.md", "x.md", task="2"), research("x.md", task="3"))]
    parts = Parts(plans, role=lambda request: f"version {asked(request)[-1]}")
    one_turn(parts)
    assert asked(parts.delegated[-1]) == whole_task("2", ("x.md", "version 1"))


def test_a_file_that_is_named_twice_is_shown_once():
    parts = Parts([plan(research(), research("b.md", "facts.md", "facts.md"))])
    one_turn(parts)
    assert asked(parts.delegated[1]).count("# facts.md") == 1


# ---- those that fail


async def never(request):
    await asyncio.sleep(10)


async def search(ctx: ToolContext) -> str:
    """Search on."""
    return "more"


async def inquire(ctx: ToolContext) -> str:
    """Ask the user."""
    ctx.record(TurnEscalated(0.0, "in which year?"))
    return "asked"


FAILING = [
    (Role("worker", "p", model=ScriptedModel(lambda _: ValueError("boom"))), "its run failed (ModelError)"),
    (Role("worker", "p", model=ScriptedModel(lambda _: RateLimited("slow"))), "its run failed (RateLimited)"),
    (Role("worker", "p", model=ScriptedModel(lambda _: 7)), "its run failed (ConfigError)"),
    (Role("worker", "p", model=ScriptedModel(never), timeout=0.01), "it took longer than 0.01 s"),
    (
        Role("worker", "p", model=ScriptedModel(lambda _: ToolCall("search")), tools=[search], limits=Limits(steps=2)),
        "it reached its limit of steps",
    ),
    (
        Role(
            "worker",
            "p",
            model=ScriptedModel(lambda _: Reply(AssistantMessage((ToolCall("search"),)), Usage(90, 10))),
            tools=[search],
            limits=Limits(tokens=150),
        ),
        "it reached its limit of tokens",
    ),
    (Role("worker", "p", model=ScriptedModel(lambda _: "")), "its reply was refused 2 times (ArtifactViolation)"),
]


@pytest.mark.parametrize(("role", "error"), FAILING, ids=lambda given: given if isinstance(given, str) else "")
def test_reflection_sees_a_failed_subtask_and_its_siblings_keep_their_artifacts(role, error, store):
    plans = [plan(research("a.md"), ("worker", "work", "w.md"), research("b.md"), research("c.md", "w.md"))]
    parts = Parts(plans, [end("{{a.md}}")])
    bp, turn = one_turn(parts, roles=[*STOCK_ROLES, role], checkpointer=store)
    assert (turn.status, turn.text) == ("ended", "Paris. [1]")
    assert outcomes(bp) == [("a.md", "done", ""), ("w.md", "failed", error), ("b.md", "done", "")]
    seen = asked(parts.reflected[0])
    assert f"# What went wrong\nw.md: {error}\n" in seen
    assert '{"missing":["c.md","w.md"],"unexpected":[],"failed":["w.md"]}' in seen
    assert bp.board("t").errors == [f"w.md: {error}"]


def test_the_planner_sees_what_went_wrong():
    role = FAILING[0][0]
    parts = Parts([plan(("worker", "work", "w.md")), plan(research())], [replan(), end()])
    one_turn(parts, roles=[*STOCK_ROLES, role])
    assert "# What went wrong\nw.md: its run failed (ModelError)" in asked(parts.planned[1])


def test_a_subtask_that_takes_too_long_is_recorded_as_cancelled():
    bp, _ = one_turn(Parts([plan(("worker", "work", "w.md"))], [ask()]), roles=[FAILING[3][0]])
    assert [(run.agent, run.status) for run in bp.runs("t")] == [
        ("planner", "ended"),
        ("worker", "cancelled"),
        ("reflection", "ended"),
    ]


def test_the_users_answer_to_a_role_goes_to_the_planner():
    role = Role("worker", "p", model=ScriptedModel(lambda _: ToolCall("inquire")), tools=[inquire])
    parts = Parts([plan(research("a.md"), ("worker", "work", "w.md")), plan(research("b.md"))])
    bp, turn = one_turn(parts, roles=[*STOCK_ROLES, role])
    assert (turn.status, turn.question) == ("escalated", "worker asks: in which year?")
    assert bp.board("t").termination == {"reason": "escalate", "by": "worker"}
    assert bp.run_sync("in 1970", "t").status == "ended"
    again = asked(parts.planned[1])
    assert "# The user said since\nin 1970" in again
    assert "1. [done] research-specialist -> a.md: find out\n2. [failed] worker -> w.md: work" in again


async def test_a_turn_that_is_resumed_without_one_of_its_roles_escalates(store):
    begun = asyncio.Event()

    async def role(request):
        begun.set()
        await never(request)

    bp = Blueprint(Parts([plan(("worker", "work", "w.md"))], role=role), [*STOCK_ROLES, WORKER], checkpointer=store)
    task = asyncio.create_task(bp.run("g", "t"))
    await asyncio.wait_for(begun.wait(), 10)
    task.cancel()
    await asyncio.wait([task])
    turn = await Blueprint(Parts([], [ask()]), checkpointer=store, limits=SOON).resume("t")
    assert (turn.status, turn.question) == ("escalated", "which one?")


async def test_a_turn_can_be_resumed_after_the_model_failed_at_the_last_reflection():
    bp = blueprint([plan(research())], [RateLimited("slow"), end("fine")], max_reflection_depth=1, limits=SOON)
    assert isinstance((await bp.run("g", "t")).error, RateLimited)
    turn = await bp.resume("t")
    assert (turn.status, turn.text) == ("ended", "fine")


def test_cleanup_works_without_any_file():
    failing = Role("worker", "p", validate=lambda _: False)
    bp, turn = one_turn(Parts([plan(("worker", "work", "w.md"))] * 2, [replan(), ask()]), roles=[failing])
    assert (turn.status, bp.board("t").files) == ("escalated", {})
    assert [entry["node"] for entry in bp.board("t").ledger] == ["planner", "subagent", "reflection", "cleanup"] * 2


# ---- whole threads


def events(bp, goals):
    """The events of each run of a thread, without clocks and costs."""

    async def told():
        found = {}
        for goal in goals:
            async for event in bp.stream(goal, "t"):
                timed = msgspec.structs.replace(event, costs=None) if hasattr(event, "costs") else event
                found.setdefault(event.path, []).append(plainly(timed))
        return found

    return asyncio.run(told())


def plainly(event):
    def timeless(value):
        if isinstance(value, float):
            return 0.0
        if isinstance(value, dict):
            return {key: timeless(inner) for key, inner in value.items()}
        return [timeless(inner) for inner in value] if isinstance(value, list | tuple) else value

    return timeless(msgspec.to_builtins(event))


def test_the_same_script_produces_the_same_events_whoever_finishes_first():
    def lived(first):
        async def role(request):
            for _ in range(5 * (first in asked(request))):
                await asyncio.sleep(0)
            if "fail" in asked(request):
                raise ValueError("no")
            return f"by {asked(request)[-1]}"

        work = [research("a.md", task="a"), research("b.md", task="b"), research("c.md", task="fail c")]
        bp = blueprint(
            [plan(*work), plan(research("d.md", "a.md", task="d"))] * 2,
            [replan(), end("{{d.md}}"), replan(), ask()],
            role=role,
        )
        return events(bp, ["one", "two"])

    runs = [lived(first) for first in ("a", "a", "b", "c")]
    assert len(runs[0]) > 10
    assert runs[0] == runs[1] == runs[2] == runs[3]


def test_two_blueprints_take_turns_on_one_thread(store):
    writers, critics = Parts([plan(research())]), Parts([plan(("critic", "judge", "c.md", ["facts.md"]))])
    Blueprint(writers, checkpointer=store).run_sync("one", "t")
    others = Blueprint(critics, STOCK_ROLES[::-1], checkpointer=store)
    assert others.run_sync("two", "t").status == "ended"
    assert asked(critics.delegated[0]) == whole_task("judge", ("facts.md", "Paris. [1]"))
    assert [entry.name for entry in others.board("t").files.values()] == ["facts.md", "c.md"]
    assert "one -> done" in asked(critics.planned[0])


async def test_a_second_blueprint_on_a_running_thread_is_refused(store):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def role(request):
        begun.set()
        await go_on.wait()
        return "x"

    first, second = (blueprint([plan(research())], role=role, checkpointer=store) for _ in range(2))
    task = asyncio.create_task(first.run("one", "t"))
    await asyncio.wait_for(begun.wait(), 10)
    with pytest.raises(ThreadBusy):
        await second.run("two", "t")
    go_on.set()
    assert ((await task).status, second.planner.agent.spec.model.requests) == ("ended", [])


def test_the_board_has_its_named_fields():
    wanted = [
        "messages",
        "plan",
        "files",
        "step",
        "reflection_depth",
        "decision",
        "reason",
        "question",
        "final_answer",
        "termination",
    ]
    assert set(wanted) <= set(Board.__struct_fields__)
    bp, _ = one_turn(Parts([plan(research())], [end("{{facts.md}}")]), checkpointer=MemoryCheckpointer())
    board = bp.board("t")
    assert [len(board.messages) > 0, len(board.plan["subtasks"]), len(board.files), board.step, board.reflection_depth] == [
        True, 1, 1, 1, 1,
    ]  # fmt: skip
    assert (board.decision, board.final_answer, board.errors) == ("end", "{{facts.md}}", [])
    assert board.termination == {"reason": "end"}


def test_a_role_with_file_tools_is_asked_like_any_other():
    tools = FilesystemMiddleware(StateBackend()).tools
    parts = Parts([plan(("worker", "work", "a.md"))])
    one_turn(parts, roles=[Role("worker", "You work.", tools=tools)])
    assert (parts.delegated[0].system, asked(parts.delegated[0])) == ("You work.", "## Task\nwork")


def test_a_goal_may_be_text_blocks_but_no_other_blocks():
    bp = blueprint([plan(research())])
    assert bp.run_sync([Text("find "), Text("out")], "t").status == "ended"
    assert "# Goal\nfind out\n" in asked(bp.planner.agent.spec.model.planned[0])


# ---- typed artifacts


class Report(msgspec.Struct):
    title: str
    score: int = 5


TYPED = Role("worker", "You are a worker.", response_format=Report)
GOOD = '{"title": "t", "score": "7"}'
FINAL = ToolCall("final_answer", {"title": "t", "score": 7})


def artifact_of(parts, role=TYPED, **named):
    bp, turn = one_turn(parts, roles=[role], **named)
    return bp.artifact("t", "r.json"), turn.status, len(parts.delegated)


def typed_parts(said):
    return Parts([plan(("worker", "report", "r.json"))], [end("{{r.json}}")], said)


@pytest.mark.parametrize("held", [True, False])
def test_the_artifact_of_a_typed_role_is_its_value_as_json(held):
    parts = typed_parts(lambda request: f"Here: {GOOD}" if request.schema or not held else "nothing")
    parts.structured_output = held
    assert artifact_of(parts) == ('{"title":"t","score":7}', "ended", 1)
    assert [shown.name for shown in parts.delegated[0].tools] == ([] if held else ["final_answer"])


def test_a_typed_role_may_answer_by_the_tool_and_is_asked_again_in_the_same_run():
    said = iter(["no JSON", ToolCall("final_answer", {"score": 1}), FINAL])
    parts = typed_parts(lambda request: next(said))
    assert artifact_of(parts) == ('{"title":"t","score":7}', "ended", 3)
    second = parts.delegated[1]
    assert "title" in refusal(second)[1]


def test_a_validator_reads_the_value_of_a_typed_role():
    seen = []
    said = iter(['{"title": "bad"}', GOOD])
    role = msgspec.structs.replace(TYPED, validate=lambda content: seen.append(content) or "bad" not in content)
    assert artifact_of(typed_parts(lambda request: next(said)), role) == ('{"title":"t","score":7}', "ended", 2)
    assert seen == ['{"title":"bad","score":5}', '{"title":"t","score":7}']


def test_a_typed_role_that_never_fits_fails_its_subtask():
    bp, _ = one_turn(Parts([plan(("worker", "w", "r.json"))], [ask()], lambda request: "no"), roles=[TYPED])
    assert outcomes(bp) == [("r.json", "failed", "its run failed (OutputViolation)")]


def test_a_form_that_is_no_type_is_refused_with_the_name_of_its_role():
    with pytest.raises(ConfigError, match="role 'worker': response_format: kind must be a type"):
        Blueprint(Parts([]), [Role("worker", "You work.", response_format="Report")])
