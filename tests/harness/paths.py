"""Paths that try to lead somewhere else, at every backend, by its methods and by the tools of an agent.

campaign(10_000)               # so many paths, each at every backend
Fort(folder, "disk").attack(path)
"""

import re
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, given, settings, strategies as st

from harness.backends import ALONE, INSIDE, MAKERS, NAMESPACE, ROOTS
from harness.files import context, put
from harness.killing import expect
from harness.stores import plain
from minideep import Agent, ToolCall, ToolMessage
from minideep.backends import CompositeBackend, StoreBackend, parsed
from minideep.checkpoint import namespace_name
from minideep.errors import ToolError
from minideep.events import FileDeleted
from minideep.middleware import FilesystemMiddleware, PermissionsMiddleware
from minideep.models import ScriptedModel
from minideep.permissions import Deny

SECRET, KEPT = "the secret of somebody else", "kept from the agent"
LINKS = {
    "out": "..",
    "to_secret": "../secret",
    "loop": "loop",
    "up": ".",
    "broken": "nowhere",
    "absolute": "/etc/passwd",
    "to_d": "d",
    "to_kept": "kept",
    "to_kept_file": "kept/f",
}
PIECES = [
    *("", ".", "..", "...", "a..b", "..a", "~", "~root", "-rf", "*", "?", "[a]", "{a,b}", "$HOME", "`x`", ";", "|"),
    *(
        "d",
        "file",
        "kept",
        "kept/f",
        "KEPT",
        "ｋept",
        "secret",
        "root",
        "store",
        "cache.db",
        "threads.lock",
        "d/file",
        "in",
        "here",
        "hereby",
    ),
    *(
        "\0",
        "a\0b",
        "\n",
        "a\nb",
        "\r",
        "\t",
        " ",
        "\x1b[2J",
        "\x7f",
        "\ud800",
        "\udcff",
        "\udcc3\udca9",
        "\udc2e\udc2e",
    ),
    *("\u202e", "\u200b", "\ufeff", "\u2028", "é", "e\u0301", "ﬁ", "Ω", "Å", "İ", "ß", "．．", "／", "∕", "＼"),
    *("C:\\x", "c:/x", "\\\\host\\share", "..\\..", "\\", "file://etc", "%2e%2e", "%2f", "%00", "%252e"),
    *("\\x2e\\x2e", "\\x00", "\\x0a", "\\u202e", "\\x5cx2e", "\\x2f", "\\U0010ffff", "\\U00110000"),
    *(
        "!",
        "#",
        "$",
        '"',
        "'",
        "&",
        "!file",
        "d#!file",
        "memories",
        "memories,acme",
        "acme2",
        ",",
        "file",
        "data",
        "head",
    ),
    *("FILE", "File", "D", "NUL", "con", "x" * 255, "x" * 256, "é" * 150, "😀" * 100, "y" * 5000, "n/" * 300),
    *("large_tool_results", "conversation_history", ".git", "node_modules", *LINKS),
]
TEXT = st.text(st.characters(codec=None), max_size=20)
PIECE = st.one_of(st.sampled_from(PIECES), TEXT)
WILD = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "/", "//", "./", "../", "/../", "/in/here/", "/in/", "/IN/here/", "/in/here/../../"]),
    st.lists(PIECE, max_size=6),
    st.sampled_from(["", "", "/", "/.", "/..", "//", "\0", " "]),
)
LIKELY = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["/in/here/", "/"]),
    st.lists(st.sampled_from(["d", "file", "f", "kept", "secret", "..", *LINKS]), min_size=1, max_size=3),
    st.sampled_from(["", "", "", "/", "/."]),
)
"""What exists, by way of links."""
KNOWN = [
    f"{start}/{name}"
    for start in ("", "/in/here")
    for name in (
        "kept/f",
        "to_kept/f",
        "to_kept_file",
        "up/to_kept",
        "out/secret",
        "to_secret",
        "d/../kept/f",
        "KEPT/F",
    )
]
"""Tried each time, before those that are generated."""
PATH = st.one_of(WILD, LIKELY)
WORDS = re.compile(r"Traceback|(?:Value|Type|Key|Index|Unicode\w*|OS|Recursion|Assertion)Error")


