"""Running a turn: it is begun or resumed, driven by the loop step by step, and saved.

Reading order: `turns` holds the thread and accepts the input, `loop` drives a run, `calls` answers one tool call,
`children` are runs below a call. `run` is what they all work on. `cancel` says whether a turn may go on.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .process import configure_process as configure_process
    from .spec import (
        build_spec as build_spec,
        check_prices as check_prices,
        inheritable as inheritable,
        inheriting as inheriting,
    )
    from .stream import Stream as Stream
    from .sync import run_sync as run_sync
    from .turns import TurnConfig as TurnConfig, Turns as Turns, checked_thread_id as checked_thread_id

_HOMES = {
    "process": ["configure_process"],
    "spec": ["build_spec", "check_prices", "inheritable", "inheriting"],
    "stream": ["Stream"],
    "sync": ["run_sync"],
    "turns": ["TurnConfig", "Turns", "checked_thread_id"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOME[name]}", __name__), name)
    return value
