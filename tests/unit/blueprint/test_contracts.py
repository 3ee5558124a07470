"""The contracts between the parts of a blueprint: replies that are parsed, and replies that are refused by name."""

import json
import re
from contextlib import suppress
from pathlib import PurePosixPath

import msgspec
import pytest
from harness.blueprints import blueprint, end, plan, research
from hypothesis import given, strategies as st

from minideep import ContractViolation, MinideepError
from minideep.backends.paths import normalized
from minideep.blueprint import STOCK_ROLES, Artifact, Board, Decision, Entry, Plan, Subtask
from minideep.blueprint.contracts import (
    DECISION_SCHEMA,
    MAX_DECISION,
    check_name,
    file_name,
    fill_in,
    named_artifacts,
    parse_artifact,
    parse_decision,
    parse_plan,
    plan_schema,
)
from minideep.blueprint.files import VirtualFiles, stored_name
from minideep.blueprint.planner import Planner
from minideep.blueprint.pool import SubagentPool
from minideep.blueprint.reflection import Reflection
from minideep.errors import ArtifactViolation, FileViolation, PlanViolation, ReflectionViolation

ROLES = [role.name for role in STOCK_ROLES]

# ---- four components, each with a contract


def test_there_are_four_components_each_with_a_typed_contract():
    bp = blueprint([])
    parts = (bp.planner, bp.pool, bp.files, bp.reflection)
    assert tuple(map(type, parts)) == (Planner, SubagentPool, VirtualFiles, Reflection)
    assert [kind.__struct_fields__ for kind in (Plan, Artifact, Decision)] == [
        ("subtasks", "reasoning"),
        ("artifact_name", "content", "status"),
        ("decision", "reason", "final_answer", "question"),
    ]
    assert {"content", "written_at_step", "status"} <= set(Entry.__struct_fields__)


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (lambda: parse_plan("no plan", ROLES, ()), PlanViolation),
        (lambda: parse_artifact(" \n", "a.md"), ArtifactViolation),
        (lambda: check_name("a/b"), FileViolation),
        (lambda: parse_decision("{}"), ReflectionViolation),
    ],
)
def test_each_broken_contract_raises_an_error_of_its_own_name(broken, error):
    with pytest.raises(error) as caught:
        broken()
    assert isinstance(caught.value, ContractViolation)
    assert isinstance(caught.value, MinideepError)


# ---- the planner's plan


def test_a_plan_is_read_in_either_spelling_and_reads_no_files_unless_it_says_so():
    short = {"role": "critic", "instruction": "i", "expected_artifact": "a.md"}
    long = {"subagent_role": "critic", "instruction": "i", "expected_artifact_name": "a.md"}
    expected = Plan((Subtask("critic", "i", "a.md", (), ()),), "so")
    for subtask in (short, long, {**short, "read_files": []}, {**long, "read_files": None}):
        assert parse_plan(json.dumps({"subtasks": [subtask], "reasoning": "so"}), ROLES, ()) == expected


def test_a_plan_keeps_the_order_of_its_subtasks():
    names = ["c.md", "a.md", "b.md"]
    found = parse_plan(plan(*map(research, names)), ROLES, ())
    assert [subtask.expected_artifact for subtask in found.subtasks] == names


