"""A run without a loop or a model in which the file tools are called, for tests of backends and of those tools."""

import asyncio
from hashlib import sha256

from minideep.context import ToolContext
from minideep.errors import ToolError
from minideep.events import FileDeleted, FileWritten, ModelReplied, ToolReturned, UserSaid
from minideep.ledger import Spent
from minideep.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from minideep.middleware import FilesystemMiddleware
from minideep.runtime import LoneRun
from minideep.runtime.run import Call
from minideep.state import Path, State, StateView
from minideep.testing import tool_context
from minideep.tools import as_result


class RunAlone(LoneRun):
    """A run in which the file tools are called. It has spent nothing, or what a test says."""

    spent = Spent(0, None, 0.0)

    def __init__(self, path: Path = (), beside: "RunAlone | None" = None) -> None:
        super().__init__("t", path)
        if beside is not None:
            self.journal = beside.journal
            self.state = self.journal.open_run(path)
            self.view = StateView(self.state)
        if path and beside is None:
            self.journal.record((), UserSaid(UserMessage("go"), at=0.0))  # Files are recorded in the main run.
        self.record(UserSaid(UserMessage("go"), at=0.0))
        self.events.clear()


def context() -> ToolContext:
    return tool_context()


def put(backend, ctx, path, data=b"", expect=None):
    """Write, and record what was written, as the tools do."""
    if backend.write(ctx, path, data, expect):
        ctx.record(FileWritten(path, data, len(data), sha256(data).hexdigest(), 0.0))


def remove(backend, ctx, path):
    gone = backend.delete(ctx, path)
    for file in gone:
        ctx.record(FileDeleted(file, 0.0))
    return gone


def paths(infos):
    return [f"{info.path}/" if info.is_dir else info.path for info in infos]


class Desk:
    """A running turn in which the file tools are called."""

    def __init__(self, backend, run=None):
        self.backend = backend
        self.run = run or RunAlone()
        self.tools = {tool.name: tool for tool in FilesystemMiddleware(backend).tools}
        self.asked = 0

    @property
    def state(self) -> State:
        return self.run.state

    def beside(self) -> "Desk":
        """Another run of the same thread: its own notes, the same files."""
        return Desk(self.backend, RunAlone(("child",), self.run))

    def ask(self, *calls, decisions=()):
        """One reply with these calls, run side by side; their results in call order."""
        named = tuple(ToolCall(name, args, f"c{self.asked + i}") for i, (name, args) in enumerate(calls))
        self.asked += len(calls)
        self.run.record(ModelReplied(AssistantMessage(named)))
        entries = list(self.state.open.values())
        for entry, decision in zip(entries, decisions, strict=False):
            entry.decision = decision

        async def gather():
            return await asyncio.gather(*(self.answer(entry) for entry in entries))

        results = asyncio.run(gather())
        for entry, result in zip(entries, results, strict=True):
            self.run.record(ToolReturned(entry.call.id, result.content, result.is_error))
        return results

    async def answer(self, entry) -> ToolResult:
        tool = self.tools[entry.call.name]
        try:
            return as_result(await tool.function(**tool.bind(entry.call, ToolContext(self.run, Call(self.run, entry)))))
        except ToolError as exc:
            return ToolResult(f"error: {exc}", is_error=True)

    def __call__(self, name, **args) -> str:
        return self.ask((name, args))[0].text

    def bytes(self, path) -> bytes:
        return self.backend.read(ToolContext(self.run), path)

    def put(self, path, data: bytes) -> None:
        """A file that no tool of this run has written."""
        if self.backend.write(ToolContext(self.run), path, data):
            try:
                content = data.decode()
            except UnicodeDecodeError:
                content = data
            self.run.record(FileWritten(path, content, len(data), "", 0.0))
