"""`create_deep_agent`: an `Agent` with the built-in list of middleware, and subagents built the same way."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, structs

from .agent import Agent
from .backends import StateBackend
from .checkpoint import Durability, Redact
from .checks import checked
from .errors import ConfigError
from .middleware import (
    SUMMARIES,
    Approval,
    EnvironmentMiddleware,
    FilesystemMiddleware,
    HumanInTheLoopMiddleware,
    MemoryMiddleware,
    Named,
    OffloadMiddleware,
    PatchToolCallsMiddleware,
    PromptCachingMiddleware,
    Rule,
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
from .spec import AgentSpec, Runnable
from .state import Limits
from .tools import R, Tool, as_tool

if TYPE_CHECKING:
    from .backends import ShellBackend
    from .middleware import PermissionsMiddleware, ResponseFormat

GENERAL_PURPOSE = Subagent(
    name="general-purpose",
    description="anything that takes many steps or much reading; it has your tools but cannot delegate",
    system_prompt="You do one task for another agent. It sees nothing but your last message, and the user does not see "
    "that: put the whole answer there, in the form that was asked for, with paths and facts that you have checked "
    "instead of a report of what you did. Change files only if the task says so. If it cannot be done, say what you "
    "tried and what is in the way.",
)
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
    interrupt_on: Mapping[str, bool | Approval] | None = None,
    permissions: Sequence[Rule] = (),
    approve_plan: bool = False,
    middleware: Sequence[Middleware] = (),
    limits: Limits | None = None,
    checkpointer: Store | None = None,
    durability: Durability = "turn",
    name: str = "main",
    version: str = "",
    continues: Iterable[str] = (),
    redact: Redact | None = None,
    response_format: "type[R] | ResponseFormat[R] | Mapping[str, Any] | None" = None,
    without: Sequence[str] = (),
) -> Agent[R]:
    """Make an agent that plans todos, works on files and delegates to subagents.

    *model* is a string such as `anthropic:claude-sonnet-4-6`, or a `Model`; subagents use it unless they name their
    own. *tools* are functions or `Tool`s. *backend* keeps the files, by default in the thread's own state; if it runs
    commands, as `LocalShellBackend` does, there is the tool `execute`. *memory* lists files, such as `AGENTS.md`, that
    the prompt always shows, and *skills* folders whose skills it describes. A subagent `general-purpose` is added, with
    the same tools and skills, unless *subagents* holds one of that name. *without* names built-in tools, or
    `general-purpose`, that neither this agent nor those below have. Calls wait for a person (`Agent.resume`) where
    *interrupt_on* or *permissions* say so, in all runs below too; with *approve_plan* a thread's first plan does.
    *middleware* follows the built-in list, in front of these guards, or takes the place of one of its class.

    Raises:
        ConfigError: a model, a tool or a name is not usable.
    """
    parts: dict[str, Any] = {"system_prompt": system_prompt, "memory": memory, "skills": skills, "without": without}
    parts |= {"interrupt_on": interrupt_on, "permissions": permissions, "response_format": response_format}
    parts["subagents"] = [as_subagent(subagent, f"subagents[{place}]") for place, subagent in enumerate(subagents)]
    parts["middleware"] = (*middleware, *_plan_approval(approve_plan, without))
    agent = _built(Subagent(name=name, description="", **parts), model, tools, backend or StateBackend(), limits)
    agent.spec = structs.replace(agent.spec, about={"version": version}, continues=frozenset(continues))
    agent.checkpointer, agent.durability, agent.redact = checkpointer, durability, redact
    return agent


def _built(
    main: Subagent,
    model: str | Model,
    tools: Iterable[Tool | Callable[..., Any]],
    files: Backend,
    limits: Limits | None,
) -> Agent[Any]:
    model = resolve(model)
    defaults = _Defaults(model, tuple(map(as_tool, tools)), files, limits, _usual(model, files))
    agent, known = defaults.build(main, _below(main, defaults.usual))
    _check_profile(model, known)
    return agent


def _plan_approval(wanted: bool, without: Sequence[str]) -> list[Middleware]:
    if not wanted:
        return []
    if "write_todos" in without:
        raise ConfigError("approve_plan waits for 'write_todos', which `without` leaves out; drop one")
    from .middleware import PlanApprovalMiddleware  # Guards are loaded by those who use them.

    return [PlanApprovalMiddleware()]


def _below(main: Subagent, usual: Sequence[Middleware]) -> Sequence[Subagent]:
    """Return the subagents of *main*, after `general-purpose`, unless one has that name, or *main* leaves it out.

    It has the main agent's skills, and its middleware that replaces a *usual* one.
    """
    names = {subagent.name for subagent in main.subagents}
    if {GENERAL_PURPOSE.name, "task"} & {*(main.without or ())} or GENERAL_PURPOSE.name in names:
        return main.subagents
    shared = [part for part in main.middleware if isinstance(part, (*map(type, usual), SkillsMiddleware))]
    general = GENERAL_PURPOSE
    if main.skills or shared:
        general = structs.replace(general, skills=main.skills, middleware=shared)
    return [general, *main.subagents]


class _Defaults(Struct, frozen=True):
    """The settings that an agent passes on to its subagents, unless they have their own."""

    model: Model
    tools: tuple[Tool | Callable[..., Any], ...]
    files: Backend
    limits: Limits | None
    usual: tuple[Middleware, ...]
    """The built-in middleware that all agents with this model share."""
    interrupt_on: dict[str, bool | Approval] = {}
    permissions: "PermissionsMiddleware | None" = None
    """Holds the rules of this agent and of those above, if there are any."""
    guards: tuple[Middleware, ...] = ()
    """Permissions and approvals of this agent, if it has any."""
    guards_above: tuple[Middleware, ...] = ()
    """Those of the agents above, which this agent's own already contain, or change."""
    without: frozenset[str] = frozenset()
    """The built-in tools that this agent has not."""
    budgets: tuple[tuple[str, Limits], ...] = ()
    """The limits of the agents above, by name. Each bounds the spending of all agents below it."""

    def of(self, subagent: Subagent) -> "_Defaults":
        """Return the settings of *subagent*: its own, and these for all others."""
        interrupt_on = self.interrupt_on | dict(subagent.interrupt_on or {})
        permissions = self.permissions if subagent.inherit_permissions else None
        if subagent.permissions:
            from .middleware import PermissionsMiddleware

            permissions = PermissionsMiddleware(subagent.permissions, self.files, within=permissions)
        approvals = HumanInTheLoopMiddleware(interrupt_on) if any(interrupt_on.values()) else None
        model = resolve(subagent.model) if subagent.model else self.model
        without = self.without
        if subagent.without is not None:
            without = _checked_without(subagent) if subagent.without else frozenset[str]()
        same = model is self.model and without == self.without
        return _Defaults(
            model,
            self.tools if subagent.tools is None else tuple(map(as_tool, subagent.tools)),
            self.files,
            subagent.limits or self.limits,
            self.usual if same else _usual(model, self.files),
            interrupt_on,
            permissions,
            tuple(guard for guard in (permissions, approvals) if guard is not None),
            (*self.guards_above, *self.guards),
            without,
            (*self.budgets, (subagent.name, subagent.limits or self.limits or Limits())),
        )

    def build(self, subagent: Subagent, below: Iterable[Subagent]) -> tuple[Agent, frozenset[str]]:
        """Build the agent that *subagent* describes, and those *below* it. Return it, and the names of all tools."""
        for shared in subagent.share:
            if shared in NEVER_SHARED:
                problem = f"subagent {subagent.name!r} shares {shared!r}"
                raise ConfigError(f"{problem}; messages, todos and summaries cannot be shared")
        own = self.of(subagent)
        children = [(child, *own.child(child)) for child in below]
        stack = own.middleware(subagent, _delegation(children) if children else ())
        agent = Agent(
            own.model,
            own.tools,
            subagent.system_prompt,
            stack,
            limits=own.limits,
            name=subagent.name,
            response_format=subagent.response_format,
        )
        # The built-in list is not inherited: each agent has it, and its hooks would run twice in a subagent. Guards are
        # inherited by other agents that a tool runs. Those from above are listed so that this agent does not inherit
        # them again.
        inherited = (*inheritable(subagent.middleware), *own.guards, *own.guards_above)
        agent.spec = structs.replace(agent.spec, share=tuple(subagent.share), inherited=inherited)
        for child, built, _ in children:
            if child.fork:
                built.parent = agent
        for owner, limits in self.budgets:
            check_prices(agent.spec, limits, owner)
        known = frozenset[str]().union(agent.spec.tools, *(names for *_, names in children))
        _check_names(subagent, known)
        if subagent.permissions:
            from .permissions import check_operations  # Guards are loaded by those who use them.

            check_operations(subagent.permissions, known, agent.spec.tools, f"agent {subagent.name!r}")
        if subagent.model:
            _check_profile(own.model, known)
        return agent, known

    def child(self, subagent: Subagent) -> tuple[Any, frozenset[str]]:
        """Return the agent of a subagent of this one, built if there is none yet, and the names of all its tools."""
        if subagent.background:
            self._check_background(subagent)
        if subagent.fork:
            from .middleware import Fork  # Few agents have one.

            return Fork(subagent.name, subagent.limits), frozenset()
        if subagent.agent is None:
            return self.build(subagent, subagent.subagents)
        spec: AgentSpec = subagent.agent.spec
        for owner, limits in self.budgets:
            check_prices(spec, limits, owner)
        return Named(structs.replace(spec, name=subagent.name, share=tuple(subagent.share))), frozenset(spec.tools)

    def _check_background(self, subagent: Subagent) -> None:
        """Check that a subagent of this agent may work in the background."""
        *above, parent = [name for name, _ in self.budgets]
        if above:
            problem = f"subagent {subagent.name!r} is to work in the background of {parent!r}, which ends with its call"
            raise ConfigError(f"{problem}; only the main agent has such subagents")
        if subagent.name == parent:
            raise ConfigError(f"subagent {subagent.name!r} has the name of the main agent; give it another one")

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
        if self.without:
            from .middleware import trimmed  # Few agents leave anything out.

            usual = trimmed(usual, self.without, given)
        own = [next((part for part in given if isinstance(part, type(built))), built) for built in usual]
        return [*own, *(part for part in given if part not in own), *self.guards]


