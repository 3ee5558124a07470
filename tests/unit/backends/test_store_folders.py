"""File tools never touch the folder of a store: closing a file in it would drop the locks of the process."""

import os
from pathlib import Path

import pytest
from harness.files import context, paths
from harness.processes import python
from harness.stores import plain

from minideep import DiskCheckpointer, create_deep_agent
from minideep.backends import FilesystemBackend, find, grep
from minideep.errors import ConfigError, ToolError
from minideep.models import ScriptedModel

REFUSED = "is in the folder of a store, which file tools never touch"


@pytest.fixture
def root(tmp_path):
    """A root with a store that holds a thread, and links to it."""
    root = tmp_path / "root"
    (root / "project" / "state" / "settings").mkdir(parents=True)
    (root / "project" / "a.py").write_text("needle")
    with DiskCheckpointer(root / "project" / "state") as store:
        agent = create_deep_agent(ScriptedModel(["needle"]), checkpointer=store)
        assert agent.run_sync("needle", "t").saved
    (root / "project" / "state" / "settings" / "t.json").write_text("needle")
    (root / "link").symlink_to("project/state")
    (root / "inner").symlink_to("project/state/settings")
    (root / "by way of").symlink_to("project/state/../a.py")
    return root


@pytest.fixture(params=[True, False], ids=["confined", "not confined"])
def backend(request, root):
    return FilesystemBackend(root, virtual_mode=request.param)


def can_hold(store: Path) -> bool:
    """Return True if another process gets hold of the thread `t`."""
    code = """
import sys
from minideep import DiskCheckpointer
from minideep.testing.plain import PlainStore
print(PlainStore(DiskCheckpointer(sys.argv[1])).hold("t"))
"""
    return python(code, store) == "True\n"


def test_a_search_over_the_root_keeps_the_locks_of_the_process(root):
    store = DiskCheckpointer(root / "project" / "state")
    assert plain(store).hold("t")
    backend, ctx = FilesystemBackend(root), context()
    grep(ctx, backend, "needle", "/")
    for act in (
        lambda: grep(ctx, backend, "needle", "/project/state"),
        lambda: backend.read(ctx, "/project/state/threads.lock"),
    ):
        with pytest.raises(ToolError):
            act()
    assert not can_hold(root / "project" / "state")
    plain(store).release("t")
    store.close()


INSIDE = ["project/state", "link", "project/state/settings", "inner", "project/state/new/folder"]


@pytest.mark.parametrize("folder", INSIDE)
def test_nothing_is_listed_read_written_or_deleted_in_the_folder_of_a_store(root, backend, folder):
    ctx, before = context(), sorted(root.rglob("*"))
    for act in (
        lambda: backend.ls(ctx, folder),
        lambda: list(backend.walk(ctx, folder)),
        lambda: backend.read(ctx, f"{folder}/cache.db"),
        lambda: list(backend.walk(ctx, f"{folder}/cache.db")),
        lambda: backend.write(ctx, f"{folder}/new", b""),
        lambda: backend.write(ctx, f"{folder}/t.json", b"", "0" * 64),
        lambda: backend.delete(ctx, f"{folder}/cache.db"),
        lambda: grep(ctx, backend, "needle", folder),
    ):
        with pytest.raises(ToolError, match=REFUSED):
            act()
    assert sorted(root.rglob("*")) == before


def test_the_folder_itself_is_listed_as_one_and_searches_pass_it_over(root):
    backend, ctx = FilesystemBackend(root), context()
    assert paths(backend.ls(ctx, "/project")) == ["/project/a.py", "/project/state/"]
    assert paths(backend.ls(ctx, "/")) == ["/by way of", "/inner", "/link/", "/project/"]
    assert find(ctx, backend, "**", "/").paths == ["/project/a.py"]
    hits = grep(ctx, backend, "needle", "/")
    assert ([hit.path for hit in hits.hits], hits.skipped) == (["/project/a.py"], 0)