def test_file_contents_in_a_plan_are_ignored():
    smuggled = plan(research(), files={"a.md": "text"}, content="text", final_answer="text")
    in_subtask = json.loads(plan(research()))
    in_subtask["subtasks"][0] |= {"content": "text", "status": "done", "after": [7]}
    assert (
        parse_plan(smuggled, ROLES, ()) == parse_plan(in_subtask, ROLES, ()) == parse_plan(plan(research()), ROLES, ())
    )


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Here is my plan: first I shall", "the reply holds no JSON"),
        ("", "the reply holds no JSON"),
        ("42", "got `int`"),
        ('{"subtasks": {}}', "got `object`"),
        ('{"subtasks": [7]}', "got `int`"),
        ('{"subtasks": [{"role": "critic"}]}', "missing required field `instruction`"),
        (plan(), "1 to 100 subtasks, not 0"),
        (plan(*[research(f"{n}.md") for n in range(101)]), "1 to 100 subtasks, not 101"),
        (plan(*[research(f"{n}.md") for n in range(500)]), "1 to 100 subtasks, not 500"),
        (plan(("ghost", "i", "a.md")), "subtask 1: unknown role 'ghost'; roles: research-specialist, code-"),
        (plan(research(task=" ")), "subtask 1: its instruction is empty"),
        (plan(research("/")), "subtask 1: an artifact has a file name of 1 to 100 bytes"),
        (plan(research("..")), "not '..'"),
        (
            plan(research("a.md", "gone.md")),
            "subtask 1: read_files names 'gone.md', which is neither a file nor another",
        ),
        (plan(research("a.md", "a.md")), "subtask 1: read_files names 'a.md', which is neither a file"),
        (plan(research("a.md", "b.md"), research("b.md", "a.md"), research("c.md")), "subtasks 1, 2 wait for each"),
        (plan(research(task="x" * 65_536)), "a plan has at most 65,536 bytes"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused_with_the_reason(said, found):
    with pytest.raises(PlanViolation, match=re.escape(found)):
        parse_plan(said, ROLES, ())


def test_a_plan_may_name_its_files_by_path_or_in_a_sentence():
    said = plan(
        research("src/app.py"),
        research("Report: Q3 in detail.md", "src/app.py"),
        research("c.md", "src-app.py", "src/app.py"),
    )
    found = parse_plan(said, ROLES, ()).subtasks
    assert [one.expected_artifact for one in found] == ["src-app.py", "Report-Q3-in-detail.md", "c.md"]
    assert [one.read_files for one in found] == [(), ("src-app.py",), ("src-app.py", "src-app.py")]
    assert [one.after for one in found] == [(), (0,), (0,)]


@given(st.text(max_size=200) | st.text("./\\ab\n\0:~ -報", max_size=200))
def test_whatever_a_file_is_to_be_called_its_name_is_one_that_it_can_have(name):
    if found := file_name(name):
        check_name(found)
        assert found == name or len(found) <= 60 + len(".0123456789")


def test_a_plan_of_a_hundred_subtasks_is_accepted():
    assert len(parse_plan(plan(*[research(f"{n}.md") for n in range(100)]), ROLES, ()).subtasks) == 100


def test_a_name_means_an_earlier_subtasks_artifact_then_an_existing_file_then_a_later_subtasks_artifact():
    said = plan(
        research("out.md", "late.md", "there.md"),
        research("there.md"),
        research("late.md"),
        research("there.md", "there.md"),
        research("end.md", "there.md", "out.md"),
    )
    assert [one.after for one in parse_plan(said, ROLES, ["there.md"]).subtasks] == [(2,), (), (), (1,), (0, 1, 3)]


NAMES = st.sampled_from(["a.md", "b.md", "c.md", "d.md", "e"])
SUBTASKS = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.just("critic"),
            "instruction": st.just("i"),
            "expected_artifact": NAMES,
            "read_files": st.lists(NAMES, max_size=3),
        }
    ),
    max_size=8,
)


@given(SUBTASKS, st.sets(NAMES))
def test_any_accepted_plan_can_be_carried_out_in_waves(subtasks, files):
    try:
        taken = parse_plan({"subtasks": subtasks}, ["critic"], files)
    except PlanViolation:
        return
    board, there = Board(plan=msgspec.to_builtins(taken)), set(files)
    while wave := board.wave():
        assert all(there.issuperset(taken.subtasks[place].read_files) for place in wave)
        there |= {taken.subtasks[place].expected_artifact for place in wave}
        board.delivered += wave
    assert board.left() == []
    assert parse_plan(msgspec.to_builtins(taken), ["critic"], files) == taken


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20) | st.sampled_from(ROLES),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["subtasks", "role", "instruction", "expected_artifact", "read_files", "reasoning"])
            | st.sampled_from(["decision", "final_answer", "artifact_name", "content", "status", "after"])
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_reply_is_parsed_or_refused_with_a_named_error(value):
    text = json.dumps(value)
    for read, kind, refusal in (
        (lambda said: parse_plan(said, ROLES, ()), Plan, PlanViolation),
        (parse_decision, Decision, ReflectionViolation),
        (lambda said: parse_artifact(said, "a.md"), Artifact, (ArtifactViolation, FileViolation)),
    ):
        with suppress(refusal):
            assert isinstance(read(text), kind)


