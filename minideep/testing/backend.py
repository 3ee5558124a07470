"""The contract of every file backend, as tests."""

from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Any

from ..agent import Agent
from ..backends import FileInfo, Missing, find
from ..errors import ToolError
from ..events import FileDeleted, FileWritten
from ..messages import ToolCall, ToolMessage
from ..middleware import FilesystemMiddleware
from ..models import ScriptedModel
from ..ports import Backend
from .checks import raises, same
from .context import RecordingContext, tool_context

BYTES = [b"", b"plain\n", "née\r\n".encode(), b"caf\xe9", b"a\0b", b"\xef\xbb\xbfmark", bytes(range(256)) * 500]
"""Contents that come back byte for byte: empty, text, other encodings, a byte order mark, and 128 KB of any bytes."""
TREE = ("/b.py", "/a.md", "/src/main.py", "/src/deep/x.py", "/src2/y.py", "/.env")
SPELLINGS = ["f/g", "/f//g", "./f/./g", "/f/g/"]
"""Ways to write `/f/g` where `home` is `/`."""
REFUSED = ["..", "/../x", "a/../b", "/a/..", "~", "~/x", "a\0b", "/\ud800"]
"""Paths that could lead elsewhere, or that nothing can encode."""
ODD_NAMES = ["/a..b.txt", "/...", "/..a", "/a~", "/ü ñ", "/😀", "/-f", "/a'b\"c"]

GLOB_TREE = (
    "/a.py",
    "/b.md",
    "/.env",
    "/src/a.py",
    "/src/.x.py",
    "/src/lib/c.py",
    "/src/lib/d.txt",
    "/.ci/w.yml",
    "/[z].py",
)
GLOBS: list[tuple[str, str, list[str]]] = [
    ("*.py", "/", ["/[z].py", "/a.py", "/src/a.py", "/src/lib/c.py"]),
    ("/*.py", "/src", ["/[z].py", "/a.py"]),
    ("src/*.py", "/", ["/src/a.py"]),
    ("./src//*.py", "/", ["/src/a.py"]),
    ("lib/*", "/src", ["/src/lib/c.py", "/src/lib/d.txt"]),
    ("lib/*", "/", []),
    ("*", "/src/lib", ["/src/lib/c.py", "/src/lib/d.txt"]),
    ("**/*.py", "/", ["/[z].py", "/a.py", "/src/a.py", "/src/lib/c.py"]),
    ("src/**", "/", ["/src/a.py", "/src/lib/c.py", "/src/lib/d.txt"]),
    ("**/lib/**/c.py", "/", ["/src/lib/c.py"]),
    ("**/**/**/c.py", "/", ["/src/lib/c.py"]),
    ("?.py", "/src", ["/src/a.py", "/src/lib/c.py"]),
    ("[bc].*", "/", ["/b.md", "/src/lib/c.py"]),
    ("[!a].py", "/", ["/src/lib/c.py"]),
    ("[[]z].py", "/", ["/[z].py"]),
    ("{a.py,lib/c.py}", "/src", ["/src/a.py", "/src/lib/c.py"]),
    ("*.{md,t{x,}t}", "/", ["/b.md", "/src/lib/d.txt"]),
    ("src/{lib/*,*}.py", "/", ["/src/a.py", "/src/lib/c.py"]),
    (".*", "/", ["/.env", "/src/.x.py"]),
    ("src/.*", "/", ["/src/.x.py"]),
    (".ci/*.yml", "/", ["/.ci/w.yml"]),
    ("*.yml", "/.ci", ["/.ci/w.yml"]),
    ("{.ci,src}/*.{yml,py}", "/", ["/.ci/w.yml", "/src/a.py"]),
    ("A.PY", "/", []),
    ("src", "/", []),
    ("a.py/**", "/", []),
    ("a.py", "/a.py", ["/a.py"]),
]
"""Patterns, the folder that each begins in, and the files of `GLOB_TREE` that it finds."""


