"""The virtual files: artifacts of a thread on any backend, evicted by age and spilled by size.

Subagents write and read whole files; planner and reflection are shown names and sizes only. A file that cleanup evicts
leaves the state for good; its content can be restored by its hash for as long as the log goes back to it.
"""

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, TypeVar

from msgspec import Struct, structs

from ..checkpoint import encode_state
from ..context import ToolContext
from ..errors import FileViolation, ToolError
from ..events import FileDeleted, FileWritten, Noted
from ..messages import to_json
from ..ports import Backend
from ..state import FileEntry, State, as_bytes
from ..workers import in_thread
from . import state as boards
from .answer import mentions
from .state import FILES, Board, Filed, Record, filed

INLINE_SIZE_LIMIT_BYTES = 100 * 1024
STATE_LIMIT_BYTES = 500_000
MAX_FILE_AGE_STEPS = 20
DONE_AGE_STEPS = 3
"""Steps that a file stays which is done."""
_OVERHEAD = 400
"""Bytes of a state that a file takes up besides its content."""

_GONE_SHOWN = 50
"""Evicted files that a summary names."""

T = TypeVar("T")


class Found(Struct, frozen=True):
    """A file by its name: of the state, or evicted."""

    path: str
    sha256: str
    about: Filed
    evicted: bool = False


