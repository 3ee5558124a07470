"""Reflection: its request, its decisions, how often it is asked, and the final answer."""

import json

import pytest
from harness.blueprints import (
    CODE,
    GO_ON,
    Parts,
    ask,
    asked,
    bounded,
    end,
    nodes,
    numbered,
    plan,
    refusal,
    replan,
    research,
    sections,
)

from minideep import ModelError, RateLimited
from minideep.backends import FilesystemBackend
from minideep.blueprint import Blueprint
from minideep.blueprint.prompts import REFLECTION

CAP = "Max reflection depth reached."


def wordy(name, status="active"):
    return json.dumps({"artifact_name": name, "content": "half", "status": status})


# ---- what it is told


async def test_reflection_sees_goal_plan_files_errors_and_steps():
    def role(request):
        return "字" * 50_000 if "long" in asked(request) else RateLimited("slow")

    model = Parts([plan(research("long.md", task="a long one"), research("lost.md", task="b"))], role=role)
    turn = await Blueprint(model).run("the goal")
    assert turn.status == "ended"
    (request,) = model.reflected
    told = sections(request)
    files, file = told.pop("Artifacts"), "research-specialist_1_long.md"
    assert json.loads(files) == {
        "name": "long.md", "file": file, "role": "research-specialist", "status": "done", "bytes": 150_000, "step": 2,
    }  # fmt: skip
    difference = told.pop("Planned and delivered")
    assert json.loads(difference) == {"missing": ["lost.md"], "unexpected": [], "failed": ["lost.md"]}
    assert told == {
        "Goal": "the goal",
        "Plan": "1. [done] research-specialist -> long.md: a long one\n2. [failed] research-specialist -> lost.md: b",
        "What went wrong": "lost.md: its run failed (RateLimited)",
        "Step": "2; this is look 1 of 5",
    }
    assert (request.system, request.tools, len(request.messages)) == (REFLECTION, (), 1)


async def test_an_artifact_under_another_name_is_unexpected_and_the_planned_one_missing():
    model = Parts([plan(research("a.md"))], [ask()], [wordy("b.md", "done")])
    await Blueprint(model).run("go")
    told = sections(model.reflected[0])
    assert json.loads(told["Planned and delivered"]) == {
        "missing": ["a.md"],
        "unexpected": ["b.md"],
        "failed": ["a.md"],
    }
    assert told["What went wrong"] == "b.md: delivered instead of a.md"


async def test_an_artifact_of_an_earlier_plan_for_the_goal_is_not_unexpected():
    model = Parts([plan(research("a.md")), plan(research("b.md"))], [replan(), end()])
    await Blueprint(model).run("go")
    told = sections(model.reflected[1])
    assert json.loads(told["Planned and delivered"]) == {"missing": [], "unexpected": [], "failed": []}


async def test_reflection_sees_what_the_user_said_since_the_goal():
    model = Parts(numbered(), [ask("which?"), end()])
    agent = Blueprint(model)
    await agent.run("go", "t")
    await agent.run("the blue one", "t")
    assert sections(model.reflected[1])["The user said since"] == "the blue one"


def test_its_prompt_forbids_rewriting_files_and_inventing_facts():
    assert "do not invent facts, do not rewrite files" in REFLECTION
    assert "Decide by these alone" in REFLECTION


# ---- what it may decide


@pytest.mark.parametrize(
    ("said", "status", "text", "question", "termination"),
    [
        (end("all done"), "ended", "all done", "", {"reason": "end"}),
        (ask("which?"), "escalated", "", "which?", {"reason": "escalate"}),
        ('{"decision": "escalate_to_human", "question": "which?"}', "escalated", "", "which?", {"reason": "escalate"}),
        ('{"decision": "end", "final_answer": "so", "mood": "good", "reason": null}', "ended", "so", "", {"reason": "end"}),
        ('Sure:\n```json\n{"decision": "end", # over\n "final_answer": "so",}\n```', "ended", "so", "", {"reason": "end"}),
        ('{"decision": "end", /* over */ "final_answer": "see http://x # y"}', "ended", "see http://x # y", "", {"reason": "end"}),
    ],
)  # fmt: skip
async def test_each_decision_ends_the_turn_as_it_says(store, said, status, text, question, termination):
    agent = Blueprint(Parts([plan(research())], [said]), checkpointer=store)
    turn = await agent.run("go", "t")
    assert (turn.status, turn.text, turn.question, turn.saved) == (status, text, question, True)
    board = Blueprint(Parts([]), checkpointer=store).board("t")
    assert (board.decision, board.termination) == (json.loads(agent.trace("t")[-2])["decision"], termination)
    assert board.decision in ("end", "escalate")


