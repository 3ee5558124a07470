"""pydantic-ai: an `Agent`, with the messages handed over by the caller or in its store in memory."""

from pathlib import Path
from typing import Any

from pydantic_ai import Agent, ModelResponse, RequestUsage, TextPart, ToolCallPart, UsageLimits
from pydantic_ai.models.function import AgentInfo, FunctionModel

from bench.compare.contender import Kept
from bench.compare.work import DONE, SYSTEM, Work, as_sent, tool_as_sent

TITLE = "pydantic-ai Agent"
PACKAGES = ("pydantic-ai-slim",)
CONFIGURATIONS: dict[str, Kept] = {"none": "caller", "memory": "memory"}
USAGE = RequestUsage(input_tokens=1, output_tokens=1)
"""As a provider states it. Without it the model estimates tokens from all messages at each request."""


def build(work: Work) -> Agent:
    async def say(messages: list[Any], info: AgentInfo) -> ModelResponse:
        page = work.reply(messages[-1].parts[-1].content, lambda: sent(messages, info))
        if page is None:
            return ModelResponse([TextPart(DONE)], usage=USAGE)
        return ModelResponse([ToolCallPart("look", {"page": page}, f"call_{page}")], usage=USAGE)

    agent = Agent(FunctionModel(say), instructions=SYSTEM)

    @agent.tool_plain
    async def look(page: int) -> str:
        """Read a page."""
        return work.read(page)

    return agent


async def open(configuration: str, folder: Path, work: Work) -> "Session":
    return Session(build(work), CONFIGURATIONS[configuration])


class Session:
    def __init__(self, agent: Agent, kept: Kept) -> None:
        self.agent = agent
        self.said: dict[str, list[Any]] = {}
        self.store: Any = None
        if kept == "memory":
            from pydantic_ai.conversation_store import InMemoryConversationStore

            self.store = InMemoryConversationStore()

    async def turn(self, thread: str, text: str) -> str:
        limits = UsageLimits(request_limit=None)
        if self.store is None:
            result = await self.agent.run(text, message_history=self.said.get(thread), usage_limits=limits)
            self.said[thread] = result.all_messages()
            return result.output
        from pydantic_ai.conversation import Conversation

        conversation = await self.store.load(thread) or Conversation(conversation_id=thread)
        result = await self.agent.run(text, conversation=conversation, usage_limits=limits)
        await self.store.save(result)
        return result.output

    async def resume(self, thread: str) -> str:
        raise LookupError("nothing is stored on a disk")

    async def messages(self, thread: str) -> list[tuple[str, str]]:
        if self.store is None:
            return plain(self.said.get(thread, []))
        loaded = await self.store.load(thread)
        return plain(loaded.messages if loaded else [])

    async def close(self) -> None:
        pass


def plain(messages: list[Any]) -> list[tuple[str, str]]:
    """Return roles and texts."""
    return [
        (ROLES[part.part_kind], "" if part.part_kind == "tool-call" else part.content)
        for message in messages
        for part in message.parts
    ]


ROLES = {"user-prompt": "user", "text": "assistant", "tool-call": "assistant", "tool-return": "tool"}


def sent(messages: list[Any], info: AgentInfo) -> list[str]:
    """Return the request as it would be sent."""
    parts = [
        tool_as_sent(tool.name, tool.description or "", tool.parameters_json_schema) for tool in info.function_tools
    ]
    parts.append(as_sent("system", info.instructions or ""))
    for part in (part for message in messages for part in message.parts):
        if part.part_kind == "tool-call":
            parts.append(as_sent("assistant", "", [(part.tool_call_id, part.tool_name, part.args_as_json_str())]))
        else:
            parts.append(as_sent(ROLES[part.part_kind], part.content, (), getattr(part, "tool_call_id", "")))
    return parts
