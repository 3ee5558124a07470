"""Files in the thread's own state: no disk is touched, and they are saved with the turn."""

from collections.abc import Iterator
from hashlib import sha256

from ..context import ToolContext
from ..errors import ToolError
from ..ports import FileInfo
from ..state import FileEntry, as_bytes
from .names import encodable, quoted
from .paths import Missing, a_file, a_folder, below, changed, entered, normal, the_root


class StateBackend:
    """Keeps files in `State.files`; an event carries each change. A folder is there while a file is below it."""

    blocking = False
    home = "/"
    """Where relative paths start."""

    def ls(self, ctx: ToolContext, path: str) -> list[FileInfo]:
        """What stands directly in a folder, sorted."""
        path = normal(path)
        if path in ctx.state.files:
            raise a_file(path)
        found: dict[str, FileInfo] = {}
        for file in _files(ctx, path):
            name, inner, _ = file[len(below(path)) :].partition("/")
            full = below(path, name)
            found[full] = FileInfo(full, is_dir=True) if inner else _info(full, ctx.state.files[file])
        if not found and path != "/":
            raise Missing(path)
        return [found[full] for full in sorted(found)]

    def walk(self, ctx: ToolContext, path: str) -> Iterator[FileInfo]:
        """Every file below a folder, or the file itself; hidden and vendored folders are not entered."""
        path = normal(path)
        files = [path] if path in ctx.state.files else sorted(_files(ctx, path))
        if not files and path != "/":
            raise Missing(path)
        for file in files:
            if all(map(entered, file[len(below(path)) :].split("/")[:-1])):
                yield _info(file, ctx.state.files[file])

    def read(self, ctx: ToolContext, path: str) -> bytes:
        """A file's bytes."""
        path = normal(path)
        if path not in ctx.state.files:
            raise a_folder(path) if _is_folder(ctx, path) else Missing(path)
        content = ctx.content_of(path)
        if content is None:
            raise ToolError(f"{quoted(path)} was written to a disk that is no longer there; write it again")
        return as_bytes(content)

    def write(self, ctx: ToolContext, path: str, data: bytes, expect: str | None = None) -> bool:
        """Check that *path* can be written, and leave the writing to the event that carries the content."""
        path = normal(path)
        if encodable(path) != path:
            raise ToolError(f"{quoted(path)} is refused: the state keeps names of text only; choose another name")
        if _is_folder(ctx, path):
            raise a_folder(path)
        parts = path.split("/")
        for end in range(2, len(parts)):
            if (parent := "/".join(parts[:end])) in ctx.state.files:
                raise a_file(parent)
        if expect is not None and sha256(self.read(ctx, path)).hexdigest() != expect:
            raise changed(path)
        return True

    def delete(self, ctx: ToolContext, path: str) -> list[str]:
        """The files that the recorded events must remove: *path*, or all below it."""
        path = normal(path)
        if path == "/":
            raise the_root(path)
        gone = [path] if path in ctx.state.files else sorted(_files(ctx, path))
        if not gone:
            raise Missing(path)
        return gone


def _files(ctx: ToolContext, folder: str) -> list[str]:
    start = below(folder)
    return [file for file in ctx.state.files if file.startswith(start)]


def _is_folder(ctx: ToolContext, path: str) -> bool:
    return path == "/" or any(file.startswith(below(path)) for file in ctx.state.files)


def _info(path: str, entry: FileEntry) -> FileInfo:
    return FileInfo(path, False, entry.size, entry.modified)
