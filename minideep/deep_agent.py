"""`create_deep_agent`: the usual list of middleware on an `Agent`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from .agent import Agent
from .backends import StateBackend
from .checkpoint.journal import Durability
from .checkpoint.redaction import Redact
from .checks import checked
from .errors import ConfigError
from .middleware import (
    SUMMARIES,
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
from .models.recovering import Recovering
from .ports import Backend, Middleware, Model, Store
from .runtime.spec import check_prices, inheritable
from .state import Limits
from .tools import Tool

GENERAL_PURPOSE = Subagent(
    name="general-purpose",
    description="anything that takes many steps or much reading; it has your tools, and answers once",
    system_prompt="You do one task for another agent, which sees nothing but your last message: put the whole answer "
    "there, in the form that was asked for, with paths and facts instead of a report of what you did.",
)
SHARED = (TodoListMiddleware, FilesystemMiddleware, OffloadMiddleware, SummarizationMiddleware, PromptCachingMiddleware)
"""Built-in parts that `general-purpose` has as the main agent has them."""
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
) -> Agent:
    """An agent that plans todos, works on files and delegates to subagents.

    *model* is a string such as `anthropic:claude-sonnet-4-6`, or a `Model`; subagents use it unless they name their
    own. *tools* are functions or `Tool`s. *backend* is where files are; by default the thread's own state. *memory*
    are files such as `AGENTS.md` that the prompt always shows, *skills* folders of skills that it names. There is
    always a `general-purpose` subagent, with the same tools and skills, unless *subagents* holds one of that name.
    Calls of the tools that *interrupt_on* maps to True wait for a person (`Agent.resume`), also in subagents, unless
    one says otherwise. *durability*, *version*, *continues* and *redact* are as for `Agent`.

    *middleware* comes after the built-in: todos, files, offload, subagents, summarization, caching, patching, skills,
    memory; and before the approvals. One of a built-in class, or a subclass, takes that one's place.

    Raises:
        ConfigError: a model, a tool or a name is not usable.
    """
    shown: dict[str, Any] = {"system_prompt": system_prompt, "memory": memory, "skills": skills}
    shown |= {"middleware": middleware, "interrupt_on": interrupt_on}
    given = [as_subagent(about, f"subagents[{place}]") for place, about in enumerate(subagents)]
    children = _with_general(given, skills, middleware)
    kit = _Kit(resolve(model), tuple(tools), backend or StateBackend(), limits)
    built = kit.build(Subagent(name=name, description="", subagents=children, **shown))
    _check_profile(kit.model, built.known)
    agent = built.agent
    agent.spec = structs.replace(agent.spec, about={"version": version}, continues=frozenset(continues))
    agent.checkpointer, agent.durability, agent.redact = checkpointer, durability, redact
    return agent


def _with_general(
    subagents: Sequence[Subagent], skills: Sequence[str], middleware: Sequence[Middleware]
) -> Sequence[Subagent]:
    """*subagents*, and one for everything, unless they hold one of its name: with the main agent's skills, and with
    what takes the place of a built-in there.
    """
    if any(about.name == GENERAL_PURPOSE.name for about in subagents):
        return subagents
    own = [part for part in middleware if isinstance(part, SHARED)]
    return [structs.replace(GENERAL_PURPOSE, skills=skills, middleware=own), *subagents]


class _Built(Struct, frozen=True):
    agent: Agent
    known: frozenset[str]
    """The names of its tools and of all tools below it."""


class _Kit(Struct, frozen=True):
    """What an agent hands on to its subagents, unless they say otherwise."""

    model: Model
    tools: tuple[Tool | Callable[..., Any], ...]
    files: Backend
    limits: Limits | None
    interrupt_on: dict[str, bool] = {}
    budgets: tuple[tuple[str, Limits], ...] = ()
    """The limits of the agents above, with their names: what they bound is what all below them spends."""

    def of(self, about: Subagent) -> "_Kit":
        """The kit of the agent that *about* describes, with what it does not say taken from its parent."""
        return _Kit(
            resolve(about.model) if about.model else self.model,
            self.tools if about.tools is None else tuple(about.tools),
            self.files,
            about.limits or self.limits,
            self.interrupt_on | dict(about.interrupt_on or {}),
            (*self.budgets, (about.name, about.limits or self.limits or Limits())),
        )

    def build(self, about: Subagent) -> _Built:
        """The agent that *about* describes, and those below it."""
        for shared in about.share:
            if shared in NEVER_SHARED:
                raise ConfigError(
                    f"subagent {about.name!r} shares {shared!r}; messages, todos and what is shown of them never are"
                )
        kit = self.of(about)
        children = [(child, kit.build(child)) for child in about.subagents]
        delegation = [SubAgentMiddleware((child, built.agent) for child, built in children)] if children else []
        stack = kit.middleware(about, delegation)
        agent = Agent(Recovering(kit.model), kit.tools, about.system_prompt, stack, limits=kit.limits, name=about.name)
        # The usual list is put together for each agent anew; what was given besides holds in all runs below.
        agent.spec = structs.replace(agent.spec, share=tuple(about.share), inherited=inheritable(about.middleware))
        for owner, limits in self.budgets:
            check_prices(agent.spec, limits, owner)
        known = frozenset(agent.spec.tools).union(*(built.known for _, built in children))
        _check_names(about, known)
        if about.model:
            _check_profile(kit.model, known)
        return _Built(agent, known)

    def middleware(self, about: Subagent, delegation: Sequence[Middleware]) -> list[Middleware]:
        """The usual list in its order, and what *about* brings: in the place of a built-in of its class, or behind."""
        files = self.files
        usual: list[Middleware] = [
            TodoListMiddleware(),
            FilesystemMiddleware(files),
            OffloadMiddleware(files),
            *delegation,
            SummarizationMiddleware(self.model, files),
            PromptCachingMiddleware(),
            PatchToolCallsMiddleware(),
            *([SkillsMiddleware(about.skills, files)] if about.skills else []),
            *([MemoryMiddleware(about.memory, files)] if about.memory else []),
        ]
        own = [next((part for part in about.middleware if isinstance(part, type(built))), built) for built in usual]
        return own + [part for part in about.middleware if part not in own] + self.approvals()

    def approvals(self) -> list[Middleware]:
        return [HumanInTheLoopMiddleware(self.interrupt_on)] if any(self.interrupt_on.values()) else []


def _check_names(about: Subagent, known: frozenset[str]) -> None:
    for name in about.interrupt_on or ():
        if name not in known:
            problem = f"agent {about.name!r}: interrupt_on names {name!r}, which neither it nor a subagent below it has"
            raise ConfigError(f"{problem}; there is {', '.join(sorted(known))}")


def _check_profile(model: Model, known: frozenset[str]) -> None:
    for name in profile_of(model).descriptions:
        if name not in known:
            problem = f"model {model.name!r}: its profile describes {name!r}, which no agent that uses it has"
            raise ConfigError(f"{problem}; there is {', '.join(sorted(known))}")