async def test_replan_asks_the_planner_again_and_says_why():
    model = Parts([plan(research("a.md")), plan(research("b.md"))], [replan("b is missing"), end()])
    agent = Blueprint(model)
    assert (await agent.run("go", "t")).status == "ended"
    assert sections(model.planned[1])["Why you are asked again"] == "b is missing"
    assert nodes(agent) == ["planner", "subagent", "reflection", "cleanup"] * 2


async def test_continue_runs_the_rest_of_the_plan_without_asking_the_planner():
    def role(request):
        return RateLimited("slow") if asked(request).endswith("lost") else "Paris"

    subtasks = (research("a.md"), research("b.md", task="lost"), research("c.md", "a.md"))
    model = Parts([plan(*subtasks)], [GO_ON, end()], role)
    agent = Blueprint(model)
    assert (await agent.run("go", "t")).status == "ended"
    assert (len(model.planned), len(model.delegated)) == (1, 3)
    parts = ["planner", "subagent", "subagent", "reflection", "cleanup", "subagent", "reflection", "cleanup"]
    assert nodes(agent) == parts


async def test_continue_with_nothing_left_becomes_replan():
    model = Parts([plan(research("a.md")), plan(research("b.md"))], [GO_ON, end()])
    assert (await Blueprint(model).run("go")).status == "ended"
    reason = "the plan was to be continued, but nothing of it is left"
    assert sections(model.planned[1])["Why you are asked again"] == reason


async def test_continue_with_subtasks_that_can_never_begin_becomes_replan_and_names_them():
    plans = [plan(research("a.md"), research("b.md", "a.md")), plan(research("a.md"))]
    model = Parts(plans, [GO_ON, ask()], lambda: RateLimited("slow"))
    await Blueprint(model).run("go")
    reason = "the plan was to be continued, but what is left waits for artifacts that were not delivered: b.md"
    assert sections(model.planned[1])["Why you are asked again"] == reason


# ---- replies that are no decision

BAD = [
    ("no idea", "the reply holds no JSON; give JSON of this shape: "),
    ("continue", "the reply holds no JSON; give JSON of this shape: "),
    ("[]", "Expected `object`, got `array`"),
    ('{"decision": "finish"}', "Invalid enum value 'finish'"),
    ('{"decision": "end"}', "a decision to end needs a final_answer that is not empty"),
    (end(" \n"), "a decision to end needs a final_answer that is not empty"),
    ('{"decision": "replan"}', "a decision to replan needs a reason that is not empty"),
    ('{"decision": "escalate", "question": ""}', "a decision to escalate needs a question that is not empty"),
    ('{"decision": "end", "final_answer": [5]}', "Expected `str`, got `array` - at `$.final_answer`"),
    (end("x" * 33_000), "a decision has at most 32,768 bytes, not 33,0"),
    (end("{{nothing.md}}"), "final_answer names unknown artifacts: ['nothing.md']; artifacts: facts.md"),
]


@pytest.mark.parametrize(("said", "why"), BAD, ids=range(len(BAD)))
async def test_a_reply_that_is_not_a_decision_is_refused_once_with_the_reason(said, why):
    model = Parts([plan(research())], [said, end("so")])
    agent = Blueprint(model)
    turn = await agent.run("go", "t")
    assert (turn.status, turn.text, agent.board("t").reflection_depth) == ("ended", "so", 2)
    reply, told = refusal(model.reflected[1])
    assert (reply, told.startswith(why)) == (said, True)
    assert [run.agent for run in agent.runs("t")].count("reflection") == 1


@pytest.mark.parametrize(("said", "why"), BAD, ids=range(len(BAD)))
async def test_after_two_such_replies_a_person_is_asked_and_sees_the_last_one(said, why):
    model = Parts([plan(research())], [said, said])
    agent = Blueprint(model)
    turn = await agent.run("go", "t")
    assert (turn.status, agent.board("t").termination) == ("escalated", {"reason": "contract"})
    assert turn.question.startswith(f"The reflection broke its contract twice (ReflectionViolation: {why}")
    assert turn.question.endswith(f"Its last reply was:\n{said[:2_000]}")
    assert (len(model.reflected), len(model.planned), len(model.delegated)) == (2, 1, 1)


@pytest.mark.parametrize("part", ["plans", "reflections"])
async def test_a_model_that_fails_when_it_is_asked_again_fails_the_turn(part):
    parts = {"plans": [plan(research())], "reflections": [end()], part: ["no JSON", RateLimited("slow")]}
    turn = await Blueprint(Parts(**parts)).run("go")
    assert (turn.status, type(turn.error), turn.question) == ("failed", RateLimited, "")


# ---- how often it is asked


