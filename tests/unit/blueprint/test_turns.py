"""Turns of a blueprint: from a goal to an answer or a question, their appends, and how the next turn continues."""

import asyncio
import json
import pickle
import sys
import threading
from itertools import count

import pytest
from harness.blueprints import (
    CODE,
    Parts,
    Tens,
    ask,
    asked,
    bounded,
    end,
    numbered,
    outcomes,
    plan,
    reader,
    replan,
    research,
    rounds,
    said_by_role,
    sections,
    whole_task,
)
from harness.stores import FaultyStore
from msgspec import structs

from minideep import (
    Approve,
    AuthenticationFailed,
    CheckpointError,
    ConfigError,
    ContextOverflow,
    Edit,
    Limits,
    MemoryCheckpointer,
    ModelError,
    Overloaded,
    RateLimited,
    Reject,
    Respond,
    ThreadBusy,
    ToolCall,
    ToolContext,
    UnknownThread,
    tool,
)
from minideep.blueprint import STOCK_ROLES, Blueprint, Role
from minideep.checkpoint import format as codec
from minideep.events import ToolEnded, ToolStarted, TurnEnded, TurnEscalated

WAVE = plan(research("a.md", task="one"), research("b.md", task="two"), research("c.md", task="three"))


class Counted:
    """A store that notes the bytes of each append but merges, with the value of *when* at that moment."""

    def __init__(self, store, when=lambda: 0):
        self.store, self.when, self.appends = store, when, []

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def append(self, thread, expected, head, rows, deletes=(), **how):
        await self.store.append(thread, expected, head, rows, deletes, **how)
        if head != expected:
            self.appends.append((self.when(), sum(map(len, rows.values()))))


def timeless(board):
    """A board as plain data without its clocks."""
    ledger = [{key: value for key, value in entry.items() if key != "seconds"} for entry in board.ledger]
    whole = structs.asdict(structs.replace(board, ledger=ledger))
    return whole | {"messages": [message.text for message in board.messages]}


# ---- the order of the parts


async def test_the_parts_follow_each_other_as_the_graph_says(store):
    wave = plan(research("a.md"), research("b.md", "a.md"))
    agent = Blueprint(Parts([wave, plan(research("c.md"))], [replan(), end()]), checkpointer=store)
    turn = await agent.run("go", "t")
    assert [message.name for message in turn.messages if message.role == "tool"] == [
        "planner", "subagent_dispatcher", "subagent_dispatcher", "reflection", "cleanup",
        "planner", "subagent_dispatcher", "reflection", "cleanup",
    ]  # fmt: skip
    assert [tool.name for tool in agent.spec.tool_list] == ["planner", "subagent_dispatcher", "reflection", "cleanup"]
    runs = [(run.path[0], run.agent) for run in agent.runs("t")]
    assert [name for _, name in runs] == [
        "planner", "research-specialist", "research-specialist", "reflection",
        "planner", "research-specialist", "reflection",
    ]  # fmt: skip


async def test_the_files_of_a_wave_are_there_before_reflection_is_asked(store):
    def reflections(request):
        assert [json.loads(line)["name"] for line in sections(request)["Artifacts"].splitlines()] == [
            "a.md",
            "b.md",
            "c.md",
        ]
        return end()

    turn = await Blueprint(Parts([WAVE], reflections), checkpointer=store).run("go", "t")
    assert (turn.status, sorted(turn.artifacts)) == (
        "ended", [f"/research-specialist_{step}_{name}.md" for step, name in enumerate("abc", 1)],
    )  # fmt: skip


async def test_old_files_are_evicted_before_the_planner_is_asked_again_and_before_the_turn_ends(store):
    planned = iter([plan(research("old.md")), WAVE, plan(research("d.md")), plan(research("e.md"), research("f.md"))])
    model = Parts(lambda: next(planned), [replan(), replan(), replan(), end()])
    agent = Blueprint(model, checkpointer=store)
    await agent.run("go", "t")

    def files(request):
        lines = [line for line in sections(request)["Files"].splitlines() if line.startswith("{")]
        return [json.loads(line)["name"] for line in lines]

    assert [files(request) for request in model.planned[1:]] == [
        ["old.md"],
        ["old.md", "a.md", "b.md", "c.md"],
        ["a.md", "b.md", "c.md", "d.md"],
    ]
    assert [file.name for file in agent.board("t").files.values()] == [f"{name}.md" for name in "abcdef"]
    assert [entry["files"] for entry in agent.board("t").ledger if "files" in entry] == [
        ["research-specialist_1_old.md"]
    ]


# ---- appends and boundaries


async def test_a_turn_of_three_rounds_is_one_run_with_two_appends_and_one_boundary(store):
    counted = Counted(store)
    agent = Blueprint(Parts(numbered(), [replan(), replan(), end()]), checkpointer=counted)
    turn = await agent.run("go", "t")
    assert (turn.status, turn.saved, len(counted.appends)) == ("ended", True, 2)
    assert [(one.at, one.status) for one in agent.history("t")] == [(1, "ended")]
    assert not turn.interrupts