class VirtualFiles:
    """The files of a blueprint's thread, on *backend*.

    Over *inline_limit* bytes a file's content is kept apart from the state, in the store, once for all that hold the
    same; so are the largest others while the state would have more than *state_limit* bytes. What is done goes after 3
    steps, everything after *max_age*, unless its name is one of the patterns in *pinned*.
    """

    def __init__(
        self,
        backend: Backend,
        inline_limit: int = INLINE_SIZE_LIMIT_BYTES,
        state_limit: int = STATE_LIMIT_BYTES,
        max_age: int = MAX_FILE_AGE_STEPS,
        pinned: Collection[str] = (),
    ) -> None:
        self.backend = backend
        self.inline_limit, self.state_limit, self.max_age = inline_limit, state_limit, max_age
        self._pinned = tuple(pinned)

    # ---- by name

    def names(self, state: State, ledger: Iterable[Mapping[str, Any]]) -> dict[str, Found]:
        """Every name that a plan or an answer may use: of artifacts, their last version, and of the files themselves.
        Evicted ones are found through the *ledger*.
        """
        found: dict[str, Found] = {}
        for entry in ledger:
            if "file" in entry:
                about = Filed(entry["artifact"], entry["role"], entry["step"], entry["status"])
                one = Found("/" + entry["file"], entry["sha256"], about, evicted=True)
                found |= {about.name: one, entry["file"]: one}
        there = [(about.step, path, about) for path, about in filed(state).items() if path in state.files]
        for _, path, about in sorted(there, key=lambda one: one[0]):
            found[path[1:]] = one = Found(path, state.files[path].sha256, about)
            last = found.setdefault(about.name, one)
            if last.path == path or last.about.step <= about.step:  # Else a newer version was evicted.
                found[about.name] = one
        return found

    def summary(self, state: State, names: Mapping[str, Found]) -> str:
        """Name, status and size of each file, a line each; of what was evicted, the last names."""
        there = [
            {"name": about.name, "file": path[1:], "role": about.role, "status": about.status}
            | {"bytes": state.files[path].size, "step": about.step}
            for path, about in filed(state).items()
            if path in state.files
        ]
        lines = [to_json(line).decode() for line in there]
        if gone := [name for name, one in names.items() if one.evicted and name == one.about.name]:
            lines.append(f"evicted, restored if named: {', '.join(gone[-_GONE_SHOWN:])}")
        return "\n".join(lines) or "none"

    async def read(self, ctx: ToolContext, found: Found, step: int) -> str:
        """The whole content of a file. One that was evicted is restored, as written at *step*.

        Raises:
            FileViolation: it is not there any more.
            CheckpointError: the store has lost it.
        """
        content = await self._content(ctx, found)
        if content is None:
            raise FileViolation(f"file {found.about.name!r} was evicted, and no log that is kept goes back to it")
        if found.evicted:
            about = structs.replace(found.about, step=step)
            self.enter(ctx, self._written(ctx, found.path, content, kept=not self.backend.blocking), about)
        return content if isinstance(content, str) else content.decode(errors="replace")

    async def _content(self, ctx: ToolContext, found: Found) -> str | bytes | None:
        kept = ctx.recall(found.path, found.sha256) if found.evicted else ctx.content_of(found.path)
        if kept is not None:
            return kept
        try:
            data: bytes = await self._hop(self.backend.read, ctx, found.path)
        except ToolError as exc:
            if found.evicted:
                return None
            raise FileViolation(str(exc)) from None
        if found.evicted and sha256(data).hexdigest() != found.sha256:
            return None
        return data

    # ---- writing

    async def write(self, ctx: ToolContext, name: str, content: str) -> FileWritten:
        """Put an artifact where the backend keeps files; the event that says so is still to be recorded.

        Raises:
            ToolError: the backend refuses it.
        """
        path = f"{self.backend.home.rstrip('/')}/{name}"
        if await self._hop(self._is_taken, ctx, path, content.encode()):
            stem, suffix = PurePosixPath(path).stem, PurePosixPath(path).suffix
            path = str(PurePosixPath(path).with_name(f"{stem}-{sha256(content.encode()).hexdigest()[:8]}{suffix}"))
        kept = await self._hop(self.backend.write, ctx, path, content.encode())
        return self._written(ctx, path, content, kept=kept)

    def _is_taken(self, ctx: ToolContext, path: str, data: bytes) -> bool:
        """Whether *path* holds something else, which another thread wrote: a folder may be used by several."""
        try:
            return self.backend.read(ctx, path) != data
        except ToolError:
            return False

    def _written(self, ctx: ToolContext, path: str, content: str | bytes, *, kept: bool) -> FileWritten:
        data = as_bytes(content)
        apart = kept and len(data) > self.inline_limit
        return FileWritten(
            path, content if kept else None, len(data), sha256(data).hexdigest(), time.time(), ctx.path, apart
        )

    def enter(self, ctx: ToolContext, event: FileWritten, about: Filed) -> None:
        """Record that a file was written, and what is to be remembered of it."""
        ctx.record(event)
        self._note(ctx, event.file, about)

    def adopt(self, ctx: ToolContext, step: int) -> None:
        """Take charge of what subagents of this call wrote with tools of their own, so that it is evicted as well."""
        for path, file in list(ctx.state.files.items()):
            if file.by and file.by[0].partition("/")[0] == ctx.call_id:
                about = filed(ctx.state).get(path) or Filed(path[1:], "", step, "active")
                self._note(ctx, path, structs.replace(about, step=step))

    # ---- cleanup

    async def cleanup(self, ctx: ToolContext) -> str:
        """Evict what is old and spill what is large, before planning goes on and before the turn hands over."""
        board = boards.read(ctx.state)
        gone = self.evict(ctx, board)
        boards.enter(ctx, Record(ctx.state.turn, board.step, "cleanup", files=tuple(gone)))
        boards.note(ctx, structs.replace(board, node="cleanup"))
        return f"{len(gone)} files evicted"

    def evict(self, ctx: ToolContext, board: Board) -> list[str]:
        """Remove what is old, except what the rest of the plan reads, and spill what does not fit. Returns what is
        gone.
        """
        subtasks = board.subtasks if board.decision == "continue" else ()
        needed = {name for place in board.left() for name in subtasks[place].read_files} if subtasks else ()
        gone: list[str] = []
        for path, about in filed(ctx.state).items():
            if path not in ctx.state.files or self._is_over(about, board.step, needed):
                gone.append(path)
                ctx.record(FileDeleted(path, time.time(), ctx.path))
                ctx.record(Noted(FILES, path, rule="delete"))
        self._spill(ctx, self._answer_size(ctx.state, board))
        return [path[1:] for path in gone]

    @property
    def answer_limit(self) -> int:
        """Bytes of artifacts that a final answer may hold."""
        return self.state_limit // 2

    def _answer_size(self, state: State, board: Board) -> int:
        if board.decision != "end":
            return 0
        names = self.names(state, board.ledger)
        sizes = (state.files[names[name].path].size for name in mentions(board.final_answer))
        return len(board.final_answer.encode()) + min(sum(sizes), self.answer_limit)

    def _is_over(self, about: Filed, step: int, needed: Collection[str]) -> bool:
        if about.kept or about.name in needed or any(fnmatchcase(about.name, pattern) for pattern in self._pinned):
            return False
        age = step - about.step
        return age > self.max_age or (about.status == "done" and age > DONE_AGE_STEPS)

    def _spill(self, ctx: ToolContext, answer: int) -> None:
        """Keep contents apart, the largest first, the oldest of those of one size, until the state is small enough."""
        known = filed(ctx.state)
        inline = [(path, file) for path, file in ctx.state.files.items() if _is_inline(file)]
        inline.sort(key=lambda one: (-one[1].size, known[one[0]].step if one[0] in known else 0))
        total, room = sum(file.size for _, file in inline), self._room(ctx.state, answer)
        for path, file in inline:
            if total <= room and file.size <= self.inline_limit:
                return
            total -= file.size
            ctx.record(FileWritten(path, file.content, file.size, file.sha256, file.modified, file.by, True))

    def _room(self, state: State, answer: int) -> int:
        """Bytes of content that the state may hold. What else it holds counts twice: some serializers are wordy."""
        rest = len(encode_state(structs.replace(state, files={}, subagents={})))
        return self.state_limit - 2 * rest - _OVERHEAD * len(state.files) - answer

    def keep(self, ctx: ToolContext, paths: Collection[str]) -> None:
        """Let the files stay on which the turn's answer stands, until there is another answer."""
        for path, about in filed(ctx.state).items():
            if about.kept != (path in paths):
                self._note(ctx, path, structs.replace(about, kept=path in paths))

    def _note(self, ctx: ToolContext, path: str, about: Filed) -> None:
        ctx.record(Noted(FILES, path, structs.asdict(about)))

    async def _hop(self, work: Callable[..., T], *args: object) -> T:
        return await in_thread(work, *args) if self.backend.blocking else work(*args)


def _is_inline(file: FileEntry) -> bool:
    return file.content is not None and not file.blob and file.size <= INLINE_SIZE_LIMIT_BYTES


def stored_name(role: str, step: int, name: str) -> str:
    """Where an artifact is kept: `{role}_{step}_{name}`, with `.md` unless the name has an ending of its own."""
    given = PurePosixPath(name)
    stem, suffix = (given.stem, given.suffix) if given.suffix else (name, ".md")
    slug = re.sub(r"[^\w.-]+", "-", stem).strip("-.")[:60] or "artifact"
    return f"{role}_{step}_{slug}{suffix}"
