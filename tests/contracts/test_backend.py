"""The contract of all backends, what a model reads of them, and the failures that only a disk has."""

import os
import resource
import stat
import sys
import threading
from hashlib import sha256
from pathlib import Path

import pytest
from harness.backends import ALONE, AROUND, MAKERS, ROOTS
from harness.files import context, paths, put

from minideep.backends import MAX_FILE, FilesystemBackend, Missing, find, grep
from minideep.backends.globs import Glob
from minideep.errors import ConfigError, ToolError
from minideep.testing import BackendContract


@pytest.fixture
def ctx():
    return context()


@pytest.fixture(params=[*ALONE, *AROUND])
def backend(request, tmp_path):
    return MAKERS[request.param](tmp_path)


@pytest.fixture
def tree(backend, ctx):
    """A backend with a few files."""
    for path in ("/b.py", "/a.md", "/src/main.py", "/src/deep/x.py", "/src2/y.py", "/.env", "/.git/config"):
        put(backend, ctx, path, path.encode())
    put(backend, ctx, "/src/node_modules/m.js")
    put(backend, ctx, "/src/__pycache__/main.pyc")
    return backend


class Contract(BackendContract):
    maker: str

    @property
    def root(self):
        return ROOTS[self.maker]

    def make(self, folder):
        return MAKERS[self.maker](folder)


for _name in MAKERS:
    _words = "".join(word.capitalize() for word in _name.split())
    globals()[f"Test{_words}"] = type(f"Test{_words}", (Contract,), {"maker": _name})


# ---- what a model reads, the same of all


def test_a_folder_lists_its_direct_entries(tree, ctx):
    assert paths(tree.ls(ctx, "/")) == ["/.env", "/.git/", "/a.md", "/b.py", "/src/", "/src2/"]
    assert paths(tree.ls(ctx, "/src/")) == ["/src/__pycache__/", "/src/deep/", "/src/main.py", "/src/node_modules/"]


@pytest.mark.parametrize("verb", ["ls", "read", "walk", "delete"])
def test_a_missing_path_raises_missing(tree, ctx, verb):
    with pytest.raises(Missing, match="'/src/nope' does not exist; find it with ls or glob"):
        list(getattr(tree, verb)(ctx, "/src/nope"))


def test_folders_and_files_are_not_confused(tree, ctx):
    for act in (
        lambda: tree.read(ctx, "/src"),
        lambda: tree.write(ctx, "/src", b""),
        lambda: tree.write(ctx, "/", b""),
    ):
        with pytest.raises(ToolError, match="is a folder, not a file"):
            act()
    with pytest.raises(ToolError, match=r"'/b\.py' is a file, not a folder"):
        tree.ls(ctx, "/b.py")
    with pytest.raises(ToolError, match="is a file, not a folder"):
        tree.write(ctx, "/b.py/below", b"")


def test_a_write_goes_through_only_if_the_file_is_as_expected(backend, ctx):
    put(backend, ctx, "/f", b"one")
    put(backend, ctx, "/f", b"two", expect=sha256(b"one").hexdigest())
    with pytest.raises(ToolError, match="'/f' changed since you read it"):
        put(backend, ctx, "/f", b"three", expect=sha256(b"one").hexdigest())
    assert backend.read(ctx, "/f") == b"two"


def test_the_root_is_never_deleted(tree, ctx):
    for path in ("/", "", ".", "//"):
        with pytest.raises(ToolError, match="the root, which cannot be deleted"):
            tree.delete(ctx, path)


def test_a_walk_skips_hidden_and_vendored_folders(tree, ctx):
    expected = ["/.env", "/a.md", "/b.py", "/src/deep/x.py", "/src/main.py", "/src2/y.py"]
    assert sorted(paths(tree.walk(ctx, "/"))) == expected


def test_a_walk_that_begins_in_a_hidden_folder_sees_it(tree, ctx):
    assert paths(tree.walk(ctx, "/.git")) == ["/.git/config"]
    assert paths(tree.walk(ctx, "/src/node_modules")) == ["/src/node_modules/m.js"]


def test_a_walk_of_a_file_is_that_file(tree, ctx):
    assert paths(tree.walk(ctx, "/.git/config")) == ["/.git/config"]


@pytest.mark.parametrize(
    "path", ["..", "/../x", "a/../b", "/a/..", "~", "~/x", "C:\\x", "c:/x", "a\0b", "/\ud800"], ids=ascii
)
def test_a_path_that_could_lead_elsewhere_is_refused(backend, ctx, path):
    for verb in (backend.ls, backend.read, backend.walk, backend.delete, lambda c, p: backend.write(c, p, b"")):
        with pytest.raises(ToolError, match=r"is refused: .*; write it from the root, as in '/src/main.py'"):
            list(verb(ctx, path))