@pytest.mark.parametrize("said", [replan("again"), GO_ON, end()], ids=["replan", "continue", "end without an artifact"])
@pytest.mark.parametrize("depth", [1, 3, 5, 60])
async def test_at_the_cap_a_person_is_asked_and_nothing_more_begins(store, said, depth):
    role = "" if "end" in said else "Paris"
    model = Parts(numbered(), lambda: said, lambda: role)
    more = {} if depth == 5 else {"max_reflection_depth": depth}
    agent = bounded(Blueprint(model, checkpointer=store, **more), 10 * depth)
    turn = await agent.run("go", "t")
    assert (turn.status, turn.saved) == ("escalated", True)
    assert turn.question.startswith(CAP)
    assert turn.question.endswith("How shall I go on?")
    board = agent.board("t")
    assert (board.termination, board.reflection_depth) == ({"reason": "reflection_cap"}, depth)
    tries = 1 if role else 2
    assert (len(model.planned), len(model.delegated), len(model.reflected)) == (depth, tries * depth, depth)
    assert nodes(agent)[-2:] == ["reflection", "cleanup"]


async def test_the_question_at_the_cap_says_what_reflection_wanted():
    model = Parts(numbered(), [replan("the year is missing")])
    turn = await Blueprint(model, max_reflection_depth=1).run("go")
    assert turn.question == f"{CAP} It was to replan: the year is missing. How shall I go on?"


@pytest.mark.parametrize("said", [end(), ask()])
async def test_the_last_reflection_may_still_end_or_ask(said):
    model = Parts(numbered(), [replan(), replan(), said])
    agent = Blueprint(model, max_reflection_depth=3)
    turn = await agent.run("go", "t")
    assert agent.board("t").termination == {"reason": json.loads(said)["decision"]}
    assert turn.status in ("ended", "escalated")


async def test_a_second_try_counts_towards_the_cap():
    model = Parts(numbered(), ["no", replan(), "no", "never asked for"])
    agent = Blueprint(model, max_reflection_depth=3)
    turn = await agent.run("go", "t")
    assert (turn.status, len(model.reflected)) == ("escalated", 3)
    assert turn.question.startswith("The reflection broke its contract once")


async def test_each_turn_has_the_full_number_of_reflections(store):
    model = Parts(numbered(), lambda: replan())
    agent = Blueprint(model, max_reflection_depth=2, checkpointer=store)
    turns = [await agent.run(text, "t") for text in ("go", "on", "and on")]
    assert [turn.question.startswith(CAP) for turn in turns] == [True] * 3
    assert (len(model.planned), len(model.reflected), agent.board("t").reflection_depth) == (6, 6, 2)


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_failed_reflection_can_be_resumed_even_if_it_was_the_last_one(depth):
    model = Parts(numbered(), [*[RateLimited("slow")] * depth, end("so")])
    agent = bounded(Blueprint(model, max_reflection_depth=depth))
    turn = await agent.run("go", "t")
    for _ in range(depth):
        assert (turn.status, type(turn.error)) == ("failed", RateLimited)
        turn = await agent.resume("t")
    assert (turn.status, turn.text) == ("ended", "so")


# ---- an end needs an artifact

REFUSED = "the answer was refused: no artifact is done yet"


@pytest.mark.parametrize("role", ["", wordy("facts.md"), RateLimited("slow")], ids=["nothing", "active", "failed"])
async def test_end_before_any_artifact_is_done_becomes_replan(role):
    done = iter([role, role, "Paris"] if role == "" else [role, "Paris"])
    model = Parts([plan(research()), plan(research())], [end("too early"), end("so")], lambda: next(done))
    agent = Blueprint(model)
    turn = await agent.run("go", "t")
    assert (turn.status, turn.text) == ("ended", "so")
    assert sections(model.planned[1])["Why you are asked again"] == REFUSED
    assert "too early" not in [message.text for message in turn.messages]


async def test_end_before_any_artifact_is_done_asks_a_person_at_the_cap():
    agent = Blueprint(Parts([plan(research())], [end("too early")], lambda: ""), max_reflection_depth=1)
    turn = await agent.run("go", "t")
    assert (turn.status, turn.text) == ("escalated", "")
    assert turn.question == f"{CAP} It was to replan: {REFUSED}. How shall I go on?"


async def test_an_evicted_artifact_counts_as_produced():
    fails = iter(["Paris", *[""] * 8])
    plans = [plan(research("a.md")), plan(*(research(f"{n}.md") for n in "bcde"))]
    agent = Blueprint(Parts(plans, [replan(), end("so")], lambda: next(fails)))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.text, agent.board("t").files) == ("ended", "so", {})


async def test_an_artifact_of_an_earlier_goal_does_not_count_for_this_one():
    said = iter(["Paris", "", "", "Rome"])
    model = Parts(numbered(), [end("one"), end("too early"), end("two")], lambda: next(said))
    agent = Blueprint(model)
    turns = [await agent.run(text, "t") for text in ("go", "another")]
    assert [turn.text for turn in turns] == ["one", "two"]
    assert sections(model.planned[2])["Why you are asked again"] == REFUSED


