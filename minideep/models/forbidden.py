"""A switch that forbids requests to real models, for tests: `minideep.testing` shows it."""

import os
from typing import Any

from ..errors import ConfigError

VARIABLE = "MINIDEEP_FORBID_REQUESTS"
"""The environment variable that forbids requests in a process and in those that it starts; `0` and empty allow them."""
_active: "set[forbid_requests]" = set()


class forbid_requests:  # noqa: N801  It is called like a function, and rarely used in a `with`.
    """Forbid requests to real models, in the whole process, from now on.

    Every adapter to a provider then raises `ConfigError`, which names its model, before it imports the SDK or opens a
    connection. Write `forbid_requests()` into `conftest.py`, or `with forbid_requests():` round a part of a test.
    Models that ask no provider, such as `ScriptedModel`, are not affected.
    """

    def __init__(self) -> None:
        _active.add(self)

    def __enter__(self) -> "forbid_requests":
        _active.add(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        _active.discard(self)


def are_forbidden() -> bool:
    """Return whether requests to real models are forbidden now."""
    return bool(_active) or os.environ.get(VARIABLE, "0") not in ("", "0")


def check_allowed(model: str) -> None:
    """Check that *model* may be asked.

    Raises:
        ConfigError: requests are forbidden.
    """
    if are_forbidden():
        by = "minideep.testing.forbid_requests()" if _active else f"the environment variable {VARIABLE}"
        raise ConfigError(
            f"model {model!r} was asked, but {by} forbids requests to real models; give the agent another one in the "
            "test: `with agent.override(model=ScriptedModel([...])):`"
        )
