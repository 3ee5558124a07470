"""Subagents: a tool that runs another agent, with fresh messages and a log of its own."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from msgspec import Struct, structs

from ..access import Access
from ..checks import UserWritten, check_fields, checked
from ..context import ToolContext
from ..errors import ConfigError, ToolError
from ..export import as_plain
from ..kinds import having, remedy, shown
from ..messages import Input, ToolMessage, ToolResult
from ..parameters import Alias
from ..plain_json import to_json
from ..ports import Middleware, Model
from ..spec import AgentSpec, Runnable
from ..state import Limits
from ..tools import Tool
from ..turn import Turn
from .approvals import Approval
from .output import as_response_format

if TYPE_CHECKING:
    from ..permissions import Rule
else:  # Few agents have rules: whoever writes one has loaded its class.
    Rule = Annotated[
        Any, having("strictness", "a rule: Allow('read', '/src/**'), Ask('write') or Deny('execute', 'rm')")
    ]

PROMPT = """\
Delegate work that is large, separate or noisy (long searches, much reading) with `task`, several tasks in one reply \
when they do not depend on each other; do small steps yourself. The result stays yours to answer for: check what \
matters in a subagent's answer before you build on it."""

DESCRIPTION = """\
Give a self-contained piece of work to a subagent and get its final answer. The answer comes to you alone: tell the \
user what matters of it.

*description* is all that the subagent knows. It shares your files, not this conversation or your todos. Write the \
goal, what is known (facts, paths, limits), whether to change files or only to report, and what to answer and how \
long. Each call starts a new subagent, which remembers no earlier one; if it answers with a question, call again with \
the answer and all else that is needed.

Not for one or two quick calls: make those yourself. Several calls in one reply run in parallel, so let no two of \
them change the same file. If it fails, the error says why: give a clearer or smaller task, or do it yourself. \
subagent_type is one of:
"""

FRESH = "Each call starts a new subagent, which remembers no earlier one;"
FRESH_OR_NOT = (
    "Without `id` a call starts a new subagent, which remembers no earlier one; with the `id` at the end of an earlier "
    "answer that subagent goes on, knowing all that it has read and said;"
)

# Other names, which models know from other tools of this kind. Some give a short and a full description.
WORK = Annotated[str, Alias("prompt", "task", "instruction", "instructions", joined=True)]
TYPE_NAMES = Alias("agent", "agent_name", "agent_type", "subagent", "subagent_name", "name", "type")

ID = Annotated[str, Alias("task_id", "session_id", "subagent_id")]


