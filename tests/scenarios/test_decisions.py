"""Decisions about calls that wait in several subagents at once, given in another process."""

import json
import os
import subprocess
import sys

import pytest
from harness.office import note, pay, plan, work

PROGRAM = '''
import asyncio, json, sys
from pathlib import Path

from harness.office import say
from minideep import Approve, DiskCheckpointer, Edit, Reject, Subagent, create_deep_agent
from minideep.models import ScriptedModel
from minideep.permissions import Ask

folder = Path(sys.argv[1])


def did(what):
    with (folder / "did").open("a") as file:
        file.write(f"{what}\\n")
    return what


async def note(n: int) -> str:
    """Note a number."""
    return did(f"noted {n}")


async def pay(n: int) -> str:
    """Pay."""
    return did(f"paid {n}")


agent = create_deep_agent(
    ScriptedModel(say),
    [note, pay],
    subagents=[Subagent(name="worker", description="works")],
    checkpointer=DiskCheckpointer(folder / "state"),
    **({"permissions": [Ask("pay")]} if sys.argv[2] == "rules" else {"interrupt_on": {"pay": True}}),
)
if sys.argv[3] == "run":
    turn = asyncio.run(agent.run(sys.argv[4], "t"))
else:
    kinds = {"approve": Approve(), "edit": Edit({"n": 9}), "reject": Reject("too much")}
    decisions = {name: kinds[kind] for name, kind in json.loads(sys.argv[4]).items()}
    turn = asyncio.run(agent.resume("t", decisions))
waits = ["/".join((*wait.path, wait.call_id)) for wait in turn.interrupts]
print(json.dumps([turn.status, waits, turn.text]))
'''


def drive(folder, how, verb, given):
    """Run or resume the thread in a process of its own; return the status, the calls that wait and the text."""
    command = [sys.executable, "-c", PROGRAM, str(folder), how, verb, given]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


BATCH = plan([work("a", [note(1)], [pay(1)]), work("b", [note(2), pay(2)]), work("c", [note(3)]), note(4)], [note(5)])


@pytest.mark.parametrize("how", ["rules", "interrupt_on"])
def test_two_subagents_that_pause_at_once_go_on_by_one_resume_in_another_process(tmp_path, how):
    status, waits, _ = drive(tmp_path, how, "run", BATCH)
    assert (status, sorted(waits)) == ("paused", ["a/p1", "b/p2"])
    assert sorted((tmp_path / "did").read_text().split("\n")[:-1]) == ["noted 1", "noted 2", "noted 3", "noted 4"]
    status, waits, _ = drive(tmp_path, how, "resume", json.dumps({"a/p1": "approve", "b/p2": "approve"}))
    assert (status, waits) == ("ended", [])
    ran = (tmp_path / "did").read_text().split("\n")[:-1]
    assert sorted(ran) == [*(f"noted {n}" for n in range(1, 6)), "paid 1", "paid 2"]


@pytest.mark.parametrize(
    ("decision", "did", "said"),
    [
        ("approve", ["paid 1"], "[[paid 1]]"),
        ("edit", ["paid 9"], '[[paid 9\n[A person changed this call; its arguments were {"n":9}]]]'),
        ("reject", [], "[[a person rejected this call: too much]]"),
    ],
)
def test_a_subagent_that_waits_is_approved_edited_or_rejected_in_another_process(tmp_path, decision, did, said):
    drive(tmp_path, "rules", "run", plan([work("a", [pay(1)])]))
    status, _, text = drive(tmp_path, "rules", "resume", json.dumps({"a/p1": decision}))
    assert (status, text) == ("ended", said)
    file = tmp_path / "did"
    assert (file.read_text().split("\n")[:-1] if file.exists() else []) == did
