"""Prompts and messages of planner and subagents."""

import pytest
from harness.blueprints import blueprint

from minideep import ConfigError, Middleware, Tool, tool
from minideep.blueprint import STOCK_ROLES, Blueprint, Board, Role
from minideep.blueprint.contracts import parse_plan
from minideep.blueprint.prompts import planner_system
from minideep.models import ScriptedModel


def test_the_planners_prompt_lists_the_roles_and_stays_under_1500_characters():
    rendered = planner_system(STOCK_ROLES)
    assert "{roles_list}" not in rendered
    assert "\n- critic: lists the defects of an artifact\n" in rendered
    assert len(rendered) < 1500
    assert blueprint([]).planner.agent.spec.system == rendered


def test_the_planners_example_is_a_plan_of_two_subtasks_of_its_own_roles_one_of_which_reads_the_others_file():
    found = parse_plan(planner_system(STOCK_ROLES), [role.name for role in STOCK_ROLES], [])
    first, second = found.subtasks
    assert (first.role, second.role) == ("research-specialist", "critic")
    assert (second.read_files, second.after) == ((first.expected_artifact,), (0,))


def test_the_planner_reads_the_tools_of_each_role():
    def search(query: str) -> str:
        """Search the web."""
        return query

    def numbered(number: int) -> Tool:
        return tool(search, name=f"t{number}")

    class Fetches(Middleware):
        tools = (numbered(0),)

    roles = [
        Role("plain", "p"),
        Role("reader", "r", [search], description="reads pages", middleware=[Fetches()]),
        Role("busy", "b", [numbered(number) for number in range(9)]),
    ]
    listed = planner_system(roles).split("\n\n")[1]
    assert listed.splitlines()[1:] == [
        "- plain",
        "- reader: reads pages (tools: t0, search)",
        "- busy (tools: t0, t1, t2, t3, t4, t5, t6, t7, ...)",
    ]


def test_a_planner_prompt_that_is_too_long_is_refused_at_construction():
    size = len(planner_system(STOCK_ROLES))
    Blueprint(ScriptedModel([]), planner_prompt_limit=size)
    with pytest.raises(ConfigError, match=f"the planner's prompt has {size:,} characters .* more than {size - 1:,}"):
        Blueprint(ScriptedModel([]), planner_prompt_limit=size - 1)
    size = len(planner_system([*STOCK_ROLES, Role("x", "p")]))
    wordy = Role("x", "p", description="x" * (1501 - size - len(": ")))
    with pytest.raises(ConfigError, match="has 1,501 characters with these roles, more than 1,500"):
        Blueprint(ScriptedModel([]), [*STOCK_ROLES, wordy])


def test_every_thread_begins_with_an_empty_board():
    board = Board()
    assert (board.messages, board.plan, board.files, board.step, board.reflection_depth) == ([], {}, {}, 0, 0)
    rest = (board.decision, board.reason, board.question, board.final_answer, board.errors, board.termination)
    assert rest == (None, "", "", "", [], {})
