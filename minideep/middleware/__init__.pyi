"""The names of the middleware package, for type checkers."""

from ..ports import Middleware as Middleware
from .approvals import (
    Approval as Approval,
    HumanInTheLoopMiddleware as HumanInTheLoopMiddleware,
    PlanApprovalMiddleware as PlanApprovalMiddleware,
)
from .asking import ANSWERS as ANSWERS
from .background import AsyncSubAgentMiddleware as AsyncSubAgentMiddleware
from .caching import PromptCachingMiddleware as PromptCachingMiddleware
from .call_limits import ToolCallLimits as ToolCallLimits
from .checking import (
    FINAL_ANSWER as FINAL_ANSWER,
    UNFINISHED as UNFINISHED,
    ReplyCheck as ReplyCheck,
    last_words as last_words,
    refusals as refusals,
)
from .context.clearing import ClearToolResults as ClearToolResults
from .context.compaction import SummarizationMiddleware as SummarizationMiddleware
from .context.context_size import SUMMARIES as SUMMARIES
from .context.offload import OffloadMiddleware as OffloadMiddleware
from .context.spill import write_new_file as write_new_file
from .environment import EnvironmentMiddleware as EnvironmentMiddleware, day_of as day_of
from .filesystem import FilesystemMiddleware as FilesystemMiddleware, edited as edited
from .forking import Fork as Fork
from .leaving_out import checked_names as checked_names, trimmed as trimmed
from .memory import MemoryMiddleware as MemoryMiddleware
from .output import (
    RequestSchema as RequestSchema,
    ResponseFormat as ResponseFormat,
    as_response_format as as_response_format,
)
from .patching import PatchToolCallsMiddleware as PatchToolCallsMiddleware
from .permissions import PermissionsMiddleware as PermissionsMiddleware
from .result_cache import ToolResultCache as ToolResultCache
from .rubric import Rubric as Rubric
from .shell import ShellMiddleware as ShellMiddleware
from .skills import SkillsMiddleware as SkillsMiddleware
from .subagents import (
    Named as Named,
    Rule as Rule,
    Subagent as Subagent,
    SubAgentMiddleware as SubAgentMiddleware,
    as_subagent as as_subagent,
)
from .todos import TodoListMiddleware as TodoListMiddleware, unfinished as unfinished
from .tool_retry import ToolRetry as ToolRetry
from .tool_selector import ToolSelector as ToolSelector

__all__: list[str]
