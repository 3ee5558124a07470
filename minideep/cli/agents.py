"""Builds the two agents of the terminal, and imports those of other programs."""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import structs

from .. import Agent, Limits, Middleware, create_deep_agent
from ..backends import FilesystemBackend
from ..blueprint import STOCK_ROLES, Blueprint
from ..errors import ConfigError
from ..middleware import FilesystemMiddleware
from ..permissions import ask_before_writes, read_only
from ..ports import Store
from .settings import Settings, with_settings

if TYPE_CHECKING:  # Loaded for `eval`.
    from ..evals import Golden

PERMISSIONS = {"ask": ask_before_writes, "read-only": read_only}
READING = frozenset({"ls", "read_file", "glob", "grep"})


def deep_agent(settings: Settings, store: Store | None, guard: Middleware) -> Agent:
    """Return the agent of `run`, which may change the files of its root as far as *guard* lets it."""
    agent = create_deep_agent(
        settings.model,
        backend=FilesystemBackend(settings.root),
        middleware=[guard],
        permissions=PERMISSIONS[settings.permissions]() if settings.permissions in PERMISSIONS else (),
        limits=Limits(steps=settings.limit_steps),
        checkpointer=store,
    )
    agent.spec = with_settings(agent.spec, settings)
    return agent


def blueprint(settings: Settings, store: Store | None) -> Blueprint:
    """Return the agent of `plan`. Its roles may read the files of the root, and deliver into the thread.

    The limit of steps holds for each subagent.
    """
    reading = [tool for tool in FilesystemMiddleware(FilesystemBackend(settings.root)).tools if tool.name in READING]
    roles = [structs.replace(role, tools=reading) for role in STOCK_ROLES]
    limits = Limits(steps=settings.limit_steps)
    agent = Blueprint(settings.model, roles, checkpointer=store, limits=limits, approve_plan=settings.approve)
    agent.spec = with_settings(agent.spec, settings)
    return agent


def evaluated(where: str) -> "Agent | Callable[[Golden], Agent]":
    """Return the agent of `eval --agent module:name`, as `imported` does, or a function that makes one for a golden.

    Raises:
        ConfigError: the module, the name or the agent does not exist.
    """
    found = _found(where)
    if isinstance(found, Agent) or not callable(found) or _takes(found) or not _takes(found, "golden"):
        return imported(where)
    return cast("Callable[[Golden], Agent]", found)


def imported(where: str) -> Agent:
    """Return the agent of `--agent module:name`: an `Agent`, or the result of a function without arguments.

    The module may be in the current folder. Exceptions of its own code pass, except `ImportError` and `SystemExit`.

    Raises:
        ConfigError: the module, the name or the agent does not exist, or the code ends the process.
    """
    found = _found(where)
    if callable(found) and not isinstance(found, Agent):
        found = _made(found, where)
    if not isinstance(found, Agent):
        raise ConfigError(f"--agent {where}: it must be an Agent, or a function that returns one, not {found!r:.200}")
    return cast(Agent, found)


def _found(where: str) -> Any:
    """Import what `module:name` names."""
    module_name, _, name = where.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), name)):
        raise ConfigError(f"--agent must be module:name, such as `--agent app:agent`, not {where!r}")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as exc:
        missing = isinstance(exc, ModuleNotFoundError) and f"{module_name}.".startswith(f"{exc.name}.")
        problem = f"module {module_name!r} is neither in {here!r} nor installed" if missing else str(exc)
        raise ConfigError(f"--agent {where}: {problem}") from None
    except SystemExit as exc:
        raise _left(where, exc) from None
    if not hasattr(module, name):
        raise ConfigError(f"--agent {where}: module {module_name!r} has no {name!r}")
    return getattr(module, name)


def _made(make: Callable[..., Any], where: str) -> Any:
    if not _takes(make):
        raise ConfigError(f"--agent {where}: it must be an Agent, or a function without arguments")
    try:
        return make()
    except SystemExit as exc:
        raise _left(where, exc) from None


def _left(where: str, exc: SystemExit) -> ConfigError:
    """Return an error for code that ended the process: with 0, an evaluation that ran nothing would have passed."""
    return ConfigError(f"--agent {where}: it called sys.exit({exc.code!r}) while it was loaded; guard its own command")


def _takes(make: Callable[..., Any], *arguments: str) -> bool:
    """Return whether a function can be called with so many arguments."""
    try:
        inspect.signature(make).bind(*arguments)
    except (TypeError, ValueError):
        return False
    return True
