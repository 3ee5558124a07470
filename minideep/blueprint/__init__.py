"""The deep-agent blueprint: a planner, a pool of subagents, virtual files and bounded reflection.

The four parts are imported from here as well. Only the names in `__all__` are a promise to users.
"""

from typing import TYPE_CHECKING

from .. import lazy_names
from .blueprint import Blueprint
from .contracts import Artifact, Decision, Plan, Subtask
from .files import STATE_LIMIT_BYTES, VirtualFiles as VirtualFiles
from .planner import Planner as Planner
from .pool import SubagentPool as SubagentPool
from .reflection import Reflection as Reflection
from .roles import CODE_WRITER, CRITIC, RESEARCH_SPECIALIST, STOCK_ROLES, Role
from .state import Board, Entry

if TYPE_CHECKING:
    from .assertions import ASSERTIONS, ends_by_decision, roles_are_themselves, state_is_small
else:  # They load `minideep.evals`, which a blueprint does not need.
    __getattr__ = lazy_names(
        __name__, {"assertions": "ASSERTIONS ends_by_decision roles_are_themselves state_is_small"}
    )

__all__ = [
    "ASSERTIONS",
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
    "ends_by_decision",
    "roles_are_themselves",
    "state_is_small",
]