def test_a_persons_edit_is_parsed_like_a_planners_reply():
    plain = json.loads(plan(research()))
    assert parse_plan(plain, ROLES, ()) == parse_plan(plan(research()), ROLES, ())
    for odd in (None, 7, [], {"subtasks": None}, {"subtasks": [None]}, {"subtasks": [{1: 2}]}):
        with pytest.raises(PlanViolation):
            parse_plan(odd, ROLES, ())


def test_the_schemas_are_in_the_form_that_providers_accept():
    def objects(schema):
        if isinstance(schema, dict):
            yield from [schema] if "properties" in schema else []
            for inner in schema.values():
                yield from objects(inner)

    found = [*objects(plan_schema(ROLES)), *objects(DECISION_SCHEMA)]
    assert len(found) == 3
    for schema in found:
        assert (schema["additionalProperties"], schema["required"]) == (False, list(schema["properties"]))
    assert plan_schema(ROLES)["properties"]["subtasks"]["items"]["properties"]["role"]["enum"] == ROLES


# ---- a subagent's artifact


def test_a_plain_reply_is_the_content_of_the_planned_artifact():
    for said in ("Paris.", '{"a": 1}', '[{"line": 1}]', "```python\nprint(1)\n```", '{"content": "x"}', " x \n"):
        assert parse_artifact(said, "a.md") == Artifact("a.md", said, "done")


def test_a_json_object_of_name_content_and_status_is_taken_at_its_word():
    said = '{"artifact_name": "b.md", "content": "Paris.", "status": "active"}'
    for form in (said, f"\n{said}\n", f"```json\n{said}\n```"):
        assert parse_artifact(form, "a.md") == Artifact("b.md", "Paris.", "active")


@pytest.mark.parametrize(
    ("change", "error", "found"),
    [
        ({"status": "failed"}, ArtifactViolation, "status"),
        ({"content": None}, ArtifactViolation, "content"),
        ({"content": [7]}, ArtifactViolation, "content"),
        ({"content": " "}, ArtifactViolation, "its content is empty"),
        ({"artifact_name": [7]}, ArtifactViolation, "artifact_name"),
    ],
)
def test_an_object_with_a_wrong_value_is_refused(change, error, found):
    said = {"artifact_name": "a.md", "content": "text", "status": "done"} | change
    with pytest.raises(error, match=re.escape(found)):
        parse_artifact(json.dumps(said), "a.md")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("facts.md", "facts.md"),
        ("Facts", "facts.md"),
        ("FACTS.MD", "facts.md"),
        ("", "facts.md"),
        ("..", "facts.md"),
        ("other.md", "other.md"),
        ("../up.py", "up.py"),
        ("/etc/x", "etc-x"),
        ("What I found out about Paris: a summary", "What-I-found-out-about-Paris-a-summary"),
        ("x" * 200 + ".md", "x" * 60 + ".md"),
    ],
)
def test_an_artifacts_name_is_the_one_planned_or_a_slug(given, name):
    said = {"artifact_name": given, "content": "text", "status": "done"}
    assert parse_artifact(json.dumps(said), "facts.md").artifact_name == name


def test_an_empty_reply_is_refused():
    for said in ("", " \n\t"):
        with pytest.raises(ArtifactViolation, match="the reply is empty"):
            parse_artifact(said, "a.md")


def test_a_lone_surrogate_in_a_reply_is_written_as_its_escape():
    assert parse_artifact("a \ud800 b", "a.md").content == "a \\ud800 b"


def test_a_reply_of_five_megabytes_is_an_artifact():
    said = "é" * 2_500_000
    assert parse_artifact(said, "a.md").content == said


# ---- names


