"""What the parts of a blueprint may say to each other, and what becomes of what they must not."""

import json
import re
import time
import warnings
from contextlib import suppress
from pathlib import PurePosixPath

import msgspec
import pytest
from harness.blueprints import CODE, DEFECTS, blueprint, end, plan, research
from hypothesis import given, strategies as st

from minideep import ConfigError, ContractViolation, MinideepError
from minideep.backends.paths import normalized
from minideep.blueprint import (
    CODE_WRITER,
    CRITIC,
    RESEARCH_SPECIALIST,
    STOCK_ROLES,
    Artifact,
    Blueprint,
    Board,
    Decision,
    Entry,
    Plan,
    Role,
    Subtask,
)
from minideep.blueprint.answer import filled
from minideep.blueprint.contracts import (
    DECISION_SCHEMA,
    MAX_SAID,
    artifact_of,
    checked_name,
    decision_of,
    plan_of,
    plan_schema,
)
from minideep.blueprint.files import VirtualFiles, stored_name
from minideep.blueprint.planner import Planner
from minideep.blueprint.pool import SubagentPool
from minideep.blueprint.prompts import planner_system, subtask_asked
from minideep.blueprint.reflection import Reflection
from minideep.blueprint.roles import by_name, list_of_defects, one_code_block
from minideep.errors import ArtifactViolation, FileViolation, PlanViolation, ReflectionViolation
from minideep.models import ScriptedModel
from minideep.structured import json_in

ROLES = [role.name for role in STOCK_ROLES]
WRITER = Role("writer", "You write.")

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
        (lambda: plan_of("no plan", ROLES, ()), PlanViolation),
        (lambda: artifact_of(" \n", "a.md"), ArtifactViolation),
        (lambda: checked_name("a/b"), FileViolation),
        (lambda: decision_of("{}"), ReflectionViolation),
    ],
)
def test_whoever_breaks_a_contract_gets_an_error_with_a_name(broken, error):
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
        assert plan_of(json.dumps({"subtasks": [subtask], "reasoning": "so"}), ROLES, ()) == expected


def test_a_plan_keeps_the_order_of_its_subtasks():
    names = ["c.md", "a.md", "b.md"]
    found = plan_of(plan(*map(research, names)), ROLES, ())
    assert [subtask.expected_artifact for subtask in found.subtasks] == names


