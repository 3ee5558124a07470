"""Followers that drop and return at random, while a process that runs some of their threads is killed again and again.

The model says something else each time it is asked, in pieces, so that a follower which is shown the text of one attempt
and the reply of another has a wrong text. In the end each follower must have what the log has: nothing lost, nothing
twice, nothing that did not last.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import uuid
from contextlib import aclosing
from pathlib import Path as File

from msgspec import Struct

from harness.killing import Violation
from minideep import Agent, DiskCheckpointer, Reply, ToolCall, UnknownThread, tool
from minideep.checkpoint import Durability, encode, open_store, read_page
from minideep.events import Event, ModelReplied, Restarted, Rewound, StreamEvent, TextDelta
from minideep.messages import AssistantMessage, Text
from minideep.ports import Emit, Request
from minideep.state import Path


class Chatty:
    """A model that makes up its text anew each time, says it in pieces, calls a tool twice, and then ends the turn."""

    name = "chatty"

    def __init__(self, pause: float) -> None:
        self._pause = pause

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        text = uuid.uuid4().hex * random.randint(1, 4)
        place = 0
        while place < len(text):
            size = random.randint(1, 24)
            if emit:
                emit(TextDelta(text[place : place + size]))
            place += size
            if random.random() < 0.7:  # Sometimes pieces come together, and the last with the reply.
                await asyncio.sleep(random.random() * self._pause)
        calls = (ToolCall("work"), ToolCall("work")) if request.messages[-1].role == "user" else ()
        return Reply(AssistantMessage((Text(text), *calls)))


@tool
async def work() -> str:
    """Work a while."""
    await asyncio.sleep(random.random() * 0.02)
    return "worked"


class Plan(Struct, frozen=True):
    """What one campaign does."""

    threads: int = 4
    """Half of them run in the process that is killed."""
    followers: int = 40
    turns: int = 6
    """Of each thread."""
    kills: int = 5
    durability: Durability = "turn"
    pause: float = 0.01
    """Seconds between two pieces of text, at most."""
    life: float = 0.4
    """Seconds for which the process lives before it is killed, on average; and a follower before it drops."""


class Found(Struct):
    """What a campaign has seen."""

    kills: int = 0
    drops: int = 0
    events: int = 0
    rewound: int = 0
    restarted: int = 0
    texts: int = 0
    """Replies of which a follower was shown the text in pieces, and had it right."""


def agent_on(folder: File, plan: Plan) -> Agent:
    store = DiskCheckpointer(folder)
    return Agent(Chatty(plan.pause), [work], checkpointer=store, durability=plan.durability)


async def run_threads(agent: Agent, names: list[str], turns: int) -> None:
    """Run each thread up to its last turn, beginning where a process before this one was killed."""

    async def run_thread(name: str) -> None:
        while True:
            try:
                status = await agent.status(name)
            except UnknownThread:
                await agent.run("turn 1", name)
                continue
            if status.status == "interrupted":
                await (await agent.start_resume(name))
            elif status.turn < turns:
                await (await agent.start(f"turn {status.turn + 1}", name))
            else:
                return

    await asyncio.gather(*map(run_thread, names))


def main(folder: str, threads: str, turns: str, durability: Durability, pause: str) -> None:
    """Be the process that is killed."""
    agent = agent_on(File(folder), Plan(durability=durability, pause=float(pause)))
    asyncio.run(run_threads(agent, threads.split(","), int(turns)))


class Client:
    """What one follower shows its user."""

    def __init__(self, found: Found, thread: str) -> None:
        self.thread = thread
        self.shown: list[tuple[int, Path, bytes]] = []
        self.last = ""
        self._texts: dict[Path, str] = {}
        self._found = found

    def take(self, event: StreamEvent) -> None:
        self._found.events += 1
        if event.id:
            self.last = event.id
        match event:
            case Rewound(to):
                self._found.rewound += 1
                self.shown = [one for one in self.shown if one[0] <= to]
                self._texts.clear()
            case Restarted():
                self._found.restarted += 1
                self._texts[event.path] = ""
            case TextDelta(text):
                self._texts[event.path] = self._texts.get(event.path, "") + text
            case Event():
                if self.shown and event.number <= self.shown[-1][0]:
                    raise Violation(f"{self.thread}: event {event.number} comes after event {self.shown[-1][0]}")
                self.shown.append((event.number, event.path, encode(event.number, event)))  # pyright: ignore[reportArgumentType]
                if isinstance(event, ModelReplied):
                    self._check_text(event)

    def drop(self) -> None:
        """Lose the connection: a part of a text is worth nothing without the rest."""
        self._found.drops += 1
        self._texts.clear()

    def _check_text(self, event: ModelReplied) -> None:
        text = self._texts.pop(event.path, "")
        if text:
            self._found.texts += 1
            if text != event.message.text:
                raise Violation(
                    f"{self.thread}: the reply of event {event.number} was shown as {text!r}: {event.message}"
                )


async def follow_and_drop(agent: Agent, client: Client, over: asyncio.Event, life: float) -> None:
    """Follow a thread, now and then from the last event that was seen, until all is over."""
    while not over.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(random.expovariate(1 / life)):
                async with aclosing(agent.follow(client.thread, after=client.last, wait=True)) as events:
                    async for event in events:
                        client.take(event)
                        if random.random() < 0.01:
                            break
        client.drop()
        await asyncio.sleep(random.random() * life / 4)
    async with aclosing(agent.follow(client.thread, after=client.last)) as events:
        async for event in events:
            client.take(event)


async def kill_again_and_again(folder: File, plan: Plan, names: list[str], found: Found) -> None:
    """Have a process run the threads to their end, and kill it meanwhile."""
    code = "import sys; from harness.followers import main; main(*sys.argv[1:])"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(File(__file__).parents[1]), *sys.path])}
    while True:
        kill = found.kills < plan.kills
        turns = 1_000_000 if kill else plan.turns  # It must not be done before it is killed.
        arguments = (str(folder), ",".join(names), str(turns), plan.durability, str(plan.pause))
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, *arguments, env=env)
        try:
            await asyncio.wait_for(process.wait(), 0.5 + random.random() * 2 * plan.life if kill else None)
        except TimeoutError:
            process.send_signal(signal.SIGKILL)
            await process.wait()
            found.kills += 1
        else:
            if process.returncode != 0:
                raise Violation(f"the process that runs threads ended with {process.returncode}")
            return


async def campaign(folder: File, plan: Plan) -> Found:
    """Run one campaign.

    Raises:
        Violation: a follower has lost an event, or was shown one twice, or a wrong text.
    """
    found, over, agent = Found(), asyncio.Event(), agent_on(folder, plan)
    names = [f"thread {number}" for number in range(plan.threads)]
    apart, here = names[::2], names[1::2]
    clients = [Client(found, names[number % len(names)]) for number in range(plan.followers)]
    following = [asyncio.ensure_future(follow_and_drop(agent, client, over, plan.life)) for client in clients]
    await asyncio.gather(run_threads(agent, here, plan.turns), kill_again_and_again(folder, plan, apart, found))
    over.set()
    await asyncio.gather(*following)
    for client in clients:
        if client.shown != (saved := logged(agent, client.thread)):
            lost = [number for number, *_ in saved if number not in {number for number, *_ in client.shown}]
            more = [number for number, *_ in client.shown if number not in {number for number, *_ in saved}]
            raise Violation(f"{client.thread}: lost {lost}, and was shown {more}, which the log does not have")
    return found


def logged(agent: Agent, thread: str) -> list[tuple[int, Path, bytes]]:
    """Return all recorded events of a thread, as its log has them."""
    assert agent.checkpointer is not None
    found, after = list[tuple[int, Path, bytes]](), 0
    while (page := read_page(open_store(agent.checkpointer), thread, after)) and page.events:
        found += [(event.number, event.path, encode(event.number, event)) for event in page.events]
        after = page.events[-1].number
    return found
