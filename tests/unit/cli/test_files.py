"""`minideep files`: what a thread has delivered, listed or written into a folder."""

import pytest
from harness.blueprints import Parts, end, plan, replan, research
from harness.terminal import minideep

from minideep import Agent, DiskCheckpointer, ToolCall, ToolContext, tool
from minideep.blueprint import Blueprint
from minideep.events import FileWritten
from minideep.models import ScriptedModel


@pytest.fixture
def delivered(tmp_path):
    """The folder of a store with a blueprint's thread: two files in the state, and one that was evicted."""
    others = plan(*(research(f"{n}.md", task=str(n)) for n in range(4)))
    parts = Parts(
        [plan(research("first.md", task="one")), others],
        [replan(), end("done")],
        lambda request: request.messages[0].text[-3:],
    )
    with DiskCheckpointer(tmp_path / "state") as store:
        Blueprint(parts, checkpointer=store).run_sync("go", "t")
    return tmp_path


def files(cwd, *options):
    return minideep("files", *options, "--state", str(cwd / "state"), cwd=cwd)


def test_the_files_of_a_thread_are_listed_the_evicted_ones_too(delivered):
    found = files(delivered, "t")
    lines = found.stdout.splitlines()
    assert (found.returncode, lines[0].split()) == (0, ["file", "size", "role", "status"])
    assert lines[1].split() == ["/research-specialist_2_0.md", "3", "B", "research-specialist", "done"]
    assert lines[-1].split() == ["/research-specialist_1_first.md", "3", "B", "research-specialist", "evicted"]
    assert len(lines) == 6


def test_they_are_written_below_a_folder_and_nothing_else_is_changed(delivered):
    out = delivered / "deep" / "out"
    found = files(delivered, "t", "--out", str(out))
    assert found.returncode == 0
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        "research-specialist_1_first.md": "one",
        **{f"research-specialist_{n + 2}_{n}.md": f"k\n{n}" for n in range(4)},
    }
    assert sorted(found.stdout.splitlines()) == sorted(map(str, out.iterdir()))
    assert files(delivered, "t", "--out", str(out)).returncode == 0  # They are there already.
    (out / "research-specialist_1_first.md").write_text("mine")
    (out / "research-specialist_2_0.md").unlink()
    again = files(delivered, "t", "--out", str(out))
    assert (again.returncode, "research-specialist_1_first.md; choose another folder" in again.stderr) == (2, True)
    assert (out / "research-specialist_1_first.md").read_text() == "mine"
    assert not (out / "research-specialist_2_0.md").exists()


@tool
async def write(ctx: ToolContext, name: str) -> str:
    """Write a file."""
    ctx.record(FileWritten(name, "x", 1, "0" * 64, 1.0, ctx.path))
    return "written"


@pytest.mark.parametrize("name", ["/../../up.md", "/a/../../b.md", "/link/c.md"])
def test_no_name_and_no_link_leads_out_of_the_folder(name, tmp_path):
    model = ScriptedModel([[ToolCall("write", {"name": one}) for one in ("/a.md", name)], "done"])
    with DiskCheckpointer(tmp_path / "state") as store:
        Agent(model, [write], checkpointer=store).run_sync("go", "t")
    out, outside = tmp_path / "in" / "out", tmp_path / "outside"
    out.mkdir(parents=True)
    outside.mkdir()
    (out / "link").symlink_to(outside)
    found = files(tmp_path, "t", "--out", str(out))
    assert (found.returncode, "cannot be written" in found.stderr) == (2, True)
    assert list(tmp_path.rglob("*.md")) == []


def test_a_name_cannot_move_the_cursor(tmp_path):
    model = ScriptedModel([ToolCall("write", {"name": "/e\x1b[31m.md"}), "done"])
    with DiskCheckpointer(tmp_path / "state") as store:
        Agent(model, [write], checkpointer=store).run_sync("go", "t")
    for options in ((), ("--out", str(tmp_path / "out"))):
        found = files(tmp_path, "t", *options)
        assert (found.returncode, "\x1b" in found.stdout + found.stderr) == (0, False)


def test_a_thread_without_files_says_so(tmp_path):
    with DiskCheckpointer(tmp_path / "state") as store:
        Agent(ScriptedModel(["hi"]), checkpointer=store).run_sync("go", "t")
    assert files(tmp_path, "t").stdout == "no files\n"
    assert files(tmp_path, "nobody").returncode == 2


def test_a_file_that_only_the_disk_has_is_named_and_not_written(tmp_path):
    (tmp_path / "README.md").write_text("Cats sleep.\n")
    run = minideep("run", "Say what is here, to OUT.md", "--thread", "t", "--yes", "--model", "offline:", cwd=tmp_path)
    assert run.returncode == 0
    assert "on the disk" in minideep("files", "t", cwd=tmp_path).stdout
    found = minideep("files", "t", "--out", "copy", cwd=tmp_path)
    assert (found.returncode, found.stderr) == (0, "minideep: not in the store, and so not written: /OUT.md\n")
