"""What an agent can do; the loop knows none of them."""

from ..ports import Middleware
from .approvals import HumanInTheLoopMiddleware
from .files import FilesystemMiddleware
from .skills import SkillsMiddleware
from .subagents import Subagent, SubAgentMiddleware
from .todos import TodoListMiddleware

__all__ = [
    "FilesystemMiddleware",
    "HumanInTheLoopMiddleware",
    "Middleware",
    "SkillsMiddleware",
    "SubAgentMiddleware",
    "Subagent",
    "TodoListMiddleware",
]
