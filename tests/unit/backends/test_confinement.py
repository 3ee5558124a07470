"""Confinement: nothing outside the root is reached, whatever other processes do to the folders in it."""

import os
import sys
from pathlib import Path

import pytest
from harness.files import context, paths
from harness.paths import campaign
from harness.swapping import Swapped

from minideep.backends import FilesystemBackend
from minideep.errors import ToolError


def names(folder):
    return sorted(file.name for file in Path(folder).iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="two names are exchanged at once by a call of Linux")
@pytest.mark.parametrize("route", ["", "/in"])
def test_a_folder_that_is_swapped_for_a_link_all_the_time_never_leads_outside(tmp_path, route):
    done, escaped = Swapped(tmp_path, route).attack(500)
    assert not escaped
    assert min(done["read"], done["write"]) > 0


def test_no_path_leads_out_of_any_backend_and_none_crashes_a_run():
    assert "nothing outside was seen or changed" in campaign(30)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "base" / "in" / "deep").mkdir(parents=True)
    (tmp_path / "base" / "in" / "file").write_text("inside")
    (tmp_path / "base" / "in" / "deep" / "file").write_text("deep")
    return tmp_path / "base"


LINKS = {
    "relative": ("in/file", "", b"inside"),
    "of a folder": ("in", "/file", b"inside"),
    "up and down": ("in/deep/../file", "", b"inside"),
    "up at its end": ("in/deep/..", "/file", b"inside"),
    "absolute": ("{root}/in/file", "", b"inside"),
    "absolute folder": ("{root}/in", "/deep/file", b"deep"),
    "out and back": ("../base/in", "/file", b"inside"),
    "by another link": ("second/../file", "", b"inside"),
    "doubled": ("./in//deep/./file", "", b"deep"),
    "to the root": ("in/..", "/in/file", b"inside"),
}


@pytest.mark.parametrize(("target", "rest", "content"), LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("virtual", [True, False])
def test_every_link_that_stays_inside_is_followed(root, virtual, target, rest, content):
    (root / "second").symlink_to("in/deep")
    (root / "link").symlink_to(target.format(root=root))
    assert FilesystemBackend(root, virtual).read(context(), f"link{rest}") == content


def test_a_link_in_the_middle_is_followed_and_the_one_at_the_end_is_deleted(root):
    (root / "folder").symlink_to(root / "in")
    (root / "in" / "last").symlink_to("file")
    assert FilesystemBackend(root).delete(context(), "/folder/last") == ["/folder/last"]
    assert names(root / "in") == ["deep", "file"]


def test_a_chain_of_links_ends_somewhere_or_is_refused(root):
    (root / "l0").symlink_to("in/file")
    for n in range(1, 60):
        (root / f"l{n}").symlink_to(f"l{n - 1}")
    backend = FilesystemBackend(root)
    assert backend.read(context(), "/l30") == b"inside"
    with pytest.raises(ToolError, match="'/l59' is a symbolic link that leads nowhere"):
        backend.read(context(), "/l59")


def test_a_root_made_anew_is_taken_and_one_that_became_a_link_is_not(root):
    backend, ctx = FilesystemBackend(root), context()
    root.rename(root.with_name("old"))
    (root / "in").mkdir(parents=True)
    (root / "in" / "file").write_text("new")
    assert backend.read(ctx, "/in/file") == b"new"
    root.rename(root.with_name("new"))
    root.symlink_to("old")
    with pytest.raises(ToolError):
        backend.read(ctx, "/in/file")


def test_a_root_whose_parent_became_a_link_is_not_taken(tmp_path):
    (tmp_path / "home" / "root").mkdir(parents=True)
    (tmp_path / "outside" / "root").mkdir(parents=True)
    (tmp_path / "outside" / "root" / "file").write_text("secret")
    backend = FilesystemBackend(tmp_path / "home" / "root")
    (tmp_path / "home").rename(tmp_path / "gone")
    (tmp_path / "home").symlink_to("outside")
    with pytest.raises(ToolError):
        backend.read(context(), "/file")


def test_folders_that_may_be_passed_but_not_listed_are_passed(root):
    (root / "in").chmod(0o311)
    try:
        assert FilesystemBackend(root).read(context(), "/in/deep/file") == b"deep"
    finally:
        (root / "in").chmod(0o755)


def test_a_folder_far_deeper_than_any_path_is_deleted(root):
    folder, made = os.open(root, os.O_RDONLY), 0
    for _ in range(300):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder, made = inner, made + 1
    os.close(folder)
    FilesystemBackend(root).delete(context(), "/d")
    assert names(root) == ["in"]


def test_a_folder_of_which_a_part_cannot_be_looked_into_is_left_whole(root):
    if os.geteuid() == 0:
        pytest.skip("root may look everywhere")
    (root / "in" / "deep").chmod(0)
    with pytest.raises(ToolError, match="permission denied"):
        FilesystemBackend(root).delete(context(), "/in")
    (root / "in" / "deep").chmod(0o755)
    assert (root / "in" / "file").exists()


def test_no_descriptor_is_left_open(root):
    backend, ctx = FilesystemBackend(root), context()
    (root / "out").symlink_to("../..")
    (root / "loop").symlink_to("loop")
    before = names("/dev/fd")
    for path in ("/in/file", "/in", "/out", "/loop", "/no/thing", "/in/file/x", "/" + "x" * 300, "/", "/out/x"):
        for verb in (backend.read, backend.ls, lambda c, p: list(backend.walk(c, p)), backend.delete):
            for _ in range(3):
                try:
                    verb(ctx, path)
                except ToolError:
                    continue
        backend.write(ctx, "/in/file", b"again")
    assert len(names("/dev/fd")) == len(before)
    assert paths(backend.ls(ctx, "/")) == ["/in/"]
