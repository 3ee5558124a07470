"""A loop written by hand over the types of Anthropic's SDK, for what any harness adds."""

import json
from pathlib import Path
from typing import Any

from anthropic.types import Message, TextBlock, ToolUseBlock, Usage

from bench.compare.contender import Kept
from bench.compare.work import DONE, SYSTEM, Work, as_sent, tool_as_sent

TITLE = "hand-written loop"
PACKAGES = ("anthropic",)
CONFIGURATIONS: dict[str, Kept] = {"none": "caller", "lines": "disk"}
SCHEMA = {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}
TOOLS = [{"name": "look", "description": "Read a page.", "input_schema": SCHEMA}]
USAGE = Usage(input_tokens=1, output_tokens=1)


class Scripted:
    """A client that answers at once: what `client.messages` is in the SDK."""

    def __init__(self, work: Work) -> None:
        self.work = work

    async def create(self, *, model: str, system: str, messages: list[Any], tools: list[Any]) -> Message:
        content = messages[-1]["content"]
        page = self.work.reply(
            content if isinstance(content, str) else content[0]["content"], lambda: sent(system, messages, tools)
        )
        block = (
            TextBlock(type="text", text=DONE)
            if page is None
            else ToolUseBlock(type="tool_use", id=f"call_{page}", name="look", input={"page": page})
        )
        return Message(id="m", type="message", role="assistant", model=model, content=[block], usage=USAGE)


class Loop:
    def __init__(self, client: Scripted, read: Any) -> None:
        self.client, self.read = client, read

    async def run(self, messages: list[Any]) -> str:
        """Answer the last of *messages*; everything that is said is added to them."""
        while True:
            reply = await self.client.create(model="scripted", system=SYSTEM, messages=messages, tools=TOOLS)
            messages.append({"role": "assistant", "content": reply.content})
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                return "".join(block.text for block in reply.content if block.type == "text")
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": self.read(call.input["page"])}
                for call in calls
            ]
            messages.append({"role": "user", "content": results})


def build(work: Work) -> Loop:
    return Loop(Scripted(work), work.read)


async def open(configuration: str, folder: Path, work: Work) -> "Session":
    return Session(build(work), folder if CONFIGURATIONS[configuration] == "disk" else None)


class Session:
    """Messages in a list; with a folder, the new ones of a turn are added to a file, one a line, at its end."""

    def __init__(self, loop: Loop, folder: Path | None) -> None:
        self.loop, self.folder = loop, folder
        self.threads: dict[str, list[Any]] = {}

    def path(self, thread: str) -> Path | None:
        return self.folder and self.folder / f"{thread}.jsonl"

    def thread(self, thread: str) -> list[Any]:
        path = self.path(thread)
        if thread not in self.threads:
            lines = path.read_text().splitlines() if path and path.exists() else []
            self.threads[thread] = [json.loads(line) for line in lines]
        return self.threads[thread]

    async def turn(self, thread: str, text: str) -> str:
        messages = self.thread(thread)
        before = len(messages)
        messages.append({"role": "user", "content": text})
        said = await self.loop.run(messages)
        path = self.path(thread)
        if path:
            with path.open("a") as file:
                file.writelines(json.dumps(message, default=as_plain) + "\n" for message in messages[before:])
        return said

    async def resume(self, thread: str) -> str:
        raise LookupError("a turn is written at its end")

    async def messages(self, thread: str) -> list[tuple[str, str]]:
        return [pair for message in self.thread(thread) for pair in plain(message)]

    async def close(self) -> None:
        pass


def as_plain(block: Any) -> Any:
    return block.model_dump()


def plain(message: Any) -> list[tuple[str, str]]:
    """Return the roles and texts of a message."""
    if isinstance(message["content"], str):
        return [(message["role"], message["content"])]
    blocks = [block if isinstance(block, dict) else as_plain(block) for block in message["content"]]
    return [
        ("tool", block["content"]) if block["type"] == "tool_result" else ("assistant", block.get("text") or "")
        for block in blocks
    ]


def sent(system: str, messages: list[Any], tools: list[Any]) -> list[str]:
    """Return the request as it would be sent."""
    parts = [tool_as_sent(tool["name"], tool["description"], tool["input_schema"]) for tool in tools]
    parts.append(as_sent("system", system))
    for message in messages:
        if isinstance(message["content"], str):
            parts.append(as_sent(message["role"], message["content"]))
            continue
        for block in [block if isinstance(block, dict) else as_plain(block) for block in message["content"]]:
            call = [(block["id"], "look", json.dumps(block["input"]))] if block["type"] == "tool_use" else []
            role, text = plain({"role": "", "content": [block]})[0]
            parts.append(as_sent(role, text, call, block.get("tool_use_id", "")))
    return parts
