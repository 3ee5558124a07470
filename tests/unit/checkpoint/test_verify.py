"""Every row is read and every run is folded: what is damaged is named, and nothing else, whoever writes meanwhile."""

import os
import random
import sqlite3
import subprocess
import sys
from contextlib import suppress

import msgspec
import pytest
from harness.busy import verified_beside_a_writer
from harness.damage import KINDS, ROWS, store_of
from harness.histories import agent_on
from harness.stores import plain

from minideep import Agent, CheckpointError, DiskCheckpointer, MemoryCheckpointer
from minideep.checkpoint import layout as names
from minideep.models import ScriptedModel

ENV = {**os.environ, "COLUMNS": "200"}


def test_a_sound_store_has_no_damage(store):
    for thread in ("t", "a/b ü", "head/x"):
        for name in ("plain", "compact", "large", "task", "payer", "compact"):
            agent_on(store).run_sync(name, thread)
    store.close()
    assert store.verify() == []
    assert type(store)().verify() == [] if isinstance(store, MemoryCheckpointer) else True


def test_to_verify_what_was_never_written_makes_nothing(tmp_path):
    with DiskCheckpointer(tmp_path / "nothing") as store:
        assert store.verify() == []
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "head"])
def test_a_row_that_is_gone_or_was_changed_is_named(kind):
    for key in [key for key in ROWS if key.startswith(f"{kind}/")]:
        data = ROWS[key]
        for change in (None, data + b"x", data[:-1] or b"x", data[: len(data) // 2] + b"\xff" * 9):
            if kind == "blob" and change == data + b"x":
                continue  # What it holds is what its name says.
            rows = {other: value for other, value in {**ROWS, key: change}.items() if value is not None}
            found = store_of(rows).verify()
            named = [text for one in found for text in (one.key, one.problem)]
            name, run = key.rpartition("/")[2], f"{key.rpartition('/')[0]}/"
            assert any(name in text or text == run for text in named), (key, change, found)
            assert {one.thread for one in found} <= {"t", "u"}


def test_a_head_that_is_gone_or_was_changed_is_named():
    head = names.read_head("t", ROWS["head/t"])
    other = [{"status": "ended"}, {"turn": 7}, {"last": head.last - 1}, {"number": head.number - 1}, {"snapshot": 0}]
    changed = [msgspec.msgpack.encode(msgspec.structs.replace(head, **change)) for change in other]
    for data in (b"", b"\xff", b"\x90", *changed):
        assert {one.thread for one in store_of({**ROWS, "head/t": data}).verify()} == {"t"}
    rows = {key: data for key, data in ROWS.items() if key != "head/t"}
    kinds = ("base/t/", "log/t/", "run/t/", "use/t/")
    left = {key for key in rows if key.startswith(kinds) or (key.startswith("ref/") and key.endswith("/t"))}
    assert {one.key for one in store_of(rows).verify()} == left


def test_rows_that_belong_to_nobody_are_named():
    strays = ["", "a", "log/", "log/t", "log/tt//1", "head/a/b", "head/%zz", "base/x/y", "mark/x/", "zzz", "blob/nobody",
              "blob/zz", "ref/zz/t", "ref/zz", "use/gone/x", "run/t", "logs/t//1"]  # fmt: skip
    found = store_of({**ROWS, **dict.fromkeys(strays, b"")}).verify()
    assert {one.key for one in found} == {*strays}
    assert {one.thread for one in found} <= {"", "t"}


def test_a_damaged_database_is_named_and_raises_no_error_of_sqlite(tmp_path):
    with DiskCheckpointer(tmp_path) as store:
        for n in range(40):
            agent_on(store).run_sync("large", f"t{n}")
    with sqlite3.connect(tmp_path / "cache.db") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    whole, chance, named = (tmp_path / "cache.db").read_bytes(), random.Random(1), 0
    for n in range(12):
        place = chance.randrange(4096 * 4, len(whole) - 4096)
        torn = whole[:place] + chance.randbytes(3000) + whole[place + 3000 :]
        (tmp_path / f"{n}").mkdir()
        (tmp_path / f"{n}" / "cache.db").write_bytes(torn)
        with DiskCheckpointer(tmp_path / f"{n}") as store:
            named += bool(store.verify())
            with suppress(CheckpointError):
                Agent("offline:", checkpointer=store).threads()
    assert named >= 8  # The others hit free pages.


def test_a_store_that_others_write_to_has_no_damage_either(tmp_path):
    looks, wrong = verified_beside_a_writer(tmp_path, seconds=2)
    assert looks
    assert wrong == []


def minideep(*args, cwd):
    command = [sys.executable, "-m", "minideep", *args]
    return subprocess.run(command, cwd=cwd, env=ENV, capture_output=True, text=True, timeout=60)


def test_the_terminal_names_what_is_damaged_and_exits_1(tmp_path):
    bad = "t\x1b[31m\nall is well"
    with DiskCheckpointer(tmp_path / "state") as store:
        agent = Agent(ScriptedModel(lambda request: "ok"), checkpointer=store)
        for thread in ("a", bad, "head"):
            agent.run_sync("hello", thread)
    well = minideep("check", "--state", "state", cwd=tmp_path)
    assert (well.returncode, well.stdout) == (0, "3 threads and 3 segments read: nothing is damaged\n"), well.stderr
    with DiskCheckpointer(tmp_path / "state") as store:
        prefix = names.log_prefix(bad, ())
        key = plain(store).keys(prefix, names.after(prefix))[-1]
        plain(store).append(bad, plain(store).head(bad), plain(store).head(bad), {key: plain(store).get(key)[:-4]})
        plain(store).append("head", plain(store).head("head"), b"\xff", {})
    found = minideep("check", "--state", "state", cwd=tmp_path)
    assert found.returncode == 1
    lines = found.stdout.splitlines()
    assert len(lines) == 3
    assert [line.partition(":")[0] for line in sorted(lines)] == [
        "3 threads and 3 segments read", "thread head", "thread t\\x1b[31m\\nall is well",
    ]  # fmt: skip
    assert lines[-1] == "3 threads and 3 segments read: 2 problems"
    listed = minideep("threads", "--state", "state", cwd=tmp_path)
    assert "damaged" in listed.stdout
    assert "the head of thread 'head' cannot be read" in listed.stdout
    nowhere = minideep("check", "--state", "nowhere", cwd=tmp_path)
    assert (nowhere.returncode, nowhere.stderr) == (2, "minideep: there are no threads in 'nowhere'\n")
