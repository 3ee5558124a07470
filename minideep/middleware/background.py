"""Background tasks: subagents that work on beside the agent that began them, each in a thread of its own."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeGuard

from msgspec import structs

from ..access import no_access
from ..checks import checked
from ..context import ToolContext
from ..errors import ConfigError, ToolError
from ..events import Noted
from ..kinds import shown
from ..messages import ToolResult, UserMessage
from ..parameters import Alias
from ..ports import Middleware, Request
from ..runtime import Jobs, job_id, thread_of_job
from ..spec import Runnable
from ..tools import Tool
from .subagents import TYPE_NAMES, WORK, Named, Subagent, line_of, report, task_access

OWNER = "async_subagent_jobs"
"""The owner of the notes about the tasks of a thread: by the id of the task, what `_note` makes."""
FIELDS = {"agent", "description", "call_id", "status"}
OPEN = ("running", "paused", "interrupted")
"""The statuses that may change without the agent's doing."""
HEARS = 60.0
"""Seconds that a task has to hear a message: it does before its next request to its model."""
SHOWN = 50
"""Tasks that a list shows, the newest ones."""

PROMPT = """\
Long work that the user need not wait for goes to `start_task`: it returns at once, and a notice tells you when the \
task has ended. Until then do other work, or end your turn and say what still runs; do not check again and again."""

START = """\
Begin a task in the background and get its id at once. *description* is all that it knows: it sees nothing of this \
conversation, nor of files that are kept with it. Write the goal, facts, and what to answer: its answer is all that \
you get. When it has ended you are given a notice; then call `check_task`. subagent_type is one of:
"""

NEWS = {
    "ended": "has ended: read its answer with `check_task`",
    "escalated": "asks a question: read it with `check_task`, answer with `update_task`",
    "paused": "waits until a person decides about a call, in thread {thread!r}: tell the user",
    "interrupted": "was cut short: `update_task` without a message goes on with it",
    "exhausted": "has reached a limit: see `check_task`; `update_task` without a message goes on with it",
}
"""What an agent is told of a task, by its status. All others have failed, or were cancelled."""
OTHER_NEWS = "has stopped ({status}): see `check_task`"
_Id = Annotated[str, Alias("task_id", "job_id", "task")]


