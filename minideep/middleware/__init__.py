"""Middleware: what an agent can do besides calling tools. The loop knows none of these classes.

Code outside this package imports from here. Everything is loaded when it is first used. Only the names in `__all__`
are a promise to users.
"""

from .. import lazy_names

_PUBLIC = (
    "EnvironmentMiddleware FilesystemMiddleware HumanInTheLoopMiddleware MemoryMiddleware Middleware "
    "OffloadMiddleware PatchToolCallsMiddleware PromptCachingMiddleware ResponseFormat SkillsMiddleware "
    "SubAgentMiddleware Subagent SummarizationMiddleware TodoListMiddleware"
)
__all__ = _PUBLIC.split()  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = lazy_names(
    __name__,
    {
        ".ports": "Middleware",
        "approvals": "HumanInTheLoopMiddleware",
        "caching": "PromptCachingMiddleware",
        "checking": "FINAL_ANSWER UNFINISHED ReplyCheck last_words refusals",
        "context.compaction": "SummarizationMiddleware",
        "context.context_size": "SUMMARIES",
        "context.offload": "OffloadMiddleware",
        "context.spill": "write_new_file",
        "environment": "EnvironmentMiddleware day_of",
        "filesystem": "FilesystemMiddleware edited",
        "memory": "MemoryMiddleware",
        "output": "RequestSchema ResponseFormat as_response_format",
        "patching": "PatchToolCallsMiddleware",
        "skills": "SkillsMiddleware",
        "subagents": "SubAgentMiddleware Subagent as_subagent",
        "todos": "TodoListMiddleware unfinished",
    },
)
