"""Deep agents in pure Python, on one loop whose every cost is visible.

Each name is loaded when it is first used, so importing the package costs nothing.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

__version__ = "0.2.0"  # The only place: the build reads it here, so that nothing has to look for metadata at run time.


def lazy_names(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for *package* that imports a name from its module when it is first used.

    *homes* maps each module to the names that it is the home of. Type checkers read them in the `.pyi` beside it.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{home_of[name]}", package), name)
        setattr(sys.modules[package], name, value)  # The next use finds it without coming here.
        return value

    return load


_HOMES = {
    "agent": "Agent",
    "checkpoint": (
        "AESGCM Boundary Damage Difference DiskCheckpointer EncryptedCheckpointer MemoryCheckpointer RunInfo ThreadInfo"
    ),
    "context": "ToolContext",
    "costs": "Costs",
    "decoding": "decision_from_json decisions_from_json",
    "deep_agent": "create_deep_agent",
    "errors": (
        "ArtifactViolation AuthenticationFailed CheckpointError ConfigError ContextOverflow ContractViolation "
        "CorruptSegment FileViolation HistoryCut IllegalEvent LimitExceeded MiddlewareError MinideepError "
        "ModelError OutputViolation Overloaded PlanViolation RateLimited ReflectionViolation SegmentTooLarge "
        "ThreadBusy ThreadConflict ToolError UnknownThread UnknownVersion"
    ),
    "ledger": "Spent",
    "media": "load_media",
    "messages": (
        "AssistantMessage Audio Citation Document Image MediaLink ProviderBlock Text Thinking ToolCall ToolMessage "
        "ToolResult Usage UserMessage Video"
    ),
    "middleware": "Approval ResponseFormat Subagent",
    "ports": "Middleware Reply Request Retention",
    "replay": "Replay",
    "runtime": "Handle Stream ThreadStatus configure_process",
    "state": "Approve Edit FileEntry Interrupt Limits Reject Respond State Todo",
    "tools": "Tool tool",
    "turn": "Turn",
}
__all__ = sorted(["__version__", *(name for names in _HOMES.values() for name in names.split())])  # pyright: ignore[reportUnsupportedDunderAll]
_load = lazy_names(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name not in __all__ and name[:1].isupper():
        from .mistakes import where

        if found := where(name):
            # `from minideep import ...` would drop the text of an `AttributeError`.
            raise ImportError(f"there is no {name!r} in `minideep` itself; write `{found}`")
    return _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
