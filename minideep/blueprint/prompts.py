"""The prompts of planner, reflection and subagents. The first two never see the content of a file."""

import re
from collections.abc import Iterable, Sequence

from ..middleware import day_of
from ..plain_json import to_json
from .contracts import Subtask
from .roles import Role
from .state import Board

ERRORS_SHOWN = 20
"""Errors that planner and reflection see: the latest ones."""
TOOLS_SHOWN = 8
"""Tools of a role that the planner sees."""

PLANNER = """\
You are the planner of a team. Split the user's goal into subtasks and give each to one role. You do not do the work, \
and you do not answer the user.

Roles:
{roles_list}

Reply with one JSON object and nothing else, like this one, whose second subtask reads the file of the first:
{"subtasks": [{"role": "{first_role}", "instruction": "List ... with a source for each.", \
"expected_artifact": "facts.md", "read_files": []}, {"role": "{last_role}", "instruction": "Use facts.md to ...", \
"expected_artifact": "result.md", "read_files": ["facts.md"]}], "reasoning": "..."}

- A role knows nothing but its instruction and the files in `read_files`: put everything it needs into the instruction.
- `expected_artifact` names the file that the subtask delivers: no folders, another name for each subtask.
- `read_files` names files that are there, or artifacts of other subtasks of this plan: a subtask waits for those. \
Subtasks that wait for nothing run at once.
- Plan only what is still missing. Never write the contents of files."""

REFLECTION = """\
You judge how far a team has come with a user's goal. You see the plan, the artifacts (name, status, bytes; never \
their content), what went wrong, and the step count. Decide by these alone: do not invent facts, do not rewrite files.

Reply with one JSON object and nothing else, one of:
{"decision": "continue"} when subtasks of this plan are left and should be done as planned
{"decision": "replan", "reason": "..."} when the plan is wrong or something is missing; the planner reads the reason
{"decision": "end", "final_answer": "..."} when the goal is reached
{"decision": "escalate", "question": "..."} when only the user can say how to go on

At the end the user sees nothing but `final_answer`. You have not read the artifacts, so let them speak: write \
{{name}} where an artifact's content is to stand, for example {{report.md}}. Write \\\\{{ for braces that are to stand \
as they are."""


def planner_system(roles: Iterable[Role]) -> str:
    """Return the planner's system prompt, which lists *roles*."""
    listed = list(roles)
    said = {"roles_list": "\n".join(map(_role, listed)), "first_role": listed[0].name, "last_role": listed[-1].name}
    return re.sub(r"\{(\w+)\}", lambda slot: said[slot[1]], PLANNER)


def _role(role: Role) -> str:
    tools = ", ".join([*role.tool_names[:TOOLS_SHOWN], *(["..."] if len(role.tool_names) > TOOLS_SHOWN else [])])
    about = f": {role.description}" if role.description else ""
    return f"- {role.name}{about}{f' (tools: {tools})' if tools else ''}"


def planner_asked(board: Board, files: str, at: float) -> str:
    """Return the planner's message: the goal, the day of the time *at*, the plan so far, and *files*, a summary."""
    earlier = "\n".join(f"{goal} -> {answer}" for goal, answer in board.earlier)
    parts = [f"# Earlier in this conversation\n{earlier}"] if earlier else []
    parts += [*_goal(board), f"# Today\n{day_of(at)}"]
    if board.plan:
        parts.append(f"# Current plan\n{_plan(board)}")
    parts.append(f"# Files\n{files}")
    if board.errors:
        parts.append(f"# What went wrong\n{_errors(board)}")
    if board.reason:
        parts.append(f"# Why you are asked again\n{board.reason}")
    return "\n\n".join(parts)


def reflection_asked(board: Board, files: str, depth: int) -> str:
    """Return reflection's message: the plan and its results. *files* is a summary, *depth* the limit of its looks."""
    parts = [
        *_goal(board),
        f"# Plan\n{_plan(board)}",
        f"# Planned and delivered\n{to_json(board.difference()).decode()}",
        f"# Artifacts\n{files}",
        f"# What went wrong\n{_errors(board) or 'nothing'}",
        f"# Step\n{board.step}; this is look {board.reflection_depth + 1} of {depth}",
    ]
    return "\n\n".join(parts)


def _goal(board: Board) -> list[str]:
    said = "\n".join(board.said)
    return [f"# Goal\n{board.goal}", *([f"# The user said since\n{said}"] if board.said else [])]


def _plan(board: Board) -> str:
    """Return the plan, a line with status for each subtask."""
    statuses = dict.fromkeys(board.delivered, "done") | dict.fromkeys(board.failed, "failed")
    return "\n".join(_subtask(place, one, statuses.get(place, "to do")) for place, one in enumerate(board.subtasks))


def _subtask(place: int, subtask: Subtask, status: str) -> str:
    reads = f" (reads {', '.join(subtask.read_files)})" if subtask.read_files else ""
    return f"{place + 1}. [{status}] {subtask.role} -> {subtask.expected_artifact}{reads}: {subtask.instruction}"


def _errors(board: Board) -> str:
    return "\n".join(board.errors[-ERRORS_SHOWN:])


def subtask_asked(instruction: str, files: Sequence[str]) -> str:
    """Return a subagent's message: a reference to each of *files*, then the task."""
    return "\n\n".join([*files, f"## Task\n{instruction}"])


def asked_again(asked: str, reply: str, problem: str) -> str:
    """Return the message *asked* again, with the *reply* that broke the contract and the *problem* with it."""
    return f"{asked}\n\n## Your last reply\n{reply}\n\n## Why it was refused\n{problem}\n\nReply again, in full."