@pytest.mark.parametrize("path", ["/a..b.txt", "/...", "/..a", "/a~", "/x:y", "/ü ñ"])
def test_a_strange_name_is_still_a_name(backend, ctx, path):
    put(backend, ctx, path, b"ok")
    assert (backend.read(ctx, path), paths(backend.walk(ctx, "/"))) == (b"ok", [path])


# ---- finding, the same over both


@pytest.mark.parametrize("pattern", ["../x", "a/../b", "", "{a,b}" * 30, "x" * 1001, "{a,b,c,d,e}" * 3])
def test_a_pattern_that_leads_up_or_expands_too_far_is_refused(backend, ctx, pattern):
    with pytest.raises(ToolError, match=r"pattern '.*' is (refused|too large): "):
        find(ctx, backend, pattern, "/")


@pytest.mark.parametrize(
    "pattern", ["**/a/" * 100 + "b", "*a" * 100 + "b", "{*,x}*/a/" * 6 + "b", "{" * 999, "[" * 999]
)
def test_every_pattern_matches_in_bounded_time(pattern):
    glob = Glob(pattern, "/")
    assert not glob.matches("/" + "a/" * 500 + "a" * 255)


def test_a_search_that_runs_out_of_time_says_so_and_keeps_its_findings(tree, ctx):
    assert find(ctx, tree, "*.py", "/", seconds=0).late
    assert grep(ctx, tree, "x", "/", seconds=0).late
    assert not find(ctx, tree, "*.py", "/").late


def test_a_file_that_cannot_be_read_is_skipped_by_a_search_unless_it_was_named(tmp_path, ctx):
    (tmp_path / "small").write_text("needle")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_FILE + 1)
    found = grep(ctx, FilesystemBackend(tmp_path), "needle", "/")
    assert ([hit.path for hit in found.hits], found.skipped) == (["/small"], 1)
    with pytest.raises(ToolError, match="is 10,000,001 bytes, more than the 10,000,000 that can be read"):
        grep(ctx, FilesystemBackend(tmp_path), "needle", "/huge")


# ---- a disk


