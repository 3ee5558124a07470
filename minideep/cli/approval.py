"""Guards the person's files: decides which calls of file tools need approval, and refuses them if nobody can be asked.

A new file may always be written. A file that this thread created may be changed as long as nobody else has changed it.
Everything else needs approval, except the files that the goal names, and with `--yes`. A call that changes a `.git`
always needs a decision of its own.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from .. import FileEntry, Interrupt, Middleware, State, ToolCall, ToolContext, ToolResult
from ..backends import FilesystemBackend, quoted
from ..events import Noted
from ..messages import clean
from ..middleware import FilesystemMiddleware
from ..workers import in_thread

OWNER = "created"
"""The owner of the notes that hold the paths of the files which this thread, or a run below it, created."""
MOST_DELETED = 10_000
"""The most files of a folder that are compared before its deletion needs approval without looking at more."""

Need = Literal["nothing", "consent", "decision"]
"""The approval that a call needs: `--yes` is consent to every call, a decision is about this one."""


class Finding(Struct, frozen=True):
    """The approval that a call needs, and why."""

    need: Need
    why: str = ""
    creates: bool = False


class AskBeforeChanges(Middleware):
    """Pauses before a call that would change a file of the person, or refuses it unless the person *can_ask*.

    *root* is the folder of those files, *goal* the person's message, and *created* holds the files that the thread has
    created before. With *allowed*, consent is given beforehand. *refused* is called with a line about each refusal.
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
        # The backend follows links on the way to its root: a file that it can reach must not count as outside.
        self.root: Path = Path(os.path.realpath(root))
        # The tools' own reading of paths: a guard that read them differently could be bypassed.
        self.target: Callable[[ToolCall], str] = FilesystemMiddleware(FilesystemBackend(root)).target
        self.allowed = allowed
        self.can_ask = can_ask
        self._goal = goal
        self._created = set(created)
        self._creating: set[tuple[object, ...]] = set()
        self._refused = refused

    async def before_tool(self, ctx: ToolContext, call: ToolCall) -> ToolCall | ToolResult | Interrupt:
        path = self.target(call)
        if not path or ctx.decision is not None:  # The tool itself refuses a call without a path.
            return call
        written = {name: entry for name in self._created if (entry := ctx.state.files.get(name))}
        finding = await in_thread(self.find, call.name, path, written)
        if finding.creates:
            self._creating.add((*ctx.path, ctx.call_id))
        if finding.need == "nothing" or (finding.need == "consent" and self.allowed):
            return call
        if self.can_ask:
            return Interrupt(call, finding.why)
        remedy = "`--yes` allows it" if finding.need == "consent" else "run it at a terminal, to be asked"
        if self._refused:
            self._refused(f"{call.name} {quoted(path)} was refused: {finding.why}; {remedy}")
        return ToolResult(f"{call.name} was refused: {finding.why}, and nobody is there to ask; {remedy}", True)

    async def after_tool(self, ctx: ToolContext, call: ToolCall, result: ToolResult) -> ToolResult:
        path, key = self.target(call), (*ctx.path, ctx.call_id)
        if key in self._creating and not result.is_error and clean(path) == path:  # No event can name another path.
            self._created.add(path)
            if not ctx.state.notes.get(OWNER, {}).get(path):
                ctx.record(Noted(OWNER, path, True))
        self._creating.discard(key)
        return result

    def needs_decision(self, call: ToolCall) -> bool:
        """Return True if neither `--yes` nor a yes to all covers this call."""
        path = self.target(call)
        return bool(path) and self.find(call.name, path, {}).need == "decision"

    def find(self, tool: str, path: str, written: dict[str, FileEntry]) -> Finding:
        """Return the approval that a call of *tool* needs.

        *written* has the files that the thread created, as it last wrote them.
        """
        real = self.real(tool, path)
        if real is None:
            return Finding("nothing")  # Outside the root: the tool refuses it.
        if self._in_git(path, real):
            return Finding("decision", f"{quoted(path)} belongs to git")
        try:
            status = real.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return Finding("nothing", creates=tool == "write_file")
        except OSError as exc:  # The tool opens folder after folder, and may get further.
            return Finding("consent", f"{quoted(path)} cannot be looked at: {exc.strerror}")
        if stat.S_ISDIR(status.st_mode):
            return self._folder(path, real, written) if tool == "delete" else Finding("nothing")
        if self._is_own(real, status, written) or self._is_named(status):
            return Finding("nothing")
        made = any(_is_at(self.root / name[1:], status) for name in written)
        why = "was changed since this thread wrote it" if made else "was not made by this thread"
        return Finding("consent", f"{quoted(path)} {why}")

    def real(self, tool: str, path: str) -> Path | None:
        """Return the file that a call changes, with all links followed; None if it is outside the root.

        `delete` removes a link itself, so its last part is not followed.
        """
        place = self.root / path[1:]
        try:
            real = Path(os.path.realpath(place.parent if tool == "delete" else place))
        except (OSError, ValueError):
            return None
        real = real / place.name if tool == "delete" else real
        return real if real.is_relative_to(self.root) and real != self.root else None

    def _in_git(self, path: str, real: Path) -> bool:
        """Return True if *real* or a link on the way is a `.git` or in one, however the system spells it."""
        inner = real.relative_to(self.root).parts
        if any(part.casefold() == ".git" for part in (*path.split("/"), *inner)):
            return True
        folders = [self.root.joinpath(*inner[:end]) for end in range(1, len(inner) + 1)]
        return any(_same(folder, folder.with_name(".git")) for folder in folders)

    def _folder(self, path: str, real: Path, written: dict[str, FileEntry]) -> Finding:
        """Return the approval that deleting a folder needs: the strictest that anything in it does."""
        why = ""
        try:
            for count, entry in enumerate(_below(real)):
                if entry.name.casefold() == ".git":
                    return Finding("decision", f"{quoted(path)} holds a .git")
                if not why and not entry.is_dir(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    own = count < MOST_DELETED and self._is_own(Path(entry.path), status, written)
                    why = "" if own else f"{quoted(path)} holds files that were not made by this thread"
        except OSError as exc:
            why = f"{quoted(path)} holds what cannot be looked at: {exc.strerror}"
        return Finding("consent" if why else "nothing", why)

    def _is_own(self, real: Path, status: os.stat_result, written: dict[str, FileEntry]) -> bool:
        """Return True if the thread created the file *real*, and nobody else has changed it since."""
        if not stat.S_ISREG(status.st_mode):
            return False
        for path, entry in written.items():
            if entry.size == status.st_size and _is_at(self.root / path[1:], status):
                return _digest(real) == entry.sha256
        return False

    def _is_named(self, status: os.stat_result) -> bool:
        """Return True if the goal names this file, by any path or link."""
        return stat.S_ISREG(status.st_mode) and any(_is_at(self.root / name, status) for name in named_in(self._goal))


def created_by(state: State) -> set[str]:
    """Return the files that a thread and the runs below it created; *state* must hold its subagents."""
    notes: dict[str, Any] = state.notes.get(OWNER, {})
    return set(notes).union(*map(created_by, state.subagents.values()))


def named_in(goal: str) -> Iterator[str]:
    """Yield the possible paths in *goal*: each word, and each quoted text."""
    words = [*goal.split(), *re.findall(r"[`'\"]([^`'\"\n]+)[`'\"]", goal)]
    for word in dict.fromkeys(words):
        bare = word.strip("`'\"()[]{}<>,;:!?*")
        for name in dict.fromkeys((bare, bare.rstrip("."))):
            if name.strip("./~"):
                yield name.removeprefix("/")
                yield name


def _is_at(place: Path, status: os.stat_result) -> bool:
    """Return True if the file at *place*, with all links followed, is the one of *status*."""
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
    """Yield everything in *folder*, at any depth, without following links."""
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
