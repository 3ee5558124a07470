"""Tools, models, calls and subagents for tests, and short forms of what a turn or a thread holds."""

import asyncio
from collections.abc import Iterable
from typing import Any

from minideep import Agent, Subagent, ToolCall, ToolMessage, Turn, tool
from minideep.checkpoint.log import TAIL_SIZE
from minideep.events import TextDelta
from minideep.messages import Message
from minideep.models.scripted import as_reply
from minideep.ports import Emit, Reply, Request
from minideep.state import State

PING = ToolCall("ping")
LONG = " " + "x" * TAIL_SIZE
"""A text with which a segment is so large that the next append begins another one."""


@tool
async def ping(text: str = "pong") -> str:
    """Answer."""
    return text


async def hang(request: object) -> None:
    """A model that never answers."""
    await asyncio.Event().wait()


def ok(request: object) -> str:
    """A model that always gives the same answer."""
    return "ok"


def task(kind: str, id: str | None = None, description: str = "do it") -> ToolCall:
    return ToolCall("task", {"description": description, "subagent_type": kind}, id)


def sub(name: str, model: Any, **more: Any) -> Subagent:
    return Subagent(name=name, description="does it", model=model, **more)


def results(turn: Turn) -> list[ToolMessage]:
    return [message for message in turn.messages if isinstance(message, ToolMessage)]


def answers(turn: Turn) -> list[str]:
    return [message.text for message in results(turn)]


def texts(messages: Iterable[Message]) -> list[str]:
    return [message.text for message in messages]


def stored(agent: Agent, thread: str = "t") -> State:
    """Return the state of the thread as a new agent reads it, with the runs below it."""
    reader = Agent("offline:", checkpointer=agent.checkpointer or agent._own)
    return reader.get_state(thread, subagents=True)


async def cancelled(agent: Agent, started: asyncio.Event, thread: str = "t") -> None:
    """Run until *started* is set, and cancel the turn then."""
    turn = asyncio.ensure_future(agent.run("go", thread))
    await started.wait()
    turn.cancel()
    await asyncio.wait([turn])
    assert turn.cancelled()


@tool
async def pay() -> str:
    """Pay."""
    return "paid"


def pays(request: Request) -> ToolCall | str:
    """A model that answers a person with a call of `pay`, under the id `p`, and its result with `done`."""
    return ToolCall("pay", {}, "p") if request.messages[-1].role == "user" else "done"


def pings(*texts: str) -> list[ToolCall]:
    return [ToolCall("ping", {"text": text}) for text in texts]


@tool
async def delete(file_path: str) -> str:
    """Delete a file."""
    raise AssertionError("it was run")


def deleting() -> ToolCall:
    return ToolCall("delete", {"file_path": "/keep.txt"}, "d1")


def writing() -> ToolCall:
    return ToolCall("write_file", {"file_path": "/keep.txt", "content": "dear"}, "w1")


class Talker:
    """A model that says a text piece by piece, as a test lets it."""

    name = "talker"

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces
        self.let = asyncio.Semaphore(0)
        """Each piece takes one, and so does the reply."""
        self.said = 0

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        for piece in self.pieces:
            await self.let.acquire()
            if emit:
                emit(TextDelta(piece))
            self.said += 1
        await self.let.acquire()
        return as_reply("".join(self.pieces))

    async def say(self, count: int = 1) -> None:
        """Let it say some pieces, and wait until it has."""
        aim = self.said + count
        for _ in range(count):
            self.let.release()
        while self.said < aim:
            await asyncio.sleep(0)