def test_contents_that_a_planner_slips_in_count_for_nothing():
    smuggled = plan(research(), files={"a.md": "text"}, content="text", final_answer="text")
    in_subtask = json.loads(plan(research()))
    in_subtask["subtasks"][0] |= {"content": "text", "status": "done", "after": [7]}
    assert plan_of(smuggled, ROLES, ()) == plan_of(in_subtask, ROLES, ()) == plan_of(plan(research()), ROLES, ())


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Here is my plan: first I shall", "no JSON"),
        ("", "no JSON"),
        ("42", "got `int`"),
        ('{"subtasks": {}}', "got `object`"),
        ('{"subtasks": [7]}', "got `int`"),
        ('{"subtasks": [{"role": "critic"}]}', "missing required field `instruction`"),
        (plan(), "1 to 100 subtasks, not 0"),
        (plan(*[research(f"{n}.md") for n in range(101)]), "1 to 100 subtasks, not 101"),
        (plan(*[research(f"{n}.md") for n in range(500)]), "1 to 100 subtasks, not 500"),
        (plan(("ghost", "i", "a.md")), "subtask 1: there is no role 'ghost'; there are research-specialist, code-"),
        (plan(research(task=" ")), "subtask 1: its instruction is empty"),
        (plan(research("a/b.md")), "subtask 1: an artifact has a file name of 1 to 100 bytes"),
        (plan(research("..")), "not '..'"),
        (plan(research("a.md", "gone.md")), "subtask 1: read_files names 'gone.md', which is no file and no other"),
        (plan(research("a.md", "a.md")), "subtask 1: read_files names 'a.md', which is no file"),
        (plan(research("a.md", "b.md"), research("b.md", "a.md"), research("c.md")), "subtasks 1, 2 wait for each"),
        (plan(research(task="x" * 65_536)), "a plan has at most 65,536 bytes"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused_with_the_reason(said, found):
    with pytest.raises(PlanViolation, match=re.escape(found)):
        plan_of(said, ROLES, ())


def test_a_plan_of_a_hundred_subtasks_is_taken():
    assert len(plan_of(plan(*[research(f"{n}.md") for n in range(100)]), ROLES, ()).subtasks) == 100


def test_a_subtask_waits_for_the_earlier_ones_it_reads_else_for_a_file_that_is_there_else_for_later_ones():
    said = plan(
        research("out.md", "late.md", "there.md"),
        research("there.md"),
        research("late.md"),
        research("there.md", "there.md"),
        research("end.md", "there.md", "out.md"),
    )
    assert [one.after for one in plan_of(said, ROLES, ["there.md"]).subtasks] == [(2,), (), (), (1,), (0, 1, 3)]


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
def test_any_plan_that_is_taken_can_be_carried_out_to_its_end_in_waves(subtasks, files):
    try:
        taken = plan_of({"subtasks": subtasks}, ["critic"], files)
    except PlanViolation:
        return
    board, there = Board(plan=msgspec.to_builtins(taken)), set(files)
    while wave := board.wave():
        assert all(there.issuperset(taken.subtasks[place].read_files) for place in wave)
        there |= {taken.subtasks[place].expected_artifact for place in wave}
        board.delivered += wave
    assert board.left() == []
    assert plan_of(msgspec.to_builtins(taken), ["critic"], files) == taken


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
def test_whatever_is_said_is_read_or_refused_by_name(value):
    text = json.dumps(value)
    for read, kind, refusal in (
        (lambda said: plan_of(said, ROLES, ()), Plan, PlanViolation),
        (decision_of, Decision, ReflectionViolation),
        (lambda said: artifact_of(said, "a.md"), Artifact, (ArtifactViolation, FileViolation)),
    ):
        with suppress(refusal):
            assert isinstance(read(text), kind)


def test_what_a_person_edits_is_read_like_what_a_planner_says():
    plain = json.loads(plan(research()))
    assert plan_of(plain, ROLES, ()) == plan_of(plan(research()), ROLES, ())
    for odd in (None, 7, [], {"subtasks": None}, {"subtasks": [None]}, {"subtasks": [{1: 2}]}):
        with pytest.raises(PlanViolation):
            plan_of(odd, ROLES, ())


def test_the_schemas_are_such_as_providers_take():
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


# ---- JSON in what models say

VALUES = st.dictionaries(st.text(max_size=8), JSON, min_size=1, max_size=4)


@given(st.text(st.characters()) | st.text('{}[]",:/*#`\\ \n\ta1', max_size=60))
def test_no_text_makes_the_reader_of_json_fail_but_by_value_error(text):
    with suppress(ValueError):
        json_in(text)


@given(VALUES)
def test_json_is_found_bare_in_a_fence_in_prose_and_with_comments_and_commas(value):
    text = json.dumps(value, indent=1)
    noted = "\n".join(f"{line}  // a note" for line in text.splitlines()).replace("\n}", ",\n}")
    hashed = "\n".join(f"{line} # a note" for line in text.splitlines())
    for said in (text, f"Well:\n```json\n{text}\n```\nThat is it.", f"Well: {text} That is it.", noted, hashed):
        assert json_in(said) == value
    assert json_in(f"/* a note\n */ {noted}") == value


def test_what_looks_like_a_comment_within_a_string_stays():
    said = '{"a": "http://x /* y */ # z ,}", // a note\n "b": "\\" // still",}'
    assert json_in(said) == {"a": "http://x /* y */ # z ,}", "b": '" // still'}


@pytest.mark.parametrize("said", ["[" * 100_000, '{"a":' * 100_000, "\ud800", '{"a": "\ud800"}', "x" * 5_000_000])
def test_nesting_surrogates_and_five_megabytes_are_no_json(said):
    with pytest.raises(ValueError, match="no JSON"):
        json_in(said)


@pytest.mark.parametrize("said", ['{"a": "' + '\\"' * 6_000, "{" + "/* " * 6_000 + "}"])
def test_a_reply_that_is_cut_short_is_refused_in_time_that_grows_with_its_length(said):
    began = time.process_time()
    with pytest.raises(ValueError, match="no JSON"):
        json_in(said)
    assert time.process_time() - began < 1  # It takes some milliseconds; it took seconds, of 100 KB minutes.


# ---- a subagent's artifact


def test_a_plain_reply_is_the_content_of_the_planned_artifact():
    for said in ("Paris.", '{"a": 1}', '[{"line": 1}]', "```python\nprint(1)\n```", '{"content": "x"}', " x \n"):
        assert artifact_of(said, "a.md") == Artifact("a.md", said, "done")


def test_a_reply_that_is_the_object_of_name_content_and_status_is_taken_at_its_word():
    said = '{"artifact_name": "b.md", "content": "Paris.", "status": "active"}'
    for form in (said, f"\n{said}\n", f"```json\n{said}\n```"):
        assert artifact_of(form, "a.md") == Artifact("b.md", "Paris.", "active")


@pytest.mark.parametrize(
    ("change", "error", "found"),
    [
        ({"status": "failed"}, ArtifactViolation, "status"),
        ({"status": None}, ArtifactViolation, "status"),
        ({"content": 7}, ArtifactViolation, "content"),
        ({"content": " "}, ArtifactViolation, "its content is empty"),
        ({"artifact_name": 7}, ArtifactViolation, "artifact_name"),
        ({"artifact_name": "../up.md"}, FileViolation, "'../up.md'"),
    ],
)
def test_an_object_that_is_no_artifact_is_refused(change, error, found):
    said = {"artifact_name": "a.md", "content": "text", "status": "done"} | change
    with pytest.raises(error, match=re.escape(found)):
        artifact_of(json.dumps(said), "a.md")


def test_an_empty_reply_is_no_artifact():
    for said in ("", " \n\t"):
        with pytest.raises(ArtifactViolation, match="the reply is empty"):
            artifact_of(said, "a.md")


def test_a_lone_surrogate_in_a_reply_is_written_as_its_escape():
    assert artifact_of("a \ud800 b", "a.md").content == "a \\ud800 b"


def test_five_megabytes_are_an_artifact():
    said = "é" * 2_500_000
    assert artifact_of(said, "a.md").content == said


# ---- names


@given(st.text(st.characters(), max_size=110) | st.text("./\\ab\n\0:~ -", max_size=12), st.integers(1, 10**6))
def test_no_name_that_is_taken_has_a_separator_or_leads_anywhere(name, step):
    try:
        assert checked_name(name) == name
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
        checked_name(name)


@pytest.mark.parametrize("name", ["a", "a.md", "Q3 report (final).md", "Überblick.md", "報告.md", "a" * 100])
def test_a_name_that_a_person_would_give_is_taken(name):
    assert checked_name(name) == name


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
def test_an_artifact_is_kept_under_role_step_and_name(name, stored):
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
def test_a_decision_is_read(said, decision):
    assert decision_of(said) == decision


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("continue", "no JSON"),
        ('"continue"', "got `str`"),
        ('{"decision": "go on"}', "Invalid enum value 'go on'"),
        ("{}", "missing required field `decision`"),
        ('{"decision": "replan"}', "a decision to replan needs a reason"),
        ('{"decision": "end", "final_answer": " "}', "a decision to end needs a final_answer"),
        ('{"decision": "escalate", "question": null}', "a decision to escalate needs a question"),
        (end("x" * MAX_SAID), "a decision has at most 32,768 bytes"),
    ],
)
def test_what_is_no_decision_is_refused(said, found):
    with pytest.raises(ReflectionViolation, match=re.escape(found)):
        decision_of(said)


