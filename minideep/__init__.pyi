"""The public names, for type checkers."""

from collections.abc import Callable
from typing import Any

from .agent import Agent as Agent
from .checkpoint import (
    AESGCM as AESGCM,
    Boundary as Boundary,
    Damage as Damage,
    Difference as Difference,
    DiskCheckpointer as DiskCheckpointer,
    EncryptedCheckpointer as EncryptedCheckpointer,
    MemoryCheckpointer as MemoryCheckpointer,
    RunInfo as RunInfo,
    ThreadInfo as ThreadInfo,
)
from .context import ToolContext as ToolContext
from .costs import Costs as Costs
from .decoding import decision_from_json as decision_from_json, decisions_from_json as decisions_from_json
from .deep_agent import create_deep_agent as create_deep_agent
from .errors import (
    ArtifactViolation as ArtifactViolation,
    AuthenticationFailed as AuthenticationFailed,
    CheckpointError as CheckpointError,
    ConfigError as ConfigError,
    ContextOverflow as ContextOverflow,
    ContractViolation as ContractViolation,
    CorruptSegment as CorruptSegment,
    FileViolation as FileViolation,
    HistoryCut as HistoryCut,
    IllegalEvent as IllegalEvent,
    LimitExceeded as LimitExceeded,
    MiddlewareError as MiddlewareError,
    MinideepError as MinideepError,
    ModelError as ModelError,
    OutputViolation as OutputViolation,
    Overloaded as Overloaded,
    PlanViolation as PlanViolation,
    RateLimited as RateLimited,
    ReflectionViolation as ReflectionViolation,
    SegmentTooLarge as SegmentTooLarge,
    ThreadBusy as ThreadBusy,
    ThreadConflict as ThreadConflict,
    ToolError as ToolError,
    UnknownThread as UnknownThread,
    UnknownVersion as UnknownVersion,
)
from .ledger import Spent as Spent
from .media import load_media as load_media
from .messages import (
    AssistantMessage as AssistantMessage,
    Audio as Audio,
    Citation as Citation,
    Document as Document,
    Image as Image,
    MediaLink as MediaLink,
    ProviderBlock as ProviderBlock,
    Text as Text,
    Thinking as Thinking,
    ToolCall as ToolCall,
    ToolMessage as ToolMessage,
    ToolResult as ToolResult,
    Usage as Usage,
    UserMessage as UserMessage,
    Video as Video,
)
from .middleware import Approval as Approval, ResponseFormat as ResponseFormat, Subagent as Subagent
from .ports import Middleware as Middleware, Reply as Reply, Request as Request, Retention as Retention
from .replay import Replay as Replay
from .runtime import (
    Handle as Handle,
    Stream as Stream,
    ThreadStatus as ThreadStatus,
    configure_process as configure_process,
)
from .state import (
    Approve as Approve,
    Edit as Edit,
    FileEntry as FileEntry,
    Interrupt as Interrupt,
    Limits as Limits,
    Reject as Reject,
    Respond as Respond,
    State as State,
    Todo as Todo,
)
from .tools import Tool as Tool, tool as tool
from .turn import Turn as Turn

__all__: list[str]
__version__: str

def lazy_names(package: str, homes: dict[str, str]) -> Callable[[str], Any]: ...
