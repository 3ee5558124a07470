"""The deep-agent blueprint: a planner, a pool of subagents, virtual files and bounded reflection."""

from .blueprint import Blueprint
from .contracts import Artifact, Decision, Plan, Subtask
from .files import STATE_LIMIT_BYTES
from .roles import CODE_WRITER, CRITIC, RESEARCH_SPECIALIST, STOCK_ROLES, Role
from .state import Board, Entry

__all__ = [
    "CODE_WRITER",
    "CRITIC",
    "RESEARCH_SPECIALIST",
    "STATE_LIMIT_BYTES",
    "STOCK_ROLES",
    "Artifact",
    "Blueprint",
    "Board",
    "Decision",
    "Entry",
    "Plan",
    "Role",
    "Subtask",
]
