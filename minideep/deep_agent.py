"""`create_deep_agent`: the usual list of middleware on an `Agent`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct, structs

from .agent import Agent
from .backends.state import StateBackend
from .errors import ConfigError
from .middleware.files import FilesystemMiddleware
from .middleware.subagents import Subagent, SubAgentMiddleware
from .middleware.todos import TodoListMiddleware
from .models import resolve
from .ports import Backend, Middleware, Model, Store
from .state import Limits
from .tools import Tool

GENERAL_PURPOSE = Subagent(
    name="general-purpose",
    description="anything that takes many steps or much reading; it has your tools, and answers once",
    system_prompt="You do one task for another agent, which sees nothing but your last message: put the whole answer "
    "there, in the form that was asked for, with paths and facts instead of a report of what you did.",
)
NEVER_SHARED = ("messages", "todos")


def create_deep_agent(
    model: str | Model,
    tools: Iterable[Tool | Callable[..., Any]] = (),
    system_prompt: str = "",
    *,
    subagents: Sequence[Subagent] = (),
    backend: Backend | None = None,
    middleware: Sequence[Middleware] = (),
    limits: Limits | None = None,
    checkpointer: Store | None = None,
    name: str = "main",
) -> Agent:
    """An agent that plans todos, works on files and delegates to subagents.

    *model* is a string such as `anthropic:claude-sonnet-4-6`, or a `Model`; subagents use it unless they name their
    own. *tools* are functions or `Tool`s. *backend* is where files are; by default the thread's own state. There is
    always a `general-purpose` subagent, with the same tools, unless *subagents* holds one of that name. *middleware*
    comes after the built-in: todos, files, subagents.

    Raises:
        ConfigError: a model, a tool or a name is not usable.
    """
    kit = _Kit(resolve(model), tuple(tools), backend or StateBackend(), limits)
    own = {about.name for about in subagents}
    children = [*subagents] if GENERAL_PURPOSE.name in own else [GENERAL_PURPOSE, *subagents]
    return Agent(
        kit.model,
        kit.tools,
        system_prompt,
        [*kit.stack(children), *middleware],
        checkpointer=checkpointer,
        limits=limits,
        name=name,
    )


class _Kit(Struct, frozen=True):
    """What an agent and its subagents have in common."""

    model: Model
    tools: tuple[Tool | Callable[..., Any], ...]
    files: Backend
    limits: Limits | None

    def stack(self, children: Sequence[Subagent]) -> list[Middleware]:
        """The usual middleware, and delegation if there is somebody to delegate to."""
        parts: list[Middleware] = [TodoListMiddleware(), FilesystemMiddleware(self.files)]
        if children:
            parts.append(SubAgentMiddleware((about, self.build(about)) for about in children))
        return parts

    def build(self, about: Subagent) -> Agent:
        """The agent that *about* describes, with what it does not say taken from its parent."""
        for shared in about.share:
            if shared in NEVER_SHARED:
                raise ConfigError(f"subagent {about.name!r} shares {shared!r}; messages and todos are never shared")
        agent = Agent(
            about.model or self.model,
            self.tools if about.tools is None else about.tools,
            about.system_prompt,
            [*self.stack(about.subagents), *about.middleware],
            limits=about.limits or self.limits,
            name=about.name,
        )
        agent.spec = structs.replace(agent.spec, share=tuple(about.share))
        return agent
