"""The terminal keeps threads in a private folder for each root, or in memory with a warning."""

import re
import stat
from pathlib import Path

import pytest
from harness.terminal import minideep

from minideep import DiskCheckpointer, create_deep_agent
from minideep.cli.places import private_folder
from minideep.models import ScriptedModel


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "my root"
    folder.mkdir()
    (folder / "README.md").write_text("Cats sleep in warm places every day.\n")
    return folder


def run(root, *args, goal="Say what is here, to OUT.md", env=None):
    return minideep("run", goal, "--thread", "t", *args, cwd=root, env=env)


def old_thread(root, store="", thread="old"):
    """A thread as an earlier version left it: its log says nothing of what it runs with."""
    with DiskCheckpointer(store or root / ".minideep") as kept:
        create_deep_agent(ScriptedModel(["Hello."]), checkpointer=kept).run_sync("Hi", thread)


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("linux", {"HOME": "/h"}, "/h/.local/state/minideep"),
        ("linux", {"HOME": "/h", "XDG_STATE_HOME": "/x"}, "/x/minideep"),
        ("linux", {"HOME": "/h", "XDG_STATE_HOME": "relative"}, "/h/.local/state/minideep"),
        ("linux", {"XDG_STATE_HOME": "/x"}, "/x/minideep"),
        ("darwin", {"HOME": "/Users/h", "XDG_STATE_HOME": "/x"}, "/Users/h/Library/Application Support/minideep"),
        ("win32", {"LOCALAPPDATA": "C:/Users/h/AppData/Local"}, "C:/Users/h/AppData/Local/minideep"),
        ("linux", {}, None),
        ("linux", {"HOME": ""}, None),
        ("linux", {"HOME": "here"}, None),
        ("darwin", {}, None),
        ("win32", {"HOME": "/h"}, None),
    ],
)
def test_the_folder_is_where_the_system_keeps_the_users_state(root, platform, environ, expected):
    found = private_folder(root, platform, environ)
    assert (found and str(found.parent)) == expected


def test_each_root_has_its_own_folder_whatever_path_leads_to_it(root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "other" / "my root").mkdir(parents=True)
    name = private_folder(root, "linux", {"HOME": "/h"}).name
    assert re.fullmatch(r"my-root-[0-9a-f]{16}", name)
    assert private_folder(tmp_path / "link" / ".", "linux", {"HOME": "/h"}).name == name
    assert private_folder(tmp_path / "other" / "my root", "linux", {"HOME": "/h"}).name != name
    odd = private_folder(Path("/" + "\x1bü.." * 60), "linux", {"HOME": "/h"}).name
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,57}", odd)
    assert private_folder(Path("/"), "linux", {"HOME": "/h"}).name.startswith("root-")


def test_threads_are_kept_outside_the_root_and_every_command_finds_them_by_it(root, tmp_path):
    assert run(root).returncode == 0
    assert {file.name for file in root.iterdir()} == {"OUT.md", "README.md"}
    folder = private_folder(root, "linux", {"XDG_STATE_HOME": str(tmp_path / "state")})
    assert (folder / "cache.db").exists()
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, folder.parent)] == [0o700, 0o700]
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    assert minideep("threads", cwd=tmp_path, env=env).stdout == "no threads\n"
    for command in (
        ["threads"],
        ["show", "t"],
        ["history", "t"],
        ["export", "t"],
        ["resume", "t"],
        ["fork", "t", "--name", "f"],
    ):
        found = minideep(*command, "--root", "my root", cwd=tmp_path, env=env)
        assert (found.returncode, found.stderr) == (0, ""), command
    assert minideep("delete", "t", "--root", "my root", cwd=tmp_path, env=env).returncode == 0
    gone = minideep("show", "t", "--root", "my root", cwd=tmp_path, env=env)
    assert gone.stderr == (
        "minideep: no thread 't' here; `minideep threads` lists all of them, --root or --state selects another place\n"
    )


def test_state_names_another_place(root, tmp_path):
    assert run(root, "--state", "../mine").returncode == 0
    assert "t " in minideep("threads", "--state", str(tmp_path / "mine"), cwd=tmp_path).stdout
    assert minideep("threads", cwd=root).stdout == "no threads\n"


@pytest.mark.parametrize("case", ["no HOME", "a file in the way", "a file for a state"])
def test_without_a_folder_for_threads_the_answer_comes_with_one_warning(root, tmp_path, case):
    (tmp_path / "file").write_text("in the way")
    env, args, problem = {
        "no HOME": ({"HOME": "", "XDG_STATE_HOME": ""}, [], "HOME names no folder for your threads"),
        "a file in the way": ({"XDG_STATE_HOME": str(tmp_path / "file")}, [], "cannot write the state in"),
        "a file for a state": ({}, ["--state", str(tmp_path / "file")], "cannot write the state in"),
    }[case]
    done = run(root, "--limit-steps", "2", "--model", "offline:", *args, env=env)
    assert done.returncode == 4
    assert "exhausted: steps" in done.stdout
    assert "minideep resume" not in done.stdout  # There is nothing to resume.
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("minideep: not saved: ")
    assert problem in done.stderr


def test_a_store_that_cannot_be_written_is_one_warning_beside_the_answer(root, tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "cache.db").symlink_to(tmp_path / "nowhere" / "x")
    done = run(root, "--model", "offline:", "--state", "../s")
    assert (done.returncode, "/OUT.md is written" in done.stdout) == (0, True)
    assert (
        done.stderr
        == "minideep: thread 't' is not saved: cannot write the state in '../s': unable to open database file\n"
    )


def test_without_a_place_for_threads_the_error_names_the_remedy(root):
    found = minideep("threads", cwd=root, env={"HOME": "", "XDG_STATE_HOME": ""})
    assert (found.returncode, found.stderr) == (
        2, "minideep: HOME names no folder for your threads; set it, or pass --state\n",
    )  # fmt: skip


def test_a_root_that_is_no_folder_is_one_line(root):
    for command in (["threads"], ["run", "x"]):
        found = minideep(*command, "--root", "mising", cwd=root)
        assert (found.returncode, found.stderr.count("\n")) == (2, 1)
        assert "--root 'mising' is not a folder" in found.stderr


def test_an_old_store_in_the_root_is_used_and_announced(root):
    old_thread(root)
    listed = minideep("threads", cwd=root)
    assert "old " in listed.stdout
    where = str(root / ".minideep")
    assert listed.stderr == f"minideep: using the threads in {where!r}, where earlier versions kept them\n"
    assert run(root).returncode == 0
    assert "t " in minideep("threads", "--state", ".minideep", cwd=root).stdout


def test_an_old_store_that_appears_in_a_root_does_not_replace_the_private_one(root):
    run(root)
    old_thread(root)
    listed = minideep("threads", cwd=root)
    assert "t " in listed.stdout
    assert "old" not in listed.stdout
    assert (
        listed.stderr == f"minideep: '{root}/.minideep' holds older threads; `--state {root}/.minideep` selects them\n"
    )


def test_a_folder_of_the_old_name_that_holds_no_threads_is_no_store(root):
    (root / ".minideep" / "settings").mkdir(parents=True)
    assert (run(root).returncode, [file.name for file in (root / ".minideep").iterdir()]) == (0, ["settings"])
