"""Files in the thread's own state: no disk is touched, and they are saved with the turn."""

from collections.abc import Iterator, Mapping
from hashlib import sha256

from ..context import ToolContext
from ..errors import ToolError
from ..ports import FileInfo
from ..state import FileEntry, as_bytes
from .names import encodable, quoted
from .paths import Missing, changed, is_searched, join, normalized, not_a_file, not_a_folder, undeletable, walk_order


class StateBackend:
    """Keeps files in `State.files`; every change is an event. A folder exists while a file is below it."""

    blocking = False
    home = "/"
    """Relative paths start here."""
    in_state = True
    """The files are those of `State.files`, under the same paths."""
    about = "Files are kept with this conversation, not on a disk."
    """Tells the model what these files are."""

    def ls(self, ctx: ToolContext, path: str) -> list[FileInfo]:
        """List the direct entries of a folder, sorted."""
        path, files = normalized(path), ctx.state.files
        if path in files:
            raise not_a_folder(path)
        found: dict[str, FileInfo] = {}
        for file in _files_below(files, path):
            name, inner, _ = file[len(join(path)) :].partition("/")
            full = join(path, name)
            found[full] = FileInfo(full, is_dir=True) if inner else _info(full, files[file])
        if not found and path != "/":
            raise Missing(path)
        return [found[full] for full in sorted(found)]

    def walk(self, ctx: ToolContext, path: str) -> Iterator[FileInfo]:
        """Yield every file below a folder, or the file itself; hidden and vendored folders are skipped."""
        path, files = normalized(path), ctx.state.files
        found = [path] if path in files else sorted(_files_below(files, path), key=walk_order)
        if not found and path != "/":
            raise Missing(path)
        for file in found:
            if all(map(is_searched, file[len(join(path)) :].split("/")[:-1])):
                yield _info(file, files[file])

    def read(self, ctx: ToolContext, path: str) -> bytes:
        """Return a file's bytes."""
        path, files = normalized(path), ctx.state.files
        if path not in files:
            raise not_a_file(path) if _is_folder(files, path) else Missing(path)
        content = ctx.content_of(path)
        if content is None:
            # Another backend wrote it: the event holds no content because that disk did.
            raise ToolError(f"{quoted(path)} was written to a disk that is gone; write it again")
        return as_bytes(content)

    def write(self, ctx: ToolContext, path: str, data: bytes, expect: str | None = None) -> bool:
        """Check that *path* can be written. The event that the caller records contains the content, and applying it
        writes the file.
        """
        path, files = normalized(path), ctx.state.files
        if encodable(path) != path:
            raise ToolError(f"{quoted(path)} is refused: its name is not valid text; choose another name")
        if _is_folder(files, path):
            raise not_a_file(path)
        parts = path.split("/")
        for end in range(2, len(parts)):
            if (parent := "/".join(parts[:end])) in files:
                raise not_a_folder(parent)
        if expect is not None and sha256(self.read(ctx, path)).hexdigest() != expect:
            raise changed(path)
        return True

    def delete(self, ctx: ToolContext, path: str) -> list[str]:
        """Return the files to delete, *path* or all below it. The events that the caller records delete them."""
        path, files = normalized(path), ctx.state.files
        if path == "/":
            raise undeletable(path)
        found = [path] if path in files else sorted(_files_below(files, path))
        if not found:
            raise Missing(path)
        return found


def _files_below(files: Mapping[str, FileEntry], folder: str) -> list[str]:
    start = join(folder)
    return [file for file in files if file.startswith(start)]


def _is_folder(files: Mapping[str, FileEntry], path: str) -> bool:
    # One search in one text: each write asks, and a loop over the files of a long thread would take longer than a turn.
    return path == "/" or f"\0{join(path)}" in "\0".join(("", *files))


def _info(path: str, entry: FileEntry) -> FileInfo:
    return FileInfo(path, False, entry.size, entry.modified, entry.sha256)
