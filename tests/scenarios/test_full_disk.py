"""A full disk: threads can be read and deleted, which makes room, and then turns are saved again."""

import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import os, random, subprocess, sys
from minideep import Agent, DiskCheckpointer
from minideep.models import ScriptedModel

root, what = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2500k", "tmpfs", root], check=True)
sizes = random.Random(what)

def fill_with_turns(agent):
    failed = number = 0
    while failed < 3:
        failed += not agent.run_sync("go", f"t{number % 5}").saved
        number += 1

def fill_with_other_files(agent):
    for number in range(15):
        agent.run_sync("go", f"t{number % 5}")
    if what == "others, and the store is closed":
        agent.checkpointer.close()
    with open(root + "/other", "wb", buffering=0) as file:
        try:
            while file.write(bytes(1024)):
                pass
        except OSError:
            pass

def agent():
    text = lambda request: os.urandom(sizes.choice([200, 2000, 10_000, 30_000])).hex()
    return Agent(ScriptedModel(text), checkpointer=DiskCheckpointer(root + "/state"))
"""
CODE = """
first = agent()
(fill_with_turns if what == "turns" else fill_with_other_files)(first)
names = [info.thread_id for info in first.threads()]
for name in names:
    assert first.get_state(name).status in ("ended", "running")
    first.delete(name)
first.checkpointer.close()
again = Agent(ScriptedModel(["ok"]), checkpointer=DiskCheckpointer(root + "/state"))
print(len(names), again.threads(), again.run_sync("go").saved)
print(again.checkpointer.plain._writer.run(lambda con: con.execute("PRAGMA integrity_check").fetchall(), 1))
"""
UNSHARE = ["unshare", "--map-root-user", "--mount"]


def can_mount():
    try:
        return subprocess.run([*UNSHARE, "true"], capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_mount(), reason="needs a file system of its own")
@pytest.mark.parametrize("what", ["turns", "others", "others, and the store is closed"])
def test_on_a_full_disk_threads_are_read_and_deleted_and_turns_are_saved_again(tmp_path, what):
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-c", textwrap.dedent(PRELUDE + CODE), str(tmp_path), what],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["5 [] True", "[('ok',)]"]
