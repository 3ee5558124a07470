"""The service of the page on running turns, as two replicas in processes of their own on one directory."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from harness.processes import TESTS

PAGE = TESTS.parent / "minideep" / "runtime" / "README.md"
REPLICA = """
import asyncio, sys
from minideep import Agent, DiskCheckpointer, ToolCall, tool
from minideep.middleware import HumanInTheLoopMiddleware
from minideep.models import ScriptedModel

@tool
async def pay() -> str:
    "Pay."
    return "paid"

@tool
async def wait() -> str:
    "Wait."
    await asyncio.sleep(float(sys.argv[2]))
    return "waited"

def reply(request):
    last = request.messages[-1]
    return ToolCall(last.text, {}, "c1") if last.role == "user" else "done"

async def main():
    approve = HumanInTheLoopMiddleware({"pay": True})
    agent = Agent(ScriptedModel(reply), [pay, wait], middleware=[approve], checkpointer=DiskCheckpointer(sys.argv[1]))
    server = await asyncio.start_server(lambda *streams: serve(agent, *streams), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await agent.aclose()
    await asyncio.sleep(0.1)

asyncio.run(main())
"""


def service():
    """The block of the page that is the service."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if "async def serve(" in block]
    return found


class Replica:
    def __init__(self, folder: Path, seconds: float) -> None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", service() + REPLICA, str(folder), str(seconds)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, env=env, **pipes)
        self.port = int(self.process.stdout.readline())

    @asynccontextmanager
    async def asked(self, request, body="", after=""):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"{request} HTTP/1.1\r\nContent-Length: {len(body)}\r\nLast-Event-ID: {after}\r\n\r\n"
        writer.write(f"{head}{body}".encode())
        try:
            yield reader
        finally:
            writer.close()

    async def ask(self, *request):
        async with self.asked(*request) as reader:
            head, _, answer = (await reader.read()).decode().partition("\r\n\r\n")
        return int(head.split()[1]), json.loads(answer)

    async def events(self, thread, after="", until=None):
        """The events and the last id, up to one named *until* or to the end of the response."""
        found = []
        async with self.asked(f"GET /events/{thread}", "", after) as reader:
            await reader.readuntil(b"\r\n\r\n")
            while line := (await reader.readline()).decode():
                if line.startswith("id: "):
                    after = line[4:].strip()
                elif line.startswith("data: "):
                    found.append(json.loads(line[6:])["event"])
                    if found[-1] == until:
                        break
        return found, after


@pytest.fixture
def replicas(request, tmp_path):
    made = [Replica(tmp_path / "state", request.param) for _ in range(2)]
    yield made
    for replica in made:
        replica.process.kill()
        replica.process.communicate()


def test_the_service_is_short():
    assert len(service().splitlines()) <= 40


@pytest.mark.parametrize("replicas", [0.3], indirect=True)
async def test_what_one_replica_runs_the_other_follows_decides_and_cancels(replicas):
    one, other = replicas
    assert await one.ask("POST /start/a", "pay") == (202, {"after": 0})
    shown, last = await other.events("a")
    assert shown[-1] == "TurnPaused"
    assert (await one.ask("POST /decide/a", '{"c9": {"type": "approve"}}'))[0] == 400
    assert (await other.ask("POST /decide/a", '{"c1": {"type": "approve"}}'))[0] == 202
    rest, _ = await one.events("a", last)
    assert "UserSaid" not in rest
    assert rest[-1] == "TurnEnded"
    assert (await other.ask("GET /health/a"))[1]["status"] == "ended"
    assert (await one.ask("POST /start/b", "wait"))[0] == 202
    assert (await other.ask("POST /start/b", "me too"))[0] == 409
    assert (await other.ask("GET /health/b"))[1]["runs"] == "elsewhere"
    assert await other.ask("POST /cancel/b", "enough") == (200, {"cancelled": True})
    assert (await one.ask("GET /health/b"))[1]["status"] == "cancelled"
    assert (await one.ask("GET /health/nothing"))[0] == 404


@pytest.mark.parametrize("replicas", [60], indirect=True)
async def test_a_replica_that_is_killed_or_stopped_leaves_turns_that_the_other_resumes(replicas):
    one, other = replicas
    await one.ask("POST /start/a", "wait")
    await other.ask("POST /start/b", "wait")
    following = asyncio.ensure_future(other.events("a"))
    seen, last = await other.events("a", until="ToolStarted")
    assert seen[-1] == "ToolStarted"
    one.process.send_signal(signal.SIGKILL)
    assert (await asyncio.wait_for(following, 20))[0][-1] == "Rewound"
    assert (await other.ask("GET /health/a"))[1]["status"] == "interrupted"
    assert (await other.ask("POST /decide/a", "{}"))[0] == 202
    after_resuming, _ = await other.events("a", last, until="Resumed")
    assert after_resuming[0] == "Rewound"
    following = asyncio.ensure_future(other.events("b"))
    await asyncio.sleep(0.2)
    other.process.stdin.write("stop\n")
    other.process.stdin.flush()
    ended, _ = await asyncio.wait_for(following, 20)  # Its response is finished, and no cancellation is recorded.
    assert "TurnCancelled" not in ended
    assert await asyncio.to_thread(other.process.wait, 20) == 0
