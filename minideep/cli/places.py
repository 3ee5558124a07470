"""Finds the store of a root: in a private folder of the user, one per root, unless `--state` names another."""

import os
import re
import sys
from argparse import Namespace
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from .. import DiskCheckpointer, MemoryCheckpointer
from ..errors import ConfigError
from .text import aside

OLD = ".minideep"
"""The folder inside a root where earlier versions kept its threads. An existing one is used; none is created."""


def existing_store(options: Namespace) -> DiskCheckpointer:
    """Return the store in which a command looks for its thread.

    Raises:
        ConfigError: the root is not a folder, or the environment names no folder for the user's state.
    """
    return DiskCheckpointer(_directory(options))


def writable_store(options: Namespace) -> DiskCheckpointer | MemoryCheckpointer:
    """Return the store of a thread that may be new: one in memory, with a warning, if no folder can be created.

    Raises:
        ConfigError: the root is not a folder.
    """
    checked_root(options.root)
    try:
        directory = _directory(options)
    except ConfigError as exc:
        aside(f"not saved: {exc}")
        return MemoryCheckpointer()
    try:
        for folder in (directory.parent, directory):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        aside(f"not saved: cannot write the state in {str(directory)!r}: {exc}")
        return MemoryCheckpointer()
    return DiskCheckpointer(directory)


def checked_root(root: Path | None) -> Path:
    """Return *root*, or the current folder, with all links followed.

    Raises:
        ConfigError: it is not a folder.
    """
    real = Path(os.path.realpath(root or Path()))
    if not os.path.isdir(real):  # noqa: PTH112 - Path.is_dir raises where it may not look.
        raise ConfigError(f"--root {str(root)!r} is not a folder; to reach the threads of a deleted one, pass --state")
    return real


def _directory(options: Namespace) -> Path:
    if options.state is not None:
        return options.state
    root = checked_root(options.root)
    private, old = private_folder(root, sys.platform, os.environ), root / OLD
    # The private folder wins: a folder inside a root may have come with a download, or from a model.
    if private and _holds_threads(private):
        if _holds_threads(old):
            aside(f"{str(old)!r} holds older threads; `--state {old}` selects them")
        return private
    if _holds_threads(old):
        aside(f"using the threads in {str(old)!r}, where earlier versions kept them")
        return old
    if private is None:
        wanted = "LOCALAPPDATA" if sys.platform == "win32" else "HOME"
        raise ConfigError(f"{wanted} names no folder for your threads; set it, or pass --state")
    return private


def _holds_threads(directory: Path) -> bool:
    return os.path.isfile(directory / "cache.db")  # noqa: PTH113 - Path.is_file raises where it may not look.


def private_folder(root: Path, platform: str, environ: Mapping[str, str]) -> Path | None:
    """Return the folder for the threads of *root*, existing or not; None if the environment names no place.

    Its name has that of the root and a hash of the root's real path, so that two roots never share one.
    """
    base = _state_home(platform, environ)
    real = os.path.normcase(os.path.realpath(root))
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(real).name)[:40].strip(".-") or "root"
    return base and base / "minideep" / f"{readable}-{sha256(os.fsencode(real)).hexdigest()[:16]}"


def _state_home(platform: str, environ: Mapping[str, str]) -> Path | None:
    if platform == "win32":
        return Path(local) if (local := environ.get("LOCALAPPDATA")) else None
    xdg, home = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    if platform != "darwin" and xdg.startswith("/"):  # The XDG specification says to ignore a relative one.
        return Path(xdg)
    if not home.startswith("/"):
        return None
    return Path(home, "Library", "Application Support") if platform == "darwin" else Path(home, ".local", "state")
