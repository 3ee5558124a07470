"""Backups: a copy of one moment, made while turns run, in a directory that a store opens."""

import os
import stat
import subprocess
import sys
from threading import Thread

import pytest
from harness.stores import plain

from minideep import Agent, CheckpointError, ConfigError, DiskCheckpointer
from minideep.models import ScriptedModel


def talk(store, thread):
    return Agent(ScriptedModel(lambda request: "so it is"), checkpointer=store).run_sync("go", thread)


def test_a_backup_is_a_store_that_only_its_owner_reads_and_that_goes_on(tmp_path):
    with DiskCheckpointer(tmp_path / "state") as store:
        talk(store, "t")
        store.backup(tmp_path / "new" / "copy")
        talk(store, "t")
        rows = plain(store).rows()
    with DiskCheckpointer(tmp_path / "new" / "copy") as copy:
        agent = Agent(ScriptedModel(["again"]), checkpointer=copy)
        assert agent.get_state("t").turn == 1
        assert agent.run_sync("go", "t").saved
    assert stat.S_IMODE((tmp_path / "new" / "copy").stat().st_mode) == 0o700
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["copy"]
    with DiskCheckpointer(tmp_path / "state") as store:
        assert plain(store).rows() == rows


def test_turns_of_other_threads_and_processes_run_during_a_backup_and_it_is_of_one_moment(tmp_path):
    code = f"""
import sys
from minideep import DiskCheckpointer
from functools import cache
from minideep.testing.plain import PlainStore
plain = cache(PlainStore)
store, number = DiskCheckpointer({str(tmp_path / "state")!r}), 0
print("ready", flush=True)
while True:
    head, number = plain(store).head("other"), number + 1
    plain(store).append("other", head, b"%d" % number, {{f"pair/{{part}}": b"%d" % number for part in (1, 2)}})
"""
    with DiskCheckpointer(tmp_path / "state") as store:
        for number in range(40):
            plain(store).append(f"large {number}", None, b"1", {f"blob/{number}": os.urandom(1_000_000)})
        writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        try:
            writer.stdout.readline()
            thread = Thread(target=store.backup, args=[tmp_path / "copy"])
            thread.start()
            turns = [talk(store, "t").saved for _ in range(3)]
            before = int(plain(store).head("other"))
            thread.join(60)
            assert not thread.is_alive()
        finally:
            writer.kill()
            writer.communicate()
        assert all(turns)
        assert before > 0
    with DiskCheckpointer(tmp_path / "copy") as copy:
        pair = {value for _, value in plain(copy).rows("pair/", "pair0")}
        assert pair in (set(), {plain(copy).head("other")})
        assert len(plain(copy).keys("blob/", "blob0")) == 40
        check = copy.plain._writer.run(lambda con: con.execute("PRAGMA integrity_check").fetchall(), 1)
        assert check == [("ok",)]


def test_a_backup_goes_into_a_new_or_an_empty_directory_only(tmp_path):
    with DiskCheckpointer(tmp_path / "state") as store:
        talk(store, "t")
        (tmp_path / "empty").mkdir(mode=0o755)
        store.backup(tmp_path / "empty")
        assert stat.S_IMODE((tmp_path / "empty").stat().st_mode) == 0o700
        (tmp_path / "file").write_text("mine")
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        for name in ("empty", "file", "link", "state"):
            with pytest.raises(ConfigError, match=f"cannot back up to '.*{name}': it exists"):
                store.backup(tmp_path / name)
        assert (tmp_path / "file").read_text() == "mine"


def test_of_a_store_in_which_nothing_is_kept_the_backup_is_an_empty_store(tmp_path):
    DiskCheckpointer(tmp_path / "state").backup(tmp_path / "copy")
    assert not (tmp_path / "state").exists()
    with DiskCheckpointer(tmp_path / "copy") as copy:
        assert plain(copy).rows() == []
        plain(copy).append("t", None, b"1", {})


def test_a_backup_that_fails_is_a_named_error_and_leaves_nothing(tmp_path):
    code = f"""
import os, resource, signal
from minideep import CheckpointError, DiskCheckpointer
from functools import cache
from minideep.testing.plain import PlainStore
plain = cache(PlainStore)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = DiskCheckpointer({str(tmp_path / "state")!r})
plain(store).append("t", None, b"1", {{"a": os.urandom(500_000)}})
plain(store).head("t")
store.close()
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    store.backup({str(tmp_path / "copy")!r})
except CheckpointError as exc:
    print(exc)
"""
    pytest.importorskip("resource")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith(f"cannot back up the state in {str(tmp_path / 'state')!r}: "), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    (tmp_path / "state" / "cache.db").write_bytes(b"garbage" * 1000)
    with pytest.raises(CheckpointError, match=r"cannot back up the state in .*: file is not a database"):
        DiskCheckpointer(tmp_path / "state").backup(tmp_path / "copy")