def _checked_without(subagent: Subagent) -> frozenset[str]:
    """Return what a subagent is to do without."""
    assert subagent.without is not None
    from .middleware import checked_names  # Few agents leave anything out.

    if "task" in subagent.without and any(not child.background for child in subagent.subagents):
        raise ConfigError(f"agent {subagent.name!r} has subagents and is without 'task', which runs them; drop one")
    if "read_file" in subagent.without and subagent.skills:
        raise ConfigError(f"agent {subagent.name!r} has skills and is without 'read_file', which reads them; drop one")
    return checked_names(subagent.without, subagent.name)


def _delegation(children: Sequence[tuple[Subagent, Runnable, object]]) -> list[Middleware]:
    """Return the middleware that gives an agent its subagents."""
    asked: list[tuple[Subagent, Runnable]] = []
    background: list[tuple[Subagent, Runnable]] = []
    for child, agent, _ in children:
        (background if child.background else asked).append((child, agent))
    parts: list[Middleware] = [SubAgentMiddleware(asked)] if asked else []
    if background:
        from .middleware import AsyncSubAgentMiddleware  # Few agents have one.

        parts.append(AsyncSubAgentMiddleware(background))
    return parts


def _usual(model: Model, files: Backend) -> tuple[Middleware, ...]:
    # None of these knows its agent, so that one of each serves all agents, and a service builds an agent a request.
    return (
        TodoListMiddleware(),
        FilesystemMiddleware(files),
        OffloadMiddleware(files),
        *_shell(files),
        SummarizationMiddleware(model, files),
        PromptCachingMiddleware(),
        PatchToolCallsMiddleware(),
        EnvironmentMiddleware(),
    )


def _shell(files: Backend) -> Sequence[Middleware]:
    """Return the middleware that runs commands, if *files* can: decided here, once, and never changed."""
    if not hasattr(files, "execute"):
        return ()
    from .middleware import ShellMiddleware  # Few agents have a shell.

    return (ShellMiddleware(cast("ShellBackend", files)),)


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
