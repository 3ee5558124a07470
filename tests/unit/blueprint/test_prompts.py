"""Prompts and messages of planner and subagents."""

import pytest
from harness.blueprints import blueprint

from minideep import ConfigError
from minideep.blueprint import STOCK_ROLES, Blueprint, Board, Role
from minideep.blueprint.prompts import planner_system, subtask_asked
from minideep.models import ScriptedModel


def test_the_planners_prompt_lists_the_roles_and_stays_under_1500_characters():
    rendered = planner_system(STOCK_ROLES)
    assert "{roles_list}" not in rendered
    assert "\n- critic: lists the defects of an artifact\n" in rendered
    assert len(rendered) < 1500
    assert blueprint([]).planner.agent.spec.system == rendered


def test_a_planner_prompt_that_is_too_long_is_refused_at_construction():
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
def test_a_subagents_message_has_each_file_under_its_name_and_then_the_task(files, asked):
    assert subtask_asked("do it", files) == asked


def test_every_thread_begins_with_an_empty_board():
    board = Board()
    assert (board.messages, board.plan, board.files, board.step, board.reflection_depth) == ([], {}, {}, 0, 0)
    rest = (board.decision, board.reason, board.question, board.final_answer, board.errors, board.termination)
    assert rest == (None, "", "", "", [], {})