def test_of_an_answer_only_so_much_is_filled_in_as_fits():
    contents = {"a": "x" * 6, "b": "y" * 5, "c": "z"}
    said = filled("{{a}} {{b}} {{ c }}", contents.__getitem__, 10)
    assert said == "xxxxxx [b: 5 bytes, too long for an answer; it is in the turn's artifacts] z"


# ---- roles


def test_three_roles_are_in_stock_and_are_the_pool_if_none_is_given():
    assert [role.name for role in STOCK_ROLES] == ["research-specialist", "code-writer", "critic"]
    assert list(blueprint([]).pool.agents) == ["research-specialist", "code-writer", "critic"]


@pytest.mark.parametrize(
    ("role", "phrases"),
    [
        (
            RESEARCH_SPECIALIST,
            ["fact-dense summary with inline citations", "Return ONLY the summary", "Do NOT plan, do NOT delegate"],
        ),
        (CODE_WRITER, ["runnable Python", "Return ONLY code in one fenced block", "Do NOT explain"]),
        (CRITIC, ["Return ONLY", "JSON list of {line, issue, severity}", "Do NOT rewrite the artifact"]),
    ],
)
def test_a_stock_role_is_told_who_it_is_what_alone_it_returns_and_what_it_must_not_do(role, phrases):
    assert role.prompt.startswith(f"You are a {role.name.replace('-', ' ')}.")
    assert [phrase for phrase in phrases if phrase not in role.prompt] == []


