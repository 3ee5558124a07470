"""Another process that swaps a folder for a link to the outside all the time, and what the file tools do meanwhile."""

import contextlib
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

from harness.files import context
from minideep.backends import CompositeBackend, FilesystemBackend, StateBackend
from minideep.errors import ToolError

SWAP = """
import ctypes, os, sys
os.chdir(sys.argv[1])
rename = ctypes.CDLL(None, use_errno=True).renameat2
here, exchange = -100, 2
if rename(here, b"door", here, b"link", exchange):
    sys.exit(os.strerror(ctypes.get_errno()))
print("ready", flush=True)
while True:
    rename(here, b"door", here, b"link", exchange)
"""
"""Both names are always there, so that nothing fails but what meets the link."""
VERBS = ("read", "ls", "walk", "write", "edit", "delete")


class Swapped:
    """A root whose folder `door` is now and then a link to `outside`; an escape is whatever is seen or done there. With
    *route*, such as "/in", the root is that folder of a composite.
    """

    def __init__(self, folder: Path, route: str = "") -> None:
        self.root, self.outside = folder / "root", folder / "outside"
        for inner in (self.root / "door" / "sub", self.outside / "sub"):
            inner.mkdir(parents=True)
        for place in (self.outside, self.outside / "sub"):
            (place / "file").write_text("secret")
            (place / "of outside").write_text("secret")
        (self.root / "link").symlink_to("../outside")
        self.before = self._outside()
        self.backend, self.ctx = FilesystemBackend(self.root), context()
        self.route = route
        if route:
            self.backend = CompositeBackend(StateBackend(), {route: self.backend})

    def attack(self, tries: int, seed: int = 0) -> tuple[Counter[str], Counter[str]]:
        """How often each verb did what it was asked to, and how often outside."""
        done, escaped, random = Counter[str](), Counter[str](), Random(seed)
        with subprocess.Popen([sys.executable, "-c", SWAP, self.root], stdout=subprocess.PIPE, text=True) as swapper:
            try:
                assert swapper.stdout.readline(), "the swapper needs Linux"
                for _ in range(tries):
                    verb, folder = random.choice(VERBS), self.route + random.choice(("/door", "/door/sub"))
                    with contextlib.suppress(ToolError):
                        escaped[verb] += getattr(self, verb)(folder)
                        done[verb] += 1
                assert swapper.poll() is None
            finally:
                swapper.kill()
        escaped["change"] += self._outside() != self.before
        return done, +escaped

    def read(self, folder: str) -> bool:
        return self.backend.read(self.ctx, f"{folder}/file") == b"secret"

    def ls(self, folder: str) -> bool:
        return any("outside" in info.path for info in self.backend.ls(self.ctx, folder))

    def walk(self, folder: str) -> bool:
        return any("outside" in info.path for info in self.backend.walk(self.ctx, folder))

    def write(self, folder: str) -> bool:
        self.backend.write(self.ctx, f"{folder}/file", b"ours")
        return self._restore()

    def edit(self, folder: str) -> bool:
        ours = "9a2b59a5b5a8c3d0b0c7b3f0f0a1f5e4"  # No file has this hash: the attempt alone must not read outside.
        with contextlib.suppress(ToolError):
            self.backend.write(self.ctx, f"{folder}/new/file", b"ours")
            self.backend.write(self.ctx, f"{folder}/new/file", b"ours", ours)
        return self._restore()

    def delete(self, folder: str) -> bool:
        self.backend.delete(self.ctx, f"{folder}/new" if folder.endswith("door") else folder)
        return self._restore()

    def _restore(self) -> bool:
        """Whether the outside was changed; then it is made good."""
        now = self._outside()
        for path in now.keys() - self.before.keys():
            if now[path] is not None:
                (self.outside / path).unlink()
        for path in sorted(now.keys() - self.before.keys(), reverse=True):
            if now[path] is None:
                (self.outside / path).rmdir()
        for path, content in sorted(self.before.items()):
            if content is None:
                (self.outside / path).mkdir(exist_ok=True)
            else:
                (self.outside / path).write_text(content)
        return now != self.before

    def _outside(self) -> dict[str, str | None]:
        return {
            path.relative_to(self.outside).as_posix(): None if path.is_dir() else path.read_text()
            for path in self.outside.rglob("*")
        }
