"""LangGraph: `langchain.agents.create_agent`, with its SQLite saver in each durability."""

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from bench.compare.contender import Kept
from bench.compare.work import DONE, SYSTEM, WINDOW, Work, as_sent, tool_as_sent

TITLE = "LangChain create_agent"
PACKAGES = ("langchain", "langgraph", "langgraph-checkpoint-sqlite")
CONFIGURATIONS: dict[str, Kept] = {
    "none": "caller",
    "memory": "memory",
    "sync": "disk",
    "async": "disk",  # The default.
    "exit": "disk",
    "ainvoke": "caller",
    "ainvoke async": "disk",
    "ainvoke exit": "disk",
    "compaction": "caller",
}


class Scripted(BaseChatModel):
    """A custom chat model. It skips what a provider's class does with tools at each request."""

    work: Any
    tools: Any = ()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "Scripted":
        return self.model_copy(update={"tools": tools})

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages))])

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        return self._generate(messages)

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        if not self.tools:
            return AIMessage(self.work.summarize(lambda: sent((), messages)))
        page = self.work.reply(messages[-1].text, lambda: sent(self.tools, messages))
        if page is None:
            return AIMessage(DONE)
        return AIMessage("", tool_calls=[{"name": "look", "args": {"page": page}, "id": f"call_{page}"}])


def tools(work: Work, is_async: bool) -> list[BaseTool]:
    def look(page: int) -> str:
        """Read a page."""
        return work.read(page)

    async def alook(page: int) -> str:
        """Read a page."""
        return work.read(page)

    return [tool("look")(alook if is_async else look)]


def build(work: Work, configuration: str = "none", saver: Any = None) -> Any:
    model = Scripted(work=work)
    middleware = []
    if configuration == "compaction":
        from langchain.agents.middleware import SummarizationMiddleware

        model.profile = {"max_input_tokens": WINDOW}
        middleware = [SummarizationMiddleware(model, trigger=("fraction", 0.85))]
    found = tools(work, configuration.startswith("ainvoke"))
    return create_agent(model, found, system_prompt=SYSTEM, middleware=middleware, checkpointer=saver)


async def open(configuration: str, folder: Path, work: Work) -> "Session":
    stack, kept = AsyncExitStack(), CONFIGURATIONS[configuration]
    saver = await open_saver(stack, kept, configuration, folder)
    return Session(build(work, configuration, saver), stack, kept, configuration)


async def open_saver(stack: AsyncExitStack, kept: Kept, configuration: str, folder: Path) -> Any:
    if kept == "memory":
        from langgraph.checkpoint.memory import InMemorySaver

        return InMemorySaver()
    if kept == "caller":
        return None
    path = str(folder / "checkpoints.sqlite")
    if configuration.startswith("ainvoke"):
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        return await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(path))
    from langgraph.checkpoint.sqlite import SqliteSaver

    return stack.enter_context(SqliteSaver.from_conn_string(path))


class Session:
    """A compiled graph. Without a saver, the caller keeps the messages."""

    def __init__(self, graph: Any, stack: AsyncExitStack, kept: Kept, configuration: str) -> None:
        self.graph, self.stack, self.kept = graph, stack, kept
        self.is_async = configuration.startswith("ainvoke")
        self.options = {"durability": configuration.split()[-1]} if kept == "disk" else {}
        self.said: dict[str, list[BaseMessage]] = {}

    async def invoke(self, given: Any, thread: str) -> str:
        config = {"configurable": {"thread_id": thread}}
        if self.is_async:
            result = await self.graph.ainvoke(given, config, **self.options)
        else:
            result = self.graph.invoke(given, config, **self.options)
        if self.kept == "caller":
            self.said[thread] = result["messages"]
        return result["messages"][-1].text

    async def turn(self, thread: str, text: str) -> str:
        said = self.said.get(thread, [])
        return await self.invoke({"messages": [*said, {"role": "user", "content": text}]}, thread)

    async def resume(self, thread: str) -> str:
        if not await self.stored(thread):
            raise LookupError(f"no checkpoint of thread {thread!r}")
        return await self.invoke(None, thread)

    async def stored(self, thread: str) -> list[BaseMessage]:
        if self.kept == "caller":
            return self.said.get(thread, [])
        config = {"configurable": {"thread_id": thread}}
        state = await self.graph.aget_state(config) if self.is_async else self.graph.get_state(config)
        return state.values.get("messages", [])

    async def messages(self, thread: str) -> list[tuple[str, str]]:
        return [(ROLES[message.type], message.text) for message in await self.stored(thread)]

    async def close(self) -> None:
        await self.stack.aclose()


ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}


def sent(tools: Any, messages: list[BaseMessage]) -> list[str]:
    """Return the request as it would be sent."""
    functions = [convert_to_openai_tool(tool)["function"] for tool in tools]
    parts = [tool_as_sent(one["name"], one["description"], one["parameters"]) for one in functions]
    for message in messages:
        calls = [(call["id"], call["name"], json.dumps(call["args"])) for call in getattr(message, "tool_calls", ())]
        parts.append(as_sent(ROLES[message.type], message.text, calls, getattr(message, "tool_call_id", "")))
    return parts