class AsyncSubAgentMiddleware(Middleware):
    """Gives the agent the tools `start_task`, `check_task`, `update_task`, `cancel_task` and `list_tasks`.

    Each of *agents* is a `Subagent` and the agent that was built from it. A task is a thread of its own, in the same
    store, named `<thread>/bg/<id>`; it runs for as long as the block `async with agent:`. The notes of the owner
    `async_subagent_jobs` tell of the tasks of a thread: `{"agent", "description", "call_id", "status"}` by id, where
    *status* is what the agent knows.
    """

    prompt = PROMPT
    inherit: bool | None = False  # A subagent ends with its call, so nobody would hear of its tasks.

    @checked
    def __init__(self, agents: Iterable[tuple[Subagent, Runnable]]) -> None:
        self.background_agents: dict[str, Runnable] = {}
        """The agents by the names under which they work. Whoever turns to the thread of a task finds its agent here."""
        lines: list[str] = []
        for about, agent in agents:
            if about.name in self.background_agents:
                raise ConfigError(f"two subagents are named {about.name!r}; give one of them another name")
            self.background_agents[about.name] = Named(structs.replace(agent.spec, name=about.name))
            lines.append(line_of(about))
        self.subagents: tuple[str, ...] = tuple(self.background_agents)
        rest = (self.check_task, self.update_task, self.cancel_task, self.list_tasks)
        self.tools: Sequence[Tool] = (
            Tool(self._start(), description=START + "\n".join(lines), access=task_access),
            *(Tool(function, access=no_access) for function in rest),
        )

    def _start(self) -> Callable[..., Any]:
        """Return the function of the tool `start_task`. Its schema lists the names of the agents."""

        async def start_task(description: WORK, subagent_type: str, ctx: ToolContext) -> str:
            if not description.strip():
                raise ToolError("the description is empty; say what the task is to do and what it is to answer")
            jobs, job = Jobs(), job_id(ctx)
            jobs.check_may_begin()
            jobs.count(job)
            _note(ctx, job, {"agent": subagent_type, "description": description[:200], "call_id": ctx.call_id})
            await jobs.start(self.background_agents[subagent_type], description, thread_of_job(ctx.thread_id, job), job)
            return f"task {job} ({subagent_type}) has begun"

        names: Any = Literal[self.subagents] if self.subagents else str
        start_task.__annotations__["subagent_type"] = Annotated[names, TYPE_NAMES]
        return start_task

    async def check_task(self, id: _Id, ctx: ToolContext) -> ToolResult:
        """Read how a task is and, once it has stopped, its answer."""
        jobs, about = Jobs(), _known(ctx, id)
        status = await _status(ctx, jobs, id, about)
        _note(ctx, id, about, status)
        name, thread = about["agent"], thread_of_job(ctx.thread_id, id)
        match status:
            case "running":
                return ToolResult(f"task {id} ({name}) is running; you will be told when it ends")
            case "lost":
                return ToolResult(f"task {id} ({name}) has no thread here; start it again", is_error=True)
            case "interrupted" | "paused":
                return ToolResult(f"task {id} ({name}) {_news(status, thread)}")
            case _:
                return report(name, await jobs.last_turn(self._agent(about), thread))

    async def update_task(self, id: _Id, ctx: ToolContext, message: str = "") -> str:
        """Give a task a message: more to do, a change, an answer. A running one hears it with its next step; one that
        has stopped goes on with it. Without `message`, a task that was cut short or has failed goes on.
        """
        jobs, about = Jobs(), _known(ctx, id)
        status, thread = await _status(ctx, jobs, id, about), thread_of_job(ctx.thread_id, id)
        if status == "running" and message.strip() and await _said(jobs, thread, message):
            return f"task {id} has the message"
        if status == "running":  # It has ended meanwhile, unless there was nothing to say.
            status = await _status(ctx, jobs, id, about)
        _check_goes_on(id, status, message, thread)
        agent = self._agent(about)
        _note(ctx, id, about)
        if message.strip() and status != "interrupted":
            await jobs.start(agent, message, thread, job_id(ctx))
            return f"task {id} goes on with the message"
        await jobs.resume(agent, thread)
        if message.strip() and not await _said(jobs, thread, message):
            return f"task {id} has gone on and ended without the message; give it again if it still matters"
        return f"task {id} goes on"

    async def cancel_task(self, id: _Id, ctx: ToolContext) -> str:
        """Stop a task that is no longer needed. What it has done stays."""
        jobs, about = Jobs(), _known(ctx, id)
        cancelled = await jobs.cancel(thread_of_job(ctx.thread_id, id))
        status = "cancelled" if cancelled else await _status(ctx, jobs, id, about)
        if not cancelled and status not in OPEN:
            return f"task {id} had stopped before: {status}"
        _note(ctx, id, about, "cancelled")
        return f"task {id} is cancelled"

    async def list_tasks(self, ctx: ToolContext) -> str:
        """List the tasks: id, subagent, status, and how the description begins."""
        jobs, known, lines = Jobs(), _notes(ctx), list[str]()
        for id in [*known][-SHOWN:]:
            about = known[id]
            status = await _status(ctx, jobs, id, about)
            lines.append(f"{id} {about['agent']} {status}: {' '.join(about['description'].split())[:80]}")
        more = [f"and {len(known) - SHOWN} older ones"] if len(known) > SHOWN else []
        return "\n".join([*lines, *more]) or "no tasks were begun"

    def _agent(self, about: Mapping[str, Any]) -> Runnable:
        """Return the agent of a task.

        Raises:
            ToolError: it is gone, after a deploy.
        """
        if (agent := self.background_agents.get(about["agent"])) is None:
            raise ToolError(f"there is no subagent {about['agent']!r} any more, so nobody can go on with its tasks")
        return agent

    # ---- what the agent is told

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        if not (news := await self._all_news(ctx)):
            return request
        return structs.replace(request, messages=(*request.messages, Jobs().tell(news)))

    async def before_finish(self, ctx: ToolContext) -> UserMessage | None:
        """Let a turn that would end go on if a task has ended during its last request."""
        state, limits = ctx.state, ctx.state.limits
        at_limit = limits.steps is not None and state.step >= limits.steps
        if state.stop != "done" or state.ends or at_limit or ctx.spent.reached(limits):
            return None  # The next turn begins with it.
        if news := await self._all_news(ctx):
            Jobs().tell_later(news)
        return None

    async def _all_news(self, ctx: ToolContext) -> str:
        """Return what the agent does not know yet of its tasks, and note that it does now."""
        lines: list[str] = []
        for id, about in _notes(ctx).items():
            if about["status"] in OPEN:
                status = await _status(ctx, Jobs(), id, about)
                # A thread that is not here may be that of a replay, or of a fork: nothing has happened.
                if status not in (about["status"], "lost"):
                    _note(ctx, id, about, status)
                    if status != "running":
                        told = _news(status, thread_of_job(ctx.thread_id, id))
                        lines.append(f"Task {id} ({about['agent']}) {told}.")
        return "\n".join(["[A notice of the system, not of the user]", *lines]) if lines else ""