async def test_an_artifact_from_before_a_question_counts_for_the_same_goal():
    said = iter(["Paris", "", ""])
    agent = Blueprint(Parts(numbered(), [ask(), end("so")], lambda: next(said)))
    await agent.run("go", "t")
    turn = await agent.run("the blue one", "t")
    assert (turn.status, turn.text) == ("ended", "so")


# ---- the answer


@pytest.mark.parametrize("name", ["facts.md", " facts.md ", "research-specialist_1_facts.md"])
async def test_the_answer_holds_the_artifacts_that_it_names(store, name):
    agent = Blueprint(Parts([plan(research())], [end(f"It is {{{{{name}}}}} and {{{{{name}}}}}!")]), checkpointer=store)
    turn = await agent.run("go", "t")
    assert turn.text == "It is Paris. [1] and Paris. [1]!"
    assert turn.messages[-1].text == agent.transcript("t")[-1].text == turn.text
    assert agent.board("t").final_answer == f"It is {{{{{name}}}}} and {{{{{name}}}}}!"


async def test_placeholders_inside_an_artifact_are_not_filled_in():
    model = Parts([plan(research("a.md"), research("b.md"))], [end("{{a.md}}")], lambda: "use {{b.md}} or \\1 {{x}}")
    assert (await Blueprint(model).run("go")).text == "use {{b.md}} or \\1 {{x}}"


async def test_a_name_in_an_answer_means_its_newest_artifact_and_a_file_name_an_older_one():
    said = iter(["old", "new"])
    reflections = [replan(), end("{{a.md}} for {{research-specialist_1_a.md}}")]
    model = Parts([plan(research("a.md"))] * 2, reflections, lambda: next(said))
    assert (await Blueprint(model).run("go")).text == "new for old"


async def test_an_evicted_artifact_that_the_answer_names_is_restored(store):
    plans = [plan(("code-writer", "x", "a.py")), plan(*(research(f"{n}.md") for n in "bcde"))]
    agent = Blueprint(Parts(plans, [replan(), end("{{a.py}}")]), checkpointer=store)
    turn = await agent.run("go", "t")
    assert turn.text == CODE
    board = agent.board("t")
    assert "/code-writer_1_a.py" in board.files
    assert board.files["/code-writer_1_a.py"].content == CODE


async def test_an_artifact_too_long_for_an_answer_is_only_named():
    model = Parts([plan(research("a.md"), research("b.md"))], [end("{{a.md}} {{b.md}}")],
                  lambda request: "x" * 600 if len(model.delegated) == 1 else "short")  # fmt: skip
    turn = await Blueprint(model, state_limit=1_000).run("go")
    assert turn.text == "[a.md: 600 bytes, too long for an answer; it is in the turn's artifacts] short"
    assert "/research-specialist_1_a.md" in turn.artifacts


@pytest.mark.parametrize("evicted", [False, True])
async def test_an_answer_that_names_a_deleted_file_is_refused(tmp_path, evicted):
    def reflections(request):
        if evicted and len(model.reflected) == 1:
            return replan("four more, and it is evicted")
        for file in tmp_path.glob("*_a.md"):
            file.unlink()
        return end("{{a.md}}") if len(model.reflected) <= 1 + evicted else end("without")

    plans = [plan(research("a.md")), plan(*(research(f"{n}.md") for n in "bcde")), plan(research("f.md"))]
    model = Parts(plans if evicted else plans[::2], reflections)
    agent = bounded(Blueprint(model, backend=FilesystemBackend(tmp_path)))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.text) == ("ended", "without")
    assert "a.md" in sections(model.planned[-1])["Why you are asked again"]


async def test_an_answer_is_filled_in_from_code_and_from_files_on_a_disk(tmp_path):
    agent = Blueprint(
        Parts([plan(("code-writer", "x", "a.py"))], [end("{{a.py}}")]), backend=FilesystemBackend(tmp_path)
    )
    assert (await agent.run("go", "t")).text == CODE
    assert [file.name for file in tmp_path.iterdir()] == ["code-writer_1_a.py"]


async def test_a_reflection_that_fails_fails_the_turn_and_says_who():
    turn = await Blueprint(Parts([plan(research())], [RateLimited("slow")])).run("go")
    assert (turn.status, type(turn.error), str(turn.error)) == ("failed", RateLimited, "reflection: slow")
    with pytest.raises(ModelError):
        turn.raise_for_status()


async def test_an_answer_may_hold_braces_that_name_no_artifact():
    model = Parts([plan(research())], [end("Use {{ user }}."), end(r"Use \{{ user }}: {{facts.md}}")])
    turn = await Blueprint(model).run("go")
    assert turn.text == "Use {{ user }}: Paris. [1]"
    assert refusal(model.reflected[1])[1].endswith(r"for braces that name none, write \\{{")
