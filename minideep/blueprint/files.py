"""The virtual files: the artifacts of a thread on any backend, evicted by age and spilled by size.

Subagents write and read whole files; planner and reflection see names and sizes only. Cleanup removes an evicted file
from the state. Its content can be restored by its hash for as long as the log reaches back to it.
"""

import re
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, TypeVar

from msgspec import Struct, structs

from ..backends import as_content, write_given
from ..context import ToolContext
from ..errors import FileViolation, ToolError
from ..events import FileDeleted, FileWritten, Noted
from ..plain_json import to_json
from ..ports import Backend
from ..state import AnyState, FileEntry, StateView, as_bytes
from ..workers import in_thread
from .contracts import named_artifacts
from .state import FILES, Board, FileNote, LedgerEntry, append_to_ledger, file_notes, read_board, save_progress

INLINE_SIZE_LIMIT_BYTES = 100 * 1024
STATE_LIMIT_BYTES = 500_000
MAX_FILE_AGE_STEPS = 20
USER = "user"
"""The role of files that came with an input."""
DONE_AGE_STEPS = 3
"""Steps after which a file whose status is `done` is evicted."""
_ENTRY_BYTES = 400
"""Bytes that a file takes up in a state besides its content, at most."""
_EVICTED_SHOWN = 50
"""Evicted files that a summary names."""

NO_CONTEXT: Any = None
"""A folder of this machine needs none."""

T = TypeVar("T")


class FileRef(Struct, frozen=True):
    """A file that a name refers to."""

    path: str
    sha256: str
    note: FileNote
    evicted: bool = False
    turn: int = 0
    """The turn that wrote it, if it was evicted."""


