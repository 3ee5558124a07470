"""What a thread of the terminal runs with: recorded in its log with each input, and read from there.

Earlier versions kept it in a file beside the threads. Such a file is read where the log says nothing; it is data that
a model may have written, so it never wins over the log, and never chooses another root than the person did.
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
from ..ports import AgentSpec
from ..state import State
from .places import checked_root

KEY = "terminal"
"""The item of `AgentSpec.about` that holds the settings."""


class Settings(Struct, frozen=True):
    """How an agent of the terminal is built."""

    model: str
    root: str
    """The folder that it may work on, with all links followed."""
    limit_steps: int = 100
    command: Literal["run", "plan"] = "run"
    approve: bool = False
    """Whether a plan waits for a person."""

    def __str__(self) -> str:
        return f"model {self.model}, root {self.root}"


def about(spec: AgentSpec, settings: Settings) -> AgentSpec:
    """*spec* with the settings among what is recorded of its agent."""
    return structs.replace(spec, about={**spec.about, KEY: msgspec.to_builtins(settings)})


def recorded(state: State) -> Settings | None:
    """The settings in a thread's log; None if they are not there: it is of a library's agent, or of an old version.

    Raises:
        CheckpointError: they are no settings.
    """
    noted: dict[str, Any] = state.notes.get("agent", {})
    try:
        return msgspec.convert(noted[KEY], Settings) if KEY in noted else None
    except msgspec.ValidationError as exc:
        raise CheckpointError(f"the settings in the thread's log cannot be used: {exc}") from exc


def in_file(directory: Path | None, thread: str) -> Settings | None:
    """The settings that an earlier version kept in a file beside the thread.

    Raises:
        CheckpointError: there is a file, and it cannot be read.
    """
    try:
        return directory and msgspec.json.decode(settings_file(directory, thread).read_bytes(), type=Settings)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as exc:
        raise CheckpointError(f"the settings of thread {thread!r} cannot be read: {exc}") from exc


def settings_file(directory: Path, thread: str) -> Path:
    """Where an earlier version kept the settings of *thread*."""
    name = quote(thread, safe="")
    return directory / "settings" / f"{name if len(name) < 200 else sha256(name.encode()).hexdigest()}.json"


def copy_file(directory: Path | None, thread: str, name: str) -> None:
    """Let the thread *name*, a fork of *thread*, have the file of that one: their log may say nothing yet."""
    if directory is not None and in_file(directory, thread):
        copyfile(settings_file(directory, thread), settings_file(directory, name))


def of_thread(state: State, directory: Path | None, thread: str, options: Namespace) -> Settings:
    """What a stored thread goes on with: what its log says, except where a flag says otherwise.

    Raises:
        ConfigError: it is no thread of the terminal; or its root is not where the person is, and nothing that a model
            cannot write says so.
        CheckpointError: its settings cannot be read.
    """
    logged = recorded(state)
    found = logged or in_file(directory, thread)
    if found is None:
        raise ConfigError(
            f"thread {thread!r} was begun by agent {state.agent!r} of a program, not by this command; "
            "name that agent with --agent module:name"
        )
    if options.root is None and (options.state is None or logged is None) and found.root != str(checked_root(None)):
        raise ConfigError(
            f"thread {thread!r} works on {found.root!r}, which is not this folder; "
            f"to go on there give --state {str(directory)!r} --root {found.root!r}"
        )
    return with_flags(found, options)


def with_flags(settings: Settings, options: Namespace) -> Settings:
    """*settings*, except where a flag of the command says otherwise."""
    given: dict[str, Any] = {name: getattr(options, name, None) for name in ("model", "limit_steps")}
    if options.root is not None:
        given["root"] = str(checked_root(options.root))
    if settings.command == options.command:  # To `resume`, --approve is a decision.
        given["approve"] = getattr(options, "approve", None)
    return structs.replace(settings, **{name: value for name, value in given.items() if value is not None})
