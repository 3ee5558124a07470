"""Shapes of behaviour: what models have been seen to do, as scripts that read each request as a model would."""

from collections.abc import Callable, Generator, Sequence
from typing import Any

from ..checks import UserWritten, check_fields
from ..messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from ..plain_json import to_json
from ..ports import Emit, Reply, Request

Script = Callable[[Request], Generator[ToolCall | Sequence[ToolCall], list[str], str]]
"""A turn of a model: it yields calls, is sent the texts of their results, and returns the answer.

It is begun anew for every request and sent what came of the calls so far, so it must depend on nothing else.
"""
CHARACTERS = 4
"""Characters that are counted as one token: the tokens of a shape are an estimate."""


class Shape(UserWritten, frozen=True):
    """One way to behave in a task: the right one, or one that the assertions of the task must catch."""

    name: str
    """What the model does, in a few words."""
    script: Script
    fails: tuple[str, ...] = ()
    """The assertions that must fail, and no others, by their names in reports without arguments; empty: all pass."""
    subagent: Script | None = None
    """What its subagents do; None: what it does."""

    def __post_init__(self) -> None:
        check_fields(self)


class ShapeModel:
    """Behaves as a shape does. It costs nothing, and estimates the tokens of each request and reply."""

    name: str = "shape"
    states_cost: bool = True

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.usage: Usage = Usage()
        """The tokens of all requests and replies so far."""

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        delegates = any(tool.name == "task" for tool in request.tools)
        script = self._shape.script if delegates else self._shape.subagent or self._shape.script
        message = _next(script, request)
        usage = Usage(_size_of(request) // CHARACTERS, _spoken(message) // CHARACTERS + 1)
        self.usage += usage
        return Reply(message, usage, cost=0.0)


def _next(script: Script, request: Request) -> AssistantMessage:
    """Return the reply to *request*: what the script yields after it has been sent all results of the turn so far."""
    start = max(place for place, message in enumerate(request.messages) if isinstance(message, UserMessage))
    turn = request.messages[start + 1 :]
    run = script(request)
    try:
        said = next(run)
        for reply in turn:
            if isinstance(reply, AssistantMessage):
                said = run.send([_result(call, turn) for call in reply.calls])
    except StopIteration as end:
        return AssistantMessage(str(end.value))
    return AssistantMessage((said,) if isinstance(said, ToolCall) else tuple(said))


def _result(call: ToolCall, turn: Sequence[Message]) -> str:
    found = (message.text for message in turn if isinstance(message, ToolMessage) and message.call_id == call.id)
    return next(found, "")


def _size_of(request: Request) -> int:
    """Return the characters of a request."""
    tools = sum(len(tool.name) + len(tool.description) + len(to_json(tool.schema)) for tool in request.tools)
    return len(request.system) + tools + sum(map(_spoken, request.messages))


def _spoken(message: Message) -> int:
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    return len(message.text) + sum(len(call.name) + len(call.raw) for call in calls)


# ---- what scripts say and read


def says(text: str) -> Script:
    """Return a script that answers at once."""

    def script(request: Request) -> Generator[ToolCall, list[str], str]:
        return text
        yield  # Makes this a generator.

    return script


def asked(request: Request) -> str:
    """Return what the person said last."""
    return next(message.text for message in reversed(request.messages) if isinstance(message, UserMessage))


def call(name: str, **args: Any) -> ToolCall:
    return ToolCall(name, args)


def read(path: str, **args: Any) -> ToolCall:
    return call("read_file", file_path=path, **args)


def write(path: str, content: str) -> ToolCall:
    return call("write_file", file_path=path, content=content)


def edit(path: str, old: str, new: str, **args: Any) -> ToolCall:
    return call("edit_file", file_path=path, old_string=old, new_string=new, **args)


def remove(path: str) -> ToolCall:
    return call("delete", file_path=path)


def find(pattern: str, **args: Any) -> ToolCall:
    return call("glob", pattern=pattern, **args)


def search(text: str, **args: Any) -> ToolCall:
    return call("grep", pattern=text, **args)


def delegate(description: str, to: str = "general-purpose") -> ToolCall:
    return call("task", description=description, subagent_type=to)


def todos(*items: str, done: int = 0) -> ToolCall:
    """Return the call that writes a todo list, whose first *done* items are completed and whose next is in progress."""
    statuses = ["completed"] * done + ["in_progress"] + ["pending"] * len(items)
    listed = [{"content": item, "status": status} for item, status in zip(items, statuses, strict=False)]
    return call("write_todos", todos=listed)


def containing(text: str) -> Callable[[object], bool]:
    """Return a function that says whether an argument has *text* in it, for an `ExpectedCall`."""

    def has(argument: object) -> bool:
        return text in str(argument)

    has.__name__ = f"...{text}..."
    return has


def body(page: str) -> str:
    """Return the text of a file without the header that `read_file` puts before it."""
    return page.partition("\n")[2] if page.startswith("@@ ") else page


def paths(listing: str) -> list[str]:
    """Return the paths that a tool lists."""
    return [line for line in listing.splitlines() if line.startswith("/")]


def line_with(text: str, content: str) -> str:
    """Return the first line of *content* with *text*."""
    return next((line for line in content.splitlines() if text in line), "")