@remedy("write Subagent(name=..., description=...), with agent=... around an agent that you have built")
class Subagent(UserWritten, frozen=True, kw_only=True):
    """A kind of subagent that an agent may delegate to.

    It has its own system prompt and never sees its parent's messages or todos. Its fields describe an agent that is
    built like its parent; or *agent* is one that you have built.

    Raises:
        ConfigError: a field is not usable, or two of them contradict each other.
    """

    name: str
    description: str
    """Tells the delegating model what this subagent is for."""
    system_prompt: str = ""
    tools: Sequence[Tool | Callable[..., Any]] | None = None
    """None: the *tools* of the parent."""
    model: str | Model | None = None
    """None: the model of the parent."""
    middleware: Sequence[Middleware] = ()
    memory: Sequence[str] = ()
    """Files that its prompt always shows, such as `AGENTS.md`."""
    skills: Sequence[str] = ()
    """Folders of skills that its prompt describes."""
    limits: Limits | None = None
    """None: the limits of the parent."""
    subagents: Sequence["Subagent"] = ()
    """The subagents that it may delegate to in turn."""
    interrupt_on: Mapping[str, bool | Approval] | None = None
    """Changes to the parent's `interrupt_on`: True or an `Approval` makes calls of a tool wait for a person, False lets
    them run. None: no changes.
    """
    permissions: Sequence[Rule] = ()
    """Rules beside those of the parent; of both, the stricter verdict counts."""
    inherit_permissions: bool = True
    """False: the rules of the parent do not hold here, only its own do."""
    response_format: Any = None
    """The form of its answer, which the delegating model reads as JSON; as for `Agent`. None: text."""
    share: Sequence[str] = ()
    """Owners of notes; each run starts with a copy of their notes. Files are always shared, messages and todos never.
    """
    without: Sequence[str] | None = None
    """The built-in tools that it has not, as for `create_deep_agent`. None: those that its parent has not."""
    agent: None | Annotated[Any, having("spec", "an `Agent`")] = None  # noqa: RUF036  Most have none: it is tried first.
    """An agent to run as it is, under this name. It works in its parent's thread, so it uses no store of its own."""
    background: bool = False
    """True: it is not for `task`, but works beside the main agent, in a thread of its own. See
    `AsyncSubAgentMiddleware`.
    """
    persistent: bool = False
    """True: its answers end with an id, and a later `task` with that id goes on with its messages."""
    fork: bool = False
    """True: it is the parent once more. It has the same prompt, tools and model, begins with the parent's messages, so
    that the provider reads them from its cache, and cannot delegate. Only *limits* may be its own.
    """

    def __post_init__(self) -> None:
        check_fields(self)
        if self.agent is not None:
            self._check_alone("agent", "share background persistent", "build it into the agent")
        if self.fork:
            self._check_alone("fork", "limits persistent", "drop one, as a fork takes all else from its parent")
        if self.background and self.persistent:
            problem = f"subagent {self.name!r} is both background and persistent"
            raise ConfigError(f"{problem}; leave persistent out, as `update_task` always goes on with a task")

    def _check_alone(self, field: str, besides: str, instead: str) -> None:
        """Check that besides *field* only the fields *besides* are given."""
        for other in structs.fields(type(self)):
            given = getattr(self, other.name)
            if other.name not in ("name", "description", field, *besides.split()) and given != other.default:
                raise ConfigError(f"subagent {self.name!r} has both {field}= and {other.name}=; {instead}")


class Named(Struct, frozen=True):
    """An agent as it works for another one: under the name that it has there."""

    spec: AgentSpec


def as_subagent(about: Subagent | Mapping[str, Any], place: str) -> Subagent:
    """Return *about* itself, or the `Subagent` described by a dict in deepagents' format.

    Its keys are the fields. `prompt` is another name for `system_prompt`, `runnable` for `agent`, and `mode` may be
    `isolated` or `fork`; `subagents` may contain dicts in turn. *place* names the dict in errors.

    Raises:
        ConfigError: a key is unknown or missing, or a value is wrong.
    """
    if isinstance(about, Subagent):
        return about
    given, known = dict(about), Subagent.__struct_fields__
    for theirs, ours in (("prompt", "system_prompt"), ("runnable", "agent")):
        if theirs in given and ours not in given:
            given[ours] = given.pop(theirs)
    if given.get("mode") in ("isolated", "fork") and "fork" not in given:
        given["fork"] = given.pop("mode") == "fork"
    for key in given:
        if key not in known:
            from ..mistakes import did_you_mean

            meant = did_you_mean(key, known, f"; the keys are {', '.join(known)}")
            raise ConfigError(f"{place}: {shown(key)} is not a key of a subagent{meant}")
    for key in ("name", "description"):
        if key not in given:
            raise ConfigError(f"{place} must have a {key!r}, which is missing from {shown(given)}")
    if isinstance(children := given.get("subagents"), list | tuple):
        given["subagents"] = [
            as_subagent(cast(Mapping[str, Any], child), f"{place}.subagents[{number}]")
            if isinstance(child, Mapping)
            else child
            for number, child in enumerate(cast(Sequence[Any], children))
        ]
    return Subagent(**given)


