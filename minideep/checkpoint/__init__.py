# ruff: noqa: F401
# pyright: reportUnusedImport=false
"""Threads on disk or in memory: what the rest of the package uses of it. Each name is loaded when it is first used."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from ..events import AnyEvent

if TYPE_CHECKING:
    from .boundaries import Boundary
    from .disk import DiskCheckpointer
    from .format import decode, encode, encode_state
    from .holding import hold_thread
    from .journal import Journal, open_thread
    from .layout import log_prefix
    from .maintenance import delete
    from .memory import MemoryCheckpointer
    from .rewriting import fork
    from .store import CheckedStore, exists, off_loop, open_store, unknown_thread
    from .verify import Damage

    # isort: off
    from .views import Difference, RunInfo, ThreadInfo
    from .views import diff, export, get_state, history, noted, read_file, recall, runs, threads, transcript
    # isort: on

Durability = Literal["turn", "step", "tool"]
"""When a turn is saved, besides at its two ends: not at all, before each question to a model, or after each result."""
Redact = Callable[[AnyEvent], AnyEvent]
"""Returns the event that is saved instead of the one that happened: of the same type and with the same ids."""

_MODULES = {
    "boundaries": "Boundary",
    "disk": "DiskCheckpointer",
    "format": "decode encode encode_state",
    "holding": "hold_thread",
    "journal": "Journal open_thread",
    "layout": "log_prefix",
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
