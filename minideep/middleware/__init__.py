"""Middleware: what an agent can do besides calling tools. The loop knows none of these classes.

Code outside this package imports from here. Everything is loaded when it is first used. Only the names in `__all__`
are a promise to users.
"""

from .. import lazy_names

_PUBLIC = (
    "Approval AsyncSubAgentMiddleware ClearToolResults EnvironmentMiddleware FilesystemMiddleware "
    "HumanInTheLoopMiddleware MemoryMiddleware Middleware OffloadMiddleware PatchToolCallsMiddleware "
    "PermissionsMiddleware PlanApprovalMiddleware PromptCachingMiddleware ResponseFormat Rubric ShellMiddleware "
    "SkillsMiddleware SubAgentMiddleware Subagent SummarizationMiddleware TodoListMiddleware ToolCallLimits "
    "ToolResultCache ToolRetry ToolSelector"
)
__all__ = _PUBLIC.split()  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = lazy_names(
    __name__,
    {
        ".ports": "Middleware",
        "approvals": "Approval HumanInTheLoopMiddleware PlanApprovalMiddleware",
        "background": "AsyncSubAgentMiddleware",
        "asking": "ANSWERS",
        "caching": "PromptCachingMiddleware",
        "call_limits": "ToolCallLimits",
        "checking": "FINAL_ANSWER UNFINISHED ReplyCheck last_words refusals",
        "context.clearing": "ClearToolResults",
        "context.compaction": "SummarizationMiddleware",
        "context.context_size": "SUMMARIES",
        "context.offload": "OffloadMiddleware",
        "context.spill": "write_new_file",
        "environment": "EnvironmentMiddleware day_of",
        "leaving_out": "checked_names trimmed",
        "filesystem": "FilesystemMiddleware edited",
        "forking": "Fork",
        "memory": "MemoryMiddleware",
        "output": "RequestSchema ResponseFormat as_response_format",
        "patching": "PatchToolCallsMiddleware",
        "shell": "ShellMiddleware",
        "permissions": "PermissionsMiddleware",
        "result_cache": "ToolResultCache",
        "rubric": "Rubric",
        "skills": "SkillsMiddleware",
        "subagents": "Named Rule SubAgentMiddleware Subagent as_subagent",
        "todos": "TodoListMiddleware unfinished",
        "tool_retry": "ToolRetry",
        "tool_selector": "ToolSelector",
    },
)
