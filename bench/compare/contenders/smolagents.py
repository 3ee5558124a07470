"""smolagents: a `ToolCallingAgent`, which keeps its steps in the agent."""

from pathlib import Path
from typing import Any

from smolagents import ChatMessage, LogLevel, MessageRole, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction, get_tool_json_schema

from bench.compare.contender import Kept
from bench.compare.work import DONE, SYSTEM, Work, as_sent, tool_as_sent

TITLE = "smolagents ToolCallingAgent"
PACKAGES = ("smolagents",)
CONFIGURATIONS: dict[str, Kept] = {"none": "caller"}
STEPS = 10**9


class Scripted(Model):
    def __init__(self, work: Work) -> None:
        super().__init__(model_id="scripted")
        self.work = work

    def generate(self, messages: list[ChatMessage], stop_sequences: Any = None, **more: Any) -> ChatMessage:
        tools = more.get("tools_to_call_from", ())
        page = self.work.reply(text_of(messages[-1]), lambda: sent(messages, tools))
        name, arguments = ("final_answer", {"answer": DONE}) if page is None else ("look", {"page": page})
        function = ChatMessageToolCallFunction(arguments, name)
        call = ChatMessageToolCall(function, f"call_{page}", "function")
        return ChatMessage(MessageRole.ASSISTANT, "", [call])


def build(work: Work) -> ToolCallingAgent:
    @tool
    def look(page: int) -> str:
        """Read a page.

        Args:
            page: The number of the page.
        """
        return work.read(page)

    return ToolCallingAgent([look], Scripted(work), instructions=SYSTEM, max_steps=STEPS, verbosity_level=LogLevel.OFF)


async def open(configuration: str, folder: Path, work: Work) -> "Session":
    return Session(work)


class Session:
    """An agent a thread: its memory is the thread."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.agents: dict[str, ToolCallingAgent] = {}

    async def turn(self, thread: str, text: str) -> str:
        is_new = thread not in self.agents
        if is_new:
            self.agents[thread] = build(self.work)
        return self.agents[thread].run(text, reset=is_new)

    async def resume(self, thread: str) -> str:
        raise LookupError("nothing is stored on a disk")

    async def messages(self, thread: str) -> list[tuple[str, str]]:
        agent = self.agents.get(thread)
        return plain(agent.write_memory_to_messages())[1:] if agent else []

    async def close(self) -> None:
        pass


ROLES = {"tool-call": "assistant", "tool-response": "tool"}


def text_of(message: ChatMessage) -> str:
    return "".join(part["text"] for part in message.content) if isinstance(message.content, list) else message.content


def plain(messages: list[ChatMessage]) -> list[tuple[str, str]]:
    """Return roles and texts, without the empty text that goes before a call."""
    found = [(ROLES.get(message.role.value, message.role.value), text_of(message)) for message in messages]
    return [(role, text) for role, text in found if text]


def sent(messages: list[ChatMessage], tools: Any) -> list[str]:
    """Return the request as it would be sent: calls and results are texts."""
    functions = [get_tool_json_schema(tool)["function"] for tool in tools]
    parts = [tool_as_sent(one["name"], one["description"], one["parameters"]) for one in functions]
    return parts + [as_sent(role, text) for role, text in plain(messages)]
