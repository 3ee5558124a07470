"""Forks: subagents that are their parent once more, and begin with its messages."""

from copy import copy
from functools import cached_property
from typing import Any

from msgspec import structs

from ..context import ToolContext
from ..errors import ToolError
from ..messages import Message, UserMessage
from ..ports import Middleware, Request
from ..spec import AgentSpec, Runnable
from ..state import Limits
from ..tools import Tool
from .caching import cache_key

FORKED = """\
[You are now a fork of the agent above: you do one task for it, and nothing else of its work. You know all that it \
knows. It sees nothing but your last message, so put the whole answer there. You cannot delegate.]

"""
REFUSED = "a fork cannot delegate; do this work yourself with your other tools"


def forked(ctx: ToolContext, description: str) -> list[Message]:
    """Return the input of a fork: the messages of its parent, without the reply that asks for it, and the task."""
    return [*ctx.state.messages[:-1], UserMessage(FORKED + description)]


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
