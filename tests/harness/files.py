"""A run without a loop or a model, for tests of backends and of the file tools."""

import asyncio
from hashlib import sha256

from minideep.context import ToolContext
from minideep.core import apply
from minideep.errors import ToolError
from minideep.events import AnyEvent, FileDeleted, FileWritten, ModelReplied, StreamEvent, ToolReturned, UserSaid
from minideep.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from minideep.middleware import FilesystemMiddleware
from minideep.runtime.run import Call
from minideep.state import State, StateView
from minideep.tools import as_result


class RunAlone:
    """A run without a loop. What is recorded is applied at once."""

    def __init__(self) -> None:
        self.path, self.thread_id, self.context, self.scratch = (), "t", None, {}
        self.journal = self
        self.state = State()
        self.view = StateView(self.state)
        self.events: list[AnyEvent] = []
        apply(self.state, UserSaid(UserMessage("go"), at=0.0))

    @property
    def loop(self):
        """Whichever loop runs: a test may call a tool with one or without."""
        return asyncio._get_running_loop()

    def content_of(self, file: str) -> str | bytes | None:
        return self.state.files[file].content

    def record(self, event: AnyEvent) -> None:
        apply(self.state, event)
        self.events.append(event)

    def emit(self, event: StreamEvent) -> None:
        """Nobody listens."""


def context() -> ToolContext:
    return ToolContext(RunAlone())


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

    def __init__(self, backend, path=()):
        self.backend = backend
        self.run = RunAlone()
        self.run.path = path
        self.tools = {tool.name: tool for tool in FilesystemMiddleware(backend).tools}
        self.asked = 0

    @property
    def state(self) -> State:
        return self.run.state

    def beside(self) -> "Desk":
        """Another run of the same thread: its own notes, the same files."""
        other = Desk(self.backend, path=("child",))
        other.state.files = self.state.files
        return other

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
