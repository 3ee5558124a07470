"""Several backends as one: each has the files below a folder of its own."""

import heapq
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeVar

from msgspec import Struct, structs

from ..checks import checked
from ..context import ToolContext
from ..errors import ConfigError, ToolError
from ..ports import Backend, FileInfo
from .guarded import Guard, guarded
from .names import quoted
from .paths import Missing, configured, is_searched, is_within, join, normalized, not_a_file, undeletable, walk_order

T = TypeVar("T")


class Route(Struct, frozen=True):
    """The files below *folder* are those of *backend* below *root*; both are "" for the root of all files."""

    folder: str
    backend: Backend
    root: str

    def inner(self, path: str) -> str:
        """Return *path*, which is below the folder or the folder itself, as the backend knows it."""
        return self.root + path[len(self.folder) :] or "/"

    def outer(self, path: str) -> str:
        """Return a path of the backend as it is called here; one that is not below its root stays as it is."""
        if not is_within(path, self.root or "/"):
            return path
        return self.folder + path[len(self.root) :].rstrip("/") or "/"


class _Outside:
    """A guard of a composite, as the backend of one route asks it."""

    def __init__(self, route: Route, guard: Guard) -> None:
        self._route, self._guard = route, guard

    def check(self, named: str, real: str, operation: str) -> None:
        self._guard.check(self._route.outer(named), self._route.outer(real), operation)

    def check_folder(self, named: str, real: str) -> None:
        self._guard.check_folder(self._route.outer(named), self._route.outer(real))

    def shows(self, path: str, is_dir: bool) -> bool:
        return self._guard.shows(self._route.outer(path), is_dir)


