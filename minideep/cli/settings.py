"""The settings of a thread of the terminal, recorded in its log with each input.

Earlier versions kept them in a file beside the threads. Such a file is still read if the log has none. A model may have
written it, so it never wins over the log, and never selects another root than the person did.
"""

from argparse import Namespace
from hashlib import sha256
from pathlib import Path
from shutil import copyfile
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from ..errors import CheckpointError, ConfigError
from ..spec import AgentSpec
from ..state import State
from .places import checked_root

KEY = "terminal"
"""The key of the settings in `AgentSpec.about`."""


class Settings(Struct, frozen=True):
    """The settings of an agent of the terminal."""

    model: str
    root: str
    """The folder that the agent may work on, with all links followed."""
    limit_steps: int = 100
    command: Literal["run", "plan"] = "run"
    approve: bool = False
    """True if a plan waits for a person."""
    permissions: Literal["default", "ask", "read-only"] = "default"
    """Rules for files, besides those that guard the person's own."""

    def __str__(self) -> str:
        return f"model {self.model}, root {self.root}"


def with_settings(spec: AgentSpec, settings: Settings) -> AgentSpec:
    """Return *spec* with the settings among the facts that are recorded about its agent."""
    return structs.replace(spec, about={**spec.about, KEY: msgspec.to_builtins(settings)})


def recorded(state: State) -> Settings | None:
    """Return the settings in a thread's log; None for a thread of another program or of an earlier version.

    Raises:
        CheckpointError: they cannot be read.
    """
    noted: dict[str, Any] = state.notes.get("agent", {})
    try:
        return msgspec.convert(noted[KEY], Settings) if KEY in noted else None
    except msgspec.ValidationError as exc:
        raise CheckpointError(f"the settings in the thread's log cannot be read: {exc}") from exc


def in_file(directory: Path | None, thread: str) -> Settings | None:
    """Return the settings that an earlier version kept in a file beside the thread, or None.

    Raises:
        CheckpointError: the file cannot be read.
    """
    try:
        return directory and msgspec.json.decode(settings_file(directory, thread).read_bytes(), type=Settings)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as exc:
        raise CheckpointError(f"the settings of thread {thread!r} cannot be read: {exc}") from exc


def settings_file(directory: Path, thread: str) -> Path:
    """Return the path at which an earlier version kept the settings of *thread*."""
    name = quote(thread, safe="")
    return directory / "settings" / f"{name if len(name) < 200 else sha256(name.encode()).hexdigest()}.json"


def copy_file(directory: Path | None, thread: str, name: str) -> None:
    """Copy the file of *thread* for its fork *name*: the log that they share may hold no settings yet."""
    if directory is not None and in_file(directory, thread):
        copyfile(settings_file(directory, thread), settings_file(directory, name))


def of_thread(state: State, directory: Path | None, thread: str, options: Namespace) -> Settings:
    """Return the settings with which a stored thread continues: those in its log, changed by the flags.

    Raises:
        ConfigError: the thread is not of the terminal; or its root is another folder than the person is in, and only
            data that a model could have written says so.
        CheckpointError: its settings cannot be read.
    """
    logged = recorded(state)
    found = logged or in_file(directory, thread)
    if found is None:
        raise ConfigError(
            f"thread {thread!r} was started by agent {state.agent!r} of another program; "
            "pass that agent with --agent module:name"
        )
    if options.root is None and (options.state is None or logged is None) and found.root != str(checked_root(None)):
        raise ConfigError(
            f"thread {thread!r} works on {found.root!r}, which is not this folder; "
            f"to continue there, pass --state {str(directory)!r} --root {found.root!r}"
        )
    return with_flags(found, options)


def with_flags(settings: Settings, options: Namespace) -> Settings:
    """Return *settings*, changed by the flags of the command."""
    given: dict[str, Any] = {name: getattr(options, name, None) for name in ("model", "limit_steps", "permissions")}
    if options.root is not None:
        given["root"] = str(checked_root(options.root))
    if given["permissions"] and settings.command != "run":
        raise ConfigError("--permissions applies to threads of `minideep run` only; omit it")
    if settings.command == options.command:  # For `resume`, --approve is a decision.
        given["approve"] = getattr(options, "approve", None)
    return structs.replace(settings, **{name: value for name, value in given.items() if value is not None})
