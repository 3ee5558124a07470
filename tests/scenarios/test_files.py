"""A folder as a person has it, with odd names, links of every kind and old encodings, through the tools of an agent."""

import os

import pytest
from harness.media import PNG

from minideep import ToolCall, create_deep_agent
from minideep.backends import FilesystemBackend
from minideep.models import ScriptedModel


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (root / "a..b.txt").write_text("dots\n")
    (root / "it's, [odd].txt").write_text("odd\n")
    (root / "src" / "main.py").write_text("needle = 1\n")
    for name, target in {
        "loop": "loop",
        "broken": "nowhere",
        "out": "../secret.txt",
        "out_folder": "..",
        "again": "src",
        "main.py": "src/main.py",
        "src/up": "..",
    }.items():
        (root / name).symlink_to(target)
    return root


def answers(folder, *calls):
    """The results of the calls, one a step. Whatever they are, the run goes on to its end."""
    script = [ToolCall(name, args) for name, args in calls]
    turn = create_deep_agent(ScriptedModel([*script, "done"]), backend=FilesystemBackend(folder)).run_sync("go")
    assert (turn.status, turn.text) == ("ended", "done")
    return [message for message in turn.messages if message.role == "tool"]


LEADS_OUT = "leads outside the root; use a path below it"
NOWHERE = {"/loop": "is a symbolic link that leads nowhere", "/out": LEADS_OUT, "/out_folder/secret.txt": LEADS_OUT}


def test_two_dots_in_a_name_are_no_way_up(folder):
    path = {"file_path": "/a..b.txt"}
    results = answers(
        folder,
        ("read_file", path),
        ("edit_file", path | {"old_string": "dots", "new_string": "two dots"}),
        ("write_file", path | {"content": "x"}),
        ("delete", path),
    )
    assert [result.is_error for result in results] == [False] * 4
    assert not (folder / "a..b.txt").exists()


@pytest.mark.parametrize("path", NOWHERE)
def test_a_link_that_leads_nowhere_or_outside_is_an_error_result_and_the_run_goes_on(folder, path):
    file = {"file_path": path}
    results = answers(
        folder,
        ("read_file", file),
        ("edit_file", file | {"old_string": "secret", "new_string": "x"}),
        ("write_file", file | {"content": "x"}),
        ("grep", {"pattern": "secret", "path": path}),
        ("ls", {"path": path}),
    )
    assert [(result.is_error, NOWHERE[path] in result.text) for result in results] == [(True, True)] * 5
    assert (folder.parent / "secret.txt").read_text() == "secret"


def test_a_broken_link_says_that_nothing_is_there_and_a_write_makes_its_target(folder):
    results = answers(
        folder, ("read_file", {"file_path": "/broken"}), ("write_file", {"file_path": "/broken", "content": "now"})
    )
    assert [result.is_error for result in results] == [True, False]
    assert results[0].text.startswith("'/broken' does not exist")
    assert (folder / "nowhere").read_text() == "now"


def test_deleting_a_link_leaves_what_it_leads_to(folder):
    results = answers(folder, *(("delete", {"file_path": f"/{name}"}) for name in ("loop", "broken", "out", "again")))
    assert [result.is_error for result in results] == [False] * 4
    assert (folder.parent / "secret.txt").exists()
    assert (folder / "src" / "main.py").exists()


def test_one_loop_of_links_hides_nothing_else(folder):
    listed, found, searched = answers(
        folder, ("ls", {"path": "/"}), ("glob", {"pattern": "*.txt"}), ("grep", {"pattern": "odd"})
    )
    assert listed.text.split("\n") == [
        "/a..b.txt", "/again/", "/broken", "/it's, [odd].txt", "/loop", "/main.py", "/out", "/out_folder", "/src/",
    ]  # fmt: skip
    assert found.text == "/a..b.txt\n/it's, [odd].txt"
    assert searched.text == "/it's, [odd].txt"


def test_no_path_is_listed_twice_and_links_to_folders_are_not_followed(folder):
    found, searched = answers(folder, ("glob", {"pattern": "*.py"}), ("grep", {"pattern": "needle"}))
    assert sorted(found.text.split("\n")) == ["/main.py", "/src/main.py"]
    assert sorted(searched.text.split("\n")) == ["/main.py", "/src/main.py"]


def test_lists_are_plain_lines_without_quotes_and_brackets(folder):
    for result in answers(folder, ("ls", {}), ("glob", {"pattern": "*odd*"})):
        assert "/it's, [odd].txt" in result.text.split("\n")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_edited_word_changes_nothing_else_of_a_file(folder, encoding, end):
    mark = "\ufeff" if "16" in encoding else ""
    before = f"{mark}café{end}one{end}{end}last"
    (folder / "old.txt").write_bytes(before.encode(encoding))
    file = {"file_path": "/old.txt"}
    results = answers(folder, ("read_file", file), ("edit_file", file | {"old_string": "é\none", "new_string": "é\n1"}))
    assert results[0].text.endswith("@@\ncafé\none\n\nlast")
    assert (folder / "old.txt").read_bytes() == before.replace("one", "1").encode(encoding)


def test_a_path_may_be_given_under_the_names_that_models_know_from_elsewhere(folder):
    for name in ("path", "file", "filename", "absolute_path", "target_file"):
        [result] = answers(folder, ("read_file", {name: "/a..b.txt"}))
        assert result.text == "@@ lines 1-1 of 1 @@\ndots"
    [result] = answers(folder, ("grep", {"pattern": "NEEDLE", "-i": True, "-C": 2, "path": "/src"}))
    assert result.text == "/src/main.py:1: needle = 1"


def test_files_of_every_kind_give_a_result_that_says_what_they_are(folder):
    contents = {"png.png": PNG, "empty": b"", "zero": b"\0", "long": b"x" * 200_000, "dir.ipynb": b"{}"}
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    os.mkfifo(folder / "pipe")
    shown = answers(folder, *(("read_file", {"file_path": name}) for name in [*contents, "pipe", "src", "missing"]))
    starts = [
        "/png.png: image/png, ", "'/empty' exists and is empty", "'/zero' is binary (1 bytes)",
        "@@ lines 1-1 of 1 | line cut: 79,500 of its 200,000 characters @@", "@@ lines 1-1 of 1 @@",
        "'/pipe': it is a device, a pipe or a socket", "'/src' is a folder", "'/missing' does not exist",
    ]  # fmt: skip
    assert [result.text.startswith(start) for result, start in zip(shown, starts, strict=True)] == [True] * 8