@pytest.fixture
def jail(tmp_path):
    """A root with links of every kind, and a secret beside it."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "in").mkdir(parents=True)
    outside.mkdir()
    (root / "in" / "file").write_text("inside")
    (outside / "secret").write_text("secret")
    for name, target in {
        "to_file": "in/file",
        "to_folder": "in",
        "out_file": "../outside/secret",
        "out_folder": "../outside",
        "absolute": str(outside / "secret"),
        "new_outside": "../outside/new",
        "broken": "in/nothing",
        "loop": "loop",
        "up": ".",
    }.items():
        (root / name).symlink_to(target)
    return root


@pytest.fixture
def jailed(jail):
    return FilesystemBackend(jail)


@pytest.mark.parametrize(("name", "remedy"), [("no", "create it first"), ("file", "give the folder that it is in")])
def test_a_root_that_is_not_a_folder_is_refused_at_once(tmp_path, name, remedy):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=f"root_dir must be an existing folder, not '.*'; {remedy}"):
        FilesystemBackend(tmp_path / name)


def test_a_root_may_begin_with_the_home_of_the_user(ctx):
    assert FilesystemBackend("~").ls(ctx, "/") == FilesystemBackend(Path.home()).ls(ctx, "/")


def test_the_root_may_itself_be_a_link(jail, ctx):
    assert FilesystemBackend(jail / "to_folder").read(ctx, "/file") == b"inside"


@pytest.mark.parametrize("path", ["/out_file", "/out_folder/secret", "/absolute", "/new_outside", "/up/up/out_file"])
def test_no_link_leads_outside(jail, jailed, ctx, path):
    for verb in (jailed.read, jailed.ls, jailed.walk, lambda c, p: jailed.write(c, p, b"")):
        with pytest.raises(ToolError, match="leads outside the root"):
            list(verb(ctx, path))
    with pytest.raises(ToolError, match="leads outside the root"):
        jailed.delete(ctx, "/out_folder/secret")
    assert [file.read_text() for file in (jail.parent / "outside").iterdir()] == ["secret"]


def test_a_link_inside_is_followed_and_stays_a_link(jail, jailed, ctx):
    jailed.write(ctx, "/to_file", b"through")
    assert (jailed.read(ctx, "/to_folder/file"), (jail / "to_file").is_symlink()) == (b"through", True)


def test_links_that_lead_nowhere_are_listed_and_do_not_hide_the_rest(jailed, ctx):
    assert paths(jailed.ls(ctx, "/")) == [
        "/absolute",
        "/broken",
        "/in/",
        "/loop",
        "/new_outside",
        "/out_file",
        "/out_folder",
        "/to_file",
        "/to_folder/",
        "/up/",
    ]


def test_a_walk_follows_no_link_to_a_folder_and_none_to_the_outside(jailed, ctx):
    assert paths(jailed.walk(ctx, "/")) == ["/to_file", "/in/file"]


def test_a_loop_and_a_broken_link_say_what_they_are(jailed, ctx):
    for act in (
        lambda: jailed.read(ctx, "/loop"),
        lambda: jailed.write(ctx, "/loop", b""),
        lambda: jailed.ls(ctx, "/loop"),
    ):
        with pytest.raises(ToolError, match="'/loop' is a symbolic link that leads nowhere"):
            act()
    with pytest.raises(ToolError, match="'/broken' does not exist"):
        jailed.read(ctx, "/broken")


@pytest.mark.parametrize("name", ["to_file", "to_folder", "out_file", "out_folder", "broken", "loop", "up"])
def test_deleting_a_link_keeps_its_target(jail, jailed, ctx, name):
    assert jailed.delete(ctx, f"/{name}") == [f"/{name}"]
    assert not (jail / name).is_symlink()
    assert [(jail / "in" / "file").read_text(), (jail.parent / "outside" / "secret").read_text()] == [
        "inside",
        "secret",
    ]


def test_deleting_a_folder_keeps_the_targets_of_its_links(jail, jailed, ctx):
    (jail / "in" / "out").symlink_to(jail.parent / "outside")
    assert jailed.delete(ctx, "/in") == ["/in/file"]
    assert (jail.parent / "outside" / "secret").read_text() == "secret"


def test_a_replaced_file_keeps_its_mode_and_a_new_one_gets_the_default(tmp_path, ctx):
    (tmp_path / "script").touch(mode=0o700)
    (tmp_path / "usual").touch()
    for name in ("script", "new"):
        FilesystemBackend(tmp_path).write(ctx, name, b"x")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("script", "new", "usual")]
    assert modes == [0o700, modes[2], modes[2]]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, ctx):
    (tmp_path / "f").write_text("old")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        with pytest.raises(ToolError, match="'/f': file too large; choose another path"):
            FilesystemBackend(tmp_path).write(ctx, "/f", b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("f", "old")]


def test_of_two_writers_that_expect_the_same_one_wins(tmp_path, ctx):
    backend, start, lost = FilesystemBackend(tmp_path), threading.Barrier(8), []
    backend.write(ctx, "/f", b"before")

    def write(number):
        start.wait()
        try:
            backend.write(ctx, "/f", b"%d" % number, sha256(b"before").hexdigest())
        except ToolError as exc:
            lost.append(str(exc))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(lost) == 7


def test_only_regular_files_are_read_and_replaced(tmp_path, ctx):
    os.mkfifo(tmp_path / "pipe")
    backend = FilesystemBackend(tmp_path)
    for act in (lambda: backend.read(ctx, "/pipe"), lambda: backend.write(ctx, "/pipe", b"")):
        with pytest.raises(ToolError, match="'/pipe': it is a device, a pipe or a socket, not a regular file"):
            act()
    assert (paths(backend.ls(ctx, "/")), list(backend.walk(ctx, "/"))) == (["/pipe"], [])


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path, ctx):
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(50_000_000_000)
    with pytest.raises(ToolError, match="'/huge' is 50,000,000,000 bytes, more than the 10,000,000 that"):
        FilesystemBackend(tmp_path).read(ctx, "/huge")


@pytest.mark.skipif(sys.platform == "darwin", reason="its file system takes only names of text")
def test_an_undecodable_name_does_not_hide_the_others(tmp_path, ctx):
    (tmp_path / "good").touch()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).touch()
    assert paths(FilesystemBackend(tmp_path).ls(ctx, "/")) == ["/good", "/\udcff"]


def test_a_name_that_is_too_long_is_refused(tmp_path, ctx):
    with pytest.raises(ToolError, match="its name is too long; choose a shorter one"):
        FilesystemBackend(tmp_path).write(ctx, "/" + "x" * 300, b"")


def test_without_virtual_mode_paths_are_real_and_relative_ones_start_at_the_root(jail, ctx):
    backend = FilesystemBackend(jail, virtual_mode=False)
    assert backend.read(ctx, "in/file") == backend.read(ctx, f"{jail}/in/file") == b"inside"
    assert backend.read(ctx, "/" + str(jail.parent / "outside" / "secret")) == b"secret"
    assert backend.home == str(jail)
    for path in (".", str(jail), str(jail.parent), "/"):
        with pytest.raises(ToolError, match="is or contains the root"):
            backend.delete(ctx, path)