class VirtualFiles:
    """The files of a blueprint's thread, on *backend*.

    Content of more than *inline_limit* bytes is spilled: the store keeps it, once for all files with the same content.
    While the state has more than *state_limit* bytes, the largest other contents are spilled too. A file that is done
    is evicted after 3 steps, any other after *max_age*, unless a pattern in *pinned* matches its name.
    """

    def __init__(
        self, backend: Backend, inline_limit: int, state_limit: int, max_age: int, pinned: Collection[str]
    ) -> None:
        self.backend = backend
        self.inline_limit: int = inline_limit
        self.state_limit: int = state_limit
        self.max_age: int = max_age
        self._pinned = tuple(pinned)
        self.recallable: Callable[[str], Container[tuple[str, str]]] = lambda thread_id: ()
        """Returns path and hash of each content that the log of a thread has saved."""

    # ---- by name

    def by_name(self, state: AnyState, ledger: Iterable[Mapping[str, Any]]) -> dict[str, FileRef]:
        """Return what each name in a plan or an answer refers to. Evicted files are found through *ledger*.

        The name of an artifact refers to its last version; the name of a file to that file.
        """
        found: dict[str, FileRef] = {}
        for entry in ledger:
            if "file" in entry:
                note = FileNote(entry["artifact"], entry["role"], entry["step"], entry["status"])
                ref = FileRef("/" + entry["file"], entry["sha256"], note, True, entry["turn"])
                found[note.name] = found[entry["file"]] = ref
        present = [(note.step, path, note) for path, note in file_notes(state).items() if path in state.files]
        for _, path, note in sorted(present, key=lambda file: file[0]):
            found[path[1:]] = ref = FileRef(path, state.files[path].sha256, note)
            last = found.setdefault(note.name, ref)
            if last.path == path or last.note.step <= note.step:  # Else a newer version was evicted.
                found[note.name] = ref
        return found

    async def offered(self, ctx: ToolContext, ledger: Iterable[Mapping[str, Any]]) -> dict[str, FileRef]:
        """Return what `by_name` does, without the evicted files whose content nobody has any more."""
        files = self.by_name(ctx.state, ledger)
        return {name: ref for name, ref in files.items() if not ref.evicted or await self._is_restorable(ctx, ref)}

    async def _is_restorable(self, ctx: ToolContext, ref: FileRef) -> bool:
        if self.backend.blocking:
            return await self._content(ctx, ref) is not None
        if ref.turn == ctx.state.turn:  # Perhaps not saved yet.
            return True
        saved = ctx.scratch.get(self)
        if saved is None:  # Once a turn, as the log has no other place for old files.
            saved = ctx.scratch[self] = self.recallable(ctx.thread_id)
        return (ref.path, ref.sha256) in saved

    def summary(self, state: AnyState, files: Mapping[str, FileRef]) -> str:
        """Return name, status and size of each file, a line of JSON each, and the names of the last evicted ones."""
        present = [
            {"name": note.name, "file": path[1:], "role": note.role, "status": note.status}
            | {"bytes": state.files[path].size, "step": note.step}
            for path, note in file_notes(state).items()
            if path in state.files
        ]
        lines = [to_json(line).decode() for line in present]
        if evicted := [name for name, ref in files.items() if ref.evicted and name == ref.note.name]:
            lines.append(f"evicted, restored if named: {', '.join(evicted[-_EVICTED_SHOWN:])}")
        return "\n".join(lines) or "none"

    async def read(self, ctx: ToolContext, ref: FileRef, step: int) -> str | bytes:
        """Return the whole content of a file. An evicted file is restored, as if written at *step*.

        Raises:
            FileViolation: the content is gone.
            CheckpointError: the store has lost it.
        """
        content = await self._content(ctx, ref)
        if content is None:
            raise FileViolation(f"file {ref.note.name!r} was evicted, and the log no longer reaches back to it")
        if ref.evicted:
            note = structs.replace(ref.note, step=step)
            self.record(ctx, _written(ctx, ref.path, content, not self.backend.blocking, self.inline_limit), note)
        return content

    async def content(self, ctx: ToolContext, path: str, sha256: str) -> str | bytes | None:
        """Return the content that a file had when its hash was *sha256*. If nobody has it any more, return what is in
        its place now, if anything.

        Raises:
            CheckpointError: the store has lost it.
        """
        file = ctx.state.files.get(path)
        kept = ctx.content_of(path) if file and file.sha256 == sha256 else ctx.recall(path, sha256)
        if kept is not None:
            return kept
        try:
            return await self._call(self.backend.read, ctx, path)
        except ToolError:
            return None

    async def _content(self, ctx: ToolContext, ref: FileRef) -> str | bytes | None:
        kept = ctx.recall(ref.path, ref.sha256) if ref.evicted else ctx.content_of(ref.path)
        if kept is not None:
            return kept
        try:
            data: bytes = await self._call(self.backend.read, ctx, ref.path)
        except ToolError as exc:
            if ref.evicted:
                return None
            raise FileViolation(str(exc)) from None
        # On a disk somebody may have written another file in its place; that one must not pass for the artifact.
        return None if ref.evicted and digest(data) != ref.sha256 else data

    # ---- writing

    async def write(self, ctx: ToolContext, name: str, content: str) -> FileWritten:
        """Write an artifact to the backend and return its event, which the caller records.

        Raises:
            ToolError: the backend refuses it.
        """
        path, data = f"{self.backend.home.rstrip('/')}/{name}", content.encode()
        if await self._call(self._is_taken, ctx, path, data):
            stem, suffix = PurePosixPath(path).stem, PurePosixPath(path).suffix
            path = str(PurePosixPath(path).with_name(f"{stem}-{digest(data)[:8]}{suffix}"))
        kept = await self._call(self.backend.write, ctx, path, data)
        return _written(ctx, path, content, kept, self.inline_limit)

    def _is_taken(self, ctx: ToolContext, path: str, data: bytes) -> bool:
        """Return whether *path* holds something else: several threads may use one folder."""
        try:
            return self.backend.read(ctx, path) != data
        except ToolError:
            return False

    async def add(self, ctx: ToolContext, files: Mapping[str, str | bytes], step: int) -> None:
        """Write and record files of the user, which planner and roles can name as they do artifacts.

        Raises:
            ToolError: one is refused; none was written.
        """

        def record(path: str, data: bytes, kept: bool) -> None:
            event = _written(ctx, path, as_content(data), kept, self.inline_limit)
            self.record(ctx, event, FileNote(path[1:], USER, step, "active"))

        await write_given(ctx, self.backend, files, record)

    def record(self, ctx: ToolContext, event: FileWritten, note: FileNote) -> None:
        """Record a written file and its metadata. A content that another file has too is kept once: in the store."""
        ctx.record(self._shared(ctx, event))
        self._save_note(ctx, event.file, note)

    def _shared(self, ctx: ToolContext, event: FileWritten) -> FileWritten:
        """Return *event* as a blob if another file has its content, and make that one a blob too."""
        if event.blob or event.content is None or event.size <= _ENTRY_BYTES:
            return event
        files = ctx.state.files
        same = [path for path, file in files.items() if file.sha256 == event.sha256 and path != event.file]
        for path in same:
            if _is_inline(files[path]):
                ctx.record(_as_blob(path, files[path]))
        return structs.replace(event, blob=bool(same))

    def adopt(self, ctx: ToolContext, step: int) -> None:
        """Manage the files that subagents of this call wrote with tools of their own, so that they are evicted too."""
        for path, file in list(ctx.state.files.items()):
            if file.by and file.by[0].partition("/")[0] == ctx.call_id:
                note = file_notes(ctx.state).get(path) or FileNote(path[1:], "", step, "active")
                self._save_note(ctx, path, structs.replace(note, step=step))

    def remove(self, written: Mapping[str, str]) -> None:
        """Delete files from a folder of this machine, given by path with the hash of what was written."""
        for path, known in written.items():
            # One that is gone, or cannot be deleted, is left as it is: its thread is gone already.
            with suppress(ToolError):
                if digest(self.backend.read(NO_CONTEXT, path)) == known:
                    self.backend.delete(NO_CONTEXT, path)

    # ---- cleanup

    async def cleanup(self, ctx: ToolContext) -> str:
        """Evict old files and spill large ones, after each decision and before the turn ends."""
        board = read_board(ctx.state)
        evicted = self.evict(ctx, board)
        append_to_ledger(ctx, LedgerEntry(ctx.state.turn, board.step, "cleanup", files=tuple(evicted)))
        save_progress(ctx, structs.replace(board, node="cleanup"))
        return f"{len(evicted)} files evicted"

    def evict(self, ctx: ToolContext, board: Board) -> list[str]:
        """Remove old files, except those that the rest of the plan reads, and spill what does not fit.

        Returns the names of the removed files.
        """
        subtasks = board.subtasks if board.decision == "continue" else ()
        needed = {name for place in board.left() for name in subtasks[place].read_files} if subtasks else ()
        evicted: list[str] = []
        for path, note in file_notes(ctx.state).items():
            # A file that a role has deleted with a tool of its own is still noted.
            if path not in ctx.state.files or self._is_expired(note, board.step, needed):
                evicted.append(path)
                ctx.record(FileDeleted(path, time.time(), ctx.path))
                ctx.record(Noted(FILES, path, rule="delete"))
        self._spill(ctx, self._answer_size(ctx.state, board))
        return [path[1:] for path in evicted]

    @property
    def answer_limit(self) -> int:
        """Bytes of artifacts that a final answer may hold."""
        return self.state_limit // 2

    def _answer_size(self, state: AnyState, board: Board) -> int:
        """Return the bytes that the final answer will add to the state."""
        if board.decision != "end":
            return 0
        files = self.by_name(state, board.ledger)
        sizes = (state.files[files[name].path].size for name in named_artifacts(board.final_answer))
        return len(board.final_answer.encode()) + min(sum(sizes), self.answer_limit)

    def _is_expired(self, note: FileNote, step: int, needed: Collection[str]) -> bool:
        if note.kept or note.name in needed or any(fnmatchcase(note.name, pattern) for pattern in self._pinned):
            return False
        age = step - note.step
        return age > self.max_age or (note.status == "done" and age > DONE_AGE_STEPS)

    def _spill(self, ctx: ToolContext, reserved: int) -> None:
        """Move contents to the store until the state has room for *reserved* bytes: the largest first, and the oldest
        of those of one size.
        """
        notes = file_notes(ctx.state)
        inline = [(path, file) for path, file in ctx.state.files.items() if _is_inline(file)]
        inline.sort(key=lambda file: (-file[1].size, notes[file[0]].step if file[0] in notes else 0))
        total, room = sum(file.size for _, file in inline), self._room(ctx.state, reserved)
        for path, file in inline:
            if total <= room and file.size <= self.inline_limit:
                return
            total -= file.size
            ctx.record(_as_blob(path, file))

    def _room(self, state: StateView, reserved: int) -> int:
        """Return the bytes of content that the state may hold."""
        # Twice: the bound holds for other serializers too, such as pickle, and some take up to twice the bytes.
        return self.state_limit - 2 * state.size() - _ENTRY_BYTES * len(state.files) - reserved

    def keep(self, ctx: ToolContext, paths: Collection[str]) -> None:
        """Keep the files that the turn's answer names from eviction, and no others."""
        for path, note in file_notes(ctx.state).items():
            if note.kept != (path in paths):
                self._save_note(ctx, path, structs.replace(note, kept=path in paths))

    def _save_note(self, ctx: ToolContext, path: str, note: FileNote) -> None:
        ctx.record(Noted(FILES, path, structs.asdict(note)))

    async def _call(self, work: Callable[..., T], *args: object) -> T:
        return await in_thread(work, *args) if self.backend.blocking else work(*args)


