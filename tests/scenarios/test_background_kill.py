"""Background tasks of a process that is killed: the next one finds them interrupted, and they go on where they were."""

import subprocess
import sys

from harness.processes import TESTS, python

WORKER = '''
import asyncio
import os
import sys

from minideep import DiskCheckpointer, Subagent, ToolCall, create_deep_agent, tool
from minideep.models import ScriptedModel

folder, resumes = sys.argv[1], "resumes" in sys.argv
gate = asyncio.Event()
GOODS = ["pens", "cups", "hats"]


def log(line):
    with open(f"{folder}/log", "a") as file:
        file.write(line + "\\n")


@tool
async def count(what: str) -> str:
    """Count."""
    log(f"counted {what}")
    return f"7 {what}"


async def works(request):
    what = request.messages[0].text
    if request.messages[-1].role == "user":
        return ToolCall("count", {"what": what})
    if not resumes:
        log(f"waits {what}")
    await gate.wait()
    return request.messages[-1].text


def start(what):
    return ToolCall("start_task", {"description": what, "subagent_type": "worker"})


store = DiskCheckpointer(f"{folder}/state")
worker = Subagent(name="worker", description="counts", model=ScriptedModel(works), background=True)


def agent(script):
    model = ScriptedModel(script)
    return create_deep_agent(model, [count], subagents=[worker], checkpointer=store, durability="tool")
'''

BEGINS = """
async def main():
    boss = agent([[start(what) for what in GOODS], "They run."])
    async with boss:
        await boss.run("Count all.", "t")
        while open(f"{folder}/log").read().count("waits") < 3:
            await asyncio.sleep(0.01)
        print("now", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""

GOES_ON = """
async def main():
    def script(request):
        asked.append(request)
        return next(replies)

    asked, boss = [], agent(script)
    tasks = list(boss.get_state("t").notes["async_subagent_jobs"])
    each = lambda name: [ToolCall(name, {"id": task}) for task in tasks]
    replies = iter([ToolCall("list_tasks"), each("update_task"), "They go on.", each("check_task"), "21"])
    async with boss:
        turn = await boss.run("And?", "t")
        print(turn.messages[1].text.count("was cut short"), turn.messages[3].text.count("worker interrupted"))
        print([message.text.endswith("goes on") for message in turn.messages[5:8]])
        gate.set()
        for task in tasks:
            while (await boss.status(f"t/bg/{task}")).status != "ended":
                await asyncio.sleep(0.01)
        turn = await boss.run("And now?", "t")
        print(turn.messages[1].text.count("has ended"), sorted(message.text for message in turn.messages[3:6]))

asyncio.run(main())
"""


def test_three_tasks_of_a_killed_process_are_interrupted_and_go_on_and_nothing_runs_twice(tmp_path):
    command = [sys.executable, "-c", WORKER + BEGINS, str(tmp_path)]
    (tmp_path / "log").touch()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={"PYTHONPATH": ":".join([str(TESTS), *sys.path])}
    ) as dying:
        assert dying.stdout.readline() == b"now\n"
        dying.kill()  # SIGKILL
    said = python(WORKER + GOES_ON, tmp_path, "resumes").splitlines()
    assert said == ["3 3", "[True, True, True]", "3 ['7 cups', '7 hats', '7 pens']"]
    log = (tmp_path / "log").read_text().splitlines()
    assert sorted(line for line in log if line.startswith("counted")) == [
        "counted cups",
        "counted hats",
        "counted pens",
    ]
