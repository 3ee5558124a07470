"""Sandboxes: paths and names of every kind, links, errors, and when one is started and given up."""

import asyncio
import os
import secrets
import stat
import threading
import time
from hashlib import sha256
from pathlib import Path

import pytest
from harness.agents import results
from harness.sandboxes import FolderSandbox, in_folder, running
from hypothesis import given, settings, strategies as st

from minideep import ToolCall, create_deep_agent
from minideep.backends import Executed, SandboxBackend
from minideep.backends.scripts import decoded, entries
from minideep.errors import ConfigError, ToolError
from minideep.models import ScriptedModel
from minideep.permissions import Deny
from minideep.testing import tool_context

NAMES = ["a b", "a\nb", "a\n", "\n", "'q\"", "$(touch x)", "`id`", "-rf", "--", "*", "?", "[a]", "\\\\", "a\tb", "ü 😀", "#", "~",
         ";", "&", "|", ">x", "!", "%s", "\udcff", "a\r", "\x1b[31m", "{a,b}", "=", "()"]  # fmt: skip


@pytest.fixture
def ctx():
    return tool_context()


@pytest.fixture
def backend(tmp_path):
    return in_folder(tmp_path)


def run(backend, command):
    return asyncio.run(backend.execute(tool_context(), command, 30.0))


# ---- names and links


def test_a_file_of_any_name_is_written_listed_found_read_and_deleted(backend, ctx):
    home = backend.home
    for name in NAMES:
        backend.write(ctx, f"{home}/{name}", os.fsencode(name))
        backend.write(ctx, f"{home}/in/{name}/x", b"inner")
    assert sorted(info.path for info in backend.ls(ctx, ".")) == sorted([f"{home}/{name}" for name in [*NAMES, "in"]])
    assert {info.path for info in backend.walk(ctx, ".")} == {
        *(f"{home}/{name}" for name in NAMES),
        *(f"{home}/in/{name}/x" for name in NAMES),
    }
    for name in NAMES:
        assert backend.read(ctx, f"{home}/{name}") == os.fsencode(name)
        assert backend.delete(ctx, f"{home}/{name}") == [f"{home}/{name}"]
        assert backend.delete(ctx, f"{home}/in/{name}") == [f"{home}/in/{name}/x"]
    assert [info.path for info in backend.ls(ctx, ".")] == [f"{home}/in"]


def test_links_are_listed_as_what_they_lead_to_and_never_entered(backend, ctx, tmp_path):
    backend.write(ctx, "folder/file", b"data")
    for name, target in (("to file", "folder/file"), ("to folder", "folder"), ("nowhere", "gone"), ("round", "round")):
        Path(backend.home, name).symlink_to(target)
    listed = {info.path.rpartition("/")[2]: (info.is_dir, info.size) for info in backend.ls(ctx, ".")}
    assert listed["to file"] == (False, 4)
    assert (listed["to folder"][0], listed["folder"][0]) == (True, True)
    assert (listed["nowhere"], listed["round"]) == ((False, 0), (False, 0))
    walked = [info.path.removeprefix(backend.home) for info in backend.walk(ctx, ".")]
    assert walked == ["/to file", "/folder/file"]
    backend.write(ctx, "to file", b"changed")
    assert Path(backend.home, "to file").is_symlink()
    assert backend.read(ctx, "folder/file") == b"changed"
    backend.delete(ctx, "to folder")
    assert backend.read(ctx, "folder/file") == b"changed"


def test_a_replaced_file_keeps_its_mode_and_nothing_else_is_left(backend, ctx):
    backend.write(ctx, "run.sh", b"old")
    Path(backend.home, "run.sh").chmod(0o750)
    backend.write(ctx, "run.sh", b"new", sha256(b"old").hexdigest())
    with pytest.raises(ToolError, match="changed since you read it"):
        backend.write(ctx, "run.sh", b"newer", sha256(b"old").hexdigest())
    with pytest.raises(ToolError):
        backend.write(ctx, "run.sh/below", b"x")
    assert stat.S_IMODE(Path(backend.home, "run.sh").stat().st_mode) == 0o750
    assert [file.name for file in Path(backend.home).iterdir()] == ["run.sh"]


