"""The person's files: which call of a file tool needs the person's word first, and what happens where nobody is there.

A new file may always be written, and a file that this thread created may be changed while nobody else has changed it.
Everything else is asked, except what `--yes` allows and what the goal names. Nothing but a decision of its own lets a
call change what is in a `.git`.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from ..backends import FilesystemBackend, quoted
from ..context import ToolContext
from ..events import Noted
from ..messages import ToolCall, ToolResult, clean
from ..middleware import FilesystemMiddleware
from ..ports import Middleware
from ..state import FileEntry, Interrupt, State
from ..workers import in_thread

OWNER = "created"
"""Whose notes they are: the paths of the files that this thread, or a run below it, created."""
MOST_DELETED = 10_000
"""Files in a folder that are looked at before its deletion is asked for without looking at more."""

Need = Literal["nothing", "a word", "a decision"]
"""What a call needs before it runs: `--yes` is a word, a decision is about this one call."""


class Finding(Struct, frozen=True):
    """What was found out about a call."""

    need: Need
    why: str = ""
    creates: bool = False


class AskBeforeChanges(Middleware):
    """Lets a call that would change a file of the person's wait, or refuses it where nobody *can_ask* the person.

    *root* is the folder whose files they are; *goal* what the person said, *created* the files that the thread had
    created before. *allowed* changes need no asking. *refused* is told of each call that is not run.
    """

    def __init__(
        self,
        root: Path,
        goal: str = "",
        *,
        created: Iterable[str] = (),
        allowed: bool = False,
        can_ask: bool = False,
        refused: Callable[[str], None] | None = None,
    ) -> None:
        # The backend follows links on the way to its root, too: what it may reach must not count as outside.
        self.root = Path(os.path.realpath(root))
        # A guard that read paths otherwise than the tools do could be passed by.
        self.target = FilesystemMiddleware(FilesystemBackend(root)).target
        self.allowed = allowed
        self.can_ask = can_ask
        self._goal = goal
        self._created = set(created)
        self._creating: set[tuple[object, ...]] = set()
        self._refused = refused

    async def before_tool(self, ctx: ToolContext, call: ToolCall) -> ToolCall | ToolResult | Interrupt:
        path = self.target(call)
        if not path or ctx.decision is not None:  # The tool itself refuses what has no path.
            return call
        written = {name: entry for name in self._created if (entry := ctx.state.files.get(name))}
        finding = await in_thread(self.find, call.name, path, written)
        if finding.creates:
            self._creating.add((*ctx.path, ctx.call_id))
        if finding.need == "nothing" or (finding.need == "a word" and self.allowed):
            return call
        if self.can_ask:
            return Interrupt(call, finding.why)
        remedy = "`--yes` allows it" if finding.need == "a word" else "run it at a terminal, to be asked"
        if self._refused:
            self._refused(f"{call.name} {quoted(path)} was refused: {finding.why}; {remedy}")
        return ToolResult(f"{call.name} was refused: {finding.why}, and nobody is there to ask; {remedy}", True)

    async def after_tool(self, ctx: ToolContext, call: ToolCall, result: ToolResult) -> ToolResult:
        path, key = self.target(call), (*ctx.path, ctx.call_id)
        if key in self._creating and not result.is_error and clean(path) == path:  # Else no event can name it.
            self._created.add(path)
            if not ctx.state.notes.get(OWNER, {}).get(path):
                ctx.record(Noted(OWNER, path, True))
        self._creating.discard(key)
        return result

    def needs_decision(self, call: ToolCall) -> bool:
        """Whether `--yes`, or a yes to all, is not about this call."""
        path = self.target(call)
        return bool(path) and self.find(call.name, path, {}).need == "a decision"

    def find(self, tool: str, path: str, written: dict[str, FileEntry]) -> Finding:
        """What a call of *tool* needs. *written* are the files that the thread created, as it last wrote them."""
        real = self.real(tool, path)
        if real is None:
            return Finding("nothing")  # Out of the root: the tool refuses it.
        if self._in_git(path, real):
            return Finding("a decision", f"{quoted(path)} belongs to git")
        try:
            status = real.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return Finding("nothing", creates=tool == "write_file")
        except OSError as exc:  # The tool goes from folder to folder, and may get further.
            return Finding("a word", f"{quoted(path)} cannot be looked at: {exc.strerror}")
        if stat.S_ISDIR(status.st_mode):
            return self._folder(path, real, written) if tool == "delete" else Finding("nothing")
        if self._is_own(real, status, written) or self._is_named(status):
            return Finding("nothing")
        made = any(_is_at(self.root / name[1:], status) for name in written)
        why = "was changed since this thread wrote it" if made else "was not made by this thread"
        return Finding("a word", f"{quoted(path)} {why}")

    def real(self, tool: str, path: str) -> Path | None:
        """The file that a call changes, all links followed, except that `delete` removes a link itself; None if it
        is not in the root.
        """
        place = self.root / path[1:]
        try:
            real = Path(os.path.realpath(place.parent if tool == "delete" else place))
        except (OSError, ValueError):
            return None
        real = real / place.name if tool == "delete" else real
        return real if real.is_relative_to(self.root) and real != self.root else None

    def _in_git(self, path: str, real: Path) -> bool:
        """Whether *real*, or what a link on the way is called, is a `.git` or in one, however the system spells it."""
        inner = real.relative_to(self.root).parts
        if any(part.casefold() == ".git" for part in (*path.split("/"), *inner)):
            return True
        folders = [self.root.joinpath(*inner[:end]) for end in range(1, len(inner) + 1)]
        return any(_same(folder, folder.with_name(".git")) for folder in folders)

    def _folder(self, path: str, real: Path, written: dict[str, FileEntry]) -> Finding:
        """What the deletion of a folder needs: the most that something in it does."""
        why = ""
        try:
            for count, entry in enumerate(_below(real)):
                if entry.name.casefold() == ".git":
                    return Finding("a decision", f"{quoted(path)} holds a .git")
                if not why and not entry.is_dir(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    own = count < MOST_DELETED and self._is_own(Path(entry.path), status, written)
                    why = "" if own else f"{quoted(path)} holds files that were not made by this thread"
        except OSError as exc:
            why = f"{quoted(path)} holds what cannot be looked at: {exc.strerror}"
        return Finding("a word" if why else "nothing", why)

    def _is_own(self, real: Path, status: os.stat_result, written: dict[str, FileEntry]) -> bool:
        """Whether the thread created the file *real*, and nobody else has changed it since."""
        if not stat.S_ISREG(status.st_mode):
            return False
        for path, entry in written.items():
            if entry.size == status.st_size and _is_at(self.root / path[1:], status):
                return _digest(real) == entry.sha256
        return False

    def _is_named(self, status: os.stat_result) -> bool:
        """Whether the goal names this file, by whatever path or link."""
        return stat.S_ISREG(status.st_mode) and any(_is_at(self.root / name, status) for name in named_in(self._goal))


def created_by(state: State) -> set[str]:
    """The files that a thread and the runs below it created; *state* was read with its subagents."""
    notes: dict[str, Any] = state.notes.get(OWNER, {})
    return set(notes).union(*map(created_by, state.subagents.values()))


def named_in(goal: str) -> Iterator[str]:
    """What may be the path of a file in *goal*: each word, and what stands in quotes."""
    words = [*goal.split(), *re.findall(r"[`'\"]([^`'\"\n]+)[`'\"]", goal)]
    for word in dict.fromkeys(words):
        bare = word.strip("`'\"()[]{}<>,;:!?*")
        for name in dict.fromkeys((bare, bare.rstrip("."))):
            if name.strip("./~"):
                yield name.removeprefix("/")
                yield name


def _is_at(place: Path, status: os.stat_result) -> bool:
    """Whether the file at *place*, all links followed, is the one of *status*."""
    try:
        return os.path.samestat(place.stat(), status)
    except (OSError, ValueError):
        return False


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Everything in *folder*, at any depth; links are not followed."""
    folders = [str(folder)]
    while folders:
        entries = list(os.scandir(folders.pop()))
        yield from entries
        folders += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _digest(file: Path) -> str:
    try:
        return sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""