@pytest.mark.parametrize("path", ["project", "project/state", "link"])
def test_what_holds_a_store_or_leads_to_it_is_not_deleted(root, backend, path):
    before = sorted(root.rglob("*"))
    with pytest.raises(ToolError, match="store"):
        backend.delete(context(), path)
    assert sorted(root.rglob("*")) == before


def test_the_refusal_names_the_folder_that_must_stay(root):
    with pytest.raises(
        ToolError, match="'/project' was not deleted, nor anything in it: 'state' in it is the folder of"
    ):
        FilesystemBackend(root).delete(context(), "/project")


def test_a_link_into_a_store_is_only_a_link(root):
    assert FilesystemBackend(root).delete(context(), "/inner") == ["/inner"]
    assert (root / "project" / "state" / "settings" / "t.json").exists()


@pytest.mark.parametrize("virtual", [True, False])
@pytest.mark.parametrize("folder", ["project/state", "link", "project/state/settings", "inner"])
def test_a_root_that_is_or_lies_in_the_folder_of_a_store_is_refused(root, folder, virtual):
    with pytest.raises(ConfigError, match=r"root_dir '.*' is in the folder of a store; keep threads and files"):
        FilesystemBackend(root / folder, virtual)


def test_a_store_of_another_process_is_known_by_its_files(tmp_path):
    (tmp_path / "theirs").mkdir()
    for name in ("threads.lock", "cache.db"):
        assert FilesystemBackend(tmp_path).ls(context(), "/theirs") is not None
        (tmp_path / "theirs" / name).touch()
    with pytest.raises(ToolError, match=REFUSED):
        FilesystemBackend(tmp_path).ls(context(), "/theirs")
    with pytest.raises(ConfigError):
        FilesystemBackend(tmp_path / "theirs")


def test_a_store_is_left_alone_from_the_moment_that_it_is_named(tmp_path):
    backend, ctx = FilesystemBackend(tmp_path), context()
    DiskCheckpointer(tmp_path / "state")
    assert backend.ls(ctx, "/") == []
    for _ in range(2):  # Made late, and made anew.
        (tmp_path / "state").mkdir()
        with pytest.raises(ToolError, match=REFUSED):
            backend.write(ctx, "/state/x", b"")
        (tmp_path / "state").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state").symlink_to("elsewhere")
    for path in ("/state", "/elsewhere"):
        with pytest.raises(ToolError, match=REFUSED):
            backend.ls(ctx, path)


def test_a_relative_store_is_known_after_a_change_of_the_working_folder(tmp_path):
    (tmp_path / "a" / "state").mkdir(parents=True)
    (tmp_path / "b" / "state").mkdir(parents=True)
    here = Path.cwd()
    try:
        os.chdir(tmp_path / "a")
        DiskCheckpointer("state")
        os.chdir(tmp_path / "b")  # Where it would be opened next.
        for folder in ("/a/state", "/b/state"):
            with pytest.raises(ToolError, match=REFUSED):
                FilesystemBackend(tmp_path).ls(context(), folder)
    finally:
        os.chdir(here)


def test_a_backend_whose_root_becomes_part_of_a_store_does_nothing_any_more(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    backend = FilesystemBackend(tmp_path / "a" / "b")
    DiskCheckpointer(tmp_path / "a")
    with pytest.raises(ToolError, match=REFUSED):
        backend.write(context(), "/x", b"")


def test_a_model_cannot_make_a_folder_look_like_a_store(tmp_path):
    backend, ctx = FilesystemBackend(tmp_path), context()
    for first, second in (("/a/threads.lock", "/a/cache.db"), ("/b/cache.db", "/b/threads.lock")):
        backend.write(ctx, first, b"")
        with pytest.raises(
            ToolError, match=f"'{second}' is refused: a folder with threads.lock and cache.db belongs to"
        ):
            backend.write(ctx, second, b"")
        backend.write(ctx, first, b"again")