def test_devices_pipes_and_large_files_are_not_read(backend, ctx):
    backend.write(ctx, "x", b"")
    os.mkfifo(f"{backend.home}/pipe")
    for act in (
        lambda: backend.read(ctx, "pipe"),
        lambda: backend.write(ctx, "pipe", b"x"),
        lambda: backend.read(ctx, "/dev/null"),
    ):
        with pytest.raises(ToolError, match="not a regular file"):
            act()
    os.truncate(f"{backend.home}/x", 10_000_001)
    with pytest.raises(ToolError, match="over 10,000,000 bytes"):
        backend.read(ctx, "x")


def test_its_home_and_what_holds_it_are_never_deleted(backend, ctx):
    backend.write(ctx, "x", b"x")
    parts = backend.home.split("/")
    for path in ("/", *("/".join(parts[:end]) for end in range(2, len(parts) + 1))):
        with pytest.raises(ToolError, match="cannot be deleted"):
            backend.delete(ctx, path)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20), st.tuples(st.booleans(), st.integers(0, 10**12), st.integers(-(2**40), 2**40)), max_size=9))  # fmt: skip
def test_a_listing_is_read_back_as_it_was_written(files):
    listing = b"".join(
        b"%x %d %d ./%b//\n" % (0o040755 if is_dir else 0o100644, size, at, name.encode())
        for name, (is_dir, size, at) in files.items()
    )
    found = {info.path: (info.is_dir, info.size, info.modified) for info in entries("/f", listing)}
    assert found == {f"/f/{name}": about for name, about in files.items()}


@pytest.mark.parametrize("output", ["not base64!", "QQ=", "sh: base64: not found"])
def test_an_answer_that_is_no_listing_is_an_error(output):
    with pytest.raises(ToolError, match="a listing was expected"):
        decoded(output)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/x", "/x"),
        ("/new/below/x", "/new/below/x"),
        ("/folder/file", "/folder/file"),
        ("/to folder/file", "/folder/file"),
        ("/to folder/new/x\n", "/folder/new/x\n"),
        ("/to file", "/folder/file"),
        ("/to new", "/folder/new"),
        ("/twice/file", "/folder/file"),
    ],
)
def test_links_are_resolved_as_far_as_a_path_exists(backend, ctx, path, place):
    backend.write(ctx, "folder/file", b"data")
    links = {"to file": "folder/file", "to folder": "folder", "to new": "folder/new", "twice": "to folder"}
    for name, target in links.items():
        Path(backend.home, name).symlink_to(target)
    assert backend._resolved(backend.home + path) == backend.home + place


def test_permissions_hold_for_the_places_to_which_links_lead(backend, ctx):
    backend.write(ctx, "secret/key", b"key")
    backend.write(ctx, "open/x", b"x")
    for name, target in (("open/link", "../secret"), ("open/key", "../secret/key"), ("twin", "secret")):
        Path(backend.home, name).symlink_to(target)

    def is_refused(tool, **args):
        rules = [Deny("read", f"{backend.home}/secret/**"), Deny("write", f"{backend.home}/secret/**")]
        agent = create_deep_agent(ScriptedModel([ToolCall(tool, args), "done"]), backend=backend, permissions=rules)
        return results(agent.run_sync("go"))[0].is_error

    for path in ("open/link/key", "open/key", "secret/key", "twin/key"):
        assert is_refused("read_file", file_path=path)
        assert is_refused("write_file", file_path=path, content="mine")
    assert is_refused("delete", file_path="open/link/key")
    assert not is_refused("read_file", file_path="open/x")
    assert backend.read(ctx, "open/link/key") == b"key"


# ---- what may go wrong in a sandbox


