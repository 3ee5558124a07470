"""A folder with files, links and rules, and calls of file tools that try to reach what the rules forbid.

`PYTHONPATH=.:tests python tests/harness/forbidden.py 1000` makes a thousand such folders, with twelve calls each.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from random import Random

from minideep import ToolCall, create_deep_agent
from minideep.access import Access
from minideep.backends import FilesystemBackend, escaped
from minideep.models import ScriptedModel
from minideep.permissions import Allow, Asked, Deny, Policy
from minideep.testing import tool_context

NAMES = (
    "a",
    "b",
    "A",
    ".h",
    "a..b",
    "\u00e9",
    "e\u0301",
    "a b",
    "-f",
    "x\ny",
    "*",
    "[a]",
    "\\x0a",
    "a" * 200,
    "~",
    "\u202e",
)
SPELLINGS = ("{}", "{}", "{}", ".{}", "/{}", "{}/", "{}/.", "/.{}", "{}/../b", "~{}", "{}\0", "{}/x/y")
FILES, LINKS, CALLS = 14, 6, 12


class Forbidden:
    """One such folder below *folder*, made of the numbers of *seed*. Each file holds a mark of its own."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random, self.root = Random(seed), folder / f"root{seed}"
        self.root.mkdir()
        self.outside = folder / f"outside{seed}"
        self.outside.mkdir()
        (self.outside / "secret").write_text("<outside>")
        folders, self.files, paths = [""], [], []
        for number in range(FILES):
            path = f"{self.random.choice(folders)}/{self.random.choice(NAMES)}"
            place = self.root / path[1:]
            if place.exists():
                continue
            paths.append(path)
            if self.random.random() < 0.4:
                place.mkdir()
                folders.append(path)
            else:
                place.write_text(f"<{number}>")
                self.files.append(path)
        for _ in range(LINKS):
            place = self.root / f"{self.random.choice(folders)}/{self.random.choice(NAMES)}".lstrip("/")
            target = self.random.choice([*paths, "/", "/../..", f"/../{self.outside.name}"])
            if not os.path.lexists(place):
                relative = os.path.relpath(self.root / target[1:], place.parent)
                place.symlink_to(self.root / target[1:] if self.random.random() < 0.3 else relative)
                paths += [path := f"/{place.relative_to(self.root)}", *(f"{path}/{name}" for name in NAMES[:4])]
        self.paths = paths
        self.rules = [self._rule() for _ in range(self.random.randint(1, 5))]
        self.policy = Policy([self.rules])
        self.before = self._contents()

    def _rule(self) -> Allow | Deny:
        path = self.random.choice([*self.paths, "/"])
        pattern = self.random.choice((path, f"{path.rstrip('/')}/**", path.rpartition("/")[2] or "*", f"{path}*", "**"))
        kind = Deny if self.random.random() < 0.7 else Allow
        # Brackets and braces of a name are no name in a pattern; it may then be none at all.
        return kind(self.random.choice(("read", "write")), pattern.replace("..", "??") or "**")

    def _contents(self) -> dict[str, str]:
        return {path: (self.root / path[1:]).read_text() for path in self.files if (self.root / path[1:]).is_file()}

    def calls(self) -> list[ToolCall]:
        return [self._call(number) for number in range(CALLS)]

    def _call(self, number: int) -> ToolCall:
        path = self.random.choice([*self.paths, "/", f"/{self.random.choice(NAMES)}"])
        path = self.random.choice((path, path.swapcase(), escaped(path)))
        path = self.random.choice(SPELLINGS).format(path)
        args = {
            "ls": {"path": path},
            "read_file": {"file_path": path},
            "grep": {"pattern": "<", "path": path, "output_mode": "content"},
            "glob": {"pattern": self.random.choice(("**", "*", f"{path}/*", path)), "path": path},
            "write_file": {"file_path": path, "content": "ours"},
            "edit_file": {"file_path": path, "old_string": "<", "new_string": "ours"},
            "delete": {"file_path": path},
        }
        name = self.random.choice([*args])
        return ToolCall(name, args[name], f"c{number}")

    async def attack(self) -> list[str]:
        """Make the calls one after the other; return what went wrong."""
        replies = [*([call] for call in self.calls()), "done"]
        agent = create_deep_agent(ScriptedModel(replies), backend=FilesystemBackend(self.root), permissions=self.rules)
        turn = await agent.run("go")
        if turn.status != "ended":
            return [f"the turn {turn.status}: {turn.error}"]
        said = "\n".join(message.text for message in turn.messages if message.role == "tool")
        after, wrong = self._contents(), []
        for path, mark in self.before.items():
            if mark in said and self._denies("read", path):
                wrong.append(f"{path!r} was read")
            if after.get(path) != mark and self._denies("write", path):
                wrong.append(f"{path!r} was changed")
        outside = {file.name: file.read_text() for file in self.outside.iterdir()}
        if "<outside>" in said or outside != {"secret": "<outside>"}:
            wrong.append("the outside was reached")
        return [f"{problem}, under {', '.join(map(str, self.rules))}" for problem in wrong]

    def _denies(self, operation: str, path: str) -> bool:
        asked = Asked(tool_context(), ToolCall("read_file", {}, "c"))
        return isinstance(self.policy.verdict(asked, Access(operation, path)), Deny)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        found = [
            problem for seed in range(int(sys.argv[1])) for problem in asyncio.run(Forbidden(Path(made), seed).attack())
        ]
    print("\n".join(found) or f"{CALLS * int(sys.argv[1]):,} calls, and none reached what was forbidden")