def _news(status: str, thread: str) -> str:
    return NEWS.get(status, OTHER_NEWS).format(status=status, thread=thread)


async def _said(jobs: Jobs, thread: str, message: str) -> bool:
    """Say a message to a running task. Return whether it has heard it: otherwise its turn has ended."""
    try:
        async with asyncio.timeout(HEARS):
            return await jobs.say(thread, message)
    except TimeoutError:
        problem = f"the task has not heard it for {HEARS:.0f} s, as a tool of it still runs"
        raise ToolError(f"{problem}; give the message again later") from None
    except ConfigError as exc:
        raise ToolError(str(exc)) from None


def _check_goes_on(id: str, status: str, message: str, thread: str) -> None:
    """Check that a task may go on.

    Raises:
        ToolError: it may not, or there is nothing to go on with.
    """
    if status == "lost":
        raise ToolError(f"task {id} has no thread here; start it again with `start_task`")
    if status == "paused":
        raise ToolError(f"task {id} {_news(status, thread)}, or cancel the task")
    if status == "running" and message.strip():
        raise ToolError(f"task {id} runs in another process, which cannot be told; try again when it has ended")
    if status in ("running", "ended", "escalated") and not message.strip():
        raise ToolError(f"task {id} is {status}; give it a message")


# ---- notes


def _notes(ctx: ToolContext) -> Mapping[str, dict[str, Any]]:
    noted: Mapping[str, Any] = ctx.state.notes.get(OWNER, {})
    # `redact` may have removed what another process noted.
    return {id: about for id, about in noted.items() if _is_whole(about)}


def _is_whole(about: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(about, dict) and about.keys() >= FIELDS


def _known(ctx: ToolContext, id: str) -> dict[str, Any]:
    """Return the note about a task.

    Raises:
        ToolError: there is no such task.
    """
    notes = _notes(ctx)
    if id not in notes:
        raise ToolError(f"no task has the id {shown(id)}; `list_tasks` shows all tasks")
    return notes[id]


def _note(ctx: ToolContext, id: str, about: Mapping[str, Any], status: str = "running") -> None:
    """Note what the agent knows of a task."""
    if (note := {**about, "status": status}) != about:
        ctx.record(Noted(OWNER, id, note))


async def _status(ctx: ToolContext, jobs: Jobs, id: str, about: Mapping[str, Any]) -> str:
    """Return the status of a task; `lost` if its thread never began, or is not in this store."""
    if about["status"] == "cancelled":  # By the agent, perhaps while it did not run.
        return "cancelled"
    return await jobs.status(thread_of_job(ctx.thread_id, id)) or "lost"
