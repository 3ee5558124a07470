"""`create_deep_agent`: an `Agent` with the built-in list of middleware, and subagents built the same way."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from .agent import Agent
from .backends import StateBackend
from .checkpoint import Durability, Redact
from .checks import checked
from .errors import ConfigError
from .middleware import (
    SUMMARIES,
    EnvironmentMiddleware,
    FilesystemMiddleware,
    HumanInTheLoopMiddleware,
    MemoryMiddleware,
    OffloadMiddleware,
    PatchToolCallsMiddleware,
    PromptCachingMiddleware,
    SkillsMiddleware,
    Subagent,
    SubAgentMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    as_subagent,
)
from .models import profile_of, resolve
from .ports import Backend, Middleware, Model, Store
from .runtime import check_prices, inheritable
from .state import Limits
from .tools import R, Tool, as_tool

if TYPE_CHECKING:
    from .middleware import ResponseFormat

GENERAL_PURPOSE = Subagent(
    name="general-purpose",
    description="anything that takes many steps or much reading; it has your tools but cannot delegate",
    system_prompt="You do one task for another agent. It sees nothing but your last message, and the user does not see "
    "that: put the whole answer there, in the form that was asked for, with paths and facts that you have checked "
    "instead of a report of what you did. Change files only if the task says so. If it cannot be done, say what you "
    "tried and what is in the way.",
)
SHARED = (
    TodoListMiddleware,
    FilesystemMiddleware,
    OffloadMiddleware,
    SummarizationMiddleware,
    PromptCachingMiddleware,
    SkillsMiddleware,
    EnvironmentMiddleware,
)
"""Built-in middleware that `general-purpose` shares with the main agent: if it is replaced in the main agent, it is
replaced in `general-purpose` too.
"""
NEVER_SHARED = ("messages", "todos", SUMMARIES)


@checked
def create_deep_agent(
    model: str | Model,
    tools: Iterable[Tool | Callable[..., Any]] = (),
    system_prompt: str = "",
    *,
    subagents: Sequence[Subagent | Mapping[str, Any]] = (),
    backend: Backend | None = None,
    memory: Sequence[str] = (),
    skills: Sequence[str] = (),
    interrupt_on: Mapping[str, bool] | None = None,
    middleware: Sequence[Middleware] = (),
    limits: Limits | None = None,
    checkpointer: Store | None = None,
    durability: Durability = "turn",
    name: str = "main",
    version: str = "",
    continues: Iterable[str] = (),
    redact: Redact | None = None,
    response_format: "type[R] | ResponseFormat[R] | Mapping[str, Any] | None" = None,
) -> Agent[R]:
    """Make an agent that plans todos, works on files and delegates to subagents.

    *model* is a string such as `anthropic:claude-sonnet-4-6`, or a `Model`; subagents use it unless they name their
    own. *tools* are functions or `Tool`s. *backend* keeps the files, by default in the thread's own state. *memory*
    lists files, such as `AGENTS.md`, that the prompt always shows, and *skills* folders whose skills it describes.

    A subagent `general-purpose` with the same tools and skills is added, unless *subagents* holds one of that name.
    Calls to a tool that *interrupt_on* maps to True wait for a person (`Agent.resume`), in all runs below too, unless a
    subagent's own `interrupt_on` says False. The other arguments are as for `Agent`.
    *middleware* comes after the built-in list (todos, files, offload, subagents, summarization, caching, patching,
    skills, memory, environment) and before the approvals. One of a built-in class replaces it, but for approvals.

    Raises:
        ConfigError: a model, a tool or a name is not usable.
    """
    parts: dict[str, Any] = {"memory": memory, "skills": skills, "middleware": middleware}
    parts |= {"system_prompt": system_prompt, "interrupt_on": interrupt_on, "response_format": response_format}
    children = _with_general_purpose(subagents, skills, middleware)
    model, files = resolve(model), backend or StateBackend()
    defaults = _Defaults(model, tuple(map(as_tool, tools)), files, limits, _usual(model, files))
    agent, known = defaults.build(Subagent(name=name, description="", subagents=children, **parts))
    _check_profile(model, known)
    agent.spec = structs.replace(agent.spec, about={"version": version}, continues=frozenset(continues))
    agent.checkpointer, agent.durability, agent.redact = checkpointer, durability, redact
    return agent


def _with_general_purpose(
    subagents: Sequence[Subagent | Mapping[str, Any]], skills: Sequence[str], middleware: Sequence[Middleware]
) -> list[Subagent]:
    """Return *subagents*, with `general-purpose` before them unless they hold one of that name.

    It has the main agent's skills, and the middleware that replaces a built-in there.
    """
    own = [as_subagent(subagent, f"subagents[{place}]") for place, subagent in enumerate(subagents)]
    if any(subagent.name == GENERAL_PURPOSE.name for subagent in own):
        return own
    shared = [part for part in middleware if isinstance(part, SHARED)]
    return [structs.replace(GENERAL_PURPOSE, skills=skills, middleware=shared), *own]


class _Defaults(Struct, frozen=True):
    """The settings that an agent passes on to its subagents, unless they have their own."""

    model: Model
    tools: tuple[Tool | Callable[..., Any], ...]
    files: Backend
    limits: Limits | None
    usual: tuple[Middleware, ...]
    """The built-in middleware that all agents with this model share."""
    interrupt_on: dict[str, bool] = {}
    approvals: tuple[Middleware, ...] = ()
    """The one of this agent, if some of its calls wait for a person."""
    approvals_above: tuple[Middleware, ...] = ()
    """Those of the agents above, whose `interrupt_on` this agent's own already contains, or changes."""
    budgets: tuple[tuple[str, Limits], ...] = ()
    """The limits of the agents above, by name. Each bounds the spending of all agents below it."""

    def of(self, subagent: Subagent) -> "_Defaults":
        """Return the settings of *subagent*: its own, and these for all others."""
        interrupt_on = self.interrupt_on | dict(subagent.interrupt_on or {})
        model = resolve(subagent.model) if subagent.model else self.model
        return _Defaults(
            model,
            self.tools if subagent.tools is None else tuple(map(as_tool, subagent.tools)),
            self.files,
            subagent.limits or self.limits,
            _usual(model, self.files) if model is not self.model else self.usual,
            interrupt_on,
            (HumanInTheLoopMiddleware(interrupt_on),) if any(interrupt_on.values()) else (),
            (*self.approvals_above, *self.approvals),
            (*self.budgets, (subagent.name, subagent.limits or self.limits or Limits())),
        )

    def build(self, subagent: Subagent) -> tuple[Agent, frozenset[str]]:
        """Build the agent that *subagent* describes, and those below it. Return it, and the names of all tools."""
        for shared in subagent.share:
            if shared in NEVER_SHARED:
                problem = f"subagent {subagent.name!r} shares {shared!r}"
                raise ConfigError(f"{problem}; messages, todos and summaries cannot be shared")
        own = self.of(subagent)
        children = [(child, *own.build(child)) for child in subagent.subagents]
        delegation = [SubAgentMiddleware((child, agent) for child, agent, _ in children)] if children else []
        stack = own.middleware(subagent, delegation)
        agent = Agent(
            own.model,
            own.tools,
            subagent.system_prompt,
            stack,
            limits=own.limits,
            name=subagent.name,
            response_format=subagent.response_format,
        )
        # The built-in list is not inherited: each agent has it, and its hooks would run twice in a subagent. Approvals
        # are inherited by other agents that a tool runs. Those from above are listed so that this agent does not
        # inherit them again.
        inherited = (*inheritable(subagent.middleware), *own.approvals, *own.approvals_above)
        agent.spec = structs.replace(agent.spec, share=tuple(subagent.share), inherited=inherited)
        for owner, limits in self.budgets:
            check_prices(agent.spec, limits, owner)
        known = frozenset(agent.spec.tools).union(*(names for *_, names in children))
        _check_names(subagent, known)
        if subagent.model:
            _check_profile(own.model, known)
        return agent, known

    def middleware(self, subagent: Subagent, delegation: Sequence[Middleware]) -> list[Middleware]:
        """Return the built-in list with the middleware of *subagent*: in place of a built-in of its class, or after."""
        todos, files, offload, *others, environment = self.usual
        if subagent.skills:
            others.append(SkillsMiddleware(subagent.skills, self.files))
        if subagent.memory:
            others.append(MemoryMiddleware(subagent.memory, self.files))
        given = subagent.middleware
        early = [part for part in given if getattr(part, "before_compaction", False)] if given else []
        usual = [todos, files, offload, *delegation, *early, *others, environment]
        own = [next((part for part in given if isinstance(part, type(built))), built) for built in usual]
        return [*own, *(part for part in given if part not in own), *self.approvals]


