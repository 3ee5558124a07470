"""OpenAI Agents SDK: an `Agent` and its `Runner`, with its `SQLiteSession`."""

from pathlib import Path
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from bench.compare.contender import Kept
from bench.compare.work import DONE, SYSTEM, Work, as_sent, tool_as_sent

TITLE = "openai-agents Runner"
PACKAGES = ("openai-agents",)
CONFIGURATIONS: dict[str, Kept] = {"none": "caller", "memory": "memory", "disk": "disk"}

set_tracing_disabled(True)


class Scripted(Model):
    def __init__(self, work: Work) -> None:
        self.work = work

    async def get_response(
        self, system_instructions: Any, input: Any, model_settings: Any, tools: Any, *rest: Any, **more: Any
    ) -> ModelResponse:
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        last = items[-1].get("output") or items[-1]["content"]
        page = self.work.reply(last, lambda: sent(system_instructions, items, tools))
        return ModelResponse([said(page)], Usage(requests=1), None)

    def stream_response(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError


def said(page: int | None) -> Any:
    if page is None:
        text = ResponseOutputText(text=DONE, type="output_text", annotations=[])
        return ResponseOutputMessage(id="m", role="assistant", status="completed", type="message", content=[text])
    arguments = f'{{"page": {page}}}'
    return ResponseFunctionToolCall(name="look", call_id=f"call_{page}", arguments=arguments, type="function_call")


def build(work: Work) -> Agent:
    @function_tool
    async def look(page: int) -> str:
        """Read a page."""
        return work.read(page)

    return Agent(name="reader", instructions=SYSTEM, model=Scripted(work), tools=[look])


async def open(configuration: str, folder: Path, work: Work) -> "Session":
    return Session(build(work), CONFIGURATIONS[configuration], folder)


class Session:
    def __init__(self, agent: Agent, kept: Kept, folder: Path) -> None:
        self.agent, self.kept = agent, kept
        self.path = str(folder / "sessions.sqlite") if kept == "disk" else ":memory:"
        self.said: dict[str, list[Any]] = {}
        self.sessions: dict[str, SQLiteSession] = {}

    def session(self, thread: str) -> SQLiteSession:
        if thread not in self.sessions:
            self.sessions[thread] = SQLiteSession(thread, self.path)
        return self.sessions[thread]

    async def turn(self, thread: str, text: str) -> str:
        if self.kept != "caller":
            result = await Runner.run(self.agent, text, session=self.session(thread), max_turns=None)
            return result.final_output
        given = [*self.said.get(thread, []), {"role": "user", "content": text}]
        result = await Runner.run(self.agent, given, max_turns=None)
        self.said[thread] = result.to_input_list()
        return result.final_output

    async def resume(self, thread: str) -> str:
        if not await self.stored(thread):
            raise LookupError(f"session {thread!r} is empty")
        result = await Runner.run(self.agent, [], session=self.session(thread), max_turns=None)
        return result.final_output

    async def stored(self, thread: str) -> list[Any]:
        return self.said.get(thread, []) if self.kept == "caller" else await self.session(thread).get_items()

    async def messages(self, thread: str) -> list[tuple[str, str]]:
        return [plain(item) for item in await self.stored(thread)]

    async def close(self) -> None:
        for session in self.sessions.values():
            session.close()


def plain(item: Any) -> tuple[str, str]:
    """Return the role and the text of an item."""
    if item.get("type") == "function_call":
        return "assistant", ""
    if item.get("type") == "function_call_output":
        return "tool", item["output"]
    content = item["content"]
    return item["role"], content if isinstance(content, str) else "".join(part["text"] for part in content)


def sent(system: str | None, items: list[Any], tools: list[Any]) -> list[str]:
    """Return the request as it would be sent."""
    parts = [tool_as_sent(tool.name, tool.description, tool.params_json_schema) for tool in tools]
    parts.append(as_sent("system", system or ""))
    for item in items:
        is_call = item.get("type") == "function_call"
        calls = [(item["call_id"], item["name"], item["arguments"])] if is_call else []
        parts.append(as_sent(*plain(item), calls, "" if is_call else item.get("call_id", "")))
    return parts
