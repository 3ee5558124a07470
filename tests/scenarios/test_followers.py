"""Followers that drop and return while the process that runs their threads is killed: nothing lost, nothing twice."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness.agents import hang
from harness.followers import Plan, campaign
from harness.processes import TESTS

from minideep import Agent, DiskCheckpointer
from minideep.events import ModelReplied, Restarted, Rewound, TextDelta, TurnEnded, UserSaid
from minideep.models import ScriptedModel

RUNNER = """
import asyncio, sys
from harness.agents import Talker
from minideep import Agent, DiskCheckpointer

async def main():
    talker = Talker("one ", "two")
    agent = Agent(talker, checkpointer=DiskCheckpointer(sys.argv[1]))
    handle = await agent.start("go", "t")
    await talker.say(1)
    print("said", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await talker.say(1)
    talker.let.release()
    turn = await handle
    print(turn.status, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def runner(tmp_path):
    """A process that runs a turn of thread `t`, says half of its text, and goes on when it reads a line."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-c", RUNNER, str(tmp_path / "state")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout.readline() == "said\n"
        yield process
        process.kill()


@pytest.mark.parametrize("durability", ["turn", "tool"])
async def test_nobody_loses_an_event_or_gets_one_twice(tmp_path, durability):
    found = await campaign(tmp_path / "state", Plan(followers=30, turns=3, kills=2, durability=durability))
    assert found.kills == 2
    assert min(found.drops, found.restarted, found.texts) > 0


async def test_a_turn_of_another_process_is_followed_to_its_end(tmp_path, runner):
    agent = Agent("offline:", checkpointer=DiskCheckpointer(tmp_path / "state"))
    events = agent.follow("t")
    assert [type(await anext(events)) for _ in range(3)] == [UserSaid, Restarted, TextDelta]
    assert (await agent.status("t")).runs == "elsewhere"
    await asyncio.to_thread(runner.communicate, "go on\n")
    rest = [event async for event in events if not isinstance(event, Rewound)]
    assert [type(event) for event in rest][-2:] == [ModelReplied, TurnEnded]
    assert "".join(event.text for event in rest if isinstance(event, TextDelta)) in ("two", "")
    assert agent.get_state("t").status == "ended"


async def test_a_turn_of_another_process_is_cancelled_with_a_reason(tmp_path, runner):
    agent = Agent("offline:", checkpointer=DiskCheckpointer(tmp_path / "state"))
    assert await agent.cancel("t", "from outside")
    assert agent.get_state("t").detail == "from outside"


async def test_a_follower_of_a_killed_process_is_told_what_did_not_last(tmp_path, runner):
    agent = Agent(ScriptedModel(["another text"]), checkpointer=DiskCheckpointer(tmp_path / "state"))
    events = agent.follow("t")
    assert [type(await anext(events)) for _ in range(3)] == [UserSaid, Restarted, TextDelta]
    runner.send_signal(signal.SIGKILL)
    assert [(type(event), event.to) async for event in events] == [(Rewound, 1)]
    assert (await agent.status("t")).status == "interrupted"
    assert not await agent.cancel("t")
    assert not await agent.say("t", "hello?")
    turn = await agent.resume("t")
    assert (turn.status, turn.text) == ("ended", "another text")
    numbers = [event.number async for event in agent.follow("t", after=1)]
    assert numbers[0] >= 2**20  # A number that the killed process may have used is not used again.


def descriptors():
    """The open files of this process, where the system lists them."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


async def test_a_thousand_turns_that_begin_at_once_need_one_socket(tmp_path):
    with DiskCheckpointer(tmp_path / "state") as store, DiskCheckpointer(tmp_path / "state") as same:
        agent = Agent(ScriptedModel(hang), checkpointer=store)
        before = descriptors()
        await asyncio.gather(*(agent.start("go", f"t{number}") for number in range(1_000)))
        await asyncio.sleep(0.1)
        after = descriptors()
        assert await Agent("offline:", checkpointer=same).cancel("t500", "enough")
        await agent.aclose()
        assert after - before < 20
