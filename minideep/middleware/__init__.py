"""What an agent can do; the loop knows none of them."""

from ..ports import Middleware
from .approvals import HumanInTheLoopMiddleware
from .caching import PromptCachingMiddleware
from .context.compaction import SummarizationMiddleware
from .context.offload import OffloadMiddleware
from .filesystem.tools import FilesystemMiddleware
from .memory import MemoryMiddleware
from .patching import PatchToolCallsMiddleware
from .skills import SkillsMiddleware
from .subagents import Subagent, SubAgentMiddleware
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