@pytest.mark.parametrize(
    ("reflections", "role", "more", "status"),
    [
        ([ask()], said_by_role, {}, "escalated"),
        ([replan()], said_by_role, {"max_reflection_depth": 1}, "escalated"),
        ([RateLimited("slow")], said_by_role, {}, "failed"),
        ([], said_by_role, {"limits": Limits(seconds=0)}, "escalated"),
        ([], said_by_role, {"approve_plan": True}, "paused"),
        ([end("{{a.md}}")], lambda: "x" * 200_000, {}, "ended"),
    ],
)
async def test_a_turn_appends_twice_however_it_ends(store, reflections, role, more, status):
    counted = Counted(store)
    turn = await Blueprint(Parts([WAVE], reflections, role), checkpointer=counted, **more).run("go", "t")
    assert (turn.status, turn.saved, len(counted.appends)) == (status, True, 2)


@pytest.mark.parametrize("durability", ["step", "tool"])
async def test_every_durability_leaves_the_same_thread(store, durability):
    def agent(store, durability):
        parts = Parts([WAVE, plan(("code-writer", "x", "d.py", ["a.md"]))], [replan(), end("{{d.py}}")])
        return Blueprint(parts, checkpointer=store, durability=durability)

    counted = Counted(store)
    often, once = agent(counted, durability), agent(MemoryCheckpointer(), "turn")
    assert (await often.run("go", "t")).text == (await once.run("go", "t")).text == CODE
    assert timeless(often.board("t")) == timeless(once.board("t"))
    assert len(counted.appends) > 10


async def test_any_store_with_the_ports_operations_will_do():
    agent = Blueprint(Parts([WAVE], [end("{{a.md}}")]), checkpointer=FaultyStore(MemoryCheckpointer()))
    assert (await agent.run("go", "t")).text == "Paris. [1]"


@pytest.mark.parametrize("durability", ["turn", "step"])
@pytest.mark.parametrize("outage", [False, True], ids=["once", "until it is healed"])
async def test_wherever_a_store_fails_the_answer_is_returned_and_saved_later(durability, outage):
    for at in count(1):
        model = Parts(numbered(), [end("{{f1.md}}"), end("{{f2.md}}"), end("{{f2.md}}")], lambda: "x" * 150_000)
        failing = FaultyStore(MemoryCheckpointer())
        agent = Blueprint(model, checkpointer=failing, durability=durability)
        await agent.run("one", "t")
        failing.fail(at, OSError, outage)
        try:
            turn = await agent.run("two", "t")
        except CheckpointError:
            turn = None
        failed = failing.heal()
        if turn is None:
            assert len(model.planned) == 1
            turn = await agent.run("two", "t")
        assert (turn.status, len(turn.text)) == ("ended", 150_000)
        await agent.save("t")
        assert [json.loads(line)["node"] for line in reader(failing.store).trace("t")] == [
            "planner", "subagent", "reflection", "cleanup"] * 2  # fmt: skip
        assert reader(failing.store).board("t").goal == "two"
        if not failed:
            break
    assert at > 4


# ---- a question, and the person's answer


async def test_the_planner_sees_the_users_answer_with_the_old_plan_and_what_went_wrong(store):
    def role(request):
        return RateLimited("slow") if asked(request).endswith("two") else "Paris"

    first = Blueprint(Parts([WAVE], [ask("which colour?")], role), checkpointer=store)
    turn = await first.run("paint it", "t")
    assert (turn.status, turn.question, turn.text) == ("escalated", "which colour?", "")
    model = Parts([plan(research("d.md", "a.md"))], [end("painted")])
    turn = await Blueprint(model, checkpointer=store).run("blue", "t")
    assert (turn.status, turn.text) == ("ended", "painted")
    told = sections(model.planned[0])
    files = [json.loads(line)["name"] for line in told.pop("Files").splitlines()]
    assert files == ["a.md", "c.md"]
    assert told == {
        "Goal": "paint it",
        "Today": told["Today"],
        "The user said since": "blue",
        "Current plan": "1. [done] research-specialist -> a.md: one\n2. [failed] research-specialist -> b.md: two\n"
        "3. [done] research-specialist -> c.md: three",
        "What went wrong": "b.md: its run failed (RateLimited)",
        "Why you are asked again": "the user was asked: which colour?",
    }
    assert asked(model.delegated[0]) == whole_task("find out", ("a.md", "Paris"))


async def test_the_planner_sees_all_answers_to_several_questions_about_one_goal():
    model = Parts(numbered(), [ask("which?"), ask("how many?"), end()])
    agent = Blueprint(model)
    for text in ("go", "the blue one", "three"):
        turn = await agent.run(text, "t")
    assert turn.status == "ended"
    assert sections(model.planned[2])["The user said since"] == "the blue one\nthree"
    assert "how many?" in sections(model.planned[2])["Why you are asked again"]


@tool
async def ask_user(question: str, ctx: ToolContext) -> str:
    """Ask the user something."""
    ctx.record(TurnEscalated(1.0, question))
    return "asked"


def asking(request):
    """A role that asks the user what its task says."""
    return ToolCall("ask_user", {"question": asked(request).split("\n")[-1]})


ASKERS = [Role(name, f"You are {name}.", [ask_user]) for name in ("ann", "ben", "cid")]