@given(st.text(st.characters(), max_size=110) | st.text("./\\ab\n\0:~ -", max_size=12), st.integers(1, 10**6))
def test_no_accepted_name_has_a_separator_or_leads_to_another_folder(name, step):
    try:
        check_name(name)
    except FileViolation:
        return
    assert not re.search(r"[/\\\0\n\r:]|\.\.", name)
    assert 1 <= len(name.encode()) <= 100
    for one in (name, stored_name("critic", step, name)):
        assert PurePosixPath(normalized(f"/{one}")) == PurePosixPath("/", one)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "/a",
        "a\\b",
        "a..b",
        ".hidden",
        " a",
        "-a",
        "a\n",
        "a\0",
        "C:a",
        "~",
        "a" * 101,
        "報" * 34,
        "a\ud800",
    ],
)
def test_a_name_that_no_file_should_have_is_refused(name):
    with pytest.raises(FileViolation, match="an artifact has a file name of 1 to 100 bytes"):
        check_name(name)


@pytest.mark.parametrize("name", ["a", "a.md", "Q3 report (final).md", "Überblick.md", "報告.md", "a" * 100])
def test_an_ordinary_name_is_accepted(name):
    check_name(name)


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("facts.md", "critic_7_facts.md"),
        ("facts", "critic_7_facts.md"),
        ("tool.py", "critic_7_tool.py"),
        ("My notes (2).md", "critic_7_My-notes-2.md"),
        ("()", "critic_7_artifact.md"),
    ],
)
def test_an_artifact_is_stored_under_role_step_and_name(name, stored):
    assert stored_name("critic", 7, name) == stored


# ---- the reflection's decision


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        ('{"decision": "continue"}', Decision("continue")),
        ('{"decision": "continue", "reason": null, "final_answer": null, "question": null}', Decision("continue")),
        ('```json\n{"decision": "continue"} // more is left\n```', Decision("continue")),
        ('{"decision": "replan", "reason": "r"}', Decision("replan", "r")),
        (end("a"), Decision("end", final_answer="a")),
        ('{"decision": "escalate", "question": "q"}', Decision("escalate", question="q")),
        ('{"decision": "escalate_to_human", "question": "q"}', Decision("escalate", question="q")),
    ],
)
def test_a_decision_is_parsed(said, decision):
    assert parse_decision(said) == decision


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("continue", "the reply holds no JSON"),
        ('"continue"', "got `str`"),
        ('{"decision": "go on"}', "Invalid enum value 'go on'"),
        ("{}", "missing required field `decision`"),
        ('{"decision": "replan"}', "a decision to replan needs a reason"),
        ('{"decision": "end", "final_answer": " "}', "a decision to end needs a final_answer"),
        ('{"decision": "escalate", "question": null}', "a decision to escalate needs a question"),
        (end("x" * MAX_DECISION), "a decision has at most 32,768 bytes"),
    ],
)
def test_a_reply_that_is_not_a_decision_raises(said, found):
    with pytest.raises(ReflectionViolation, match=re.escape(found)):
        parse_decision(said)


def test_an_answer_is_filled_in_up_to_its_limit():
    contents = {"a": "x" * 6, "b": "y" * 5, "c": "z"}
    said = fill_in("{{a}} {{b}} {{ c }}", contents.__getitem__, 10)
    assert said == "xxxxxx [b: 5 bytes, too long for an answer; it is in the turn's artifacts] z"


def test_braces_after_a_backslash_stand_for_themselves():
    answer = r"Write \{{ user.name }} and \{{a}}: {{a}}"
    assert named_artifacts(answer) == ["a"]
    assert fill_in(answer, {"a": "A"}.__getitem__, 10) == "Write {{ user.name }} and {{a}}: A"


@pytest.mark.parametrize("written", [r"use \\{{ x }}", r"use \{{ x }}"], ids=["as JSON", "as models write it"])
def test_a_decision_may_write_the_backslash_once_or_twice(written):
    found = parse_decision('{"decision": "end", "final_answer": "' + written + '"}')
    assert found.final_answer == r"use \{{ x }}"