def _written(ctx: ToolContext, path: str, content: str | bytes, kept: bool, inline_limit: int) -> FileWritten:
    """Return the event of a written file, with its content if the state keeps it, as a blob if that is large."""
    data = as_bytes(content)
    blob = kept and len(data) > inline_limit
    return FileWritten(path, content if kept else None, len(data), digest(data), time.time(), ctx.path, blob)


def _as_blob(path: str, file: FileEntry) -> FileWritten:
    """Return the event that moves the content of a file to the store, which keeps one of each."""
    return FileWritten(path, file.content, file.size, file.sha256, file.modified, file.by, True)


def as_text(content: str | bytes) -> str:
    """Return the content of a file as a model reads it."""
    return content if isinstance(content, str) else content.decode(errors="replace")


def digest(content: str | bytes) -> str:
    """Return the hash of a content by which the log knows it."""
    return sha256(as_bytes(content)).hexdigest()


def _is_inline(file: FileEntry) -> bool:
    return file.content is not None and not file.blob and file.size <= INLINE_SIZE_LIMIT_BYTES


def stored_name(role: str, step: int, name: str) -> str:
    """Return the file name of an artifact: `{role}_{step}_{name}`, with `.md` unless *name* has a suffix."""
    given = PurePosixPath(name)
    stem, suffix = (given.stem, given.suffix) if given.suffix else (name, ".md")
    slug = re.sub(r"[^\w.-]+", "-", stem).strip("-.")[:60] or "artifact"
    return f"{role}_{step}_{slug}{suffix}"
