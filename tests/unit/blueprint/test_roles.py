"""Roles: the stock ones, their validators, and those that are refused."""

import re
import warnings

import pytest
from harness.blueprints import CODE, DEFECTS, blueprint

from minideep import ConfigError
from minideep.blueprint import CODE_WRITER, CRITIC, RESEARCH_SPECIALIST, STOCK_ROLES, Blueprint, Role
from minideep.blueprint.roles import list_of_defects, one_code_block, roles_by_name
from minideep.models import ScriptedModel

WRITER = Role("writer", "You write.")


def test_the_pool_has_the_three_stock_roles_by_default():
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
def test_the_prompt_of_a_stock_role_says_who_it_is_what_it_returns_and_what_it_must_not_do(role, phrases):
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
def test_a_code_writer_delivers_one_fenced_block_that_compiles(content):
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
def test_prose_around_the_one_block_is_accepted(content):
    one_code_block(content)


@pytest.mark.parametrize("content", [DEFECTS, "[]", f"```json\n{DEFECTS}\n```", DEFECTS.replace("1", '"1-3"')])
def test_a_critic_delivers_a_list_of_defects(content):
    CRITIC.validate(content)


@pytest.mark.parametrize(
    "content",
    [
        "fine",
        "{}",
        '[{"line": 1}]',
        '[{"line": 1, "issue": [2], "severity": "low"}]',
        '["a typo"]',
        "null",
        "[" * 99_999,
    ],
)
def test_another_critique_is_refused(content):
    with pytest.raises(ValueError, match=r"holds no JSON|Expected|missing required"):
        list_of_defects(content)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_a_pool_of_an_unusual_size_raises_a_warning_or_an_error_if_strict(count):
    roles = [Role(f"r{n}", "You work.") for n in range(count)]
    with pytest.warns(UserWarning, match=f"usually has 3 to 8 roles; this one has {count}") as told:
        Blueprint(ScriptedModel([]), roles)
    assert told[0].filename == __file__
    with pytest.raises(ConfigError, match=f"usually has 3 to 8 roles; this one has {count}"):
        Blueprint(ScriptedModel([]), roles, strict=True)


@pytest.mark.parametrize("count", [3, 8])
def test_a_pool_of_three_to_eight_roles_is_usual(count):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Blueprint(ScriptedModel([]), [Role(f"r{n}", "You work.") for n in range(count)], strict=True)


def test_a_role_is_added_or_replaced_in_one_line():
    mine = Role("critic", "You are kind.")
    assert roles_by_name([*STOCK_ROLES, mine, WRITER]) == {
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
        (
            Role("a/b", "p"),
            "a role's name must be 1 to 64 letters, digits, '_' or '-', and not 'planner' or 'reflection'; found 'a/b'",
        ),
        (Role("", "p"), "a role's name must be"),
        (Role("x" * 65, "p"), "a role's name must be"),
        (Role("x", " "), "role 'x' has no prompt"),
        ("critic", "Blueprint: roles[3] must be a `Role`, not 'critic'"),
    ],
)
def test_an_unusable_role_is_refused_before_any_model_is_asked(role, found):
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
def test_a_role_with_a_field_of_another_type_is_refused_when_it_is_made(given, found):
    with pytest.raises(ConfigError, match=re.escape(found)):
        Role("x", "p", **given)


@pytest.mark.parametrize("timeout", ["5", 0, -1, float("nan"), True])
def test_a_timeout_that_is_not_a_positive_number_is_refused(timeout):
    with pytest.raises(ConfigError, match="timeout"):
        Blueprint(ScriptedModel([]), [*STOCK_ROLES, Role("x", "p", timeout=timeout)])


def test_pinned_must_be_a_collection_and_not_one_text():
    with pytest.raises(ConfigError, match="pinned"):
        Blueprint(ScriptedModel([]), pinned="*.md")


@pytest.mark.parametrize("name", ["max_reflection_depth", "max_file_age_steps", "inline_limit", "state_limit"])
def test_a_size_must_be_a_positive_whole_number(name):
    for size in (0, -1, 1.5, "9", True, None):
        with pytest.raises(ConfigError, match=f"{name} must be a whole number above 0.*, not {size!r}"):
            Blueprint(ScriptedModel([]), **{name: size})


def test_the_inline_limit_cannot_be_raised():
    Blueprint(ScriptedModel([]), inline_limit=102_400)
    with pytest.raises(ConfigError, match="inline_limit must be a whole number above 0 and of at most 102,400"):
        Blueprint(ScriptedModel([]), inline_limit=102_401)
