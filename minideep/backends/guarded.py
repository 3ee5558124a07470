"""Backends under permissions: what the rules of a call forbid is refused at the moment it is reached.

A path may lead elsewhere than it says, and to another place once it was checked. So whoever checks a call leaves a
*guard* with it (`hold`), and the backend asks the guard about the place that it has reached, and about each entry that
it lists.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, cast

from ..checks import checked
from ..context import ToolContext
from ..errors import ToolError
from ..ports import Backend, FileInfo
from .names import quoted
from .paths import normalized

MAX_CHECKED = 10_000
"""The most entries below a folder that are checked before its deletion."""


class Guard(Protocol):
    """The rules about the files that one call may reach."""

    def check(self, named: str, real: str, operation: str) -> None:
        """Check that a call may `read` or `write` the place *real*, which it named *named*.

        Raises:
            ToolError: it may not.
        """
        ...

    def check_folder(self, named: str, real: str) -> None:
        """Check that a folder may be listed, as far as its entries are shown.

        Raises:
            ToolError: it may not.
        """
        ...

    def shows(self, path: str, is_dir: bool) -> bool:
        """Return whether a listing may show the entry."""
        ...


class CanGuard(Protocol):
    """A backend that asks a guard itself, because its paths may lead to other places than they say."""

    def guarded(self, guard: Guard) -> Backend:
        """Return this backend, with the same files and locks, as *guard* lets a call reach it."""
        ...


class PermittedBackend:
    """*backend* as a call may use it under the permissions of its run. The file tools use theirs through one.

    A tool of your own that takes a `ToolContext` does so too: `PermittedBackend(backend).read(ctx, path)`. Without
    permissions, and outside of a call, it is *backend* itself.
    """

    @checked
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.blocking: bool = backend.blocking
        self.home: str = backend.home
        self.about: str = getattr(backend, "about", "")

    def ls(self, ctx: ToolContext, path: str) -> list[FileInfo]:
        return self._for(ctx).ls(ctx, path)

    def walk(self, ctx: ToolContext, path: str) -> Iterator[FileInfo]:
        return self._for(ctx).walk(ctx, path)

    def read(self, ctx: ToolContext, path: str) -> bytes:
        return self._for(ctx).read(ctx, path)

    def write(self, ctx: ToolContext, path: str, data: bytes, expect: str | None = None) -> bool:
        return self._for(ctx).write(ctx, path, data, expect)

    def delete(self, ctx: ToolContext, path: str) -> list[str]:
        return self._for(ctx).delete(ctx, path)

    def _for(self, ctx: ToolContext) -> Backend:
        backend = self._backend
        for guard in _held(ctx).values():
            backend = guarded(backend, guard)
        return backend


def hold(ctx: ToolContext, owner: object, guard: Guard) -> None:
    """Have *guard* decide what the call of *ctx* may reach, beside those of other owners."""
    ctx.scratch.setdefault((PermittedBackend, ctx.call_id), {})[owner] = guard


def _held(ctx: ToolContext) -> dict[object, Guard]:
    return ctx.scratch.get((PermittedBackend, ctx.call_id), {})


def guarded(backend: Backend, guard: Guard) -> Backend:
    """Return *backend* as *guard* lets a call reach it."""
    if hasattr(backend, "guarded"):
        return cast(CanGuard, backend).guarded(guard)
    return GuardedFiles(backend, guard)


class GuardedFiles:
    """A backend as *guards* let a call reach it. *place* returns the place to which a path leads; by default a path
    leads where it says, and is checked by its name alone.
    """

    def __init__(self, backend: Backend, *guards: Guard, place: Callable[[str], str] = str) -> None:
        self._backend, self._guards, self._place = backend, guards, place
        self.blocking: bool = backend.blocking
        self.home: str = backend.home

    def guarded(self, guard: Guard) -> Backend:
        return GuardedFiles(self._backend, *self._guards, guard, place=self._place)

    def ls(self, ctx: ToolContext, path: str) -> list[FileInfo]:
        path = normalized(path, self.home)
        place = self._place(path)
        for guard in self._guards:
            guard.check_folder(path, place)
        return list(self._shown(self._backend.ls(ctx, path)))

    def walk(self, ctx: ToolContext, path: str) -> Iterator[FileInfo]:
        return self._shown(self._backend.walk(ctx, path))

    def read(self, ctx: ToolContext, path: str) -> bytes:
        self._check(path, "read")
        return self._backend.read(ctx, path)

    def write(self, ctx: ToolContext, path: str, data: bytes, expect: str | None = None) -> bool:
        self._check(path, "write")
        return self._backend.write(ctx, path, data, expect)

    def delete(self, ctx: ToolContext, path: str) -> list[str]:
        path, place = self._check(path, "write")
        for count, below in enumerate(_below(ctx, self._backend, path)):
            if count >= MAX_CHECKED:
                problem = f"{quoted(path)} was not deleted: over {MAX_CHECKED:,} entries below it have to be checked"
                raise ToolError(f"{problem}; delete the folders in it by name")
            for guard in self._guards:
                guard.check(below, place + below[len(path) :], "write")
        return self._backend.delete(ctx, path)

    def _check(self, path: str, operation: str) -> tuple[str, str]:
        path = normalized(path, self.home)
        place = self._place(path)
        for guard in self._guards:
            guard.check(path, place, operation)
        return path, place

    def _shown(self, found: Iterable[FileInfo]) -> Iterator[FileInfo]:
        return (info for info in found if all(guard.shows(info.path, info.is_dir) for guard in self._guards))


def _below(ctx: ToolContext, backend: Backend, path: str) -> Iterator[str]:
    """Yield everything below *path*, hidden names too, which a walk leaves out."""
    folders = [path]
    while folders:
        try:
            entries = backend.ls(ctx, folders.pop())
        except ToolError:  # A file; or what nobody can list, and `delete` will say why.
            continue
        for info in entries:
            yield info.path
            folders += [info.path] if info.is_dir else []