async def test_a_roles_question_goes_to_the_user_without_reflection():
    model = Parts([plan(("ann", "colour?", "a.md")), plan(("ben", "go", "b.md"))], [end()],
                  lambda request: asking(request) if "ann" in request.system else "Paris")  # fmt: skip
    agent = Blueprint(model, ASKERS)
    turn = await agent.run("go", "t")
    assert (turn.status, turn.question, model.reflected) == ("escalated", "ann asks: colour?", [])
    assert agent.board("t").termination == {"reason": "escalate", "by": "ann"}
    assert (await agent.run("blue", "t")).status == "ended"
    assert sections(model.planned[1])["The user said since"] == "blue"


async def test_the_questions_of_all_roles_go_to_the_user_at_once():
    agent = Blueprint(Parts([plan(("ann", "colour?", "a.md"), ("ben", "size?", "b.md"))], [], asking), ASKERS)
    turn = await agent.run("go", "t")
    assert turn.status == "escalated"
    assert "ann asks: colour?" in turn.question
    assert "ben asks: size?" in turn.question


# ---- plans that a person lets through

PLAN = {"subtasks": [{"role": "research-specialist", "instruction": "find out", "expected_artifact": "a.md"}]}
EDITED = {"subtasks": [{"subagent_role": "critic", "instruction": "judge", "expected_artifact_name": "b.json"}]}


def approving(store, plans=None, **parts):
    model = Parts(plans or [plan(research("a.md")), plan(research("again.md"))], [end(), end()], **parts)
    return model, Blueprint(model, checkpointer=store, approve_plan=True)


async def test_a_plan_waits_for_a_person_and_nothing_is_dispatched(store):
    model, agent = approving(store)
    turn = await agent.run("go", "t")
    (wait,) = turn.interrupts
    assert (turn.status, turn.saved, wait.call.name) == ("paused", True, "approve_plan")
    assert wait.call.args == {"plan": {**PLAN, "reasoning": "so"}, "problem": ""}
    assert (model.delegated, agent.board("t").plan["subtasks"]) == ([], PLAN["subtasks"])
    again = await reader(store).resume("t")
    assert (again.status, again.interrupts) == ("paused", turn.interrupts)


@pytest.mark.parametrize(
    ("decision", "done"),
    [(Approve(), ["a.md"]), (Edit({"plan": EDITED}), ["b.json"]), (Edit({"plan": EDITED, "problem": "x"}), ["b.json"])],
)
async def test_another_process_carries_out_an_approved_plan(store, decision, done):
    (wait,) = (await approving(store)[1].run("go", "t")).interrupts
    model, agent = approving(store)
    turn = await agent.resume("t", {wait.call_id: decision})
    assert (turn.status, turn.text, model.planned) == ("ended", "done", [])
    assert [file.name for file in agent.board("t").files.values()] == done
    assert agent.board("t").subtasks[0].expected_artifact == done[0]


async def test_an_edit_that_breaks_the_contract_goes_back_to_the_person(store):
    model, agent = approving(store)
    (wait,) = (await agent.run("go", "t")).interrupts
    wrong = {"subtasks": [{**PLAN["subtasks"][0], "role": "nobody"}]}
    turn = await agent.resume("t", {wait.call_id: Edit({"plan": wrong})})
    (wait,) = turn.interrupts
    problem = "subtask 1: unknown role 'nobody'; roles: research-specialist, code-writer, critic"
    assert (turn.status, wait.call.args) == ("paused", {"plan": wrong, "problem": problem})
    assert (len(model.planned), model.delegated) == (1, [])
    turn = await agent.resume("t", {wait.call_id: Edit({"plan": PLAN})})
    assert (turn.status, len(model.planned), len(model.delegated)) == ("ended", 1, 1)


@pytest.mark.parametrize("edit", [{"subtasks": []}, EDITED, {"plan": [EDITED, EDITED]}, {"plan": None}, {}])
async def test_an_edit_that_is_not_a_plan_goes_back_to_the_person(edit):
    model, agent = approving(None)
    (wait,) = (await agent.run("go", "t")).interrupts
    turn = await agent.resume("t", {wait.call_id: Edit(edit)})
    assert len(model.planned) == 1
    assert turn.status == ("ended" if edit == {"plan": [EDITED]} else "paused")


@pytest.mark.parametrize(
    "wrong", [None, "x", [5], [{"role": 5}], [{**EDITED["subtasks"][0], "subagent_role": "nobody"}]]
)
@pytest.mark.parametrize("then", [Reject("too dear"), "something else"], ids=["reject", "message"])
async def test_the_planner_can_be_asked_again_after_an_edit_of_the_wrong_shape(wrong, then):
    model, agent = approving(None)
    (wait,) = (await bounded(agent).run("go", "t")).interrupts
    turn = await agent.resume("t", {wait.call_id: Edit({"plan": {"subtasks": wrong}})})
    (wait,) = turn.interrupts
    turn = await (agent.run(then, "t") if isinstance(then, str) else agent.resume("t", {wait.call_id: then}))
    assert (turn.status, len(model.planned)) == ("paused", 2)


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        (Reject("too dear"), "a person rejected this call: too dear"),
        (Respond("only the first one"), "only the first one"),
    ],
)
async def test_a_rejected_plan_goes_back_to_the_planner_with_the_reason(store, decision, why):
    model, agent = approving(store)
    (wait,) = (await agent.run("go", "t")).interrupts
    turn = await agent.resume("t", {wait.call_id: decision})
    assert (turn.status, turn.interrupts[0].call.args["plan"]["subtasks"][0]["expected_artifact"]) == (
        "paused",
        "again.md",
    )
    told = sections(model.planned[1])
    assert told["Why you are asked again"] == f"the user did not let the plan through: {why}"
    assert told["Current plan"] == "1. [to do] research-specialist -> a.md: find out"
    assert model.delegated == []


