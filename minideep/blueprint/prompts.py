"""What planner, reflection and subagents are told. No content of a file is ever shown to the first two."""

from collections.abc import Iterable, Sequence

from ..messages import to_json
from .contracts import Subtask
from .roles import Role
from .state import Board

PLANNER = """\
You are the planner of a team. Split the user's goal into subtasks and give each to one role. You do not do the work, \
and you do not answer the user.

Roles:
{roles_list}

Reply with one JSON object and nothing else:
{"subtasks": [{"role": "...", "instruction": "...", "expected_artifact": "notes.md", "read_files": []}], \
"reasoning": "..."}

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
{{name}} where an artifact's content is to stand, for example {{report.md}}."""


def planner_system(roles: Iterable[Role]) -> str:
    """The planner's system prompt, with the roles that there are."""
    listed = (f"- {role.name}{f': {role.description}' if role.description else ''}" for role in roles)
    return PLANNER.replace("{roles_list}", "\n".join(listed))


def planner_asked(board: Board, files: str) -> str:
    """What the planner is asked: the goal, the plan until now, and a summary of the files."""
    parts = [f"# Goal\n{board.goal}"]
    if board.earlier:
        parts.insert(
            0, "# Earlier in this conversation\n" + "\n".join(f"{goal} -> {text}" for goal, text in board.earlier)
        )
    if board.said:
        parts.append("# The user said since\n" + "\n".join(board.said))
    if board.plan:
        parts += [f"# Current plan\n{plan_shown(board)}"]
    parts.append(f"# Files\n{files}")
    if board.errors:
        parts.append("# What went wrong\n" + "\n".join(board.errors[-20:]))
    if board.reason:
        parts.append(f"# Why you are asked again\n{board.reason}")
    return "\n\n".join(parts)


def reflection_asked(board: Board, files: str, most: int) -> str:
    """What reflection is asked: the plan against what came of it. *files* is a summary, *most* how often it may be."""
    parts = [f"# Goal\n{board.goal}"]
    if board.said:
        parts.append("# The user said since\n" + "\n".join(board.said))
    parts += [
        f"# Plan\n{plan_shown(board)}",
        f"# Planned and delivered\n{to_json(board.difference()).decode()}",
        f"# Artifacts\n{files}",
        "# What went wrong\n" + ("\n".join(board.errors[-20:]) or "nothing"),
        f"# Step\n{board.step}; this is look {board.reflection_depth + 1} of {most}",
    ]
    return "\n\n".join(parts)


def plan_shown(board: Board) -> str:
    """The plan, a subtask a line, each with what came of it."""
    came = dict.fromkeys(board.delivered, "done") | dict.fromkeys(board.failed, "failed")
    return "\n".join(_subtask_shown(place, one, came.get(place, "to do")) for place, one in enumerate(board.subtasks))


def _subtask_shown(place: int, subtask: Subtask, came: str) -> str:
    reads = f" (reads {', '.join(subtask.read_files)})" if subtask.read_files else ""
    return f"{place + 1}. [{came}] {subtask.role} -> {subtask.expected_artifact}{reads}: {subtask.instruction}"


def subtask_asked(instruction: str, files: Sequence[tuple[str, str]]) -> str:
    """What a subagent is asked: the files that it reads, then its task."""
    context = "\n\n".join(f"# {name}\n{content}" for name, content in files)
    return f"{context}\n\n## Task\n{instruction}" if files else f"## Task\n{instruction}"


def asked_again(asked: str, reply: str, problem: str) -> str:
    """The same question to a part that has broken its contract, with what it replied and what was wrong with it."""
    return f"{asked}\n\n## Your last reply\n{reply}\n\n## Why it was refused\n{problem}\n\nReply again, in full."
