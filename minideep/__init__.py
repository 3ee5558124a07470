"""Deep agents in pure Python, on one loop whose every cost is visible.

Everything named here is loaded when it is first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import Agent as Agent
    from .checkpoint.disk import DiskCheckpointer as DiskCheckpointer
    from .checkpoint.history import Boundary as Boundary
    from .checkpoint.history import Difference as Difference
    from .checkpoint.memory import MemoryCheckpointer as MemoryCheckpointer
    from .checkpoint.rows import RunInfo as RunInfo
    from .checkpoint.rows import ThreadInfo as ThreadInfo
    from .checkpoint.verify import Damage as Damage
    from .context import ToolContext as ToolContext
    from .costs import Costs as Costs
    from .costs import Spent as Spent
    from .deep_agent import create_deep_agent as create_deep_agent
    from .errors import (
        ArtifactViolation as ArtifactViolation,
    )
    from .errors import (
        AuthenticationFailed as AuthenticationFailed,
    )
    from .errors import (
        CheckpointError as CheckpointError,
    )
    from .errors import (
        ConfigError as ConfigError,
    )
    from .errors import (
        ContextOverflow as ContextOverflow,
    )
    from .errors import (
        ContractViolation as ContractViolation,
    )
    from .errors import (
        CorruptSegment as CorruptSegment,
    )
    from .errors import (
        FileViolation as FileViolation,
    )
    from .errors import (
        HistoryCut as HistoryCut,
    )
    from .errors import (
        IllegalEvent as IllegalEvent,
    )
    from .errors import (
        LimitExceeded as LimitExceeded,
    )
    from .errors import (
        MiddlewareError as MiddlewareError,
    )
    from .errors import (
        MinideepError as MinideepError,
    )
    from .errors import (
        ModelError as ModelError,
    )
    from .errors import (
        Overloaded as Overloaded,
    )
    from .errors import (
        PlanViolation as PlanViolation,
    )
    from .errors import (
        RateLimited as RateLimited,
    )
    from .errors import (
        ReflectionViolation as ReflectionViolation,
    )
    from .errors import (
        SegmentTooLarge as SegmentTooLarge,
    )
    from .errors import (
        ThreadBusy as ThreadBusy,
    )
    from .errors import (
        ThreadConflict as ThreadConflict,
    )
    from .errors import (
        ToolError as ToolError,
    )
    from .errors import (
        UnknownThread as UnknownThread,
    )
    from .errors import (
        UnknownVersion as UnknownVersion,
    )
    from .messages import (
        AssistantMessage as AssistantMessage,
    )
    from .messages import (
        Document as Document,
    )
    from .messages import (
        Image as Image,
    )
    from .messages import (
        ProviderBlock as ProviderBlock,
    )
    from .messages import (
        Text as Text,
    )
    from .messages import (
        Thinking as Thinking,
    )
    from .messages import (
        ToolCall as ToolCall,
    )
    from .messages import (
        ToolMessage as ToolMessage,
    )
    from .messages import (
        ToolResult as ToolResult,
    )
    from .messages import (
        Usage as Usage,
    )
    from .messages import (
        UserMessage as UserMessage,
    )
    from .middleware.subagents import Subagent as Subagent
    from .ports import (
        Middleware as Middleware,
    )
    from .ports import (
        Reply as Reply,
    )
    from .ports import (
        Request as Request,
    )
    from .ports import (
        Retention as Retention,
    )
    from .process import configure_process as configure_process
    from .state import (
        Approve as Approve,
    )
    from .state import (
        Edit as Edit,
    )
    from .state import (
        FileEntry as FileEntry,
    )
    from .state import (
        Interrupt as Interrupt,
    )
    from .state import (
        Limits as Limits,
    )
    from .state import (
        Reject as Reject,
    )
    from .state import (
        Respond as Respond,
    )
    from .state import (
        State as State,
    )
    from .state import (
        Todo as Todo,
    )
    from .stream import Stream as Stream
    from .tools import (
        Tool as Tool,
    )
    from .tools import (
        tool as tool,
    )
    from .turn import Turn as Turn

_HOMES = {
    "agent": ["Agent"],
    "checkpoint.disk": ["DiskCheckpointer"],
    "checkpoint.history": ["Boundary", "Difference"],
    "checkpoint.rows": ["RunInfo", "ThreadInfo"],
    "checkpoint.verify": ["Damage"],
    "checkpoint.memory": ["MemoryCheckpointer"],
    "context": ["ToolContext"],
    "costs": ["Costs", "Spent"],
    "deep_agent": ["create_deep_agent"],
    "errors": [
        "ArtifactViolation",
        "AuthenticationFailed",
        "CheckpointError",
        "ConfigError",
        "ContextOverflow",
        "ContractViolation",
        "CorruptSegment",
        "FileViolation",
        "HistoryCut",
        "IllegalEvent",
        "LimitExceeded",
        "MiddlewareError",
        "MinideepError",
        "ModelError",
        "Overloaded",
        "PlanViolation",
        "RateLimited",
        "ReflectionViolation",
        "SegmentTooLarge",
        "ThreadBusy",
        "ThreadConflict",
        "ToolError",
        "UnknownThread",
        "UnknownVersion",
    ],
    "messages": [
        "AssistantMessage",
        "Document",
        "Image",
        "ProviderBlock",
        "Text",
        "Thinking",
        "ToolCall",
        "ToolMessage",
        "ToolResult",
        "Usage",
        "UserMessage",
    ],
    "middleware.subagents": ["Subagent"],
    "ports": ["Middleware", "Reply", "Request", "Retention"],
    "process": ["configure_process"],
    "state": ["Approve", "Edit", "FileEntry", "Interrupt", "Limits", "Reject", "Respond", "State", "Todo"],
    "stream": ["Stream"],
    "tools": ["Tool", "tool"],
    "turn": ["Turn"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOME[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
