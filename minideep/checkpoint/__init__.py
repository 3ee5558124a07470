"""Threads on disk or in memory: what the rest of the package uses of it. Each name is loaded when it is first used."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from ..events import AnyEvent

if TYPE_CHECKING:
    from .batch import Saved as Saved
    from .boundaries import Boundary as Boundary
    from .disk import DiskCheckpointer as DiskCheckpointer
    from .format import decode as decode, encode as encode, encode_state as encode_state
    from .holding import hold_thread as hold_thread
    from .journal import Journal as Journal, open_thread as open_thread
    from .layout import head_key as head_key, log_prefix as log_prefix
    from .maintenance import delete as delete
    from .memory import MemoryCheckpointer as MemoryCheckpointer
    from .rewriting import fork as fork
    from .store import (
        CheckedStore as CheckedStore,
        exists as exists,
        off_loop as off_loop,
        open_store as open_store,
        unknown_thread as unknown_thread,
    )
    from .verify import Damage as Damage
    from .views import (
        Difference as Difference,
        RunInfo as RunInfo,
        ThreadInfo as ThreadInfo,
        diff as diff,
        export as export,
        get_state as get_state,
        history as history,
        noted as noted,
        read_file as read_file,
        recall as recall,
        runs as runs,
        threads as threads,
        transcript as transcript,
    )

Durability = Literal["turn", "step", "tool"]
"""When a turn is saved, besides at its two ends: not at all, before each question to a model, or after each result."""
Redact = Callable[[AnyEvent], AnyEvent]
"""Returns the event that is saved instead of the one that happened: of the same type and with the same ids."""

_MODULES = {
    "batch": "Saved",
    "boundaries": "Boundary",
    "disk": "DiskCheckpointer",
    "format": "decode encode encode_state",
    "holding": "hold_thread",
    "journal": "Journal open_thread",
    "layout": "head_key log_prefix",
    "maintenance": "delete",
    "memory": "MemoryCheckpointer",
    "rewriting": "fork",
    "store": "CheckedStore exists off_loop open_store unknown_thread",
    "verify": "Damage",
    "views": "Difference RunInfo ThreadInfo diff export get_state history noted read_file recall runs threads "
    "transcript",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOME[name]}", __name__), name)
    return value
