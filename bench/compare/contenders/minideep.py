"""minideep: a bare `Agent`, with each durability."""

import json
from pathlib import Path
from typing import Any

from bench.compare.contender import Kept
from bench.compare.work import DONE, SYSTEM, Work, as_sent, tool_as_sent
from minideep import Agent, Limits, ToolCall, UnknownThread, tool
from minideep.models import ScriptedModel

TITLE = "minideep Agent"
PACKAGES = ("minideep",)
CONFIGURATIONS: dict[str, Kept] = {"none": "caller", "memory": "memory", "turn": "disk", "step": "disk", "tool": "disk"}


def model(work: Work, window: int | None = None) -> ScriptedModel:
    def say(request: Any) -> str | ToolCall:
        if not request.tools:
            return work.summarize(lambda: sent(request))
        page = work.reply(request.messages[-1].text, lambda: sent(request))
        return DONE if page is None else ToolCall("look", {"page": page})

    return ScriptedModel(say, window)


def tools(work: Work) -> list[Any]:
    @tool
    async def look(page: int) -> str:
        """Read a page."""
        return work.read(page)

    return [look]


def build(work: Work) -> Agent:
    return Agent(model(work), tools(work), SYSTEM, limits=Limits(steps=None))


async def open(configuration: str, folder: Path, work: Work) -> "Session":
    return Session(build(work), CONFIGURATIONS[configuration], configuration, folder)


class Session:
    def __init__(self, agent: Agent, kept: Kept, configuration: str, folder: Path) -> None:
        self.agent, self.kept = agent, kept
        if kept == "memory":
            from minideep import MemoryCheckpointer

            agent.checkpointer = MemoryCheckpointer()
        elif kept == "disk":
            from minideep import DiskCheckpointer

            agent.checkpointer = DiskCheckpointer(folder)
            agent.durability = configuration  # type: ignore[assignment]

    async def turn(self, thread: str, text: str) -> str:
        turn = await self.agent.run(text, thread)
        turn.raise_for_status()
        return turn.text

    async def resume(self, thread: str) -> str:
        try:
            turn = await self.agent.resume(thread)
        except UnknownThread as error:
            raise LookupError(str(error)) from None
        turn.raise_for_status()
        return turn.text

    async def messages(self, thread: str) -> list[tuple[str, str]]:
        try:
            return [(message.role, message.text) for message in self.agent.transcript(thread)]
        except UnknownThread:
            return []

    async def close(self) -> None:
        await self.agent.aclose()
        if self.kept == "disk":
            self.agent.checkpointer.close()  # type: ignore[union-attr]


def sent(request: Any) -> list[str]:
    """Return the request as it would be sent."""
    parts = [tool_as_sent(tool.name, tool.description, tool.schema) for tool in request.tools]
    parts.append(as_sent("system", request.system))
    for message in request.messages:
        calls = [(call.id, call.name, json.dumps(call.args)) for call in getattr(message, "calls", ())]
        parts.append(as_sent(message.role, message.text, calls, getattr(message, "call_id", "")))
    return parts
