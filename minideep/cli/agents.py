"""The agents that the terminal runs: its own two, and those of other programs."""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import structs

from ..agent import Agent
from ..backends import FilesystemBackend
from ..blueprint import STOCK_ROLES, Blueprint
from ..deep_agent import create_deep_agent
from ..errors import ConfigError
from ..middleware import FilesystemMiddleware
from ..ports import Middleware, Store
from ..state import Limits
from .settings import Settings, about

READING = frozenset({"ls", "read_file", "glob", "grep"})


def deep_agent(settings: Settings, store: Store | None, asking: Middleware) -> Agent:
    """The agent of `run`, which may change what is in its root as far as *asking* lets it."""
    agent = create_deep_agent(
        settings.model,
        backend=FilesystemBackend(settings.root),
        middleware=[asking],
        limits=Limits(steps=settings.limit_steps),
        checkpointer=store,
    )
    agent.spec = about(agent.spec, settings)
    return agent


def blueprint(settings: Settings, store: Store | None) -> Blueprint:
    """The agent of `plan`: its roles may read what is in the root, and change nothing there; what they deliver is the
    thread's. The limit of steps is that of each subagent.
    """
    looking = [tool for tool in FilesystemMiddleware(FilesystemBackend(settings.root)).tools if tool.name in READING]
    roles = [structs.replace(role, tools=looking) for role in STOCK_ROLES]
    limits = Limits(steps=settings.limit_steps)
    agent = Blueprint(settings.model, roles, checkpointer=store, limits=limits, approve_plan=settings.approve)
    agent.spec = about(agent.spec, settings)
    return agent


def imported(where: str) -> Agent:
    """The agent that `--agent module:name` means: an `Agent`, or what a function without arguments returns.

    The module may be in the current folder. What its own code raises, other than by its imports, comes out as it is.

    Raises:
        ConfigError: there is no such module, name or agent.
    """
    module_name, _, name = where.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), name)):
        raise ConfigError(f"--agent is module:name, such as `--agent app:agent`, not {where!r}")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as exc:
        missing = isinstance(exc, ModuleNotFoundError) and f"{module_name}.".startswith(f"{exc.name}.")
        problem = f"there is no module {module_name!r} in {here!r} or installed" if missing else str(exc)
        raise ConfigError(f"--agent {where}: {problem}") from None
    if not hasattr(module, name):
        raise ConfigError(f"--agent {where}: module {module_name!r} has no {name!r}")
    found = getattr(module, name)
    agent = _made(found, where) if callable(found) and not isinstance(found, Agent) else found
    if not isinstance(agent, Agent):
        raise ConfigError(f"--agent {where}: it must be an Agent, or a function that returns one, not {agent!r:.200}")
    return agent


def _made(make: Callable[..., Any], where: str) -> Any:
    try:
        inspect.signature(make).bind()
    except (TypeError, ValueError):
        raise ConfigError(f"--agent {where}: it must be an Agent, or a function without arguments") from None
    return make()
