"""What an agent can do; the loop knows none of them."""

from ..ports import Middleware
from .approvals import HumanInTheLoopMiddleware
from .caching import PromptCachingMiddleware
from .files import FilesystemMiddleware
from .memory import MemoryMiddleware
from .offload import OffloadMiddleware
from .patching import PatchToolCallsMiddleware
from .skills import SkillsMiddleware
from .subagents import Subagent, SubAgentMiddleware
from .summarization import SummarizationMiddleware
from .todos import TodoListMiddleware

__all__ = [
    "FilesystemMiddleware",
    "HumanInTheLoopMiddleware",
    "MemoryMiddleware",
    "Middleware",
    "OffloadMiddleware",
    "PatchToolCallsMiddleware",
    "PromptCachingMiddleware",
    "SkillsMiddleware",
    "SubAgentMiddleware",
    "Subagent",
    "SummarizationMiddleware",
    "TodoListMiddleware",
]