class Files:
    """A backend with a context, and what its tools do: whatever the state is to keep, they record. Paths begin at
    *root*, a folder of the backend; "" is its own root.
    """

    def __init__(self, backend: Backend, root: str = "") -> None:
        self.backend: Backend = backend
        self.root: str = root
        self.ctx: RecordingContext = tool_context()

    def put(self, path: str, data: bytes = b"", expect: str | None = None) -> bool:
        """Write a file; return whether the state keeps it."""
        path = self._full(path)
        kept = self.backend.write(self.ctx, path, data, expect)
        if kept:
            self.ctx.record(FileWritten(path, data, len(data), sha256(data).hexdigest(), time()))
        return kept

    def read(self, path: str) -> bytes:
        return self.backend.read(self.ctx, self._full(path))

    def remove(self, path: str) -> list[str]:
        """Delete a file or a folder; return the removed files."""
        removed = self.backend.delete(self.ctx, self._full(path))
        for file in removed:
            self.ctx.record(FileDeleted(file, time()))
        return [self._inner(file) for file in removed]

    def ls(self, path: str) -> list[str]:
        return self._paths(self.backend.ls(self.ctx, self._full(path)))

    def walk(self, path: str) -> list[str]:
        """Return the files that a walk finds, in its order."""
        return self._paths(self.backend.walk(self.ctx, self._full(path)))

    def _paths(self, infos: Iterable[FileInfo]) -> list[str]:
        """Return the paths, those of folders with a final `/`."""
        return [self._inner(f"{info.path.rstrip('/')}/" if info.is_dir else info.path) for info in infos]

    def _full(self, path: str) -> str:
        if not self.root or path in REFUSED:
            return path
        return self.root + (path if path.startswith("/") else f"/{path}")

    def _inner(self, path: str) -> str:
        if not path.startswith(f"{self.root}/"):
            raise AssertionError(f"{path!r} is not below {self.root!r}")
        return path[len(self.root) :]