async def test_a_new_message_instead_of_a_decision_reaches_the_planner_with_the_plan(store):
    model, agent = approving(store)
    await agent.run("go", "t")
    turn = await agent.run("in green, please", "t")
    told = sections(model.planned[1])
    assert (turn.status, told["The user said since"], model.delegated) == ("paused", "in green, please", [])
    assert told["Current plan"] == "1. [to do] research-specialist -> a.md: find out"
    (wait,) = turn.interrupts
    assert (await agent.resume("t", {wait.call_id: Approve()})).status == "ended"


async def test_every_plan_of_a_turn_waits(store):
    plans = [plan(research("a.md")), plan(research("b.md"))]
    agent = Blueprint(Parts(plans, [replan(), end()]), checkpointer=store, approve_plan=True)
    turn, seen = await agent.run("go", "t"), []
    while turn.status == "paused":
        (wait,) = turn.interrupts
        seen.append(wait.call.args["plan"]["subtasks"][0]["expected_artifact"])
        turn = await agent.resume("t", {wait.call_id: Approve()})
    assert (turn.status, seen) == ("ended", ["a.md", "b.md"])


async def test_a_rejection_counts_however_long_the_turn_is():
    chain = plan(*(research(f"c{n}.md", *[f"c{n - 1}.md"][: n > 0]) for n in range(4)))
    plans = iter([chain, *(plan(research(f"f{n}.md")) for n in range(100))])
    model = Parts(lambda: next(plans), lambda: replan())
    agent = Blueprint(model, approve_plan=True, max_reflection_depth=60)
    turn = await agent.run("go", "t")
    while len(model.planned) < 20:
        turn = await agent.resume("t", {turn.interrupts[0].call_id: Approve()})
    assert len(agent.get_state("t").messages) <= 200
    await agent.resume("t", {turn.interrupts[0].call_id: Reject("too dear")})
    assert len(model.planned) == 21


# ---- budgets


@pytest.mark.parametrize(
    ("limits", "says"),
    [(Limits(tokens=35), "35 tokens and has spent 40"), (Limits(cost=0.9), "0.9 US dollars and has spent 1")],
)
async def test_a_spent_budget_asks_the_user_and_a_yes_continues_with_the_plan(store, limits, says):
    subtasks = json.loads(WAVE)["subtasks"] + json.loads(plan(research("d.md", "a.md")))["subtasks"]
    model = Tens([json.dumps({"subtasks": subtasks})], [end("so")])
    agent = Blueprint(model, checkpointer=store, limits=limits)
    turn = await agent.run("go", "t")
    question = f"This turn may spend {says}; subtasks left: 1. Shall I go on?"
    assert (turn.status, turn.question, turn.saved) == ("escalated", question, True)
    assert agent.board("t").termination == {"reason": "budget"}
    turn = await Blueprint(model, checkpointer=store, limits=limits).run("yes", "t")
    assert (turn.status, turn.text, len(model.planned)) == ("ended", "so", 1)
    assert [request.messages[0].text.split("\n")[-1] for request in model.delegated] == [
        "one",
        "two",
        "three",
        "find out",
    ]
    assert sections(model.reflected[0])["The user said since"] == "yes"


@pytest.mark.parametrize("tokens", [10, 20, 30, 40, 50])
async def test_however_often_a_budget_stops_a_turn_each_part_is_asked_once(tokens):
    """Every reply takes ten tokens, so the budget ends the turn after each part in turn."""
    model = Tens(
        [plan(research("a.md"), research("b.md", "a.md")), plan(research("c.md"))], [replan("once more"), end("so")]
    )
    agent = Blueprint(model, limits=Limits(tokens=tokens))
    turn = await agent.run("go", "t")
    while turn.status == "escalated":
        turn = await agent.run("yes", "t")
    assert (turn.status, turn.text) == ("ended", "so")
    assert [len(model.planned), len(model.delegated), len(model.reflected)] == [2, 3, 2]
    assert sections(model.planned[1])["Why you are asked again"] == "once more"


async def test_a_plan_that_nobody_has_approved_yet_is_shown_again_after_a_budget_stop():
    model = Tens([plan(research("a.md"))], [end("so")])
    agent = Blueprint(model, limits=Limits(tokens=10), approve_plan=True)
    turn = await agent.run("go", "t")
    assert (turn.status, turn.question.endswith("subtasks left: 1. Shall I go on?")) == ("escalated", True)
    turn = await agent.run("yes", "t")
    assert (turn.status, len(model.planned)) == ("paused", 1)


