"""Subagents that begin with messages: those of an earlier run of theirs, or those of their parent."""

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any, cast

from msgspec import structs

from ..context import ToolContext
from ..errors import ToolError
from ..events import Noted
from ..kinds import shown
from ..messages import Message, Text, ToolResult, UserMessage
from ..ports import Middleware, Request
from ..runtime import messages_of_run
from ..spec import AgentSpec, Runnable
from ..state import Edit, Limits, OpenCall
from ..tools import Tool
from .caching import cache_key

OWNER = "subagents"
"""The owner of the notes on persistent subagents: by id, `{"agent", "call_id"}`, of the call that went on with it last.
"""
FORKED = """\
[You are now a fork of the agent above: you do one task for it, and nothing else of its work. You know all that it \
knows. It sees nothing but your last message, so put the whole answer there. You cannot delegate.]

"""
REFUSED = "a fork cannot delegate; do this work yourself with your other tools"


def forked(ctx: ToolContext, description: str) -> list[Message]:
    """Return the input of a fork: the messages of its parent, without the reply that asks for it, and the task."""
    return [*ctx.state.messages[:-1], UserMessage(FORKED + description)]


async def continued(ctx: ToolContext, name: str, id: str, description: str) -> list[Message]:
    """Return the input of a persistent subagent that goes on: its messages, and what it is told now.

    Raises:
        ToolError: *id* is not that of an earlier run of it, or another call of this reply goes on with it.
    """
    return [*await _messages(ctx, name, id), UserMessage(description)]


def with_id(ctx: ToolContext, name: str, id: str, result: ToolResult) -> ToolResult:
    """Note under which *id* a persistent subagent goes on, by default its call's, and add it to its answer."""
    id = id or ctx.call_id
    ctx.record(Noted(OWNER, id, {"agent": name, "call_id": ctx.call_id}))
    said = f"\n\n[id: {id}]"
    content = result.content
    return structs.replace(result, content=content + said if isinstance(content, str) else (*content, Text(said)))


async def _messages(ctx: ToolContext, name: str, id: str) -> Sequence[Message]:
    """Return the messages that the subagent *id* has in context."""
    noted: Any = ctx.state.notes.get(OWNER, {}).get(id)
    known = cast(dict[str, Any], noted if isinstance(noted, dict) else {})  # `redact` may have removed it.
    if known.get("agent") != name:
        found = f"which is a {known['agent']}" if known else "which nobody has"
        raise ToolError(f"no {name} has the id {shown(id)}, {found}; to begin a new one, leave `id` out")
    for entry in ctx.state.open.values():
        if entry.call.id == ctx.call_id:  # Only earlier calls count, or two calls would refuse each other.
            break
        if entry.call.name == "task" and _id_of(entry) == id:
            raise ToolError(f"another call of this reply goes on with {shown(id)}; see its result, then go on with it")
    messages = await messages_of_run(known["call_id"])
    if not messages:
        raise ToolError(f"the messages of {shown(id)} are gone; to begin a new one, leave `id` out")
    return messages


def _id_of(entry: OpenCall) -> Any:
    call = entry.call
    return (entry.decision.args if isinstance(entry.decision, Edit) else call.args).get("id")


class Fork:
    """The agent of `Subagent(fork=True)`: that of its parent, whose tools for delegating refuse."""

    def __init__(self, name: str, limits: Limits | None) -> None:
        self._name, self._limits = name, limits
        self.parent: Runnable | None = None
        """Set once the parent is built, which has this as a part."""

    @cached_property
    def spec(self) -> AgentSpec:
        assert self.parent is not None
        spec = self.parent.spec
        tools = {name: _refusing(tool) if _delegates(tool) else tool for name, tool in spec.tools.items()}
        return structs.replace(
            spec,
            name=self._name,
            tools=tools,
            tool_list=tuple(tools.values()),
            limits=self._limits or spec.limits,
            share=("files",),  # It has read what its parent has.
            before_model=(*spec.before_model, ParentsCache()),
        )


class ParentsCache(Middleware):
    """Names a fork to the provider's cache as its parent, whose messages it begins with."""

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        if request.cache is None:
            return request
        key = cache_key(ctx.thread_id, ctx.path[:-1])
        return structs.replace(request, cache=structs.replace(request.cache, key=key))


def _delegates(tool: Tool) -> bool:
    return tool.name in ("task", "start_task")


def _refusing(tool: Tool) -> Tool:
    """Return a tool that a model reads as *tool*, so that the provider's cache has its words, and that refuses."""

    async def refuse(**arguments: Any) -> str:
        raise ToolError(REFUSED)

    refusing = copy(tool)
    refusing.function = refuse
    return refusing
