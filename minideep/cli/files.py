"""`files`: list what a thread has delivered, or write it into a folder."""

import argparse
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ..backends import FilesystemBackend, Missing
from ..blueprint import Blueprint
from ..checkpoint import finish_work
from ..errors import ConfigError, ToolError
from ..ports import Store
from ..state import as_bytes
from .places import existing_store
from .render import Screen
from .text import aside, safe
from .turns import reader

NO_CONTEXT: Any = None
"""A folder of this machine needs none."""


class Delivered(Struct, frozen=True):
    """A file of a thread."""

    path: str
    size: int
    """Bytes."""
    role: str
    """The role of a blueprint that wrote it; empty for any other file."""
    status: str
    """`done`, `active`, `evicted`, or `on the disk` if the store does not have its content."""
    content: str | bytes | None


class _Written(Struct):
    """An artifact, as a blueprint's ledger has it."""

    file: str = ""
    role: str = ""
    status: str = ""
    bytes: int = 0


def files(options: argparse.Namespace) -> int:
    """List the files of a thread, or write those that the store has below `--out`."""
    with closing(existing_store(options)) as store:
        try:
            found = list(_delivered(store, options.thread))
        finally:
            finish_work(store)
    if options.out is None:
        Screen().files([(one.path, one.size, one.role, one.status) for one in found])
        return 0
    written = _write([one for one in found if one.content is not None], options.out)
    for path in written:
        Screen().line(safe(path))
    if elsewhere := [one.path for one in found if one.content is None]:
        aside(safe(f"not in the store, and so not written: {', '.join(elsewhere)}"))
    return 0


def _delivered(store: Store, thread: str) -> Iterator[Delivered]:
    """Yield the files of a thread: those in its state, and the artifacts that a blueprint has evicted from it."""
    agent, team = reader(store), Blueprint("offline:", checkpointer=store)
    kept = agent.get_state(thread).files
    ledger = (msgspec.json.decode(line, type=_Written) for line in team.trace(thread))
    artifacts = {f"/{entry.file}": entry for entry in ledger if entry.file}
    for path, file in kept.items():
        content, entry = agent.read_file(thread, path), artifacts.pop(path, _Written())
        yield Delivered(path, file.size, entry.role, "on the disk" if content is None else entry.status, content)
    for path, entry in artifacts.items():
        yield Delivered(path, entry.bytes, entry.role, "evicted", team.artifact(thread, entry.file))


def _write(found: list[Delivered], out: Path) -> list[str]:
    """Write files below *out*, which is made if it is missing. Nothing outside of it, and no other file, is changed.

    Raises:
        ConfigError: another file has one of the names; nothing was written. Or one cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder = FilesystemBackend(out)
        if taken := [one.path for one in found if _holds_another(folder, one)]:
            raise ConfigError(f"--out {str(out)!r} has other files named {', '.join(taken)}; choose another folder")
        for one in found:
            folder.write(NO_CONTEXT, one.path, as_bytes(one.content or ""))
    except (OSError, ToolError) as exc:
        raise ConfigError(f"--out {str(out)!r} cannot be written: {exc}") from None
    return [str(out / one.path.lstrip("/")) for one in found]


def _holds_another(folder: FilesystemBackend, one: Delivered) -> bool:
    try:
        return folder.read(NO_CONTEXT, one.path) != as_bytes(one.content or "")
    except Missing:
        return False