class BackendContract:
    """The promises of every `Backend` whose `home` is `/`.

    Paths that the contract writes begin at the root of an empty backend, or at its folder *root*, such as "/docs". A
    message is free as long as it is there: the model reads it.
    """

    root: str = ""

    def make(self, folder: Path) -> Backend:
        """Return an empty backend, which may use the empty *folder*."""
        raise NotImplementedError(f"{type(self).__name__}.make must return a backend")

    def _files(self, folder: Path, *paths: str) -> Files:
        files = Files(self.make(folder), self.root)
        for path in paths:
            files.put(path, path.encode())
        return files

    def test_it_says_whether_it_blocks_and_where_it_is_at_home(self, tmp_path: Path) -> None:
        backend = self.make(tmp_path)
        same("the type of `blocking`", type(backend.blocking), bool)
        same("the first character of `home`", backend.home[:1], "/")

    def test_a_file_is_read_byte_for_byte_as_it_was_written(self, tmp_path: Path) -> None:
        files = self._files(tmp_path)
        for number, data in enumerate(BYTES):
            files.put(f"/f{number}", data)
            same(f"the content of a file of {len(data)} bytes", files.read(f"/f{number}"), data)

    def test_a_write_replaces_the_whole_file_and_says_each_time_whether_the_state_keeps_it(
        self, tmp_path: Path
    ) -> None:
        files = self._files(tmp_path)
        kept = [files.put("/f", b"a long old text"), files.put("/f", b"new")]
        same("the content after two writes", files.read("/f"), b"new")
        if kept not in ([True, True], [False, False]):
            raise AssertionError(f"write: expected True twice, or False twice, found {kept}")

    def test_a_write_goes_through_only_if_the_file_is_as_expected(self, tmp_path: Path) -> None:
        files = self._files(tmp_path)
        files.put("/f", b"one")
        files.put("/f", b"two", sha256(b"one").hexdigest())
        with raises(ToolError, "a write that expects a content of long ago"):
            files.put("/f", b"three", sha256(b"one").hexdigest())
        same("the content after a write that was refused", files.read("/f"), b"two")

    def test_folders_come_and_go_with_their_files(self, tmp_path: Path) -> None:
        files = self._files(tmp_path)
        same("an empty root, listed and walked", (files.ls("/"), files.walk("/")), ([], []))
        files.put("/a/b/c.txt")
        same("the root, its folder and the folder in it", (files.ls("/"), files.ls("/a")), (["/a/"], ["/a/b/"]))

    def test_a_listing_has_the_direct_entries_in_order_with_sizes(self, tmp_path: Path) -> None:
        files = self._files(tmp_path, *TREE)
        same("ls /", files.ls("/"), ["/.env", "/a.md", "/b.py", "/src/", "/src2/"])
        same("ls /src/", files.ls("/src/"), ["/src/deep/", "/src/main.py"])
        infos = [info for info in files.backend.ls(files.ctx, f"{self.root}/src") if not info.is_dir]
        same("sizes in /src", [info.size for info in infos], [len("/src/main.py")])
        content = sha256(b"/src/main.py").hexdigest()
        same("the hash of a file, unless none is given", [info.sha256 or content for info in infos], [content])

    def test_a_walk_finds_every_file_below_but_hidden_and_vendored_folders(self, tmp_path: Path) -> None:
        files = self._files(tmp_path, *TREE, "/.git/config", "/src/node_modules/m.js", "/src/__pycache__/main.pyc")
        # Those of a folder before those in its folders: where a list is cut, the nearest are in it.
        same("walk /", files.walk("/"), ["/.env", "/a.md", "/b.py", "/src/main.py", "/src/deep/x.py", "/src2/y.py"])
        same("walk /src", files.walk("/src"), ["/src/main.py", "/src/deep/x.py"])
        same("walk a file", files.walk("/src/main.py"), ["/src/main.py"])
        same("walk a hidden folder", files.walk("/.git"), ["/.git/config"])

    def test_what_is_not_there_is_missing(self, tmp_path: Path) -> None:
        files = self._files(tmp_path, *TREE)
        for path in ("/nope", "/src/nope", "/nope/nope"):
            for name, act in _verbs(files):
                if name != "write":
                    with raises(Missing, f"{name} {path}"):
                        act(path)

    def test_folders_and_files_are_not_confused(self, tmp_path: Path) -> None:
        files = self._files(tmp_path, *TREE)
        for what, act in (
            ("read a folder", lambda: files.read("/src")),
            ("write to a folder", lambda: files.put("/src")),
            ("write to the root", lambda: files.put("/")),
            ("list a file", lambda: files.ls("/b.py")),
            ("write below a file", lambda: files.put("/b.py/below")),
        ):
            with raises(ToolError, what):
                act()
        same("the file after all that", files.read("/b.py"), b"/b.py")

    def test_a_glob_means_the_same_everywhere(self, tmp_path: Path) -> None:
        files = self._files(tmp_path, *GLOB_TREE)
        for pattern, start, expected in GLOBS:
            full = f"{self.root}{pattern}" if pattern.startswith("/") else pattern
            found = find(files.ctx, files.backend, full, f"{self.root}{start}" if start != "/" else self.root or "/")
            same(f"glob {pattern} in {start}", [path[len(self.root) :] for path in found.paths], expected)

    def test_a_deleted_file_is_gone_and_its_neighbour_is_not(self, tmp_path: Path) -> None:
        files = self._files(tmp_path, *TREE, "/src/node_modules/m.js")
        removed = ["/src/deep/x.py", "/src/main.py", "/src/node_modules/m.js"]
        same("delete a folder", sorted(files.remove("/src")), removed)
        same("delete a file", files.remove("/b.py"), ["/b.py"])
        same("what is left", files.walk("/"), ["/.env", "/a.md", "/src2/y.py"])
        with raises(Missing, "read a deleted file"):
            files.read("/b.py")

    def test_the_root_is_never_deleted(self, tmp_path: Path) -> None:
        files = self._files(tmp_path, "/f")
        for path in ("/", "", ".", "//"):
            with raises(ToolError, f"delete {path!r}"):
                files.remove(path)
        same("what is left", files.walk("/"), ["/f"])

    def test_different_spellings_of_a_path_lead_to_one_file(self, tmp_path: Path) -> None:
        files = self._files(tmp_path)
        files.put("/f/g", b"here")
        if files.backend.home == "/":
            same("read each spelling of /f/g", [files.read(path) for path in SPELLINGS], [b"here"] * len(SPELLINGS))

    def test_a_path_that_could_lead_elsewhere_is_refused(self, tmp_path: Path) -> None:
        files = self._files(tmp_path, *TREE)
        for path in REFUSED:
            for name, act in _verbs(files):
                with raises(ToolError, f"{name} {path!a}"):
                    act(path)

    def test_a_strange_name_is_still_a_name(self, tmp_path: Path) -> None:
        files = self._files(tmp_path)
        for path in ODD_NAMES:
            files.put(path, path.encode())
        same("read each odd name", [files.read(path) for path in ODD_NAMES], [path.encode() for path in ODD_NAMES])
        same("walk the odd names", files.walk("/"), sorted(ODD_NAMES))

    def test_the_file_tools_of_an_agent_work_on_it(self, tmp_path: Path) -> None:
        path = f"{self.root}/notes/a.md"
        calls = [
            ToolCall("write_file", {"file_path": path, "content": "alpha beta\n"}),
            ToolCall("edit_file", {"file_path": path, "old_string": "beta", "new_string": "gamma"}),
            ToolCall("grep", {"pattern": "gamma"}),
            ToolCall("glob", {"pattern": "**/*.md"}),
            ToolCall("read_file", {"file_path": path}),
            ToolCall("delete", {"file_path": path}),
            ToolCall("ls", {"path": self.root or "/"}),
        ]
        tools = FilesystemMiddleware(self.make(tmp_path))
        turn = Agent(ScriptedModel([*calls, "done"]), middleware=[tools]).run_sync("go")
        results = [message for message in turn.messages if isinstance(message, ToolMessage)]
        same("how the turn went", (turn.status, turn.text), ("ended", "done"))
        same("results that are errors", [message.text for message in results if message.is_error], [])
        found = [path in results[2].text, path in results[3].text, "alpha gamma" in results[4].text]
        same("grep, glob and read_file find the edited file", found, [True, True, True])
        same("ls finds the deleted file", "a.md" in results[6].text, False)


def _verbs(files: Files) -> list[tuple[str, Callable[[str], Any]]]:
    return [
        ("ls", files.ls),
        ("walk", files.walk),
        ("read", files.read),
        ("write", files.put),
        ("delete", files.remove),
    ]
