"""Middleware: what an agent can do besides calling tools. The loop knows none of these classes.

Code outside this package imports from here. Everything is loaded when it is first used. Only the names in `__all__`
are a promise to users.
"""

# ruff: noqa: F401
# pyright: reportUnusedImport=false

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..ports import Middleware
    from .approvals import HumanInTheLoopMiddleware
    from .caching import PromptCachingMiddleware
    from .context.compaction import SummarizationMiddleware
    from .context.context_size import SUMMARIES
    from .context.offload import OffloadMiddleware
    from .context.spill import write_new_file
    from .filesystem import FilesystemMiddleware, replacement
    from .memory import MemoryMiddleware
    from .output import ResponseFormat
    from .patching import PatchToolCallsMiddleware
    from .skills import SkillsMiddleware
    from .subagents import Subagent, SubAgentMiddleware, as_subagent
    from .todos import TodoListMiddleware, unfinished

_PUBLIC = {
    "FilesystemMiddleware": ".filesystem",
    "HumanInTheLoopMiddleware": ".approvals",
    "MemoryMiddleware": ".memory",
    "Middleware": "..ports",
    "OffloadMiddleware": ".context.offload",
    "PatchToolCallsMiddleware": ".patching",
    "PromptCachingMiddleware": ".caching",
    "SkillsMiddleware": ".skills",
    "SubAgentMiddleware": ".subagents",
    "Subagent": ".subagents",
    "SummarizationMiddleware": ".context.compaction",
    "TodoListMiddleware": ".todos",
}
_HOMES = _PUBLIC | {
    "ResponseFormat": ".output",
    "SUMMARIES": ".context.context_size",
    "as_subagent": ".subagents",
    "replacement": ".filesystem",
    "unfinished": ".todos",
    "write_new_file": ".context.spill",
}
__all__ = list(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
    return value
