"""Thread locks: each kind that this system has keeps the same promises, and the registry over it."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness.stores import plain

from minideep import DiskCheckpointer
from minideep.checkpoint import locks_elsewhere, system_locks
from minideep.checkpoint.locks import Registry

NAMES = ("OpenFileLocks", "WholeFileLocks", "RegionLocks")
KINDS = [name for name in NAMES if hasattr(system_locks, name) or hasattr(locks_elsewhere, name)]
if "OpenFileLocks" in KINDS and not system_locks.has_open_file_locks():
    KINDS.remove("OpenFileLocks")
ELSEWHERE = """
import sys
from minideep.checkpoint import locks, locks_elsewhere, system_locks
registry = locks.Registry(lambda: getattr(system_locks, sys.argv[1], None) or getattr(locks_elsewhere, sys.argv[1]))
print([registry.hold(sys.argv[2], name) for name in sys.argv[3:]], flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def registry(kind):
    return Registry(lambda: getattr(system_locks, kind, None) or getattr(locks_elsewhere, kind))


class Elsewhere:
    """Another process that holds threads, and says which of them it got."""

    def __init__(self, kind, folder, *threads):
        self.process = subprocess.Popen(
            [sys.executable, "-c", ELSEWHERE, kind, str(folder), *threads],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.got = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.communicate()


def elsewhere(kind, folder, *threads):
    with Elsewhere(kind, folder, *threads) as other:
        return other.got


def test_a_thread_is_held_by_one_process_until_that_lets_go(kind, registry, tmp_path):
    assert [registry.hold(str(tmp_path), name) for name in "ttu"] == [True, False, True]
    assert elsewhere(kind, tmp_path, "t", "u", "v") == "[False, False, True]"
    registry.release(str(tmp_path), "t")
    assert elsewhere(kind, tmp_path, "t", "u") == "[True, False]"
    registry.release(str(tmp_path), "u")
    assert elsewhere(kind, tmp_path, "t", "u") == "[True, True]"


def test_no_other_use_of_the_lock_file_by_the_process_lets_go_of_a_thread(kind, registry, tmp_path):
    assert registry.hold(str(tmp_path), "t")
    for path in tmp_path.iterdir():
        path.read_bytes()
        with path.open("a+b"):
            pass
    shutil.copytree(tmp_path, tmp_path / "copy")
    assert elsewhere(kind, tmp_path, "t") == "[False]"
    registry.release(str(tmp_path), "t")


def test_a_thread_of_a_process_that_was_killed_is_free(kind, registry, tmp_path):
    with Elsewhere(kind, tmp_path, "t") as other:
        assert other.got == "[True]"
        assert not registry.hold(str(tmp_path), "t")
        other.process.kill()
        other.process.wait()
        assert registry.hold(str(tmp_path), "t")
        registry.release(str(tmp_path), "t")


def test_names_of_any_kind_and_number_are_held_at_once(kind, registry, tmp_path):
    names = ["", "a/b", "ä\x00😀", "x" * 1100, *map(str, range(100))]
    assert [name for name in names if not registry.hold(str(tmp_path), name)] == []
    assert elsewhere(kind, tmp_path, "a/b", "99") == "[False, False]"
    for name in names:
        registry.release(str(tmp_path), name)
    assert [path.name for path in tmp_path.iterdir()] == ["threads.lock"]


def test_of_many_processes_that_take_and_give_back_a_thread_one_has_it_at_a_time(kind, tmp_path):
    code = """
import os, sys, time
from minideep.checkpoint import locks, locks_elsewhere, system_locks
registry, got, until = locks.Registry(lambda: getattr(system_locks, sys.argv[1], None) or getattr(locks_elsewhere, sys.argv[1])), 0, time.monotonic() + 20
while got < 200 and time.monotonic() < until:
    if registry.hold(sys.argv[2], "t"):
        os.close(os.open(sys.argv[2] + "/mark", os.O_CREAT | os.O_EXCL | os.O_RDWR))
        os.unlink(sys.argv[2] + "/mark")
        registry.release(sys.argv[2], "t")
        got += 1
print(got)
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", code, kind, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate()[0] for process in processes] == ["200\n"] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_holds_nothing_and_takes_nothing_from_its_parent(kind, tmp_path):
    code = """
import os, sys, time
from minideep.checkpoint import locks, locks_elsewhere, system_locks
folder = sys.argv[2]
registry = locks.Registry(lambda: getattr(system_locks, sys.argv[1], None) or getattr(locks_elsewhere, sys.argv[1]))
registry.hold(folder, "t")
if os.fork() == 0:
    registry.release(folder, "t")
    print("child", registry.hold(folder, "t"), registry.hold(folder, "u"), flush=True)
    os._exit(0)
os.wait()
print("parent", registry.hold(folder, "u"), flush=True)
pid = os.fork()
if pid == 0:
    time.sleep(60)
    os._exit(0)
print(pid, flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, kind, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert [process.stdout.readline() for _ in range(2)] == ["child False True\n", "parent True\n"]
    child = int(process.stdout.readline())
    try:
        assert elsewhere(kind, tmp_path, "t", "u") == "[False, False]"
        process.kill()
        process.wait()
        assert elsewhere(kind, tmp_path, "t", "u") == "[True, True]"  # Though the child still lives.
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_copy_of_the_file_in_a_child_of_c_code_does_not_keep_what_the_parent_lets_go_of(kind, tmp_path):
    registry = Registry(lambda: getattr(system_locks, kind, None) or getattr(locks_elsewhere, kind))
    assert registry.hold(str(tmp_path), "t")
    copies = [os.dup(int(path.name)) for path in Path("/dev/fd").iterdir() if _is_below(tmp_path, path)]
    assert copies
    registry.release(str(tmp_path), "t")
    assert elsewhere(kind, tmp_path, "t") == "[True]"
    for copy in copies:
        os.close(copy)


def _is_below(folder, descriptor):
    try:
        return descriptor.resolve().is_relative_to(folder.resolve())
    except OSError:
        return False


def test_where_descriptors_run_out_no_thread_is_held_without_a_lock(tmp_path):
    pytest.importorskip("resource")
    code = f"""
import resource
from minideep import DiskCheckpointer
from functools import cache
from minideep.testing.plain import PlainStore
plain = cache(PlainStore)
store = DiskCheckpointer({str(tmp_path)!r})
plain(store).append("t", None, b"1", {{}})
kept = open("/dev/null")
resource.setrlimit(resource.RLIMIT_NOFILE, (kept.fileno() + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    print(plain(store).hold("t"))
except OSError as exc:
    print(type(exc).__name__, exc)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Too many open files" in done.stdout, done


def test_the_store_of_a_process_that_reads_its_lock_file_keeps_its_threads(tmp_path):
    """As `grep` over a folder did that the store lies in."""
    store = DiskCheckpointer(tmp_path)
    assert plain(store).hold("t")
    (tmp_path / "threads.lock").read_bytes()
    code = f"""
from minideep import DiskCheckpointer
from minideep.testing.plain import PlainStore
print(PlainStore(DiskCheckpointer({str(tmp_path)!r})).hold("t"))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    plain(store).release("t")
    assert found.stdout == "False\n"


def test_the_locks_of_windows_are_well_typed():
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--pythonplatform", "Windows",
         "minideep/checkpoint/system_locks.py", "minideep/checkpoint/locks_elsewhere.py",
         "minideep/checkpoint/atfork.py"],
        capture_output=True, text=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
