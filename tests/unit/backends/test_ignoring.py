"""What `.gitignore` files leave out of searches, held against git itself."""

import os
import shutil
import subprocess

import pytest
from harness.files import context
from hypothesis import given, settings, strategies as st

from minideep.backends import FilesystemBackend, Missing, find, grep
from minideep.backends.ignoring import MAX_RULES, Ignored, rules_of

FILES = [
    "a",
    "b.py",
    "ab",
    "[a]",
    "dir/a",
    "dir/b.py",
    "dir/sub/a",
    "dir/sub/c d",
    "dir/sub/.x",
    "sub/b.py",
    "sub/dir/a",
]
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", folder], check=True, env=ENVIRONMENT)
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("needle")
    return folder


def by_git(folder):
    """The files that git would add."""
    command = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=folder, capture_output=True, check=True, env=ENVIRONMENT).stdout.decode()
    return sorted(f"/{name}" for name in listed.split("\0") if name)


def walked(folder, path="/"):
    return sorted(info.path for info in FilesystemBackend(folder, gitignore=True).walk(context(), path))


def rules(folder, **texts):
    for place in ("", "dir", "dir/sub"):
        (folder / place / ".gitignore").unlink(missing_ok=True)
        if place in texts:
            (folder / place / ".gitignore").write_bytes(texts[place].encode())


RULES = [
    "*", "**", "***", "a", "/a", "a/", "dir", "dir/", "/dir/", "dir/*", "dir/**", "**/a", "**/sub", "**/sub/", "dir/**/a",
    "dir/sub", "/sub", "sub/", "*.py", "!b.py", "!*.py", "!/dir/", "!dir/sub/", "a*", "*b*", "?", "??", "[ab]", "[!a]*",
    "[^a]*", "[a-c]", "[c-a]", "[[:alpha:]]", "[![:alpha:]]*", "[[:nope:]]", "[]a]", "[[]a]", "[", "a[", "[a", "[a-]", "[-a]",
    "\\a", "\\[a]", "a\\", "#a", "\\#a", "\\!a", "!", "/", "//", "a//b", "dir//a", "", " ", "a ", "a  ", "c\\ d", "c d ",
    "c d\\ ", "a\\ ", "*/a", "*/*", "*/*/*", "**/*.py", "a**", "**a", "dir/**/**/a", "**/", "/**", "/**/a", "!**", ".*",
    "!.gitignore", "!*/", "a\r", "*\\", "\\*", "dir/*/", "/*", "!/dir", "dir/s*b/", "*.p[xy]", "*.p[!x]",
]  # fmt: skip
LETTERS = st.text("ab*?/[]!-\\ c.#^", max_size=8).filter(
    lambda text: "\\/" not in text and "/" not in text.partition("[")[2]
)
TEXT = st.lists(st.sampled_from(RULES) | LETTERS, max_size=5).map("\n".join)


@pytest.mark.parametrize("rule", RULES)
def test_each_kind_of_rule_means_what_it_means_to_git(repository, rule):
    rules(repository, **{"": f"{rule}\n"})
    assert walked(repository) == by_git(repository)


@given(top=TEXT, middle=TEXT, deep=TEXT)
@settings(max_examples=300, deadline=None)
def test_any_rules_in_any_folders_leave_out_what_git_leaves_out(repository, top, middle, deep):
    rules(repository, **{"": top, "dir": middle, "dir/sub": deep})
    assert walked(repository) == by_git(repository)


def test_a_file_that_begins_with_a_mark_or_ends_lines_as_windows_does_is_read(repository):
    rules(repository, **{"": "\ufeffdir\r\n*.py\r\n"})
    assert walked(repository) == by_git(repository)
    assert "/b.py" not in walked(repository)


def test_searches_leave_out_what_is_ignored_unless_they_begin_inside(repository):
    rules(repository, **{"": "dir/\n"})
    ctx, backend = context(), FilesystemBackend(repository, gitignore=True)
    assert find(ctx, backend, "b.py", "/").paths == ["/b.py", "/sub/b.py"]
    hits = grep(ctx, backend, "needle", "/").hits
    assert {hit.path for hit in hits} == {"/a", "/b.py", "/ab", "/[a]", "/sub/b.py"}
    assert find(ctx, backend, "dir/*.py", "/").paths == ["/dir/b.py"]
    assert [hit.path for hit in grep(ctx, backend, "needle", "/dir/a").hits] == ["/dir/a"]
    assert "/dir/" in [f"{info.path}/" for info in backend.ls(ctx, "/")]
    assert backend.read(ctx, "/dir/a") == b"needle"
    with pytest.raises(Missing):
        list(backend.walk(ctx, "/nope"))


def test_a_search_below_the_root_obeys_the_rules_above_it(repository):
    rules(repository, **{"": "*.py\n", "dir": "!b.py\nsub\n"})
    assert walked(repository, "/dir") == ["/dir/.gitignore", "/dir/a", "/dir/b.py"]
    assert walked(repository, "/sub") == ["/sub/dir/a"]


def test_without_virtual_mode_the_rules_begin_at_the_root(repository):
    rules(repository, **{"": "*.py\n"})
    backend = FilesystemBackend(repository, virtual_mode=False, gitignore=True)
    assert not [info for info in backend.walk(context(), str(repository / "dir")) if info.path.endswith(".py")]
    outside = FilesystemBackend(repository / "dir", virtual_mode=False, gitignore=True)
    assert f"{repository}/dir/b.py" in [info.path for info in outside.walk(context(), str(repository / "dir"))]


def test_unless_asked_nothing_is_left_out_and_the_model_is_told_nothing(repository):
    rules(repository, **{"": "*\n"})
    asked, usual = FilesystemBackend(repository, gitignore=True), FilesystemBackend(repository)
    assert (walked(repository), len(list(usual.walk(context(), "/")))) == ([], len(FILES) + 1)
    assert asked.about == f"{usual.about} Searches leave out what `.gitignore` names."


def test_no_rule_can_take_for_ever():
    path = f"/{'a' * 250}" * 50 + "/x"
    for rule in ("*a" * 100 + "b", "**/a/" * 50 + "b", "*[a-z]*" * 40 + "b", "?*" * 60 + "b"):
        assert not Ignored("/", rules_of(rule), None).has(path, is_dir=False)
    assert len(rules_of("a\n" * 5000)) == MAX_RULES
    assert rules_of("a" * 10_000_000) == []


def test_rules_that_cannot_be_read_leave_nothing_out(tmp_path):
    (tmp_path / ".gitignore").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".gitignore").symlink_to("/etc/passwd")
    (tmp_path / "sub" / "a").write_text("x")
    assert "/sub/a" in walked(tmp_path)
    shutil.rmtree(tmp_path / ".gitignore")
    (tmp_path / ".gitignore").write_bytes(b"\xff\n/sub\n")
    assert walked(tmp_path) == ["/.gitignore"]