async def test_a_subtask_that_the_turns_budget_cut_short_is_done_after_a_yes():
    def look(at: str) -> str:
        """Look."""
        return "seen"

    def role(request):
        return "fact" if request.messages[-1].role == "tool" or not request.tools else ToolCall("look", {"at": "it"})

    roles = [*STOCK_ROLES, Role("looker", "You look.", [look])]
    model = Tens([plan(research("a.md"), ("looker", "look", "b.md"))], [end("{{a.md}} {{b.md}}")], role)
    agent = Blueprint(model, roles, limits=Limits(tokens=30))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.question.endswith("subtasks left: 1. Shall I go on?")) == ("escalated", True)
    turn = await agent.run("yes", "t")
    assert (turn.status, turn.text, len(model.planned)) == ("ended", "fact fact", 1)


async def test_a_subtask_that_reached_the_budget_of_its_role_has_failed():
    roles = [*STOCK_ROLES, Role("poor", "You are poor.", limits=Limits(tokens=5), validate=lambda said: False)]
    agent = Blueprint(Tens([plan(("poor", "work", "b.md"))], [ask("how?")]), roles)
    turn = await agent.run("go", "t")
    assert (turn.question, outcomes(agent)) == ("how?", [("b.md", "failed", "it reached its limit of tokens")])


async def test_old_files_are_evicted_when_a_budget_stops_the_turn():
    five = plan(*(research(f"{name}.md") for name in "bcdef"))
    agent = Blueprint(Tens([plan(research("a.md")), five], [replan()]), limits=Limits(tokens=85))
    turn = await agent.run("go", "t")
    assert (turn.status, agent.board("t").termination) == ("escalated", {"reason": "budget"})
    assert [file.name for file in agent.board("t").files.values()] == ["b.md", "c.md", "d.md", "e.md", "f.md"]


async def test_the_seconds_of_a_turn_are_a_budget_as_well(store):
    async def late(request):
        await asyncio.sleep(0.1)
        return said_by_role(request)

    agent = Blueprint(Parts([WAVE], [], late), checkpointer=store, limits=Limits(seconds=0.1))
    turn = await agent.run("go", "t")
    assert (turn.status, agent.board("t").termination) == ("escalated", {"reason": "budget"})
    assert turn.question.startswith("This turn may spend 0.1 seconds and has spent 0.")


@pytest.mark.parametrize("limits", [Limits(tokens=0), Limits(cost=0), Limits(seconds=0)])
async def test_a_budget_of_zero_asks_the_user_and_no_model(limits):
    model = Parts([])
    turn = await Blueprint(model, limits=limits).run("go", "t")
    assert (turn.status, model.requests) == ("escalated", [])
    assert turn.question.endswith("subtasks left: 0. Shall I go on?")


async def test_a_budget_that_is_spent_while_a_part_is_asked_again_asks_the_user():
    model = Tens(["no JSON"])
    agent = Blueprint(model, limits=Limits(tokens=10))
    turn = await agent.run("go", "t")
    assert (turn.status, agent.board("t").termination, len(model.requests)) == ("escalated", {"reason": "budget"}, 1)


async def test_a_model_that_fails_when_a_budget_is_spent_leaves_the_turn_with_the_budgets_question():
    async def late(request):
        await asyncio.sleep(0.1)
        raise RateLimited("slow")

    agent = Blueprint(Parts(late), limits=Limits(seconds=0.1))
    turn = await agent.run("go", "t")
    assert (turn.status, agent.board("t").termination) == ("escalated", {"reason": "budget"})


@pytest.mark.parametrize(("said", "status"), [(end("so"), "ended"), (ask("which?"), "escalated")])
async def test_a_decision_that_takes_the_rest_of_a_budget_counts(said, status):
    model = Tens([plan(research())], [said])
    agent = Blueprint(model, limits=Limits(tokens=30))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.text or turn.question) == (status, json.loads(said).get("final_answer") or "which?")
    assert agent.board("t").termination == {"reason": json.loads(said)["decision"]}


# ---- turn after turn


async def test_the_planner_sees_each_earlier_goal_as_one_line(store):
    model = Parts(numbered(), lambda: end(f"answer {len(model.planned)}, {{{{f{len(model.planned)}.md}}}}"))
    agent = Blueprint(model, checkpointer=store)
    turns = [await agent.run(f"goal {n}", "t") for n in range(1, 9)]
    assert [turn.text for turn in turns] == [f"answer {n}, Paris. [1]" for n in range(1, 9)]
    texts = [message.text for message in agent.get_state("t").messages]
    assert texts[:2] == ["(earlier turns of this thread)", "goal 8"]
    assert len(texts) == 1 + len(turns[7].messages) == 1 + len(turns[0].messages)
    memory = "\n".join(f"goal {n} -> answer {n}, {{{{f{n}.md}}}}" for n in range(3, 8))
    assert sections(model.planned[7]) | {"Files": "", "Today": ""} == {
        "Today": "",
        "Earlier in this conversation": memory, "Goal": "goal 8", "Files": "",
    }  # fmt: skip
    assert [message.text for message in agent.transcript("t")].count("answer 1, Paris. [1]") == 1


async def test_a_new_goal_begins_without_the_old_plan_and_errors_and_its_steps_count_on():
    said = iter([RateLimited("slow"), "Paris", "Rome"])
    model = Parts(
        [plan(research("a.md"), research("b.md")), plan(research("c.md"))], [end("one"), end("two")], lambda: next(said)
    )
    agent = Blueprint(model)
    for goal in ("goal 1", "goal 2"):
        await agent.run(goal, "t")
    assert sections(model.planned[1]).keys() == {"Earlier in this conversation", "Goal", "Today", "Files"}
    assert sections(model.reflected[1])["What went wrong"] == "nothing"
    steps = [(entry["turn"], entry["step"]) for entry in agent.board("t").ledger if entry["node"] == "subagent"]
    assert steps == [(1, 1), (1, 2), (2, 3)]


