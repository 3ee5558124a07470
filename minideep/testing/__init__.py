"""A kit for tests of agents, of their tools and hooks, and of stores, models and backends of your own.

Each name is loaded when it is first used. `README.md` beside this file shows all of it.
"""

from .. import lazy_names

_PUBLIC = (
    "BackendContract DurableStoreContract ModelContract Recorded RecordingContext ShellContract StoreContract "
    "forbid_requests recorded tool_context"
)
__all__ = _PUBLIC.split()  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = lazy_names(
    __name__,
    {
        ".models": "forbid_requests",
        "backend": "BackendContract",
        "context": "RecordingContext tool_context",
        "durable_store": "DurableStoreContract",
        "model": "ModelContract",
        "recordings": "Recorded recorded",
        "shell": "ShellContract",
        "store": "StoreContract",
    },
)