@pytest.mark.parametrize(
    "content",
    [
        CODE,
        "```\nx = 1\n```",
        "\n```py\nx = 1\n```\n",
        '```python\nx = """```"""\n```',
        "```python\n'\\d'\n```",
        "```\n```",
    ],
)
def test_one_fenced_block_that_compiles_is_what_a_code_writer_delivers(content):
    CODE_WRITER.validate(content)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("print(1)", "expected one fenced code block, found 0"),
        (f"{CODE}\n{CODE}", "expected one fenced code block, found 2"),
        ("```python\nprint(1)", "expected one fenced code block, found 0"),
        (f"{CODE}\n```", "expected one fenced code block, found 1"),
        ("```python\nprint(\n```", "the code does not compile: '(' was never closed, line 1"),
        ("```python\nx = '\0'\n```", "the code does not compile"),
        (f"```python\n{'(' * 5000}{')' * 5000}\n```", "the code does not compile"),
        (f"```python\n{'-' * 100_000}1\n```", "the code does not compile"),
    ],
)
def test_other_code_is_refused(content, found):
    with pytest.raises(ValueError, match=re.escape(found)):
        one_code_block(content)


@pytest.mark.parametrize("content", [f"Here is the code:\n{CODE}", f"{CODE}\nIt prints 1."])
def test_a_code_writer_that_explains_all_the_same_has_still_delivered_one_block(content):
    one_code_block(content)


@pytest.mark.parametrize("content", [DEFECTS, "[]", f"```json\n{DEFECTS}\n```", DEFECTS.replace("1", '"1-3"')])
def test_a_list_of_defects_is_what_a_critic_delivers(content):
    CRITIC.validate(content)


@pytest.mark.parametrize(
    "content",
    ["fine", "{}", '[{"line": 1}]', '[{"line": 1, "issue": 2, "severity": "low"}]', '["a typo"]', "null", "[" * 99_999],
)
def test_another_critique_is_refused(content):
    with pytest.raises(ValueError, match=r"no JSON|Expected|missing required"):
        list_of_defects(content)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_a_pool_of_an_unusual_size_is_warned_of_and_refused_in_strict_mode(count):
    roles = [Role(f"r{n}", "You work.") for n in range(count)]
    with pytest.warns(UserWarning, match=f"usually has 3 to 8 roles, this one has {count}") as told:
        Blueprint(ScriptedModel([]), roles)
    assert told[0].filename == __file__
    with pytest.raises(ConfigError, match=f"usually has 3 to 8 roles, this one has {count}"):
        Blueprint(ScriptedModel([]), roles, strict=True)


@pytest.mark.parametrize("count", [3, 8])
def test_a_pool_of_three_to_eight_roles_is_usual(count):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Blueprint(ScriptedModel([]), [Role(f"r{n}", "You work.") for n in range(count)], strict=True)


def test_a_role_is_added_or_replaced_in_one_line():
    mine = Role("critic", "You are kind.")
    assert by_name([*STOCK_ROLES, mine, WRITER]) == {
        "research-specialist": RESEARCH_SPECIALIST,
        "code-writer": CODE_WRITER,
        "critic": mine,
        "writer": WRITER,
    }


async def _later(content):
    return True