async def test_the_state_stays_small_however_long_the_thread_is(store):
    model = Parts(
        lambda: plan(research("r.md"), research("s.md")), lambda: end("{{r.md}} and more"), lambda: "x" * 90_000
    )
    agent, sizes = Blueprint(model, checkpointer=store), []
    for number in range(20):
        assert (await agent.run(f"goal {number} " + "y" * 3_000, "t")).status == "ended"
        state = agent.get_state("t")
        sizes.append((len(codec.encode_state(state)), len(pickle.dumps(state))))
    assert max(map(max, sizes)) < 500_000
    assert max(sizes[-1]) < 1.3 * max(sizes[6])
    assert len(agent.board("t").earlier) == 5
    assert len(asked(model.planned[-1])) < 15_000


def state_size(agent):
    state = agent.get_state("t")
    return max(len(codec.encode_state(state)), len(pickle.dumps(state)))


async def test_long_reasons_of_reflection_do_not_accumulate_in_the_state():
    model = Parts(numbered(), lambda: replan("r" * 30_000))
    agent = Blueprint(model, max_reflection_depth=20)
    await agent.run("go", "t")
    assert state_size(agent) < 250_000


async def test_long_approved_plans_do_not_accumulate_in_the_state():
    subtasks = [("critic", "i" * 600, f"x{n}.json") for n in range(90)]
    agent = Blueprint(Parts(lambda: plan(*subtasks), lambda: replan()), approve_plan=True, max_reflection_depth=20)
    turn = await agent.run("go", "t")
    for _ in range(8):
        turn = await agent.resume("t", {turn.interrupts[0].call_id: Approve()})
    assert (turn.status, state_size(agent) < 500_000) == ("paused", True)


@pytest.mark.parametrize("decision", [Edit({"plan": {"subtasks": ["x" * 600_000]}}), Reject("x" * 600_000)])
async def test_a_long_decision_about_a_plan_is_not_kept_whole(decision):
    agent = approving(None)[1]
    (wait,) = (await agent.run("go", "t")).interrupts
    turn = await agent.resume("t", {wait.call_id: decision})
    assert (turn.status, state_size(agent) < 500_000) == ("paused", True)


async def test_a_long_question_of_a_role_is_not_kept_whole():
    agent = Blueprint(
        Parts([plan(("ann", "q" * 600, "a.md"))], [], lambda: ToolCall("ask_user", {"question": "q" * 600_000})), ASKERS
    )
    turn = await agent.run("go", "t")
    assert turn.status == "escalated"
    assert turn.question.startswith("ann asks: qqq")
    assert state_size(agent) < 500_000


@pytest.mark.parametrize("size", [100, 20_000, 160_000])
async def test_sixty_rounds_of_one_turn_leave_a_small_state(store, size):
    model, agent = rounds(60, size, store)
    turn = await agent.run("go", "t")
    state = agent.get_state("t")
    assert (turn.status, len(model.reflected)) == ("ended", 60)
    assert max(len(codec.encode_state(state)), len(pickle.dumps(state))) < 500_000
    assert (len(agent.board("t").files) <= 4, len(state.messages) <= 210) == (True, True)


async def test_many_files_just_below_the_limit_of_one_leave_a_small_state(store):
    model = Parts(lambda: plan(*(research(f"{name}.md") for name in "abcdef")), lambda: replan(), lambda: "x" * 102_000)
    agent = Blueprint(model, checkpointer=store)
    assert (await agent.run("go", "t")).status == "escalated"
    assert (len(agent.board("t").files), state_size(agent) < 500_000) == (6, True)
    assert agent.artifact("t", "f.md") == agent.artifact("t", "a.md") == "x" * 102_000


@pytest.mark.parametrize("size", [20_000, 160_000])
async def test_the_log_grows_no_faster_than_the_number_of_rounds(size):
    few, many = [await rounds(number, size)[1].run("go") for number in (6, 60)]
    assert many.costs.bytes_raw < 1.3 * 10 * few.costs.bytes_raw


async def test_the_log_of_many_small_rounds_grows_no_faster_than_their_number():
    few, many = [await rounds(number, 100)[1].run("go") for number in (60, 180)]
    assert many.costs.bytes_raw < 1.3 * 3 * few.costs.bytes_raw


@pytest.mark.parametrize("size", [100, 160_000])
async def test_round_fifty_appends_no_more_than_twice_what_round_five_does(store, size):
    counted = Counted(store, lambda: len(model.planned))
    model, agent = rounds(52, size, counted, durability="step")
    await agent.run("go", "t")
    by_round = [sum(bytes for when, bytes in counted.appends if when == number) for number in range(53)]
    fifth, fiftieth = sum(by_round[4:7]), sum(by_round[45:48])  # Not where a base is written, each 50 rounds.
    assert fiftieth < 2 * fifth