def _usual(model: Model, files: Backend) -> tuple[Middleware, ...]:
    # None of these knows its agent, so that one of each serves all agents, and a service builds an agent a request.
    return (
        TodoListMiddleware(),
        FilesystemMiddleware(files),
        OffloadMiddleware(files),
        SummarizationMiddleware(model, files),
        PromptCachingMiddleware(),
        PatchToolCallsMiddleware(),
        EnvironmentMiddleware(),
    )


def _check_names(subagent: Subagent, known: frozenset[str]) -> None:
    """Refuse an `interrupt_on` of an unknown tool: misspelt, it would let every call of the right one through."""
    for name in subagent.interrupt_on or ():
        if name not in known:
            problem = f"interrupt_on names {name!r}, which neither it nor a subagent below it has"
            from .mistakes import did_you_mean

            meant = did_you_mean(name, known, f"; the tools are {', '.join(sorted(known))}")
            raise ConfigError(f"agent {subagent.name!r}: {problem}{meant}")


def _check_profile(model: Model, known: frozenset[str]) -> None:
    """Refuse a profile that describes an unknown tool: misspelt, the right one would keep its usual description."""
    for name in profile_of(model).descriptions:
        if name not in known:
            problem = f"model {model.name!r}: its profile describes {name!r}, which no agent that uses it has"
            raise ConfigError(f"{problem}; the tools are {', '.join(sorted(known))}")
