"""Files that outlast a conversation, in the store that holds the threads."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import cast

from ..checkpoint import MAX_NAMESPACE, MAX_PLACE, FileRow, Seen, StoredFiles, namespace_name, open_store, place
from ..checks import checked
from ..context import ToolContext
from ..errors import CheckpointError, ConfigError, ToolError
from ..kinds import shown
from ..ports import FileInfo, Lease, Store
from .names import encodable, quoted
from .paths import (
    MAX_FILE,
    Missing,
    changed,
    check_writable,
    is_searched,
    join,
    normalized,
    not_a_file,
    not_a_folder,
    undeletable,
)

Namespace = Iterable[str] | Callable[[ToolContext], Iterable[str]]


class StoreBackend:
    """Long-term files: they belong to no thread, and every thread, process and agent that uses the same store and
    *namespace* finds them.

    *checkpointer* is any store: the `DiskCheckpointer` of the agent itself, for example. *namespace* is a tuple of
    texts, such as `("memories", "acme")`, or a function of the `ToolContext` that returns one: `lambda ctx:
    ("memories", ctx.context["user"])` gives each user files of their own. Different namespaces share nothing.

    A write with an `expect` is compared and made in one transaction, across processes. The retention of threads does
    not touch these files. A file has at most 10 MB, and its path in a key at most 1,500 characters: those that are not
    printable ASCII take three for each of their bytes.

    Raises:
        ConfigError: *checkpointer* is not a store, or *namespace* is empty, too long, or not made of texts. A function
            of the context fails with it when it is called.
    """

    blocking = True
    home = "/"
    """Relative paths start here."""
    about = "Files outlast this conversation: others find them, and may change them, too."
    """Tells the model what these files are."""

    @checked
    def __init__(self, checkpointer: Store, namespace: Namespace) -> None:
        self._store = open_store(checkpointer)
        self._namespace = namespace if callable(namespace) else _checked(namespace)

    def __repr__(self) -> str:
        return f"StoreBackend({self._store.inner!r}, {self._namespace!r})"

    def ls(self, ctx: ToolContext, path: str) -> list[FileInfo]:
        """List the direct entries of a folder, sorted."""
        files, path = self._files(ctx), _normalized(path)
        with _explained(path):
            found = list(files.listed(path))
            if not found:
                _check_folder(files.see(path))
        return sorted((_info(name, row) for name, row in found), key=lambda info: info.path)

    def walk(self, ctx: ToolContext, path: str) -> Iterator[FileInfo]:
        """Yield every file below a folder, or the file itself; hidden and vendored folders are skipped."""
        files, path = self._files(ctx), _normalized(path)
        with _explained(path):
            seen = files.see(path)
            if seen.file:
                yield _info(path, seen.file)
                return
            _check_folder(seen)
            for name, row in files.below(path):
                if all(map(is_searched, name[len(join(path)) :].split("/")[:-1])):
                    yield _info(name, row)

    def read(self, ctx: ToolContext, path: str) -> bytes:
        """Return a file's bytes."""
        files, path = self._files(ctx), _normalized(path)
        with _explained(path):
            content = files.content(path)
            if content is None:
                raise not_a_file(path) if files.see(path).is_folder else Missing(path)
        return content

    def write(self, ctx: ToolContext, path: str, data: bytes, expect: str | None = None) -> bool:
        """Create or replace a file. Writers of one namespace take turns."""
        files, path = self._files(ctx), _normalized(path)
        check_writable(path)
        if len(data) > MAX_FILE:
            raise ToolError(f"{quoted(path)} would have {len(data):,} bytes, more than {MAX_FILE:,}; split it")
        with _explained(path), _held(files) as lease:
            seen = files.see(path)
            if seen.is_folder:
                raise not_a_file(path)
            if seen.above:
                raise not_a_folder(seen.above)
            if expect is not None and seen.file is None:
                raise Missing(path)
            if expect is not None and seen.file and seen.file.sha256.hex() != expect:
                raise changed(path)
            files.put(path, data, time.time(), lease)
        return False

    def delete(self, ctx: ToolContext, path: str) -> list[str]:
        """Delete a file, or a folder with everything in it, in one transaction."""
        files, path = self._files(ctx), _normalized(path)
        check_writable(path)
        if path == "/":
            raise undeletable(path)
        with _explained(path), _held(files) as lease:
            gone = [path] if files.see(path).file else [name for name, _ in files.below(path)]
            if not gone:
                raise Missing(path)
            files.remove(gone, lease)
        return gone

    def _files(self, ctx: ToolContext) -> StoredFiles:
        named = self._namespace
        return StoredFiles(self._store, _checked(named(ctx)) if callable(named) else named)


def _checked(namespace: object) -> tuple[str, ...]:
    """Return a namespace that keys can hold.

    Raises:
        ConfigError: it is none. It never falls back to another: that would show one user the files of another.
    """
    parts = tuple(cast(Iterable[object], namespace)) if isinstance(namespace, Iterable) else ()
    texts = [part for part in parts if isinstance(part, str) and part and encodable(part) == part]
    if isinstance(namespace, str) or not parts or len(texts) < len(parts):
        wanted = "StoreBackend: namespace must be texts such as ('memories', 'acme'), none of them empty"
        raise ConfigError(f"{wanted}, not {shown(namespace)}")
    if len(namespace_name(texts)) > MAX_NAMESPACE:
        limit = f"at most {MAX_NAMESPACE} characters, where one that is not plain counts for more"
        raise ConfigError(f"StoreBackend: namespace must have {limit}; shorten {shown(namespace)}")
    return tuple(texts)


def _normalized(path: str) -> str:
    path = normalized(path)
    if encodable(path) != path:
        raise ToolError(f"{quoted(path)} is refused: its name is not valid text; choose another name")
    if len(place(path)) > MAX_PLACE:
        raise ToolError(f"{quoted(path)} is refused: its name is too long; choose a shorter one")
    return path


@contextmanager
def _explained(path: str) -> Generator[None]:
    """Translate what went wrong with *path* in the store into an error that a model can act on."""
    try:
        yield
    except CheckpointError as exc:
        raise ToolError(f"{quoted(path)} cannot be reached: {exc}; try again, or work without it") from exc


@contextmanager
def _held(files: StoredFiles) -> Generator[Lease]:
    lease = files.hold()
    try:
        yield lease
    finally:
        lease.release()


def _check_folder(seen: Seen) -> None:
    if seen.file:
        raise not_a_folder(seen.path)
    if not seen.is_folder:
        raise Missing(seen.path)


def _info(path: str, row: FileRow | None) -> FileInfo:
    return FileInfo(path, False, row.size, row.modified, row.sha256.hex()) if row else FileInfo(path, is_dir=True)