async def test_a_late_round_calls_no_more_functions_than_an_early_one():
    """Work that grows with the notes of a turn would make its rounds cost more and more."""
    calls, model = dict.fromkeys(range(42), 0), None

    def count_call(frame, event, arg):
        if event == "call" and model is not None:
            calls[len(model.planned)] += 1

    model, agent = rounds(40, 100)
    sys.setprofile(count_call)
    try:
        await agent.run("go", "t")
    finally:
        sys.setprofile(None)
    early, late = (sum(calls[number] for number in numbers) for numbers in (range(8, 14), range(32, 38)))
    assert late < 1.2 * early


# ---- models that fail


@pytest.mark.parametrize(
    "error", [RateLimited, Overloaded, AuthenticationFailed, ContextOverflow, ModelError, ValueError]
)
@pytest.mark.parametrize("part", ["planner", "reflection"])
async def test_a_failing_model_fails_the_turn_with_its_own_error_and_resume_continues(store, part, error):
    failed, parts = [error("broken")], {"plans": [WAVE], "reflections": [end("so")]}
    name = {"planner": "plans", "reflection": "reflections"}[part]
    model = Parts(**(parts | {name: failed + parts[name]}))
    agent = Blueprint(model, checkpointer=store)
    turn = await agent.run("go", "t")
    assert (turn.status, turn.saved) == ("failed", True)
    assert type(turn.error) is (ModelError if error is ValueError else error)
    assert str(turn.error).startswith(f"{part}: ")
    turn = await agent.resume("t")
    assert (turn.status, turn.text) == ("ended", "so")
    assert (len(model.planned) + len(model.reflected), len(model.delegated)) == (3, 3)


async def test_reflection_sees_the_failure_of_a_roles_model_and_the_turn_continues():
    def role(request):
        raise (
            RateLimited("slow")
            if asked(request).endswith("two")
            else KeyError("odd")
            if asked(request).endswith("one")
            else ValueError
        )

    model = Parts([WAVE], [ask("what now?")], role)
    turn = await Blueprint(model).run("go")
    assert (turn.status, turn.question) == ("escalated", "what now?")
    lines = sections(model.reflected[0])["What went wrong"].splitlines()
    assert [line.partition(":")[0] for line in lines] == ["a.md", "b.md", "c.md"]
    assert lines[1] == "b.md: its run failed (RateLimited)"


async def test_a_new_message_after_a_failure_is_about_the_same_goal():
    model = Parts([WAVE, plan(research("d.md"))], [RateLimited("slow"), end("so")])
    agent = Blueprint(model)
    assert (await agent.run("go", "t")).status == "failed"
    turn = await agent.run("try again", "t")
    told = sections(model.planned[1])
    assert (turn.text, told["Goal"], told["The user said since"]) == ("so", "go", "try again")


async def test_subtasks_of_a_role_that_no_longer_exists_fail_when_the_thread_is_resumed(store):
    hangs = asyncio.Event()
    task = asyncio.create_task(Blueprint(Parts([WAVE], [], lambda _: hangs.wait()), checkpointer=store).run("go", "t"))
    while not reader(store).threads() or len(asyncio.all_tasks()) < 5:
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])
    others = [structs.replace(role, name=f"new-{role.name}") for role in STOCK_ROLES]
    agent = Blueprint(Parts([], [ask()]), others, checkpointer=store)
    turn = await bounded(agent).resume("t")
    assert turn.status == "escalated"
    assert (
        "PlanViolation: unknown role 'research-specialist'; the plan was made with other roles"
        in agent.board("t").errors[0]
    )


# ---- going on


@pytest.mark.parametrize("reflection", [end("so"), ask("which?")])
async def test_resume_returns_a_finished_turn_without_asking_any_model(store, reflection):
    before = await Blueprint(Parts([WAVE], [reflection]), checkpointer=store).run("go", "t")
    counted = Counted(store)
    model = Parts([])
    turn = await Blueprint(model, checkpointer=counted).resume("t")
    assert (turn.status, turn.text, turn.question) == (before.status, before.text, before.question)
    assert (turn.messages, model.requests, counted.appends) == (before.messages, [], [])


async def test_an_unknown_thread_cannot_be_read_or_resumed(store):
    agent = Blueprint(Parts([]), checkpointer=store)
    with pytest.raises(UnknownThread):
        await agent.resume("t")
    for read in (agent.board, agent.trace, agent.get_state, lambda thread: agent.artifact(thread, "a.md")):
        with pytest.raises(UnknownThread):
            read("t")


@pytest.mark.parametrize("from_thread", [False, True], ids=["from another task", "from another thread"])
async def test_a_cancelled_turn_can_be_read_and_resumed_and_repeats_nothing(store, from_thread):
    hangs, done = asyncio.Event(), []

    async def role(request):
        if asked(request).endswith("two"):
            hangs.set()
            await asyncio.Event().wait()
        done.append(1)
        return "Paris"

    task = asyncio.create_task(Blueprint(Parts([WAVE], [], role), checkpointer=store).run("go", "t"))
    await hangs.wait()
    while len(done) < 2:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    if from_thread:
        threading.Thread(target=asyncio.get_running_loop().call_soon_threadsafe, args=(task.cancel,)).start()
    else:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reader(store).get_state("t").status == "cancelled"
    assert reader(store).board("t").plan == {"subtasks": [
        {"role": "research-specialist", "instruction": task, "expected_artifact": f"{name}.md"}
        for task, name in zip(("one", "two", "three"), "abc", strict=True)], "reasoning": "so"}  # fmt: skip
    model = Parts([], [end("so")])
    turn = await Blueprint(model, checkpointer=store).resume("t")
    assert (turn.status, turn.text) == ("ended", "so")
    assert [asked(request) for request in model.delegated] == ["## Task\ntwo"]
    assert [file.name for file in reader(store).board("t").files.values()] == ["a.md", "b.md", "c.md"]