class SubAgentMiddleware(Middleware):
    """Gives the agent the tool `task`. Each of *agents* is a `Subagent` and the agent that was built from it."""

    prompt = PROMPT

    @checked
    def __init__(self, agents: Iterable[tuple[Subagent, Runnable]]) -> None:
        self._agents: dict[str, tuple[Subagent, Runnable]] = {}
        lines, persistent = list[str](), False
        for about, agent in agents:
            if about.name in self._agents:
                raise ConfigError(f"two subagents are named {about.name!r}; give one of them another name")
            self._agents[about.name] = about, agent
            lines.append(line_of(about))
            persistent = persistent or about.persistent
        self.subagents: tuple[str, ...] = tuple(self._agents)
        words = DESCRIPTION.replace(FRESH, FRESH_OR_NOT) if persistent else DESCRIPTION
        function = self._task_with_id() if persistent else self._task()
        self.tools: Sequence[Tool] = (
            Tool(function, description=words + "\n".join(lines), access=task_access, thread_only=True),
        )

    def _task(self) -> Callable[..., Any]:
        """Return the function of the tool. Its schema lists the names of the agents, so it is made for them."""

        async def task(description: WORK, subagent_type: str, ctx: ToolContext) -> ToolResult:
            return await self._delegate(ctx, description, subagent_type)

        return self._with_names(task)

    def _task_with_id(self) -> Callable[..., Any]:
        """Return the function of the tool if an agent is persistent."""

        async def task(description: WORK, subagent_type: str, ctx: ToolContext, id: ID = "") -> ToolResult:
            return await self._delegate(ctx, description, subagent_type, id)

        return self._with_names(task)

    def _with_names(self, task: Callable[..., Any]) -> Callable[..., Any]:
        names: Any = Literal[self.subagents] if self.subagents else str
        task.__annotations__["subagent_type"] = Annotated[names, TYPE_NAMES]
        return task

    async def _delegate(self, ctx: ToolContext, description: str, name: str, id: str = "") -> ToolResult:
        if not description.strip():
            raise ToolError("the description is empty; say what the subagent is to do and what it is to answer")
        about, agent = self._agents[name]
        work: Input = description
        if about.fork and not id:
            from .forking import forked  # Few agents have one.

            work = forked(ctx, description)
        if not about.persistent and not id:
            return report(name, await ctx.run(agent, work))
        from . import continuing  # Most subagents begin anew each time.

        if id:
            work = await continuing.continued(ctx, name, id, description)
        result = report(name, await ctx.run(agent, work))
        return continuing.with_id(ctx, name, id, result) if about.persistent else result


def line_of(about: Subagent) -> str:
    """Return the line by which the delegating model chooses a subagent."""
    return f"- {about.name}: {about.description}{_form(about)}"


def task_access(args: Mapping[str, Any]) -> tuple[Access, ...]:
    return (Access("task", args.get("subagent_type", "")),)


def _form(about: Subagent) -> str:
    """Return what the delegating model reads of the form of the answer."""
    if about.response_format is None:
        return ""
    return f"; it answers with JSON of this shape: {as_response_format(about.response_format).shape}"


def report(name: str, turn: Turn) -> ToolResult:
    """Return what the parent reads of a child's turn: its last words, and why it did not end well."""
    said = f" It said last: {turn.text}" if turn.text else ""
    match turn.status:
        case "ended" if turn.output is not None:
            return ToolResult(to_json(as_plain(turn.output)).decode())
        case "ended" if isinstance(last := turn.messages[-1], ToolMessage):  # A tool has ended the run: its result.
            return ToolResult(last.content, last.is_error)
        case "ended" if turn.text:
            return ToolResult(turn.text)
        case "ended":
            return ToolResult(f"subagent {name} ended without a word; look at its files, or ask again", is_error=True)
        case "escalated":
            return ToolResult(f"subagent {name} asks: {turn.question}")
        case "exhausted":
            why = f" ({turn.error})" if turn.error else ""
            return ToolResult(f"subagent {name} stopped at its limit of {turn.reason}{why}.{said}", is_error=True)
        case _:
            return ToolResult(f"subagent {name} {turn.status}: {turn.error or turn.reason}.{said}", is_error=True)