class CompositeBackend:
    """Files of *default*, except below the folders in *routes*: `CompositeBackend(StateBackend(), {"/docs/":
    FilesystemBackend("docs")})`. The longest folder that a path begins with decides, by whole names.

    A route shows the home of its backend: `/docs/a.md` is `/a.md` of the backend above, and errors name it
    `/docs/a.md`. A backend whose files are in the state keeps them under their full paths. What *default* has below
    the folder of a route is hidden. A folder that is a route, or has one below it, is not deleted.

    Commands run in *default*, if it can run any.

    Raises:
        ConfigError: a route is not a folder below `/`, or is there twice.
    """

    @checked
    def __init__(self, default: Backend, routes: Mapping[str, Backend]) -> None:
        folders = configured(routes, "/", "CompositeBackend: routes")
        for at, folder in enumerate(folders):
            if folder == "/" or folder in folders[:at]:
                problem = "is where default's files are" if folder == "/" else "is there twice"
                raise ConfigError(f"CompositeBackend: routes: {folder!r} {problem}; give each folder one backend")
        self._default = Route("", default, "")
        self._routes = [
            Route(folder, backend, folder if _in_state(backend) else backend.home.rstrip("/"))
            for folder, backend in sorted(zip(folders, routes.values(), strict=True))
        ]
        self._guards: tuple[Guard, ...] = ()
        self.blocking: bool = any(route.backend.blocking for route in (self._default, *self._routes))
        self.home: str = default.home
        """Relative paths start here."""
        self.about: str = " ".join(filter(None, map(_about, (self._default, *self._routes))))
        """Tells the model what these files are."""
        if (execute := getattr(default, "execute", None)) is not None:  # Not every backend can run commands.
            self.execute: Callable[..., Any] = execute
            self.about += f" Commands do not reach {' or '.join(f'`{join(folder)}`' for folder in folders)}."

    def __repr__(self) -> str:
        routes = {join(route.folder): route.backend for route in self._routes}
        return f"CompositeBackend({self._default.backend!r}, {routes!r})"

    def guarded(self, guard: Guard) -> "CompositeBackend":
        """Return the same files as *guard* lets a call reach them. It is asked about paths as they are called here."""
        view = copy(self)
        view._guards = (*self._guards, guard)
        view._default, *view._routes = [
            structs.replace(route, backend=guarded(route.backend, _Outside(route, guard)))
            for route in (self._default, *self._routes)
        ]
        return view

    def ls(self, ctx: ToolContext, path: str) -> list[FileInfo]:
        """List the direct entries of a folder, sorted; those that lead to a route are folders."""
        path = normalized(path, self.home)
        found = {info.path: info for info in self._entries(ctx, path)}
        for route in self._below(path):
            name = join(path, route.folder[len(join(path)) :].partition("/")[0])
            if all(guard.shows(name, True) for guard in self._guards):
                found[name] = FileInfo(name, is_dir=True)
        return [found[name] for name in sorted(found)]

    def walk(self, ctx: ToolContext, path: str) -> Iterator[FileInfo]:
        """Yield every file below a folder, or the file itself, each once, in the order of a walk over one backend."""
        path = normalized(path, self.home)
        parts = [self._walked(ctx, self._owner(path), path)]
        for route in self._below(path):
            if all(map(is_searched, route.folder[len(join(path)) :].split("/"))):
                parts.append(self._walked(ctx, route, route.folder))
        yield from heapq.merge(*parts, key=lambda info: walk_order(info.path))

    def read(self, ctx: ToolContext, path: str) -> bytes:
        """Return a file's bytes."""
        return self._of_file(path, lambda backend, inner: backend.read(ctx, inner))

    def write(self, ctx: ToolContext, path: str, data: bytes, expect: str | None = None) -> bool:
        """Create or replace a file, as its backend does."""
        return self._of_file(path, lambda backend, inner: backend.write(ctx, inner, data, expect))

    def delete(self, ctx: ToolContext, path: str) -> list[str]:
        """Delete a file, or a folder and its contents."""
        path = normalized(path, self.home)
        if path == "/":
            raise undeletable(path)
        if self._leads_to_route(path):
            problem = f"{quoted(path)} is or contains a folder whose files are kept elsewhere"
            raise ToolError(f"{problem}, which cannot be deleted; delete its entries by name")
        route = self._owner(path)
        with _named(route, path):
            return [route.outer(file) for file in route.backend.delete(ctx, route.inner(path))]

    def _of_file(self, path: str, act: Callable[[Backend, str], T]) -> T:
        path = normalized(path, self.home)
        if self._leads_to_route(path):
            raise not_a_file(path)
        route = self._owner(path)
        with _named(route, path):
            return act(route.backend, route.inner(path))

    def _entries(self, ctx: ToolContext, path: str) -> list[FileInfo]:
        route = self._owner(path)
        with self._perhaps_empty(path), _named(route, path):
            return [_outer(route, info) for info in route.backend.ls(ctx, route.inner(path))]
        return []

    def _walked(self, ctx: ToolContext, route: Route, path: str) -> Iterator[FileInfo]:
        """Yield the files of one backend, but those that other routes hide."""
        hidden = [other.folder for other in self._routes if other is not route and is_within(other.folder, path)]
        with self._perhaps_empty(path), _named(route, path):
            for info in route.backend.walk(ctx, route.inner(path)):
                found = _outer(route, info)
                if not any(is_within(found.path, folder) for folder in hidden):
                    yield found

    @contextmanager
    def _perhaps_empty(self, path: str) -> Generator[None]:
        """Take a missing folder for an empty one where a route needs it."""
        try:
            yield
        except Missing:
            if not self._leads_to_route(path):
                raise

    def _owner(self, path: str) -> Route:
        owners = [route for route in self._routes if is_within(path, route.folder)]
        return max(owners, key=lambda route: len(route.folder), default=self._default)

    def _below(self, path: str) -> list[Route]:
        return [route for route in self._routes if route.folder != path and is_within(route.folder, path)]

    def _leads_to_route(self, path: str) -> bool:
        return any(is_within(route.folder, path) for route in self._routes)


def _in_state(backend: Backend) -> bool:
    return getattr(backend, "in_state", False)  # Not every backend has it.


def _about(route: Route) -> str:
    about: str = getattr(route.backend, "about", "")
    folder = f"`{join(route.folder)}`"
    # A backend calls its own root `/`.
    return f"Below {folder}: {about.replace('`/`', folder) or 'other files.'}" if route.folder else about


def _outer(route: Route, info: FileInfo) -> FileInfo:
    return (
        FileInfo(route.outer(info.path), info.is_dir, info.size, info.modified, info.sha256) if route.folder else info
    )


@contextmanager
def _named(route: Route, path: str) -> Generator[None]:
    """Let errors name *path*, and the folders above it, as they are called here and not in the backend."""
    try:
        yield
    except Missing:
        raise Missing(path) from None
    except ToolError as exc:
        text = str(exc)
        while is_within(path, route.folder or "/"):
            inner = quoted(route.inner(path))
            if inner in text:
                raise ToolError(text.replace(inner, quoted(path), 1)) from None
            path = path.rpartition("/")[0]
        raise
