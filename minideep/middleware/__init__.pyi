"""The names of the middleware package, for type checkers."""

from ..ports import Middleware as Middleware
from .approvals import HumanInTheLoopMiddleware as HumanInTheLoopMiddleware
from .caching import PromptCachingMiddleware as PromptCachingMiddleware
from .checking import (
    FINAL_ANSWER as FINAL_ANSWER,
    UNFINISHED as UNFINISHED,
    ReplyCheck as ReplyCheck,
    last_words as last_words,
    refusals as refusals,
)
from .context.compaction import SummarizationMiddleware as SummarizationMiddleware
from .context.context_size import SUMMARIES as SUMMARIES
from .context.offload import OffloadMiddleware as OffloadMiddleware
from .context.spill import write_new_file as write_new_file
from .environment import EnvironmentMiddleware as EnvironmentMiddleware, day_of as day_of
from .filesystem import FilesystemMiddleware as FilesystemMiddleware, edited as edited
from .memory import MemoryMiddleware as MemoryMiddleware
from .output import (
    RequestSchema as RequestSchema,
    ResponseFormat as ResponseFormat,
    as_response_format as as_response_format,
)
from .patching import PatchToolCallsMiddleware as PatchToolCallsMiddleware
from .skills import SkillsMiddleware as SkillsMiddleware
from .subagents import Subagent as Subagent, SubAgentMiddleware as SubAgentMiddleware, as_subagent as as_subagent
from .todos import TodoListMiddleware as TodoListMiddleware, unfinished as unfinished

__all__: list[str]