async def test_with_durability_tool_an_interrupted_wave_repeats_no_finished_subtask(store):
    hangs, done = asyncio.Event(), []

    async def role(request):
        if asked(request).endswith("two"):
            await hangs.wait()
        done.append(1)
        return "Paris"

    agent = Blueprint(Parts([WAVE], [end("so")], role), checkpointer=store, durability="tool")
    task = asyncio.create_task(agent.run("go", "t"))
    while len(done) < 2:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    agent.fork("t", thread_id="u")  # As a kill would leave it.
    hangs.set()
    await task
    model = Parts([], [end("so")])
    assert (await Blueprint(model, checkpointer=store).resume("u")).text == "so"
    assert [asked(request) for request in model.delegated] == ["## Task\ntwo"]


async def test_run_sync_works_inside_a_running_loop_too():
    def agent():
        return Blueprint(Parts([WAVE, plan(research("d.md"))], [replan(), end("{{d.md}}")]))

    one, other = agent(), agent()
    turns = [await one.run("go", "t"), other.run_sync("go", "t")]
    assert [turn.text for turn in turns] == ["Paris. [1]", "Paris. [1]"]
    assert timeless(one.board("t")) == timeless(other.board("t"))


def test_run_sync_works_without_a_loop():
    assert Blueprint(Parts([WAVE], [end("so")])).run_sync("go").text == "so"


async def test_two_blueprints_cannot_run_one_thread_at_once(store):
    async def role(request):
        with pytest.raises(ThreadBusy):
            await other.run("me too", "t")
        return "Paris"

    other = Blueprint(Parts([]), checkpointer=store)
    turn = await Blueprint(Parts([plan(research())], [end("so")], role), checkpointer=store).run("go", "t")
    assert (turn.text, turn.saved, reader(store).board("t").goal) == ("so", True, "go")


async def test_two_blueprints_take_turns_on_one_thread(store):
    first = Blueprint(Parts(numbered(), [ask("which?"), end("one"), end("three")]), checkpointer=store)
    second = Blueprint(Parts(numbered(), [end("two")]), checkpointer=store)
    turns = [
        await agent.run(text, "t") for agent, text in ((first, "go"), (first, "blue"), (second, "b"), (first, "c"))
    ]
    assert [turn.text or turn.question for turn in turns] == ["which?", "one", "two", "three"]
    board = first.board("t")
    assert board.earlier == [["go", "one"], ["b", "two"]]
    assert [entry["turn"] for entry in board.ledger if entry["node"] == "planner"] == [1, 2, 3, 4]
    assert timeless(board) == timeless(second.board("t"))


async def test_a_fork_at_a_boundary_is_independent(store):
    agent = Blueprint(Parts([WAVE], [ask("which?")], lambda: "x" * 150_000), checkpointer=store)
    await agent.run("go", "t")
    asked_then = agent.board("t")
    agent = Blueprint(Parts([plan(research("d.md"))] * 2, [end("{{a.md}}"), end("{{d.md}}")]), checkpointer=store)
    assert len((await agent.run("blue", "t")).text) == 150_000
    agent.fork("t", at=1, thread_id="u")
    assert timeless(agent.board("u")) == timeless(agent.board("t", at=1)) == timeless(asked_then)
    turn = await agent.run("red", "u")
    assert (turn.text, agent.board("u").said, agent.board("t").said) == ("Paris. [1]", ["red"], ["blue"])
    agent.delete("t")
    assert agent.artifact("u", "a.md") == "x" * 150_000


async def test_a_turn_streams_its_events(store):
    stream = Blueprint(Parts([plan(research())], [end("{{facts.md}}")]), checkpointer=store).stream("go", "t")
    events = [event async for event in stream]
    parts = ["planner", "subagent_dispatcher", "reflection", "cleanup"]
    assert [event.call.name for event in events if isinstance(event, ToolStarted)] == parts
    assert [event.name for event in events if isinstance(event, ToolEnded)] == parts
    assert isinstance(events[-1].event if hasattr(events[-1], "event") else events[-1], TurnEnded)
    assert (stream.turn.status, stream.turn.text) == ("ended", "Paris. [1]")


@pytest.mark.parametrize("goal", [b"x", 5, None])
async def test_a_goal_that_is_not_text_is_refused(goal):
    with pytest.raises(ConfigError):
        await Blueprint(Parts([])).run(goal, "t")


async def test_a_goal_that_is_too_long_is_refused_before_anything_is_done(store):
    agent = Blueprint(Parts([WAVE], [end()]), checkpointer=store)
    with pytest.raises(ConfigError, match="the goal has 50,001 bytes, and the state has room for 50,000"):
        await agent.run("x" * 50_001, "t")
    assert agent.threads() == []
    assert (await agent.run("x" * 50_000, "t")).status == "ended"
