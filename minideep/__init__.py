"""Deep agents in pure Python, on one loop whose every cost is visible.

Everything named here is loaded when it is first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import Agent as Agent
    from .checkpoint.disk import DiskCheckpointer as DiskCheckpointer
    from .checkpoint.history import Boundary as Boundary, Difference as Difference
    from .checkpoint.layout import RunInfo as RunInfo, ThreadInfo as ThreadInfo
    from .checkpoint.memory import MemoryCheckpointer as MemoryCheckpointer
    from .checkpoint.verify import Damage as Damage
    from .context import ToolContext as ToolContext
    from .costs import Costs as Costs, Spent as Spent
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
    from .messages import (
        AssistantMessage as AssistantMessage,
        Document as Document,
        Image as Image,
        ProviderBlock as ProviderBlock,
        Text as Text,
        Thinking as Thinking,
        ToolCall as ToolCall,
        ToolMessage as ToolMessage,
        ToolResult as ToolResult,
        Usage as Usage,
        UserMessage as UserMessage,
    )
    from .middleware import Subagent as Subagent
    from .ports import Middleware as Middleware, Reply as Reply, Request as Request, Retention as Retention
    from .runtime.process import configure_process as configure_process
    from .runtime.stream import Stream as Stream
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

_HOMES = {
    "agent": ["Agent"],
    "checkpoint.disk": ["DiskCheckpointer"],
    "checkpoint.history": ["Boundary", "Difference"],
    "checkpoint.layout": ["RunInfo", "ThreadInfo"],
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
    "middleware": ["Subagent"],
    "ports": ["Middleware", "Reply", "Request", "Retention"],
    "runtime.process": ["configure_process"],
    "state": ["Approve", "Edit", "FileEntry", "Interrupt", "Limits", "Reject", "Respond", "State", "Todo"],
    "runtime.stream": ["Stream"],
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
