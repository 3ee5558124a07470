"""agno: an `Agent` with all of its history in the context, and its SQLite database."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse

from bench.compare.contender import Kept
from bench.compare.work import DONE, SYSTEM, WINDOW, Work, as_sent, tool_as_sent

TITLE = "agno Agent"
PACKAGES = ("agno",)
CONFIGURATIONS: dict[str, Kept] = {
    "none": "caller",
    "memory": "memory",
    "runs": "disk",  # The default.
    "tool-batch": "disk",
    "compaction": "disk",  # Where alone it is supported.
}


@dataclass
class Scripted(Model):
    work: Any = None

    def invoke(self, messages: list[Message], tools: Any = None, **more: Any) -> ModelResponse:
        if not tools:
            return ModelResponse(role="assistant", content=self.work.summarize(lambda: sent(messages, ())))
        page = self.work.reply(messages[-1].content, lambda: sent(messages, tools))
        if page is None:
            return ModelResponse(role="assistant", content=DONE)
        function = {"name": "look", "arguments": f'{{"page": {page}}}'}
        call = {"id": f"call_{page}", "type": "function", "function": function}
        return ModelResponse(role="assistant", tool_calls=[call])

    async def ainvoke(self, *args: Any, **more: Any) -> ModelResponse:
        return self.invoke(*args, **more)

    def invoke_stream(self, *args: Any, **more: Any) -> Iterator[ModelResponse]:
        raise NotImplementedError

    def ainvoke_stream(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **more: Any) -> ModelResponse:
        raise NotImplementedError

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        raise NotImplementedError


def build(work: Work, **options: Any) -> Agent:
    def look(page: int) -> str:
        """Read a page."""
        return work.read(page)

    return Agent(
        model=Scripted(id="scripted", work=work), tools=[look], system_message=SYSTEM, telemetry=False, **options
    )


async def open(configuration: str, folder: Path, work: Work) -> "Session":
    kept = CONFIGURATIONS[configuration]
    if kept == "caller":
        return Session(build(work), None)
    database: Any
    if kept == "memory":
        from agno.db.in_memory import InMemoryDb

        database = InMemoryDb()
    else:
        from agno.db.sqlite import SqliteDb

        database = SqliteDb(db_file=str(folder / "agno.sqlite"))
    options: dict[str, Any] = {"db": database, "add_history_to_context": True, "num_history_runs": 10**6}
    if configuration == "compaction":
        from agno.compaction import Compaction

        options["compaction"] = Compaction(compact_at_tokens=int(0.85 * WINDOW), token_counter=tokens)
    elif kept == "disk":
        options["checkpoint"] = configuration
    return Session(build(work, **options), database)


class Session:
    def __init__(self, agent: Agent, database: Any) -> None:
        self.agent, self.database = agent, database
        self.said: dict[str, list[Message]] = {}

    async def turn(self, thread: str, text: str) -> str:
        if self.database is not None:
            return self.agent.run(text, session_id=thread).content
        result = self.agent.run([*self.said.get(thread, []), Message(role="user", content=text)])
        self.said[thread] = [message for message in result.messages if message.role != "system"]
        return result.content

    async def resume(self, thread: str) -> str:
        session = self.agent.get_session(session_id=thread)
        if session is None or not session.runs:
            raise LookupError(f"session {thread!r} has no run")
        return self.agent.continue_run(run_id=session.runs[-1].run_id, session_id=thread).content

    async def messages(self, thread: str) -> list[tuple[str, str]]:
        if self.database is None:
            found = self.said.get(thread, [])
        else:
            session = self.agent.get_session(session_id=thread)
            found = session.get_messages() if session else []
        return [(message.role, message.content or "") for message in found if message.role != "system"]

    async def close(self) -> None:
        if self.database is not None and hasattr(self.database, "db_engine"):
            self.database.db_engine.dispose()


def tokens(messages: list[Message], tools: Any = None) -> int:
    """Estimate tokens; agno's own way asks a tokenizer that it would download."""
    return sum(len(message.content or "") for message in messages) // 4


def sent(messages: list[Message], tools: Any) -> list[str]:
    """Return the request as it would be sent."""
    functions = [tool["function"] for tool in tools]
    parts = [tool_as_sent(one["name"], one["description"], one["parameters"]) for one in functions]
    for message in messages:
        calls = [
            (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in message.tool_calls or ()
        ]
        parts.append(as_sent(message.role, message.content or "", calls, message.tool_call_id or ""))
    return parts