class Fort:
    """A backend of one kind, with files in it and secrets around it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.root = folder, ROOTS[kind]
        self.backend, self.ctx = MAKERS[kind](folder), context()
        self.stores = [plain(store) for store in stores_of(self.backend)]
        (folder / "secret").write_text(SECRET)
        for store in stores_of(self.backend):
            for namespace in (("memories",), ("memories", "acme2"), ("memories,acme",)):
                StoreBackend(store, namespace).write(self.ctx, "/secret", SECRET.encode())
        rules = [Deny(operation, f"{self.root}/kept/**") for operation in ("read", "write")]
        self.tools = (FilesystemMiddleware(self.backend), PermissionsMiddleware(rules, self.backend))
        self.before = self.outside()

    def attack(self, path: str) -> None:
        """Do all that a backend can do with *path*, and what the tools of an agent do with it.

        Raises:
            Violation: something outside was seen or changed, or anything but a `ToolError` was raised.
        """
        self._furnish()
        self._by_methods(path)
        self._furnish()
        self._by_tools(path)
        expect(self.outside() == self.before, f"{path!a} changed something outside")

    def outside(self) -> object:
        """What must never change: the files beside the root, and the rows of other namespaces."""
        name = namespace_name(NAMESPACE)
        own = (f"file/{name}/", f"data/{name}/")
        files = [(file.name, file.read_text() if file.is_file() else "") for file in sorted(self.folder.iterdir())]
        return files, [row for store in self.stores for row in store.rows("", "~") if not row[0].startswith(own)]

    def _furnish(self) -> None:
        """Put back what an attack may have deleted."""
        for name, text in {"/d/file": "inside", "/file": "inside", "/kept/f": KEPT}.items():
            with suppress(ToolError):  # An attack may have made a folder of it.
                put(self.backend, self.ctx, self.root + name, text.encode())
        if (disk := self.folder / "root").is_dir():
            for name, target in LINKS.items():
                if not (disk / name).is_symlink() and not (disk / name).exists():
                    (disk / name).symlink_to(target)

    def _by_methods(self, path: str) -> None:
        backend, ctx = self.backend, self.ctx
        for act in (
            lambda: backend.read(ctx, path),
            lambda: [info.path for info in backend.ls(ctx, path)],
            lambda: [info.path for info in backend.walk(ctx, path)],
            lambda: backend.write(ctx, path, b"mine", "0" * 64),
            lambda: put(backend, ctx, parsed(path, backend.home), b"mine"),
            lambda: backend.read(ctx, path),
            lambda: self._delete(path),
        ):
            try:
                found = act()
            except ToolError as exc:
                found = str(exc)
                expect(path in ("", "/") or len(found) < 10_000, f"{path!a}: an error of {len(found):,} characters")
            expect(SECRET not in repr(found), f"{path!a} showed what is outside")
            expect("of somebody else" not in repr(found), f"{path!a} showed what is outside")

    def _delete(self, path: str) -> list[str]:
        gone = self.backend.delete(self.ctx, path)
        for file in gone:
            if file in self.ctx.state.files:  # Else the state would grow with each path.
                self.ctx.record(FileDeleted(file, 0.0))
        return gone

    def _kept(self) -> bytes:
        try:
            return self.backend.read(self.ctx, f"{self.root}/kept/f")
        except ToolError:  # An attack by methods has put something else there.
            return b""

    def _by_tools(self, path: str) -> None:
        calls = [
            ToolCall("ls", {"path": path}),
            ToolCall("glob", {"pattern": "**", "path": path}),
            ToolCall("glob", {"pattern": path}),
            ToolCall("grep", {"pattern": "secret", "path": path, "output_mode": "content"}),
            ToolCall("grep", {"pattern": "secret", "glob": path, "output_mode": "content"}),
            ToolCall("read_file", {"file_path": path}),
        ]
        edit = {"file_path": path, "old_string": "e", "new_string": "i", "replace_all": True}
        changes = [ToolCall("edit_file", edit), ToolCall("write_file", {"file_path": path, "content": "x"})]
        model = ScriptedModel([calls, *changes, ToolCall("delete", {"file_path": path}), "done"])
        kept = self._kept()
        turn = Agent(model, middleware=self.tools).run_sync("go")
        expect(self._kept() == kept, f"{path!a} changed what permissions forbid")
        results = [message.text for message in turn.messages if isinstance(message, ToolMessage)]
        expect((turn.status, len(results)) == ("ended", 9), f"{path!a}: the run {turn.status}: {turn.error!r}")
        for text in results:
            expect("of somebody else" not in text, f"{path!a} showed what is outside")
            expect(KEPT not in text, f"{path!a} showed what permissions forbid")
            expect(not WORDS.search(text), f"{path!a} crashed a tool: {text[:500]!a}")


def stores_of(backend):
    """Return the stores that a backend keeps files in."""
    if isinstance(backend, CompositeBackend):
        return [store for route in (backend._default, *backend._routes) for store in stores_of(route.backend)]
    return [backend._store.inner] if isinstance(backend, StoreBackend) else []


def campaign(examples: int, kinds=(*ALONE, *INSIDE)) -> str:
    """Attack every backend with so many paths; return a line of counts.

    Raises:
        Violation: a path led outside or crashed something.
    """
    tried = 0
    with tempfile.TemporaryDirectory() as folder:
        forts = []
        for number, kind in enumerate(kinds):
            (home := Path(folder) / str(number)).mkdir()
            forts.append(Fort(home, kind))

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )
        @given(PATH)
        def attack(path: str) -> None:
            nonlocal tried
            tried += 1
            for fort in forts:
                fort.attack(path)

        for path in KNOWN:
            attack.hypothesis.inner_test(path)
        attack()
    return f"{tried:,} paths at each of {len(forts)} backends: nothing outside was seen or changed, permissions held, no run crashed"


if __name__ == "__main__":
    print(campaign(int(sys.argv[1])))
