"""The planner: its request, plans that are refused, and what it must not see."""

import json
import time

import msgspec
import pytest
from harness.blueprints import Parts, asked, end, entries, one_turn, plan, refusal, replan, research

from minideep import ToolCall
from minideep.blueprint import STOCK_ROLES, Blueprint, Role
from minideep.blueprint.prompts import REFLECTION, planner_system

CANARY = "canary-5150"
WORKER = Role("worker", "You are a worker.")

pytestmark = pytest.mark.filterwarnings("ignore:a pool usually has")


def test_the_planner_sees_goal_plan_and_a_summary_of_the_files():
    parts = Parts([plan(research()), plan(research("b.md"))], [replan("more of it"), end()])
    bp, _ = one_turn(parts)
    first, second = map(asked, parts.planned)
    day = time.strftime("%A, %Y-%m-%d", time.gmtime(bp.get_state("t").start.at))
    assert first == f"# Goal\nthe goal\n\n# Today\n{day} (UTC)\n\n# Files\nnone"
    assert second.split("\n\n")[:3] == [
        "# Goal\nthe goal",
        f"# Today\n{day} (UTC)",
        "# Current plan\n1. [done] research-specialist -> facts.md: find out",
    ]
    file = {"name": "facts.md", "file": "research-specialist_1_facts.md", "role": "research-specialist"}
    listed = json.loads(second.split("# Files\n")[1].split("\n")[0])
    assert listed == {**file, "status": "done", "bytes": 10, "step": 1}
    assert second.endswith("# Why you are asked again\nmore of it")


async def leak(text: str) -> str:
    """Say something."""
    raise ValueError(text)


@pytest.mark.parametrize("size", [1, 200_000])
def test_no_content_reaches_planner_reflection_or_trace(size, store):
    content = CANARY * size if size == 1 else CANARY + "x" * size

    def role(request):
        if "leaking" in request.system:
            return ToolCall("leak", {"text": content}) if len(request.messages) == 1 else content
        if "failing" in request.system:
            raise ValueError(content)
        return content

    def refuse(said):
        raise ValueError(f"not good enough: {said}")

    roles = [
        Role("fine", "You do."),
        Role("failing", "You are failing."),
        Role("leaking", "You are leaking.", tools=[leak]),
        Role("refused", "You are refused.", validate=refuse),
    ]
    everybody = [(role.name, "work", f"{role.name}.md") for role in roles]
    plans = [plan(*everybody), plan(("fine", "go on", "more.md", ["fine.md"])), plan(("fine", "again", "z.md"))]
    parts = Parts(plans, [replan(), end("{{fine.md}}"), end()], role)
    bp = Blueprint(parts, roles, checkpointer=store)
    turns = [bp.run_sync("the goal", "t"), bp.run_sync("another", "t")]
    assert [turn.status for turn in turns] == ["ended", "ended"]
    assert size > 1 or turns[0].text == CANARY
    assert any(CANARY in asked(request) for request in parts.delegated)
    assert [r for r in parts.planned + parts.reflected if CANARY in asked(r) + r.system] == []
    assert (len(bp.trace("t")) > 10, [line for line in bp.trace("t") if CANARY in line]) == (True, [])


def test_a_planner_that_writes_contents_or_answers_changes_nothing():
    said = plan(research(), files={"a.md": CANARY}, content=CANARY, final_answer=CANARY, decision="end")
    parts = Parts([said], [end("the answer")])
    bp, turn = one_turn(parts)
    assert (turn.status, turn.text) == ("ended", "the answer")
    assert {entry.content for entry in bp.board("t").files.values()} == {"Paris. [1]"}
    assert CANARY not in json.dumps([bp.board("t").plan, bp.trace("t")])


def test_only_reflection_gives_the_final_answer():
    parts = Parts(["The capital is Paris.", plan(research())], [end("as reflection says")])
    _, turn = one_turn(parts)
    assert turn.text == "as reflection says"
    parts = Parts(["The capital is Paris."] * 2)
    _, turn = one_turn(parts)
    assert (turn.status, turn.text) == ("escalated", "")


def test_planner_and_reflection_have_no_tools_and_get_one_message():
    parts = Parts([plan(research())])
    one_turn(parts)
    for request, system in ((parts.planned[0], planner_system(STOCK_ROLES)), (parts.reflected[0], REFLECTION)):
        assert (request.system, request.tools, len(request.messages)) == (system, (), 1)
        assert request.schema["additionalProperties"] is False


def test_a_role_that_is_added_to_the_pool_is_in_the_planners_next_prompt(store):
    first, second = Parts([plan(research())]), Parts([plan(("worker", "do", "b.md"))])
    Blueprint(first, checkpointer=store).run_sync("a", "t")
    turn = Blueprint(second, [*STOCK_ROLES, WORKER], checkpointer=store).run_sync("b", "t")
    assert ("\n- worker\n" in first.planned[0].system, "\n- worker\n" in second.planned[0].system) == (False, True)
    assert (turn.status, second.delegated[0].system) == ("ended", "You are a worker.")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (plan(("ghost", "haunt", "a.md")), "unknown role 'ghost'"),
        (plan(research("../..")), "no folders and no '..', not '../..'"),
        (plan(research("a.md", "b.md"), research("b.md", "a.md")), "subtasks 1, 2 wait for each other's artifacts"),
        (plan(research("a.md", "gone.md")), "read_files names 'gone.md', which is neither a file"),
        (plan(), "a plan has 1 to 100 subtasks, not 0"),
        (plan(*[research(f"{n}.md") for n in range(101)]), "a plan has 1 to 100 subtasks, not 101"),
        ("First I shall", "the reply holds no JSON; give JSON of this shape: "),
    ],
)
def test_a_refused_plan_goes_back_to_the_planner_with_the_reason_and_is_never_dispatched(wrong, told):
    parts = Parts([wrong, plan(research("good.md", task="the good one"))])
    bp, turn = one_turn(parts)
    first, second = parts.planned
    assert (turn.status, second.messages[0]) == ("ended", first.messages[0])
    reply, why = refusal(second)
    assert (reply, told in why) == (wrong, True)
    assert [asked(request) for request in parts.delegated] == ["## Task\nthe good one"]
    assert [entry["status"] for entry in entries(bp, "planner")] == ["done"]


def test_after_a_planner_breaks_its_contract_twice_a_person_sees_its_reply():
    parts = Parts(["no", "{'subtasks': ["])
    bp, turn = one_turn(parts)
    assert (turn.status, parts.delegated, entries(bp, "planner")[0]["error"]) == (
        "escalated",
        [],
        "its reply was refused 2 times (PlanViolation)",
    )
    assert "The planner broke its contract twice (PlanViolation: the reply holds no JSON; " in turn.question
    assert turn.question.endswith("Its last reply was:\n{'subtasks': [")
    assert bp.board("t").termination == {"reason": "contract"}


@pytest.mark.parametrize("said", ["x" * 5_000_000, "{" * 5_000_000, '{"subtasks": [' + "1," * 2_000_000])
def test_a_refused_plan_of_five_megabytes_makes_a_short_question(said):
    bp, turn = one_turn(Parts([said, said]))
    assert (turn.status, len(turn.question) < 3_000) == ("escalated", True)
    assert len(msgspec.msgpack.encode(bp.board("t").ledger)) < 2_000