@pytest.mark.parametrize(
    ("role", "found"),
    [
        (Role("a/b", "p"), "a role's name is 1 to 64 letters, digits, '_' or '-', and no part's, not 'a/b'"),
        (Role("", "p"), "a role's name is"),
        (Role("x" * 65, "p"), "a role's name is"),
        (Role("x", " "), "role 'x' has no prompt"),
        ("critic", "Blueprint: roles[3] must be a `Role`, not 'critic'"),
    ],
)
def test_a_role_that_cannot_work_is_refused_before_anybody_is_asked(role, found):
    with pytest.raises(ConfigError, match=re.escape(found)):
        Blueprint(ScriptedModel([]), [*STOCK_ROLES, role])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"validate": 7}, "Role: validate must be a plain function, or None, not 7"),
        ({"validate": _later}, "it is a coroutine function"),
        ({"tools": [7]}, "Role: tools[0] must be a `Tool` or a function, not 7"),
    ],
)
def test_a_role_made_of_something_else_is_refused_when_it_is_made(given, found):
    with pytest.raises(ConfigError, match=re.escape(found)):
        Role("x", "p", **given)


@pytest.mark.parametrize("timeout", ["5", 0, -1, float("nan"), True])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(timeout):
    with pytest.raises(ConfigError, match="timeout"):
        Blueprint(ScriptedModel([]), [*STOCK_ROLES, Role("x", "p", timeout=timeout)])


def test_patterns_to_pin_are_no_single_text():
    with pytest.raises(ConfigError, match="pinned"):
        Blueprint(ScriptedModel([]), pinned="*.md")


@pytest.mark.parametrize("name", ["max_reflection_depth", "max_file_age_steps", "inline_limit", "state_limit"])
def test_a_size_is_a_whole_number_above_nothing(name):
    for size in (0, -1, 1.5, "9", True, None):
        with pytest.raises(ConfigError, match=f"{name} must be a whole number above 0.*, not {size!r}"):
            Blueprint(ScriptedModel([]), **{name: size})


def test_a_file_over_the_inline_limit_is_always_kept_apart():
    Blueprint(ScriptedModel([]), inline_limit=102_400)
    with pytest.raises(ConfigError, match="inline_limit must be a whole number above 0 and of at most 102,400"):
        Blueprint(ScriptedModel([]), inline_limit=102_401)


# ---- what they are told


def test_the_planners_prompt_lists_the_roles_and_stays_under_1500_characters():
    rendered = planner_system(STOCK_ROLES)
    assert "{roles_list}" not in rendered
    assert "\n- critic: lists the defects of an artifact\n" in rendered
    assert len(rendered) < 1500
    assert blueprint([]).planner.agent.spec.system == rendered


def test_a_planners_prompt_that_is_too_long_is_refused_at_construction():
    size = len(planner_system(STOCK_ROLES))
    Blueprint(ScriptedModel([]), planner_prompt_limit=size)
    with pytest.raises(ConfigError, match=f"the planner's prompt has {size:,} characters .* more than {size - 1:,}"):
        Blueprint(ScriptedModel([]), planner_prompt_limit=size - 1)
    wordy = Role("x", "p", description="x" * (1501 - size - len("\n- x: ")))
    with pytest.raises(ConfigError, match="has 1,501 characters with these roles, more than 1,500"):
        Blueprint(ScriptedModel([]), [*STOCK_ROLES, wordy])


@pytest.mark.parametrize(
    ("files", "asked"),
    [
        ([], "## Task\ndo it"),
        ([("a.md", "A")], "# a.md\nA\n\n## Task\ndo it"),
        ([("a.md", "A"), ("b.md", "B\n")], "# a.md\nA\n\n# b.md\nB\n\n\n## Task\ndo it"),
    ],
)
def test_a_subagent_is_given_its_files_each_under_its_name_and_then_its_task(files, asked):
    assert subtask_asked("do it", files) == asked


def test_an_empty_board_is_where_every_thread_begins():
    board = Board()
    assert (board.messages, board.plan, board.files, board.step, board.reflection_depth) == ([], {}, {}, 0, 0)
    rest = (board.decision, board.reason, board.question, board.final_answer, board.errors, board.termination)
    assert rest == (None, "", "", "", [], {})