class Answers(FolderSandbox):
    """Answers each command of a file tool in one way."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def execute(self, command, timeout):
        return Executed("", 0) if command.startswith("mkdir") else self.answer


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Executed("sh: stat: not found", 127), "the sandbox failed: sh: stat: not found"),
        (Executed("", 1), "the sandbox failed: exit code 1"),
        (Executed("", 0, timed_out=True), "not done within 60 s"),
        (Executed("QUJD", 0, dropped=5), "too many files"),
    ],
)
def test_a_sandbox_that_fails_says_how(answer, problem, ctx):
    with pytest.raises(ToolError, match=problem):
        SandboxBackend(Answers(answer)).ls(ctx, ".")


def test_a_folder_for_work_that_cannot_be_made_is_an_error(ctx, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ToolError, match="the sandbox has no folder"):
        SandboxBackend(FolderSandbox(), home=f"{tmp_path}/file/home").ls(ctx, ".")


class BeginsLate(FolderSandbox):
    """Takes a while to begin a command, as one far away does."""

    def execute(self, command, timeout):
        if "sleep 1000" in command:
            time.sleep(0.8)
        return super().execute(command, timeout)


async def test_a_command_that_is_cancelled_before_it_has_begun_does_not_run_on(tmp_path):
    backend, mark = SandboxBackend(BeginsLate(), home=str(tmp_path / "home")), f"1000.{secrets.randbelow(10**9):09}"
    backend.ls(tool_context(), ".")
    work = asyncio.ensure_future(backend.execute(tool_context(), f"sleep {mark}", 60.0))
    await asyncio.sleep(0.1)
    work.cancel()
    await asyncio.wait([work])
    assert work.cancelled()
    assert running(mark) == []


class Fails(FolderSandbox):
    """Can begin commands, and not end them."""

    def execute(self, command, timeout):
        if "minideep" in command and "sleep 0.4" not in command:
            raise ConnectionError("gone")
        return super().execute(command, timeout)


async def test_a_cancelled_command_stays_cancelled_if_it_cannot_be_stopped(tmp_path):
    backend = SandboxBackend(Fails(), home=str(tmp_path / "home"))
    work = asyncio.ensure_future(backend.execute(tool_context(), "sleep 0.4", 60.0))
    await asyncio.sleep(0.1)
    work.cancel()
    await asyncio.wait([work])
    assert work.cancelled()


# ---- its life


def test_it_starts_once_when_it_is_used_and_ends_with_its_block(tmp_path, ctx):
    sandbox = FolderSandbox()
    with SandboxBackend(sandbox, home=str(tmp_path / "home")) as backend:
        assert sandbox.said == []
        threads = [threading.Thread(target=backend.ls, args=(ctx, ".")) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sandbox.said == ["start"]
    assert sandbox.said == ["start", "close"]
    backend.close()
    assert sandbox.said == ["start", "close"]


def test_one_that_was_never_used_is_never_started_nor_closed():
    sandbox = FolderSandbox()
    with SandboxBackend(sandbox):
        pass
    assert sandbox.said == []


@pytest.mark.parametrize("home", ["", "work", "/", "/a/../b", "/a/", "~"])
def test_a_home_is_the_absolute_path_of_a_folder(home):
    with pytest.raises(ConfigError, match="home"):
        SandboxBackend(FolderSandbox(), home=home)


def test_something_else_is_no_sandbox():
    with pytest.raises(ConfigError, match="DockerSandbox"):
        SandboxBackend("image")


def test_output_is_cut_to_what_the_backend_keeps(tmp_path):
    backend = SandboxBackend(FolderSandbox(), home=str(tmp_path), max_output=100)
    found = run(backend, "echo first; head -c 5000 /dev/zero | tr '\\0' x; echo; echo last")
    assert found.output.startswith("first\n")
    assert found.output.endswith("last\n")
    assert len(found.output) < 200
    assert found.dropped == 5012 - 100
